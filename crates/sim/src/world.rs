//! A run: one database on one disk, its clients, and what must be true of them after every step.
//!
//! The *timeline* is the naive models after every position that was given. What a client was told, and what a sync covered,
//! are marks on it: after a crash the database must come back at one point of the timeline, no earlier than the mark that the
//! crash can't take back. A commit that was under way when its process died is a *maybe*: there whole, or not at all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use quire::{Background, Clock, Database, Durability, Duty, ErrorKind, ManualClock, Outcome, Ticket, Timestamp};

use crate::book::{self, Book};
use crate::check::{self, Found};
use crate::disk::{Disk, Effect, Image, Process};
use crate::naive::{Answer, Naive, Part};
use crate::plan::{Action, Plan, Step};
use crate::trace::Trace;

const DIRECTORY: &str = "/data";
const DATABASE_ID: u128 = 0x5117_0000_0000_0000_0000_0000_0000_0001;
/// How often a database that meets faults is opened before they are taken away.
const OPENINGS_MAX: usize = 4;

/// What must not be.
pub(crate) type Failure = String;

pub(crate) struct World<'p> {
    plan: &'p Plan,
    disk: Disk,
    clock: Arc<ManualClock>,
    trace: Trace,
    process: Process,
    /// `None` between two processes.
    database: Option<Database>,
    clients: Vec<Submitted>,
    /// By position, from 0: before the first record.
    timeline: Vec<Naive>,
    /// What may follow the last of the timeline, of commits of which nobody knows.
    maybes: Vec<Naive>,
    /// The last position that no crash may take back.
    safe: usize,
    /// Whether a loss of power came after the last opening.
    power_was_lost: bool,
    book: Book,
    /// The time that the database last showed, in microseconds, and how much had passed by then.
    seen_time: (u64, u64),
    step: usize,
}

/// A commit that was submitted and not waited for.
struct Submitted {
    ticket: Ticket<Outcome>,
    /// The position it took, or that of the last record before it.
    position: usize,
    parts: Vec<Part>,
    expected: Result<Vec<Answer>, usize>,
}

impl<'p> World<'p> {
    pub(crate) fn new(plan: &'p Plan, trace: Trace) -> Self {
        // Some time in 2026.
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_790_000_000_000)));
        let disk = Disk::new(plan.seed, Arc::clone(&clock), trace.clone());
        let process = disk.process();
        World {
            plan,
            disk,
            clock,
            trace,
            process,
            database: None,
            clients: Vec::new(),
            timeline: vec![Naive::default()],
            maybes: Vec::new(),
            safe: 0,
            power_was_lost: false,
            book: Book::default(),
            seen_time: (0, 0),
            step: 0,
        }
    }

    /// Runs the plan, and then takes every fault away and sees that all is well.
    pub(crate) fn run(&mut self) -> Result<(), Failure> {
        self.start()?;
        for step in &self.plan.steps {
            self.step = step.number;
            self.take(step)?;
        }
        self.step += 1;
        self.disk.disarm();
        self.reopen("END")?;
        self.commit(&mut Rng::with_seed(self.plan.seed))?;
        self.wait_for(0)?;
        self.check()?;
        self.reopen("END")
    }

    fn take(&mut self, step: &Step) -> Result<(), Failure> {
        let mut random = Rng::with_seed(step.seed);
        match &step.action {
            Action::Commit => self.commit(&mut random)?,
            Action::Wait => self.wait(&mut random)?,
            Action::Sync => {
                let tail = self.tail();
                let done = self.database().sync();
                self.concluded("SYNC", done, |world| world.safe = tail)?;
            }
            Action::Duty(Duty::Tick) => self.tick()?,
            Action::Duty(duty) => {
                let done = self.database().carry_out(*duty);
                self.concluded(&format!("DUTY {duty:?}"), done.map(|_| ()), |_| ())?;
            }
            Action::Checkpoint => {
                let tail = self.tail();
                let done = self.database().checkpoint();
                self.concluded("SAVE", done, |world| world.safe = tail)?;
            }
            Action::Pass { micros } => {
                self.clock.set(self.clock.now().plus_micros(*micros));
                self.say("PASS", &micros.to_string());
            }
            Action::Clock { micros } => {
                let now = self.clock.now().as_micros();
                self.clock.step(Timestamp::from_micros(now.saturating_add_signed(*micros)));
                self.say("CLOCK", &micros.to_string());
            }
            Action::Peek => self.peek()?,
            Action::Check => self.check()?,
            Action::WriteBack => {
                self.disk.write_back().map_err(|error| error.to_string())?;
                self.say("FLUSH", "");
            }
            Action::Reopen => self.reopen("CLOSE")?,
            Action::Rebuild => self.rebuild()?,
            Action::Tamper => self.tamper(&mut random)?,
            Action::Arm(armed) => {
                self.say("ARM", &format!("{} after {}", armed.effect.name(), armed.after));
                self.disk.arm(armed.clone());
            }
            Action::Full => {
                self.say("FULL", "");
                self.disk.set_full(true);
            }
            Action::Free => {
                self.say("FREE", "");
                self.disk.set_full(false);
            }
            Action::Kill => {
                self.disk.kill().map_err(|error| error.to_string())?;
                self.restart("KILL")?;
            }
            Action::KillWithin => {
                let before = self.disk.image().map_err(|error| error.to_string())?;
                self.commit_and_kill(&mut random, &before)?;
            }
            Action::PowerCut => {
                self.disk.cut_power().map_err(|error| error.to_string())?;
                self.power_was_lost = true;
                self.restart("POWER")?;
            }
        }
        self.collect_crash()?;
        self.see_time()
    }

    /// Time goes on in the database as fast as it passes, whatever the clock is set to, and never back.
    fn see_time(&mut self) -> Result<(), Failure> {
        /// A step back of less than this is waited for.
        const MOMENT_MICROS: u64 = 10_000;
        let passed = self.clock.monotonic_ns() / 1000;
        let now = self.database().now().as_micros();
        let (before, passed_before) = self.seen_time;
        let (least, passed_since) = (before.max(self.newest().time), passed - passed_before);
        if now < least || now + MOMENT_MICROS < before + passed_since {
            return Err(format!("it is {now} in the database, and was {before} {passed_since} us ago"));
        }
        self.seen_time = (now, passed);
        Ok(())
    }

    fn database(&self) -> Database {
        self.database.clone().expect("open between the steps")
    }

    fn tail(&self) -> usize {
        self.timeline.len() - 1
    }

    fn newest(&self) -> &Naive {
        self.timeline.last().expect("it begins with the empty one")
    }

    /// Writes the status line of an event; its legend is `docs/simulation.md`.
    fn say(&self, event: &str, detail: &str) {
        let seconds = self.clock.now().as_micros() / 1_000_000 % 1_000_000;
        let durability = if self.plan.durability == Durability::Sync { 'S' } else { 'O' };
        let published = self.database.as_ref().map_or(0, |database| database.published().get());
        self.trace.line(&format!(
            "{:4} {seconds:6}s {durability} {:4}/{:4}/{:4} {:2}w {:1}? {event:6} {detail}",
            self.step,
            self.tail(),
            published,
            self.safe,
            self.clients.len(),
            self.maybes.len(),
        ));
    }

    /// Whether an error can be told by what the disk was made to do.
    fn excused(&self, error: &quire::Error) -> bool {
        match error.kind() {
            ErrorKind::NoSpace => self.disk.is_full(),
            ErrorKind::Io | ErrorKind::Failed => self.disk.is_broken(),
            _ => false,
        }
    }

    /// What an operation that changes nothing but what is durable came to.
    fn concluded(&mut self, event: &str, done: quire::Result<()>, kept: impl FnOnce(&mut Self)) -> Result<(), Failure> {
        match done {
            _ if !self.process.lives() => self.say(event, "and died"),
            Ok(()) => {
                kept(self);
                self.say(event, "ok");
            }
            Err(error) if self.excused(&error) => {
                self.say(event, &format!("{:?}", error.kind()));
                if error.kind() == ErrorKind::Failed {
                    return self.reopen("FAILED");
                }
            }
            Err(error) => return Err(format!("{event} failed without a cause: {error}")),
        }
        Ok(())
    }

    /// Submits a commit, and waits for it as often as not.
    fn commit(&mut self, random: &mut Rng) -> Result<(), Failure> {
        let naive = self.timeline.last().expect("it begins with the empty one");
        let parts = self.book.parts(naive, random);
        let texts: Vec<_> = parts.iter().map(|part| book::text(book::value_of(part))).collect();
        let queues: Vec<_> = parts.iter().map(book::queues_of).collect();
        let mut after = naive.clone();
        let expected = after.commit(&parts, self.database().now().as_micros());
        let took_position = expected.as_ref().is_ok_and(|(_, took_position)| *took_position);
        let expected = expected.map(|(answers, _)| answers);

        let database = self.database();
        let before = database.statistics().commits;
        let commit = self.book.commit(&parts, &texts, &queues);
        let submitted = database.submit(&commit);
        let shown = format!("{} parts", parts.len());
        if !self.process.lives() {
            self.maybes.extend(took_position.then_some(after));
            self.say("COMMIT", &format!("{shown}, and died"));
            return Ok(());
        }
        let took = database.statistics().commits - before;
        match submitted {
            Ok(_) if took != u64::from(took_position) => {
                Err(format!("{parts:?} took {took} positions, expected {expected:?}"))
            }
            Ok(ticket) => {
                if took_position {
                    self.timeline.push(after);
                    self.maybes.clear();
                }
                self.say("COMMIT", &format!("{shown}, {}", if expected.is_ok() { "taken" } else { "refused" }));
                self.clients.push(Submitted { ticket, position: self.tail(), parts, expected });
                if random.bool() { self.wait_for(self.clients.len() - 1) } else { Ok(()) }
            }
            Err(error)
                if error.kind() == ErrorKind::TooLarge && texts.iter().map(String::len).sum::<usize>() > 2000 =>
            {
                self.say("COMMIT", &format!("{shown}, too large"));
                Ok(())
            }
            Err(error) if self.excused(&error) => {
                self.maybes.extend(took_position.then_some(after));
                self.say("COMMIT", &format!("{shown}, {:?}", error.kind()));
                if error.kind() == ErrorKind::Failed { self.reopen("FAILED") } else { Ok(()) }
            }
            Err(error) => Err(format!("{parts:?} failed without a cause: {:?}: {error}", error.kind())),
        }
    }

    /// One of the clients that wait is answered.
    fn wait(&mut self, random: &mut Rng) -> Result<(), Failure> {
        if self.clients.is_empty() {
            return Ok(());
        }
        self.wait_for(random.usize(0..self.clients.len()))
    }

    fn wait_for(&mut self, client: usize) -> Result<(), Failure> {
        if client >= self.clients.len() {
            return Ok(());
        }
        let Submitted { ticket, position, parts, expected } = self.clients.remove(client);
        let outcome = ticket.wait();
        if !self.process.lives() {
            self.say("WAIT", "and died");
            return Ok(());
        }
        match (outcome, expected) {
            (Ok(Outcome::Committed(committed)), Ok(answers)) => {
                self.acknowledged(position);
                let naive = &self.timeline[position];
                if committed.replies.len() != answers.len() {
                    return Err(format!("{parts:?} was answered {:?}", committed.replies));
                }
                let at = usize::try_from(committed.at.position.get()).expect("small");
                if at != position && at != position + 1 {
                    return Err(format!("{parts:?} was told position {at}, not {position}"));
                }
                for (answer, reply) in answers.iter().zip(&committed.replies) {
                    check::answer(&mut self.book, naive, answer, reply)
                        .map_err(|found| format!("{parts:?} at {position}: {found}"))?;
                }
                self.say("WAIT", "ok");
                Ok(())
            }
            (Ok(Outcome::Refused(refused)), Err(part)) if refused.part == part => {
                // A refusal tells of the records before it.
                self.acknowledged(position);
                self.say("WAIT", "refused");
                Ok(())
            }
            (Ok(outcome), expected) => Err(format!("{parts:?} came to {outcome:?}, expected {expected:?}")),
            (Err(error), _) if self.excused(&error) => {
                self.say("WAIT", &format!("{:?}", error.kind()));
                self.reopen("FAILED")
            }
            (Err(error), _) => Err(format!("waiting failed without a cause: {error}")),
        }
    }

    /// A client was told what rests on this position.
    fn acknowledged(&mut self, position: usize) {
        if self.plan.durability == Durability::Sync {
            self.safe = self.safe.max(position);
        }
    }

    /// What time has brought is taken in.
    fn tick(&mut self) -> Result<(), Failure> {
        let mut after = self.newest().clone();
        let changed = after.tick(self.database().now().as_micros());
        let done = self.database().carry_out(Duty::Tick);
        if !self.process.lives() {
            self.maybes.extend(changed.then_some(after));
            self.say("DUTY", "Tick, and died");
            return Ok(());
        }
        match &done {
            Ok(took) if *took != changed => return Err(format!("a tick said {took}, expected {changed}")),
            Ok(true) => {
                self.timeline.push(after);
                self.maybes.clear();
            }
            Ok(false) => {}
            Err(_) => self.maybes.extend(changed.then_some(after)),
        }
        self.concluded("DUTY Tick", done.map(|_| ()), |_| ())
    }

    /// Everybody may see what is published, so no crash may take it back; and it is a prefix of the timeline.
    fn peek(&mut self) -> Result<(), Failure> {
        let database = self.database();
        let published = usize::try_from(database.published().get()).expect("small");
        if self.plan.durability == Durability::Os && published != self.tail() {
            return Err(format!("{published} records are published of {}", self.tail()));
        }
        let Some(naive) = self.timeline.get(published) else {
            return Err(format!("{published} records are published, and {} were appended", self.tail()));
        };
        let found = check::published(&database, naive);
        self.acknowledged(published);
        match found {
            Ok(()) => {
                self.say("PEEK", "ok");
                Ok(())
            }
            Err(found) => Err(format!("at the published position {published}: {found}")),
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        let found = check::everything(&self.database(), self.newest());
        let tail = self.tail();
        if !self.process.lives() {
            self.say("CHECK", "and died");
            return Ok(());
        }
        match found {
            Ok(()) => {
                self.acknowledged(tail);
                self.say("CHECK", "ok");
                Ok(())
            }
            Err(Found::Error(error)) if self.excused(&error) => {
                self.say("CHECK", &format!("{:?}", error.kind()));
                self.reopen("FAILED")
            }
            Err(found) => Err(format!("at position {tail}: {found}")),
        }
    }

    /// The process ends as it should, and another opens the database.
    fn reopen(&mut self, event: &str) -> Result<(), Failure> {
        self.clients.clear();
        self.say(event, "");
        drop(self.database.take());
        if self.process.lives() && !self.disk.is_broken() {
            // Closing makes durable what nobody waited for, and a full disk has room for it.
            self.safe = self.tail();
        }
        self.note_crash();
        self.start()
    }

    /// The process is dead; another opens the database.
    fn restart(&mut self, event: &str) -> Result<(), Failure> {
        self.say(event, "");
        self.clients.clear();
        drop(self.database.take());
        self.note_crash();
        self.start()
    }

    /// A fault that was armed may have ended the process.
    fn collect_crash(&mut self) -> Result<(), Failure> {
        if self.process.lives() { Ok(()) } else { self.restart("DIED") }
    }

    fn note_crash(&mut self) {
        if let Some(Effect::PowerCut { .. }) = self.disk.take_killed() {
            self.power_was_lost = true;
        }
    }

    /// Opens the database, as often as it takes, and sees that it is at a point of the timeline where it may be.
    fn start(&mut self) -> Result<(), Failure> {
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
                    self.came_back(records)?;
                    if self.process.lives() {
                        self.seen_time = (self.database().now().as_micros(), self.clock.monotonic_ns() / 1000);
                        return Ok(());
                    }
                    drop(self.database.take());
                    self.note_crash();
                }
                Err(error) if opening < OPENINGS_MAX && self.excused(&error) => {
                    self.say("OPEN", &format!("{:?}", error.kind()));
                }
                Err(error) => return Err(format!("it does not open: {:?}: {error}", error.kind())),
            }
        }
        unreachable!("without faults it opens, or fails")
    }

    fn builder(&self, process: Process) -> quire::Builder {
        Database::builder(DIRECTORY)
            .durability(self.plan.durability)
            .segment_bytes(self.plan.segment_bytes)
            .checkpoint_bytes(self.plan.checkpoint_bytes)
            .checkpoint_pause_bytes(if self.plan.seed.is_multiple_of(2) { 0 } else { u64::MAX })
            .id(DATABASE_ID)
            .clock(Arc::clone(&self.clock) as _)
            .storage(Arc::new(process))
            .background(Background::Caller)
    }

    /// The database came back with so many records.
    fn came_back(&mut self, records: usize) -> Result<(), Failure> {
        let least = if self.power_was_lost { self.safe } else { self.tail() };
        if records < least {
            return Err(format!("it came back with {records} records, and {least} were promised"));
        }
        let database = self.database();
        if records == self.tail() + 1 && !self.maybes.is_empty() {
            let candidates = std::mem::take(&mut self.maybes);
            let mut wrong = String::new();
            let found = candidates.into_iter().find(|naive| match check::everything(&database, naive) {
                Ok(()) => true,
                Err(found) => {
                    wrong = found.to_string();
                    false
                }
            });
            if !self.process.lives() {
                // Which of them it is shows when it is opened again; that it is one of them was seen to.
                return Err("a run must not be killed while it is compared".to_owned());
            }
            self.timeline.push(found.ok_or(format!("record {records} is none that was submitted: {wrong}"))?);
        }
        if records > self.tail() {
            return Err(format!("it came back with {records} records, and {} were submitted", self.tail()));
        }
        self.timeline.truncate(records + 1);
        self.maybes.clear();
        self.safe = records;
        self.power_was_lost = false;
        let mut book = std::mem::take(&mut self.book);
        book.roll_back(self.newest());
        let found = check::everything(&database, self.newest())
            .and_then(|()| check::learn(&database, self.newest(), &mut book));
        self.book = book;
        match found {
            _ if !self.process.lives() => {}
            Ok(()) => self.say("OPEN", &format!("{records} records")),
            Err(found) => return Err(format!("it came back with {records} records, but {found}")),
        }
        Ok(())
    }

    /// A copy without checkpoints and indexes comes to the same state.
    fn rebuild(&mut self) -> Result<(), Failure> {
        if !self.maybes.is_empty() {
            // It may hold one of them; the next opening sees to that.
            return Ok(());
        }
        let fork = self.disk.fork().map_err(|error| error.to_string())?;
        for path in self.shard_files(&fork)?.into_keys() {
            if path.extension().is_some_and(|extension| extension == "checkpoint" || extension == "idx") {
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
    fn tamper(&mut self, random: &mut Rng) -> Result<(), Failure> {
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

    fn shard_files(&self, disk: &Disk) -> Result<std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>, Failure> {
        disk.files(&Path::new(DIRECTORY).join("shard-0000")).map_err(|error| error.to_string())
    }

    /// Commits, and has the process die among the stores of that.
    fn commit_and_kill(&mut self, random: &mut Rng, before: &Image) -> Result<(), Failure> {
        let tail = self.tail();
        self.commit(random)?;
        if !self.process.lives() {
            return Ok(());
        }
        // What was acknowledged by then stays; a commit that is torn was not, though this client knows its answer.
        if self.tail() > tail && self.safe <= tail && self.plan.durability == Durability::Os {
            self.disk.kill_within(before).map_err(|error| error.to_string())?;
            self.maybes.extend(self.timeline.pop());
            let naive = self.newest().clone();
            self.book.roll_back(&naive);
        } else {
            self.disk.kill().map_err(|error| error.to_string())?;
        }
        self.restart("KILL")
    }
}

/// Damages bytes: what was done, and what is left; `None` when nothing is.
fn damage(bytes: &[u8], random: &mut Rng) -> (&'static str, Option<Vec<u8>>) {
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

/// Runs a plan to its end or to what must not be; a panic is one.
pub(crate) fn run(plan: &Plan, trace: &Trace) -> Result<(), Failure> {
    let mut world = World::new(plan, trace.clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let failure = match outcome {
        Ok(outcome) => outcome,
        Err(panic) => {
            let message = panic.downcast_ref::<String>().cloned();
            let message = message.or_else(|| panic.downcast_ref::<&str>().map(|message| (*message).to_owned()));
            Err(format!("a panic: {}", message.unwrap_or_default()))
        }
    };
    let failure = failure.map_err(|failure| format!("step {}: {failure}", world.step));
    // What is left of it goes with nobody watching; a database that panicked may do so again.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(world)));
    failure
}
