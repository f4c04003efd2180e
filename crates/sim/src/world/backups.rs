//! Backups of the disk in any state: verified, and restored to exactly one position.
//!
//! The tools work on files of the system, so the disk is first copied into a directory. The tools
//! are outside of the run: they take no simulated time, and have none of its faults.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use quire::tools::{self, Severity};
use quire::{Background, Database, ErrorKind};
use tempfile::TempDir;

use super::copies::{copy_out, temporary_folder};
use super::{SimWorld, Violation};
use crate::check;

/// A directory with backups of the run, and the newest of them.
pub(super) struct Backups {
    folder: TempDir,
    newest: Option<PathBuf>,
    taken: u32,
}

impl Backups {
    /// # Panics
    /// When no directory can be created.
    fn new() -> Self {
        Backups { folder: temporary_folder().expect("a temporary directory"), newest: None, taken: 0 }
    }
}

impl SimWorld<'_> {
    /// Verifies the database, backs it up, and restores the backup elsewhere; a damaged backup must
    /// be refused.
    pub(super) fn back_up(&mut self, random: &mut Rng) -> Result<(), Violation> {
        if !self.maybes.is_empty() {
            // An interrupted commit may be on the disk; the next opening decides.
            return Ok(());
        }
        let mut backups = self.backups.take().unwrap_or_else(Backups::new);
        backups.taken += 1;
        let place = |what: &str| backups.folder.path().join(format!("{what}-{}", backups.taken));
        let (data, backup, restored) = (place("data"), place("backup"), place("restored"));
        copy_out(&self.disk, &data).map_err(|error| format!("can't copy the disk: {error}"))?;

        let verified = tools::verify(&data, None, &mut |_, _| ());
        let verified =
            verified.map_err(|error| format!("the database can't be verified: {:?}: {error}", error.kind()))?;
        if verified.worst() == Some(Severity::Lost) {
            return Err(format!("verification reports a loss: {:?}", verified.findings));
        }
        let taken = tools::backup(&data, &backup, backups.newest.as_deref(), &mut |_, _| ());
        let taken = taken.map_err(|error| format!("the database can't be backed up: {:?}: {error}", error.kind()))?;
        let position = usize::try_from(taken.position.get()).expect("small");
        if position < self.safe || position > self.tail() {
            return Err(format!("a backup was taken at {position}, with {} safe of {}", self.safe, self.tail()));
        }
        let result = if random.bool() {
            damage(&backup, random).map_err(|error| format!("can't damage a backup: {error}"))?
        } else {
            backups.newest = Some(backup.clone());
            "whole"
        };
        match tools::restore(&backup, &restored, None, &mut |_, _| ()) {
            Ok(_) => self.compare(&restored, position)?,
            Err(error) if result != "whole" && error.kind() != ErrorKind::Invalid => {}
            Err(error) => return Err(format!("a backup can't be restored: {:?}: {error}", error.kind())),
        }
        for gone in [data, restored] {
            // It may be absent.
            let _ = fs::remove_dir_all(gone);
        }
        self.backups = Some(backups);
        self.say("BACKUP", &format!("at {position}, {result}"));
        Ok(())
    }

    /// Checks that a restored database equals this one at a position.
    fn compare(&self, restored: &Path, position: usize) -> Result<(), Violation> {
        let opened = Database::builder(restored)
            .durability(self.plan.durability)
            .segment_bytes(self.plan.segment_bytes)
            .clock(Arc::clone(&self.clock) as _)
            .background(Background::Caller)
            .open();
        let database = opened.map_err(|error| format!("the restored database does not open: {error}"))?;
        check::everything(&database, &self.timeline[position])
            .map_err(|found| format!("the database restored at {position} differs: {found}"))
    }
}

/// Flips one bit of a backup, or deletes a file; returns which.
fn damage(backup: &Path, random: &mut Rng) -> std::io::Result<&'static str> {
    let mut files = Vec::new();
    for folder in [backup.to_owned(), backup.join("shard-0000")] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_file() && path.metadata()?.len() > 0 {
                files.push(path);
            }
        }
    }
    files.sort();
    let path = random.choice(&files).expect("a backup has files");
    if random.u8(0..4) == 0 {
        fs::remove_file(path)?;
        return Ok("a lost file");
    }
    let mut bytes = fs::read(path)?;
    let at = random.usize(0..bytes.len());
    bytes[at] ^= 1 << random.u8(0..8);
    // Written as a new file, because backups share files through hard links.
    fs::remove_file(path)?;
    fs::write(path, bytes)?;
    Ok("a bit flipped")
}
