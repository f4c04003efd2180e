//! A run: one database on one disk, its clients, and the invariants after every step.
//!
//! The *timeline* is the naive models after every assigned position. Marks on it record answers to
//! clients, and synced positions. After a crash the database must return to one point of the
//! timeline, no earlier than the marks that the crash can't undo. A commit in progress when its
//! process died is a *maybe*: it survives whole or not at all.
//!
//! One process *acts* at a time. Paused processes may have the database open: they pause,
//! with their knowledge, until they act. One of them continues when the acting one dies.

mod backups;
mod clients;
mod copies;
mod deliveries;
#[cfg(test)]
mod losses;
mod processes;
mod readers;
mod repeats;
mod retention;
mod rot;
#[cfg(test)]
mod tools;
mod truncation;

use std::collections::VecDeque;
use std::sync::Arc;

use fastrand::Rng;
use quire::{Clock, Database, Durability, Duty, ErrorKind, ManualClock, Outcome, Ticket, Timestamp};

use crate::book::Book;
use crate::disk::{Process, SimDisk};
use crate::naive::{Naive, NaiveOutcome, Part};
use crate::panics;
use crate::plan::{Action, Plan, PlanStep};
use crate::trace::Trace;
use backups::Backups;
use repeats::SentCommit;

const DIRECTORY: &str = "/data";
const DATABASE_ID: u128 = 0x5117_0000_0000_0000_0000_0000_0000_0001;
/// After how many failed openings the faults are removed.
const OPENINGS_MAX: usize = 4;
/// Maximum number of paused processes.
const OTHERS_MAX: usize = 2;

/// A violation.
pub(crate) type Violation = String;

pub(crate) struct SimWorld<'p> {
    plan: &'p Plan,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    trace: Trace,
    process: Process,
    /// `None` between two processes.
    database: Option<Database>,
    others: Vec<PausedProcess>,
    clients: Vec<SubmittedCommit>,
    /// By position, from 0: before the first record.
    timeline: Vec<Naive>,
    /// The possible continuations of the timeline, from commits of unknown outcome: each is a
    /// sequence of commits, of which a prefix may exist.
    maybes: Vec<Vec<Naive>>,
    /// The last position that no crash may undo.
    safe: usize,
    /// Whether a power loss occurred after the last opening.
    power_was_lost: bool,
    book: Book,
    /// Commits with keys that clients may send again.
    sent: VecDeque<SentCommit>,
    /// Made with the first.
    backups: Option<Backups>,
    /// The time that the database last showed, in microseconds, and how much had passed by then.
    seen_time: (u64, u64),
    step: usize,
}

/// A paused process that has the database open.
struct PausedProcess {
    process: Process,
    database: Database,
}

/// A commit whose client has not waited yet.
struct SubmittedCommit {
    /// The process it was submitted to, by number.
    process: u64,
    ticket: Ticket<Outcome>,
    /// Its position, or that of the last record before it.
    position: usize,
    parts: Vec<Part>,
    expected: NaiveOutcome,
}

impl<'p> SimWorld<'p> {
    pub(crate) fn new(plan: &'p Plan, trace: Trace) -> Self {
        // The start: some time in 2026.
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_790_000_000_000)));
        let disk = SimDisk::new(plan.seed, plan.pace, Arc::clone(&clock), trace.clone());
        let process = disk.process();
        SimWorld {
            plan,
            disk,
            clock,
            trace,
            process,
            database: None,
            others: Vec::new(),
            clients: Vec::new(),
            timeline: vec![Naive::default()],
            maybes: Vec::new(),
            safe: 0,
            power_was_lost: false,
            book: Book::default(),
            sent: VecDeque::new(),
            backups: None,
            seen_time: (0, 0),
            step: 0,
        }
    }

    /// Runs the plan, then removes every fault and checks everything.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        self.start()?;
        for step in &self.plan.steps {
            self.step = step.number;
            self.take(step)?;
            self.disk.trace_contents(false).map_err(|error| error.to_string())?;
        }
        self.step += 1;
        self.disk.disarm();
        self.reopen("END")?;
        self.commit(&mut Rng::with_seed(self.plan.seed))?;
        self.wait_for(0)?;
        self.check()?;
        self.reopen("END")?;
        self.deliver_all()?;
        self.check()?;
        self.disk.trace_contents(true).map_err(|error| error.to_string())
    }

    fn take(&mut self, step: &PlanStep) -> Result<(), Violation> {
        let mut random = Rng::with_seed(step.seed);
        match &step.action {
            Action::Commit => self.commit(&mut random)?,
            Action::Wait => self.wait(&mut random)?,
            Action::Sync => {
                let seen = self.seen();
                let done = self.database().sync();
                self.concluded("SYNC", done, |world| world.safe = world.safe.max(seen))?;
            }
            Action::Duty(Duty::Tick) => self.tick()?,
            Action::Duty(Duty::Retain) => self.retain()?,
            Action::Duty(Duty::Deliver) => self.deliver()?,
            Action::Duty(duty) => {
                if *duty == Duty::Compact {
                    self.note_compaction();
                }
                self.duty(*duty)?;
            }
            Action::Truncate => self.truncate(&mut random)?,
            Action::Checkpoint => {
                let seen = self.seen();
                let done = self.database().checkpoint();
                self.concluded("SAVE", done, |world| world.safe = world.safe.max(seen))?;
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
            Action::Join => self.join()?,
            Action::Switch => self.switch(&mut random),
            Action::Leave => self.leave()?,
            Action::Compact => self.compact(&mut random)?,
            Action::Rebuild => self.rebuild()?,
            Action::BackUp => self.back_up(&mut random)?,
            Action::Tamper => self.tamper(&mut random)?,
            Action::Rot => self.rot(&mut random)?,
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
                self.disk.kill(&self.process).map_err(|error| error.to_string())?;
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
        let seen_time = self.see_time();
        self.collect_crash()?;
        seen_time
    }

    /// The database's time advances with real time, whatever the clock shows, and never goes back.
    fn see_time(&mut self) -> Result<(), Violation> {
        /// The database waits out a smaller step back.
        const MOMENT_MICROS: u64 = 10_000;
        let last = self.timeline[self.seen()].time;
        let passed = self.clock.monotonic_ns() / 1000;
        let now = self.database().now().as_micros();
        let (before, passed_before) = self.seen_time;
        let (least, passed_since) = (before.max(last), passed - passed_before);
        if now < least || now + MOMENT_MICROS < before + passed_since {
            return Err(format!("it is {now} in the database, and was {before} {passed_since} us ago"));
        }
        self.seen_time = (now, passed);
        Ok(())
    }

    /// Compacts. Paused processes that have the database open are asked first, and answer
    /// when they check their duties: sometimes at once.
    fn compact(&mut self, random: &mut Rng) -> Result<(), Violation> {
        let seals = if random.bool() { 4 } else { 0 };
        let answers = if random.bool() { 3 * self.others.len() } else { 0 };
        for _ in 0..seals {
            self.duty(Duty::Seal)?;
        }
        let asker = self.process.number();
        self.compact_once()?;
        for _ in 0..answers {
            if self.process.lives() {
                self.switch(random);
                self.duty(Duty::Compact)?;
            }
            if self.process.number() == asker {
                self.compact_once()?;
            }
        }
        Ok(())
    }

    fn duty(&mut self, duty: Duty) -> Result<(), Violation> {
        if !self.process.lives() {
            return Ok(());
        }
        let done = self.database().carry_out(duty);
        self.concluded(&format!("DUTY {duty:?}"), done.map(|_| ()), |_| ())
    }

    fn compact_once(&mut self) -> Result<(), Violation> {
        if !self.process.lives() {
            return Ok(());
        }
        let seen = self.seen();
        self.note_compaction();
        let done = self.database().compact();
        let event = format!("COMPACT {}", done.as_ref().map_or(0, |done| done.entries_dropped));
        self.concluded(&event, done.map(|_| ()), |world| world.safe = world.safe.max(seen))
    }

    /// From now on finished jobs may be deleted.
    fn note_compaction(&mut self) {
        self.timeline.iter_mut().chain(self.maybes.iter_mut().flatten()).for_each(|naive| naive.compacted = true);
    }

    fn database(&self) -> Database {
        self.database.clone().expect("open between the steps")
    }

    /// How far the acting process knows the log. It reads other processes' published records, and
    /// on a commit also unpublished ones.
    fn seen(&self) -> usize {
        let mut seen = 0;
        // The result is not shown to a client, so it need not be durable.
        let _ = self.database().read(|view| seen = view.position.get());
        usize::try_from(seen).expect("small")
    }

    fn tail(&self) -> usize {
        self.timeline.len() - 1
    }

    fn newest(&self) -> &Naive {
        self.timeline.last().expect("the timeline begins with an empty model")
    }

    /// Writes the status line of an event; `docs/simulation.md` has its legend.
    fn say(&self, event: &str, detail: &str) {
        let seconds = self.clock.now().as_micros() / 1_000_000 % 1_000_000;
        let durability = if self.plan.durability == Durability::Sync { 'S' } else { 'O' };
        let published = self.database.as_ref().map_or(0, |database| database.published().get());
        self.trace.line(&format!(
            "{:4} {seconds:6}s {durability} p{:<3} {:4}/{:4}/{:4} {:2}w {:1}? {event:6} {detail}",
            self.step,
            self.process.number(),
            self.tail(),
            published,
            self.safe,
            self.clients.len(),
            self.maybes.len(),
        ));
    }

    /// Whether a fault of the disk explains an error.
    fn excused(&self, error: &quire::Error) -> bool {
        match error.kind() {
            ErrorKind::NoSpace => self.disk.is_full(),
            ErrorKind::Io | ErrorKind::Failed => self.disk.is_broken(),
            _ => false,
        }
    }

    /// Checks the result of an operation that changes only durability.
    fn concluded(
        &mut self,
        event: &str,
        done: quire::Result<()>,
        kept: impl FnOnce(&mut Self),
    ) -> Result<(), Violation> {
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
            Err(error) => return Err(format!("{event} failed without a fault: {error}")),
        }
        Ok(())
    }
}

/// Runs a plan to its end or to a violation; a panic is one.
pub(crate) fn run(plan: &Plan, trace: &Trace) -> Result<(), Violation> {
    let mut world = SimWorld::new(plan, trace.clone());
    let outcome = panics::caught(plan.seed, || world.run());
    let failure = match outcome {
        Ok(outcome) => outcome,
        Err(panic) => Err(format!("a panic: {}", panics::message(&*panic))),
    };
    let failure = failure.map_err(|failure| format!("step {}: {failure}", world.step));
    // Dropping the rest is not checked; a database that panicked may panic again.
    let _ = panics::caught(plan.seed, || drop(world));
    failure
}
