//! Processes that end, and processes that open the database after them: at a possible point of the
//! timeline.

use std::sync::Arc;

use std::time::Duration;

use fastrand::Rng;
use quire::{Background, Clock, Database, Durability, ErrorKind};

use super::{DATABASE_ID, DIRECTORY, OPENINGS_MAX, OTHERS_MAX, PausedProcess, SimWorld, Violation};
use crate::check;
use crate::disk::{DiskImage, Effect, Process};
use crate::naive::{Condition, KEPT_MS, KEYS_MAX, Part};

impl SimWorld<'_> {
    /// Every process closes the database, and another opens it.
    pub(super) fn reopen(&mut self, event: &str) -> Result<(), Violation> {
        self.clients.clear();
        self.say(event, "");
        let (mut all_lived, seen) = (true, self.database.is_some().then(|| self.seen()));
        for PausedProcess { process, database } in std::mem::take(&mut self.others) {
            drop(database);
            all_lived &= process.lives();
            self.bury(&process)?;
        }
        drop(self.database.take());
        all_lived &= self.process.lives();
        if all_lived && !self.disk.is_broken() {
            // Closing makes unsynced commits durable, and a full disk has space for that.
            self.safe = self.safe.max(seen.unwrap_or_default());
        }
        self.note_crash();
        self.start()
    }

    /// The acting process is dead; another acts, or opens the database when there is none.
    pub(super) fn restart(&mut self, event: &str) -> Result<(), Violation> {
        self.say(event, "");
        // A power loss ends all of them.
        self.others.retain(|other| other.process.lives());
        let others: Vec<_> = self.others.iter().map(|other| other.process.number()).collect();
        // A ticket keeps the log of its process.
        self.clients.retain(|client| others.contains(&client.process));
        drop(self.database.take());
        let dead = self.process.clone();
        self.bury(&dead)?;
        match self.others.pop() {
            Some(other) => self.go_on_with(other),
            None => self.start(),
        }
    }

    /// Removes a process that has ended in any way; its stores after its death are undone.
    fn bury(&mut self, process: &Process) -> Result<(), Violation> {
        self.note_crash();
        self.disk.bury(process).map_err(|error| error.to_string())
    }

    /// Another process opens the database next to those that have it open, and acts from now on.
    pub(super) fn join(&mut self) -> Result<(), Violation> {
        if self.others.len() == OTHERS_MAX {
            return Ok(());
        }
        let process = self.disk.another();
        let opened = self.builder(process.clone()).open();
        if !process.lives() {
            drop(opened);
            self.say("JOIN", "and died");
            return self.bury(&process);
        }
        match opened {
            Ok(database) => {
                let before = std::mem::replace(&mut self.process, process);
                let other = PausedProcess { process: before, database: self.database.replace(database).expect("open") };
                self.others.push(other);
                self.begin_time();
                self.say("JOIN", "ok");
                self.check()
            }
            Err(error) if self.excused(&error) => {
                self.say("JOIN", &format!("{:?}", error.kind()));
                self.bury(&process)?;
                if error.kind() == ErrorKind::Failed { self.reopen("FAILED") } else { Ok(()) }
            }
            Err(error) => Err(format!("the database does not open next to others: {:?}: {error}", error.kind())),
        }
    }

    /// Another process acts from now on, and the current one pauses.
    pub(super) fn switch(&mut self, random: &mut Rng) {
        if self.others.is_empty() {
            return;
        }
        let chosen = random.usize(0..self.others.len());
        let other = &mut self.others[chosen];
        std::mem::swap(&mut self.process, &mut other.process);
        std::mem::swap(self.database.as_mut().expect("open"), &mut other.database);
        self.begin_time();
        self.say("SWITCH", "");
    }

    /// The acting process closes the database, while others have it open.
    pub(super) fn leave(&mut self) -> Result<(), Violation> {
        let Some(other) = self.others.pop() else { return Ok(()) };
        self.say("LEAVE", "");
        let gone = self.process.clone();
        self.clients.retain(|client| client.process != gone.number());
        drop(self.database.take());
        if !self.process.lives() {
            self.others.push(other);
            return self.restart("DIED");
        }
        self.bury(&gone)?;
        self.go_on_with(other)
    }

    /// Another process acts from now on. Its reads show whether it found the interrupted commit of
    /// the previous one.
    fn go_on_with(&mut self, other: PausedProcess) -> Result<(), Violation> {
        self.process = other.process;
        self.database = Some(other.database);
        self.begin_time();
        if self.maybes.is_empty() {
            return Ok(());
        }
        let armed = self.disk.put_aside_faults();
        // A commit reads all appended records; this one is refused.
        let nothing = Part::Append {
            store: 0,
            tag: 0,
            events: 0,
            condition: Some(Condition::LastIs { tag: 0, position: u64::MAX / 2 }),
            value: 0,
        };
        let refused = self.database().submit(&self.book.commit(&[nothing], &[String::new()], &[Vec::new()]));
        let found = match refused {
            Ok(_) => {
                let records = self.seen();
                self.say("GOES", &format!("on at {records} records"));
                self.came_back(records, false)
            }
            Err(error) if self.excused(&error) => self.reopen("FAILED"),
            Err(error) => Err(format!("the next process can't commit: {:?}: {error}", error.kind())),
        };
        armed.into_iter().for_each(|armed| self.disk.arm(armed));
        found
    }

    pub(super) fn begin_time(&mut self) {
        self.seen_time = (self.database().now().as_micros(), self.clock.monotonic_ns() / 1000);
    }

    /// An armed fault may have ended the process.
    pub(super) fn collect_crash(&mut self) -> Result<(), Violation> {
        if self.process.lives() { Ok(()) } else { self.restart("DIED") }
    }

    fn note_crash(&mut self) {
        if let Some(Effect::PowerCut { .. }) = self.disk.take_killed() {
            self.power_was_lost = true;
        }
    }

    /// Opens the database, with retries, and checks that it is at a possible point of the timeline.
    pub(super) fn start(&mut self) -> Result<(), Violation> {
        for opening in 0.. {
            if opening == OPENINGS_MAX {
                self.disk.disarm();
            }
            self.process = self.disk.process();
            let opened = self.builder(self.process.clone()).open_and_report();
            if !self.process.lives() {
                drop(opened);
                self.note_crash();
                self.say("OPEN", "and died");
                continue;
            }
            match opened {
                Ok(opening) => {
                    let records = usize::try_from(opening.recovery.records).expect("small");
                    self.database = Some(opening.database);
                    self.came_back(records, true)?;
                    if self.process.lives() {
                        self.begin_time();
                        return Ok(());
                    }
                    drop(self.database.take());
                    self.note_crash();
                }
                Err(error) if opening < OPENINGS_MAX && self.excused(&error) => {
                    self.say("OPEN", &format!("{:?}", error.kind()));
                }
                Err(error) => return Err(format!("the database does not open: {:?}: {error}", error.kind())),
            }
        }
        unreachable!("without faults it opens, or fails")
    }

    pub(super) fn builder(&self, process: Process) -> quire::Builder {
        self.builder_in(DIRECTORY, process)
    }

    /// The same for a database elsewhere.
    pub(super) fn builder_in(&self, path: &str, process: Process) -> quire::Builder {
        Database::builder(path)
            .durability(self.plan.durability)
            .segment_bytes(self.plan.segment_bytes)
            .checkpoint_bytes(self.plan.checkpoint_bytes)
            .history(Duration::from_millis(self.plan.history_ms))
            .pack_segments(self.plan.packs)
            .compact_interval(Duration::from_millis(1000))
            .checkpoint_pause_bytes(if self.plan.seed.is_multiple_of(2) { 0 } else { u64::MAX })
            .idempotency_retention(Duration::from_millis(KEPT_MS))
            .idempotency_keys_max(KEYS_MAX)
            .id(DATABASE_ID)
            .clock(Arc::clone(&self.clock) as _)
            .storage(Arc::new(process))
            .background(Background::Caller)
    }

    /// The database has `records` records after opening, and they are safe if it was opened.
    fn came_back(&mut self, records: usize, is_safe: bool) -> Result<(), Violation> {
        let least = if self.power_was_lost { self.safe } else { self.tail() };
        if records < least {
            return Err(format!("it opened with {records} records, {least} were promised"));
        }
        let database = self.database();
        let more = records.saturating_sub(self.tail());
        let mut candidates = std::mem::take(&mut self.maybes);
        candidates.retain(|row| row.len() >= more);
        if more > 0 && !candidates.is_empty() {
            let mut wrong = String::new();
            let found = candidates.into_iter().find(|row| match check::everything(&database, &row[more - 1]) {
                Ok(()) => true,
                Err(found) => {
                    wrong = found.to_string();
                    false
                }
            });
            if !self.process.lives() {
                // The next opening shows which of them it is; that it is one of them was checked.
                return Err("a run must not be killed while it is compared".to_owned());
            }
            let row = found.ok_or(format!("record {records} was never submitted: {wrong}"))?;
            self.timeline.extend(row.into_iter().take(more));
        }
        if records > self.tail() {
            return Err(format!("it opened with {records} records, {} were submitted", self.tail()));
        }
        self.timeline.truncate(records + 1);
        if is_safe {
            self.safe = records;
            self.power_was_lost = false;
        }
        let mut book = std::mem::take(&mut self.book);
        book.roll_back(self.newest());
        let found = check::everything(&database, self.newest())
            .and_then(|()| check::learn(&database, self.newest(), &mut book))
            .and_then(|()| {
                check::trimmed(&database, self.timeline.last_mut().expect("the timeline begins with an empty model"))
            });
        self.book = book;
        match found {
            _ if !self.process.lives() => {}
            Ok(()) => self.say("OPEN", &format!("{records} records")),
            Err(found) => return Err(format!("it opened with {records} records, but {found}")),
        }
        Ok(())
    }

    /// Commits, and kills the process among the stores of the commit.
    pub(super) fn commit_and_kill(&mut self, random: &mut Rng, before: &DiskImage) -> Result<(), Violation> {
        let (tail, syncs) = (self.tail(), self.disk.syncs());
        self.submit(random)?;
        if !self.process.lives() {
            return Ok(());
        }
        // Acknowledged commits survive; a torn commit was not acknowledged. Its visibility to other
        // processes depends on the order of stores to several files, which is unknown. So is the
        // order of stores before and after a sync.
        let is_alone = self.others.is_empty();
        let has_only_stored = self.plan.durability == Durability::Os || self.disk.syncs() == syncs;
        if is_alone && self.tail() > tail && self.safe <= tail && has_only_stored {
            self.disk.kill_within(before).map_err(|error| error.to_string())?;
            self.maybes.extend(self.timeline.pop().map(|after| vec![after]));
            let naive = self.newest().clone();
            self.book.roll_back(&naive);
        } else {
            self.disk.kill(&self.process).map_err(|error| error.to_string())?;
        }
        self.restart("KILL")
    }
}
