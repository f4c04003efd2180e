//! Copies of the database: one without what can be derived, and damaged ones, which must say so or be right.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use quire::ErrorKind;

use super::{DIRECTORY, Failure, World};
use crate::check::{self, Found};
use crate::disk::Disk;

impl World<'_> {
    /// A copy without checkpoints and indexes comes to the same state.
    pub(super) fn rebuild(&mut self) -> Result<(), Failure> {
        if !self.maybes.is_empty() {
            // It may hold one of them; the next opening sees to that.
            return Ok(());
        }
        let fork = self.disk.fork().map_err(|error| error.to_string())?;
        for path in self.shard_files(&fork)?.into_keys() {
            let extension = path.extension().unwrap_or_default();
            // What was compacted can't be replayed from its beginning.
            if extension == "idx" || extension == "checkpoint" && !self.newest().compacted {
                fork.tamper(&path, None).map_err(|error| error.to_string())?;
            }
        }
        let opening = self.builder(fork.process()).open_and_report();
        let opening = opening.map_err(|error| format!("a copy without checkpoints does not open: {error}"))?;
        if opening.recovery.records != self.tail() as u64 {
            return Err(format!("a copy has {} records of {}", opening.recovery.records, self.tail()));
        }
        check::everything(&opening.database, self.newest())
            .map_err(|found| format!("a copy without checkpoints differs: {found}"))?;
        self.say("COPY", "ok");
        Ok(())
    }

    /// A copy in which one file was damaged says so, or is right.
    pub(super) fn tamper(&mut self, random: &mut Rng) -> Result<(), Failure> {
        if !self.maybes.is_empty() {
            return Ok(());
        }
        let fork = self.disk.fork().map_err(|error| error.to_string())?;
        let mut files = self.shard_files(&fork)?;
        files.extend(fork.files(Path::new(DIRECTORY)).map_err(|error| error.to_string())?);
        let files: Vec<_> = files.into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        let (path, bytes) = random.choice(&files).ok_or("there are no files")?;
        let damage = damage(bytes, random);
        let what = format!("{} of {}", damage.0, path.display());
        fork.tamper(path, damage.1.as_deref()).map_err(|error| error.to_string())?;
        let opened = self.builder(fork.process()).open_and_report();
        let named = |kind| matches!(kind, ErrorKind::Damaged | ErrorKind::NewerFormat | ErrorKind::NotADatabase);
        let result = match opened {
            Err(error) if named(error.kind()) => "refused",
            Err(error) => return Err(format!("after {what} it says {:?}: {error}", error.kind())),
            Ok(opening) => {
                let records = usize::try_from(opening.recovery.records).expect("small");
                // The last record that had been synced may be taken for a torn one, and is then reported.
                let told = opening.recovery.cut.is_some();
                if records < self.safe.saturating_sub(usize::from(told)) || records > self.tail() {
                    return Err(format!("after {what} it has {records} records, {} were promised", self.safe));
                }
                match check::everything(&opening.database, &self.timeline[records]) {
                    Ok(()) if records == self.tail() => "harmless",
                    Ok(()) => "cut",
                    Err(Found::Error(error)) if named(error.kind()) => "found",
                    Err(found) => return Err(format!("after {what}, with {records} records: {found}")),
                }
            }
        };
        self.say("DAMAGE", &format!("{what}: {result}"));
        Ok(())
    }

    pub(super) fn shard_files(&self, disk: &Disk) -> Result<BTreeMap<PathBuf, Vec<u8>>, Failure> {
        disk.files(&Path::new(DIRECTORY).join("shard-0000")).map_err(|error| error.to_string())
    }
}

/// Damages bytes: what was done, and what is left; `None` when nothing is.
pub(super) fn damage(bytes: &[u8], random: &mut Rng) -> (&'static str, Option<Vec<u8>>) {
    const SECTOR_BYTES: usize = 512;
    let mut damaged = bytes.to_vec();
    // Where there is something, for most of a file is zeros. To the sector: the last bytes may be of this very process.
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or_default() + 1;
    let at = random.usize(0..used.next_multiple_of(SECTOR_BYTES).min(bytes.len()));
    let sectors = bytes.len().div_ceil(SECTOR_BYTES);
    let range = |sector: usize| sector * SECTOR_BYTES..((sector + 1) * SECTOR_BYTES).min(bytes.len());
    match random.u8(0..8) {
        0..3 => {
            damaged[at] ^= 1 << random.u8(0..8);
            ("a flipped bit", Some(damaged))
        }
        3 => {
            damaged[range(at / SECTOR_BYTES)].fill(0);
            ("a zeroed sector", Some(damaged))
        }
        4 => {
            damaged[range(at / SECTOR_BYTES)].fill_with(|| random.u8(..));
            ("a garbled sector", Some(damaged))
        }
        5 => {
            let (from, to) = (range(random.usize(0..sectors)), range(at / SECTOR_BYTES));
            let length = from.len().min(to.len());
            damaged[to.start..to.start + length].copy_from_slice(&bytes[from.start..from.start + length]);
            ("a misdirected sector", Some(damaged))
        }
        6 => {
            damaged.truncate(at);
            ("a lost end", Some(damaged))
        }
        _ => ("the loss", None),
    }
}
