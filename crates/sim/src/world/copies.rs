//! Copies of the database: one without what can be derived, and damaged ones, which must say so or be right.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs, iter};

use fastrand::Rng;
use quire::ErrorKind;
use quire::tools::{self, RepairPlan, RepairStep};
use tempfile::TempDir;

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

    /// A copy in which a file or two were damaged says so, or is right; a repair of it makes nothing worse, and all well that can be.
    pub(super) fn tamper(&mut self, random: &mut Rng) -> Result<(), Failure> {
        if !self.maybes.is_empty() {
            return Ok(());
        }
        let fork = self.disk.fork().map_err(|error| error.to_string())?;
        let mut files = self.shard_files(&fork)?;
        files.extend(fork.files(Path::new(DIRECTORY)).map_err(|error| error.to_string())?);
        let files: Vec<_> = files.into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        // Beside any file one that is made anew from others: of a control file, and a record that it says was synced, both may go unnoticed.
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

    /// Opens a copy in which something may be damaged, and at times the same when it was repaired: what is told of them.
    pub(super) fn repair_copy(&self, fork: &Disk, random: &mut Rng) -> Result<String, Failure> {
        let repaired = fork.fork().map_err(|error| error.to_string())?;
        let before = self.open_damaged(fork)?;
        if random.bool() {
            return Ok(before.to_string());
        }
        let plan = repair_files(&repaired)?;
        let after = self.open_damaged(&repaired).map_err(|found| format!("and {plan:?} {found}"))?;
        if after < before || after == Copy::Refused && plan.as_ref().is_some_and(|plan| plan.stays.is_empty()) {
            return Err(format!("a copy was {before}, and after {plan:?} it is {after}"));
        }
        Ok(format!("{before}, {after} after a repair"))
    }

    /// Opens a copy in which something may be damaged: what is told of it, if that is nothing wrong.
    fn open_damaged(&self, fork: &Disk) -> Result<Copy, Failure> {
        let opening = match self.builder(fork.process()).open_and_report() {
            Err(error) if names_damage(&error) => return Ok(Copy::Refused),
            Err(error) => return Err(format!("it says {:?}: {error}", error.kind())),
            Ok(opening) => opening,
        };
        let records = usize::try_from(opening.recovery.records).expect("small");
        // The last record that had been synced may be taken for a torn one, and is then reported.
        let told = opening.recovery.cut.is_some();
        if records < self.safe.saturating_sub(usize::from(told)) || records > self.tail() {
            return Err(format!("it has {records} records, {} were promised", self.safe));
        }
        match check::everything(&opening.database, &self.timeline[records]) {
            Ok(()) if records == self.tail() => Ok(Copy::Whole),
            Ok(()) => Ok(Copy::Cut),
            Err(Found::Error(error)) if names_damage(&error) => Ok(Copy::Found),
            Err(found) => Err(format!("with {records} records: {found}")),
        }
    }

    /// Whether a copy in which something is damaged tells that, or has lost what was not promised; otherwise it is right.
    #[cfg(test)]
    pub(super) fn is_told(&self, fork: &Disk) -> Result<bool, Failure> {
        Ok(self.open_damaged(fork)? != Copy::Whole)
    }

    pub(super) fn shard_files(&self, disk: &Disk) -> Result<BTreeMap<PathBuf, Vec<u8>>, Failure> {
        disk.files(&shard()).map_err(|error| error.to_string())
    }
}

/// What a damaged copy is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Copy {
    /// It is not opened.
    Refused,
    /// It is opened, and some of what is read says that it is damaged.
    Found,
    /// It is opened, right, and without its last records, of which none was promised, or that is told.
    Cut,
    /// It is opened, and nothing is missing.
    Whole,
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Copy::Refused => "refused",
            Copy::Found => "found",
            Copy::Cut => "cut",
            Copy::Whole => "harmless",
        })
    }
}

/// Whether it says that something is not as it was written: a flipped bit may make another format of it, or none.
fn names_damage(error: &quire::Error) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NewerFormat | ErrorKind::NotADatabase)
}

/// Repairs what is on a disk, up to where a repair opens the database, which is left to the caller. `None` when it is no
/// database any more.
fn repair_files(disk: &Disk) -> Result<Option<RepairPlan>, Failure> {
    let failed = |error: std::io::Error| format!("it can't be brought to the tools: {error}");
    let folder = temporary_folder().map_err(failed)?;
    let data = folder.path().join("data");
    copy_out(disk, &data).map_err(failed)?;
    let told = |error: quire::Error| format!("it can't be repaired: {:?}: {error}", error.kind());
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

/// A folder of the system's: where syncs take no time, if there is such a place.
pub(super) fn temporary_folder() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
}

/// Writes what is on a disk of the world into a folder of the system's.
pub(super) fn copy_out(disk: &Disk, to: &Path) -> std::io::Result<()> {
    for from in [PathBuf::from(DIRECTORY), shard()] {
        for (path, bytes) in disk.files(&from)? {
            let target = to.join(path.strip_prefix(DIRECTORY).expect("it lies there"));
            fs::create_dir_all(target.parent().expect("it lies in a folder"))?;
            fs::write(target, bytes)?;
        }
    }
    Ok(())
}

/// Where the shard is.
fn shard() -> PathBuf {
    Path::new(DIRECTORY).join("shard-0000")
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
