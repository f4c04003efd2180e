//! A sealed file that changes under an open database, or that changes, shrinks or disappears while
//! the database is closed. Reads of it are right or refused as damaged, all other reads are right,
//! and verification finds the damage. After its bytes are restored, every read is right.
//!
//! Data that was read before the change is in memory, which is trusted. So the database is opened
//! again with a checkpoint. From then on it reads no sealed record before it has to.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use quire::ErrorKind;
use quire::tools::{self, Severity};

use super::copies::{copy_out, damage, temporary_folder};
use super::{SimWorld, Violation};
use crate::check;

impl SimWorld<'_> {
    /// Changes one sealed file, and restores it.
    pub(super) fn rot(&mut self, random: &mut Rng) -> Result<(), Violation> {
        if !self.maybes.is_empty() || !self.others.is_empty() || self.disk.is_full() {
            return Ok(());
        }
        let armed = self.disk.put_aside_faults();
        let outcome = self.rot_without_faults(random);
        armed.into_iter().for_each(|armed| self.disk.arm(armed));
        outcome
    }

    fn rot_without_faults(&mut self, random: &mut Rng) -> Result<(), Violation> {
        if self.disk.is_broken() {
            // A failed log is opened again.
            return self.reopen("CLOSE");
        }
        self.database().checkpoint().map_err(|error| format!("without faults, no checkpoint: {error}"))?;
        self.safe = self.tail();
        self.clients.clear();
        drop(self.database.take());
        if random.bool() { self.rot_closed(random) } else { self.rot_open(random) }
    }

    /// The file changes, shrinks or disappears while no process has the database open; its index
    /// has the facts about it.
    fn rot_closed(&mut self, random: &mut Rng) -> Result<(), Violation> {
        let Some((path, bytes)) = self.sealed(random)? else { return self.open_again() };
        let (what, damaged) = damage(&bytes, random);
        let name = path.file_name().unwrap_or_default().display().to_string();
        self.disk.tamper(&path, damaged.as_deref()).map_err(|error| error.to_string())?;
        let while_rotten = self.open_again().and_then(|()| self.live_with(random, &path));
        let refused = while_rotten.map_err(|found| format!("with {what} of {name}: {found}"))?;
        drop(self.database.take());
        let is_there = self.shard_files(&self.disk)?.get(&path) == damaged.as_ref();
        if is_there {
            self.disk.tamper(&path, Some(&bytes)).map_err(|error| error.to_string())?;
        }
        self.open_again()?;
        let healed = if is_there { "healed" } else { "made anew" };
        self.say("ROT", &format!("{what} of {name} while it was closed: {refused} refused, {healed}"));
        self.check()
    }

    /// The file changes under an open database.
    fn rot_open(&mut self, random: &mut Rng) -> Result<(), Violation> {
        self.open_again()?;
        let Some((path, bytes)) = self.sealed(random)? else { return Ok(()) };
        // Shortening a mapped file would end every process that reads it.
        let (what, damaged) = loop {
            match damage(&bytes, random) {
                (what, Some(damaged)) if damaged.len() == bytes.len() => break (what, damaged),
                _ => {}
            }
        };
        let first = bytes.iter().zip(&damaged).position(|(was, is)| was != is).unwrap_or_default();
        let name = format!("{} from {first} on", path.file_name().unwrap_or_default().display());
        self.disk.rot(&path, &bytes, &damaged).map_err(|error| error.to_string())?;
        let while_rotten = self.live_with(random, &path);
        let refused = while_rotten.map_err(|found| format!("with {what} of {name}: {found}"))?;
        let is_there = self.disk.rot(&path, &damaged, &bytes).map_err(|error| error.to_string())?;
        let healed = if is_there { "healed" } else { "made anew" };
        self.say("ROT", &format!("{what} of {name}: {refused} refused, {healed}"));
        self.check()
    }

    fn open_again(&mut self) -> Result<(), Violation> {
        self.process = self.disk.process();
        let opened = self.builder(self.process.clone()).open();
        self.database =
            Some(opened.map_err(|error| format!("the database does not open: {:?}: {error}", error.kind()))?);
        self.begin_time();
        Ok(())
    }

    /// A segment with an index, and its bytes; `None` when there is none.
    fn sealed(&mut self, random: &mut Rng) -> Result<Option<(PathBuf, Vec<u8>)>, Violation> {
        let files = self.shard_files(&self.disk)?;
        let is_sealed = |path: &Path| {
            path.extension().is_some_and(|kind| kind == "log") && files.contains_key(&path.with_extension("idx"))
        };
        let sealed: Vec<_> = files.iter().filter(|(path, bytes)| is_sealed(path) && !bytes.is_empty()).collect();
        let chosen = random.choice(sealed).map(|(path, bytes)| (path.clone(), bytes.clone()));
        if chosen.is_none() {
            self.say("ROT", "of nothing");
        }
        Ok(chosen)
    }

    /// Acts and reads while the file is damaged. Returns the number of refused reads.
    fn live_with(&mut self, random: &mut Rng, path: &Path) -> Result<usize, Violation> {
        let read = |world: &Self| check::all_else(&world.database(), world.newest()).map_err(|found| found.to_string());
        let mut refused = if random.bool() { read(self)? } else { 0 };
        if random.u8(0..3) == 0 {
            self.note_compaction();
            match self.database().compact() {
                Ok(_) => {}
                // A compaction is not a read: only its error reports the damage.
                Err(error) if error.kind() == ErrorKind::Damaged && names(&error.to_string(), path) => {}
                Err(error) => return Err(format!("a compaction returned {:?}: {error}", error.kind())),
            }
        }
        refused += read(self)?;
        if refused > 0 {
            let told = self.database().damage();
            if told.is_empty() || told.iter().any(|damage| damage.path != path) {
                return Err(format!("reads were refused, but the reported damage is {told:?}"));
            }
        }
        let folder = temporary_folder().map_err(|error| error.to_string())?;
        let copy = folder.path().join("data");
        copy_out(&self.disk, &copy).map_err(|error| format!("can't copy the disk: {error}"))?;
        let verified = tools::verify(&copy, None, &mut |_, _| ());
        let verified =
            verified.map_err(|error| format!("the database can't be verified: {:?}: {error}", error.kind()))?;
        let is_of_it = |of: &Path| of.file_name() == path.file_name();
        // If the records of the file can't be read to its end, the damage is found where the next
        // file begins.
        let is_gap = |finding: &tools::Finding| {
            let (first, next) = (first_of(path), first_of(&finding.path));
            let position = finding.position.map(|position| position.get());
            position.is_some_and(|position| first.is_some_and(|first| first <= position) && Some(position) < next)
        };
        if refused > 0 && !verified.findings.iter().any(|finding| is_of_it(&finding.path) || is_gap(finding)) {
            return Err(format!("reads were refused, but verification found {:?}", verified.findings));
        }
        let lost = |finding: &&tools::Finding| {
            finding.severity == Severity::Lost && !is_of_it(&finding.path) && !is_gap(finding)
        };
        if let Some(lost) = verified.findings.iter().find(lost) {
            return Err(format!("verification reports a further loss: {lost:?}"));
        }
        let fork = self.disk.fork().map_err(|error| error.to_string())?;
        self.repair_copy(&fork, random).map_err(|found| format!("of a copy: {found}"))?;
        Ok(refused)
    }
}

/// The position of the first record of a segment, by its name.
fn first_of(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

fn names(message: &str, path: &Path) -> bool {
    path.file_stem().is_some_and(|name| message.contains(&*name.to_string_lossy()))
}
