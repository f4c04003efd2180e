//! Copies of the database: one without derived files, and damaged ones, which must report the
//! damage or be right.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs, iter};

use fastrand::Rng;
use quire::ErrorKind;
use quire::tools::{self, RepairPlan, RepairStep};
use tempfile::TempDir;

use super::{DIRECTORY, SimWorld, Violation};
use crate::check::{self, CheckError};
use crate::disk::SimDisk;

impl SimWorld<'_> {
    /// Checks that a copy without checkpoints and indexes reaches the same state.
    pub(super) fn rebuild(&mut self) -> Result<(), Violation> {
        if !self.maybes.is_empty() {
            // An interrupted commit may be on the disk; the next opening decides.
            return Ok(());
        }
        let fork = self.disk.fork().map_err(|error| error.to_string())?;
        for path in self.shard_files(&fork)?.into_keys() {
            let extension = path.extension().unwrap_or_default();
            // A compacted log can't be replayed from its beginning.
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

    /// Checks that a copy with one or two damaged files reports the damage, or is right. A repair
    /// must make nothing worse, and repair everything repairable.
    pub(super) fn tamper(&mut self, random: &mut Rng) -> Result<(), Violation> {
        if !self.maybes.is_empty() {
            return Ok(());
        }
        let fork = self.disk.fork().map_err(|error| error.to_string())?;
        let mut files = self.shard_files(&fork)?;
        files.extend(fork.files(Path::new(DIRECTORY)).map_err(|error| error.to_string())?);
        let files: Vec<_> = files.into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        // Draws a file to damage, possibly with a file that is rebuilt from others. A damaged
        // control file together with the loss of a synced record may go unnoticed.
        let is_derived = |path: &Path| path.extension().is_some_and(|kind| kind == "idx" || kind == "checkpoint");
        let derived = files.iter().filter(|(path, _)| is_derived(path)).collect::<Vec<_>>();
        let one = random.choice(&files).ok_or("there are no files")?;
        let another = random.choice(derived).filter(|_| random.bool());
        let mut damaged = Vec::new();
        for (path, bytes) in iter::once(one).chain(another) {
            let (what, bytes) = damage(bytes, random);
            fork.tamper(path, bytes.as_deref()).map_err(|error| error.to_string())?;
            damaged.push(format!("{what} of {}", path.display()));
        }
        let what = damaged.join(" and ");
        let told = self.repair_copy(&fork, random).map_err(|found| format!("after {what} {found}"))?;
        self.say("DAMAGE", &format!("{what}: {told}"));
        Ok(())
    }

    /// Opens a possibly damaged copy, and sometimes a repaired one; returns the damage reported.
    pub(super) fn repair_copy(&self, fork: &SimDisk, random: &mut Rng) -> Result<String, Violation> {
        let repaired = fork.fork().map_err(|error| error.to_string())?;
        let before = self.open_damaged(fork)?;
        if random.bool() {
            return Ok(before.to_string());
        }
        let plan = repair_files(&repaired)?;
        let after = self.open_damaged(&repaired).map_err(|found| format!("and {plan:?} {found}"))?;
        if after < before || after == CopyState::Refused && plan.as_ref().is_some_and(|plan| plan.stays.is_empty()) {
            return Err(format!("a copy was {before}, after {plan:?} it is {after}"));
        }
        Ok(format!("{before}, {after} after a repair"))
    }

    /// Opens a possibly damaged copy; returns the damage reported, if nothing is wrong.
    fn open_damaged(&self, fork: &SimDisk) -> Result<CopyState, Violation> {
        let opening = match self.builder(fork.process()).open_and_report() {
            Err(error) if names_damage(&error) => return Ok(CopyState::Refused),
            Err(error) => {
                return Err(format!("a damaged copy failed to open for another reason: {:?}: {error}", error.kind()));
            }
            Ok(opening) => opening,
        };
        let records = usize::try_from(opening.recovery.records).expect("small");
        // The last synced record may be treated as torn, and is then reported.
        let told = opening.recovery.cut.is_some();
        if records < self.safe.saturating_sub(usize::from(told)) || records > self.tail() {
            return Err(format!("the copy has {records} records, but {} were acknowledged or synced", self.safe));
        }
        match check::everything(&opening.database, &self.timeline[records]) {
            Ok(()) if records == self.tail() => Ok(CopyState::Whole),
            Ok(()) => Ok(CopyState::Cut),
            Err(CheckError::Error(error)) if names_damage(&error) => Ok(CopyState::Found),
            Err(found) => Err(format!("with {records} records: {found}")),
        }
    }

    /// Whether a damaged copy reports the damage, or has lost only records that were not promised;
    /// otherwise it is right.
    #[cfg(test)]
    pub(super) fn is_told(&self, fork: &SimDisk) -> Result<bool, Violation> {
        Ok(self.open_damaged(fork)? != CopyState::Whole)
    }

    pub(super) fn shard_files(&self, disk: &SimDisk) -> Result<BTreeMap<PathBuf, Vec<u8>>, Violation> {
        disk.files(&shard()).map_err(|error| error.to_string())
    }
}

/// The state of a damaged copy, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CopyState {
    /// It is not opened.
    Refused,
    /// It opens, and some reads report damage.
    Found,
    /// It opens, is right, and misses its last records. None was promised, or the loss is reported.
    Cut,
    /// It is opened, and nothing is missing.
    Whole,
}

impl fmt::Display for CopyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CopyState::Refused => "refused",
            CopyState::Found => "found",
            CopyState::Cut => "cut",
            CopyState::Whole => "harmless",
        })
    }
}

/// Whether the error reports damage: a flipped bit may also make another format, or none.
fn names_damage(error: &quire::Error) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NewerFormat | ErrorKind::NotADatabase)
}

/// Repairs the files of a disk until a repair would open the database, which is left to the caller.
/// `None` when it is not a database any more.
fn repair_files(disk: &SimDisk) -> Result<Option<RepairPlan>, Violation> {
    let failed = |error: std::io::Error| format!("the disk can't be copied for the tools: {error}");
    let folder = temporary_folder().map_err(failed)?;
    let data = folder.path().join("data");
    copy_out(disk, &data).map_err(failed)?;
    let told = |error: quire::Error| format!("the copy can't be repaired: {:?}: {error}", error.kind());
    let verified = match tools::verify(&data, None, &mut |_, _| ()) {
        Err(error) if names_damage(&error) => return Ok(None),
        verified => verified.map_err(told)?,
    };
    let mut plan = RepairPlan::of(&verified);
    plan.steps.retain(|step| *step != RepairStep::Reopen);
    tools::repair(&data, &plan).map_err(told)?;
    for place in [PathBuf::from(DIRECTORY), shard()] {
        let here = disk.files(&place).map_err(failed)?;
        let there = data.join(place.strip_prefix(DIRECTORY).expect("it lies there"));
        for entry in fs::read_dir(&there).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = place.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_file() {
                let bytes = fs::read(entry.path()).map_err(failed)?;
                if here.get(&path) != Some(&bytes) {
                    disk.tamper(&path, Some(&bytes)).map_err(failed)?;
                }
            }
        }
        for (path, _) in here {
            if !there.join(path.file_name().expect("a file has a name")).exists() {
                disk.tamper(&path, None).map_err(failed)?;
            }
        }
    }
    Ok(Some(plan))
}

/// A directory of the system on which syncs take no time, if there is one.
pub(super) fn temporary_folder() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}

/// Copies a disk of the world into a directory of the system.
pub(super) fn copy_out(disk: &SimDisk, to: &Path) -> std::io::Result<()> {
    for from in [PathBuf::from(DIRECTORY), shard()] {
        for (path, bytes) in disk.files(&from)? {
            let target = to.join(path.strip_prefix(DIRECTORY).expect("it lies there"));
            fs::create_dir_all(target.parent().expect("it lies in a folder"))?;
            fs::write(target, bytes)?;
        }
    }
    Ok(())
}

/// The directory of the shard.
fn shard() -> PathBuf {
    Path::new(DIRECTORY).join("shard-0000")
}

/// Damages bytes; returns a description and the result, or `None` when nothing is left.
pub(super) fn damage(bytes: &[u8], random: &mut Rng) -> (&'static str, Option<Vec<u8>>) {
    const SECTOR_BYTES: usize = 512;
    let mut damaged = bytes.to_vec();
    // At a place with data, because most of a file is zeros. Rounded to the sector, because the
    // last bytes depend on this process.
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
