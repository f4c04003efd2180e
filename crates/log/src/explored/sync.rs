//! Group commit: an acknowledged record is durable and published, every waiter gets a response, and
//! every waiter gets a failure.

use std::sync::Arc;

use loom::thread;
use quire_model::{Position, Timestamp};

use super::in_every_order;
use super::process::{Machine, Process};
use crate::durable::gate::{Gate, GateKind};
use crate::durable::sync::Syncer;
use crate::error::Result;
use crate::settings::Durability;
use crate::statistics::Counters;
use crate::time::clock::{Clock, ManualClock};

/// A clock that advances a nanosecond with each read.
#[derive(Debug, Default)]
struct LookCounter(std::sync::atomic::AtomicU64);

impl Clock for LookCounter {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1)
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}

/// A `sync` log that several threads of one process append to.
#[derive(Debug)]
struct Group {
    machine: Machine,
    process: Process,
    syncer: Syncer,
    gate: Gate,
    appended: quire_threads::Mutex<u64>,
}

impl Group {
    /// Creates a log with `appended` records.
    fn new(machine: Machine, appended: u64) -> Arc<Self> {
        Group::of(machine, appended, Arc::new(ManualClock::new(Timestamp::from_millis(1))))
    }

    /// Creates a log whose syncs take time.
    fn taking_time(machine: Machine) -> Arc<Self> {
        Group::of(machine, 0, Arc::new(LookCounter::default()))
    }

    fn of(machine: Machine, appended: u64, clock: Arc<dyn Clock>) -> Arc<Self> {
        let process = machine.open();
        let counters = Arc::new(Counters::explored(clock));
        let syncer = Syncer::new(Durability::Sync, Position::ZERO, counters, Arc::default());
        syncer.begin_segment(process.segment(Position::new(1)));
        let gate = Gate::new(GateKind::AfterSync, Arc::clone(&process.control));
        let group = Group { machine, process, syncer, gate, appended: quire_threads::Mutex::new(0) };
        (0..appended).for_each(|_| _ = group.append());
        Arc::new(group)
    }

    fn append(&self) -> Position {
        let mut appended = self.appended.lock().unwrap();
        *appended += 1;
        self.machine.volume.write(*appended);
        self.syncer.appended(Position::new(*appended));
        Position::new(*appended)
    }

    fn sync(&self, position: Position) -> Result<()> {
        self.syncer.sync_to(position, &self.process.directory, &self.process.control, &self.gate)
    }

    /// Waits until a record is synced, and checks that it is durable and published.
    fn sync_and_check(&self, position: Position) -> Result<()> {
        self.sync(position)?;
        assert!(self.machine.volume.kept() >= position.get(), "record {position} is answered, and not on the disk");
        assert!(self.gate.position() >= position, "record {position} is answered, and not to be read");
        Ok(())
    }

    /// Starts a thread that appends a record and waits for its sync.
    fn commits(self: &Arc<Self>) -> thread::JoinHandle<Result<()>> {
        let group = Arc::clone(self);
        thread::spawn(move || group.sync_and_check(group.append()))
    }
}

#[test]
fn every_caller_of_a_sync_is_woken_by_a_sync_that_covers_it() {
    in_every_order(2, || {
        let group = Group::new(Machine::new(1), 0);
        let others = [(); 2].map(|()| group.commits());
        group.sync_and_check(group.append()).unwrap();
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        assert_eq!(group.gate.position(), Position::new(3));
    });
}

#[test]
fn a_sync_that_waits_for_more_commits_ends_whether_or_not_they_arrive() {
    in_every_order(2, || {
        let group = Group::taking_time(Machine::new(1));
        let others = [1, 2].map(|commits| {
            let group = Arc::clone(&group);
            thread::spawn(move || (0..commits).try_for_each(|_| group.sync_and_check(group.append())))
        });
        group.sync_and_check(group.append()).unwrap();
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        assert_eq!(group.gate.position(), Position::new(4));
    });
}

#[test]
fn a_failed_sync_fails_every_waiter_and_every_later_commit() {
    in_every_order(2, || {
        let group = Group::new(Machine::new(1), 0);
        let others = [(); 2].map(|()| group.commits());
        group.machine.volume.fail();
        let told = group.sync_and_check(group.append());
        let told = [told].into_iter().chain(others.map(|other| other.join().unwrap()));
        let answered = told.filter(Result::is_ok).count() as u64;
        assert!(answered < 3 && answered <= group.machine.volume.kept(), "{answered} are answered");
        assert!(group.process.control.has_failed() && group.gate.published().check().is_err());
    });
}

#[test]
fn records_synced_by_another_process_delay_no_waiter() {
    in_every_order(2, || {
        let machine = Machine::new(2);
        let other = machine.open();
        let group = Group::new(machine, 1);
        // The first sync ends after the other records are appended.
        group.machine.volume.sync_takes(2);
        let waiting = [(); 2].map(|()| {
            let group = Arc::clone(&group);
            thread::spawn(move || group.sync(group.append()))
        });
        group.sync(Position::new(1)).unwrap();
        // Up to the second record.
        other.control.raise_durable(Position::new(2));
        drop(group.syncer.adopt(&group.process.control, &group.gate));
        waiting.into_iter().for_each(|waiting| waiting.join().unwrap().unwrap());
    });
}

#[test]
fn a_caller_whose_own_sync_is_about_to_publish_does_not_wait() {
    in_every_order(2, || {
        let group = Group::new(Machine::new(1), 1);
        let looks = {
            let group = Arc::clone(&group);
            thread::spawn(move || {
                // The thread first checks whether its record is published, as all callers do.
                let answered = group.gate.position();
                let is_behind = group.syncer.is_behind(&group.process.control, &group.gate);
                assert!(!is_behind, "{answered} is published, and there are no others");
            })
        };
        group.sync(Position::new(1)).unwrap();
        looks.join().unwrap();
    });
}

#[test]
fn a_sync_requested_without_waiting_is_made_by_the_background_thread() {
    in_every_order(2, || {
        let group = Group::new(Machine::new(1), 0);
        let syncs = {
            let group = Arc::clone(&group);
            let interval = std::time::Duration::MAX;
            thread::spawn(move || {
                let Group { process, syncer, gate, .. } = &*group;
                syncer.run(interval, &process.directory, &process.control, gate);
            })
        };
        let position = group.append();
        group.syncer.request(position);
        group.gate.published().wait(position.into(), || {}).unwrap();
        assert_eq!(group.machine.volume.kept(), 1);
        group.syncer.stop();
        syncs.join().unwrap();
    });
}

#[test]
fn a_durable_mark_only_rises() {
    in_every_order(3, || {
        let machine = Machine::new(2);
        let (one, other) = (machine.open(), machine.open());
        let raises = thread::spawn(move || other.control.raise_durable(Position::new(2)));
        one.control.raise_durable(Position::new(1));
        raises.join().unwrap();
        assert_eq!(one.control.durable(), Some(Position::new(2)));
    });
}
