//! Truncation with waiters: the waiter for a truncated record ends unsettled whatever record gets
//! its position, and no sync counts a truncated record.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

use loom::thread;
use quire_model::{Position, Timestamp};
use quire_threads::{AtomicBool, Ordering};

use super::in_every_order;
use super::process::{Machine, Process};
use crate::durable::gate::{Gate, GateKind, WaitTarget};
use crate::durable::sync::Syncer;
use crate::error::Error;
use crate::mark::{Basis, Mark, Term};
use crate::settings::Durability;
use crate::statistics::Counters;
use crate::time::clock::ManualClock;

/// The truncated record, and the other record at its position.
const LOST: Mark = Mark { position: Position::new(2), term: Term::new(1), chain: 1 };
const OTHER: Mark = Mark { position: Position::new(2), term: Term::new(2), chain: 2 };

/// Creates a log that its owner publishes: record 1 is published, and the lost record is not.
fn gate() -> (Process, Arc<Gate>, WaitTarget) {
    let process = Machine::new(1).open();
    let gate = Gate::new(GateKind::ByOwner, Arc::clone(&process.control));
    drop(gate.opened(Position::new(1), Position::new(1)));
    let lost = Basis { mark: LOST, era: gate.published().era() }.into();
    (process, Arc::new(gate), lost)
}

/// Truncates the lost record, then appends and publishes the other record at its position.
fn replace_record(gate: &Gate) {
    let truncation = gate.begin_truncation(Position::new(1)).unwrap();
    drop(truncation.end_waiters());
    drop(truncation);
    drop(gate.publish(OTHER, |_| true).unwrap());
}

fn is_unsettled(outcome: Result<(), Error>) -> bool {
    matches!(outcome, Err(Error::Unsettled { position }) if position == LOST.position)
}

#[test]
fn a_waiter_for_a_truncated_record_is_never_answered_by_another_at_its_position() {
    in_every_order(3, || {
        let (_process, gate, lost) = gate();
        let waits = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.published().wait(lost, || {}))
        };
        replace_record(&gate);
        assert!(is_unsettled(waits.join().unwrap()));
        assert!(is_unsettled(gate.published().wait(lost, || {})), "also when it comes later");
        let other = Basis { mark: OTHER, era: gate.published().era() };
        gate.published().wait(other.into(), || {}).unwrap();
    });
}

/// A waker that records its wake-up.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_future_of_a_truncated_record_is_woken_and_ends_unsettled() {
    in_every_order(3, || {
        let (_process, gate, lost) = gate();
        let polls = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                let (flag, mut key) = (Arc::<Flag>::default(), None);
                let poll = gate.published().poll(lost, &Waker::from(Arc::clone(&flag)), &mut key);
                (poll, flag)
            })
        };
        replace_record(&gate);
        let (poll, flag) = polls.join().unwrap();
        match poll {
            Poll::Ready(outcome) => assert!(is_unsettled(outcome)),
            Poll::Pending => assert!(flag.0.load(Ordering::Relaxed), "the future is forgotten"),
        }
    });
}

#[test]
fn the_owner_publishes_no_record_while_it_is_truncated() {
    in_every_order(3, || {
        let (_process, gate, _) = gate();
        let publishes = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.publish(LOST, |_| true).map(drop).is_ok())
        };
        let truncated = gate.begin_truncation(Position::new(1)).map(|truncation| drop(truncation.end_waiters()));
        assert!(publishes.join().unwrap());
        // A record published before the truncation stays.
        assert!(truncated.is_ok() || gate.position() == LOST.position);
    });
}

#[test]
fn a_sync_that_began_before_a_truncation_counts_no_truncated_record() {
    in_every_order(2, || {
        let process = Machine::new(1).open();
        let counters = Arc::new(Counters::explored(Arc::new(ManualClock::new(Timestamp::from_millis(1)))));
        let syncer = Syncer::new(Durability::Sync, Position::ZERO, counters, Arc::default());
        let gate = Gate::new(GateKind::ByOwner, Arc::clone(&process.control));
        let first = Position::new(1);
        let segment = process.segment(first);
        syncer.begin_segment(Arc::clone(&segment));
        [first, LOST.position].into_iter().for_each(|position| syncer.appended(position));
        let log = Arc::new((process, syncer, gate));
        let syncs = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let (process, syncer, gate) = &*log;
                syncer.sync_to(LOST.position, &process.directory, &process.control, gate)
            })
        };
        let (process, syncer, _) = &*log;
        let pause = syncer.pause();
        process.control.truncate(first).unwrap();
        pause.truncate(first, &segment);
        drop(pause);
        assert_eq!((syncer.last_appended(), process.control.tail()), (first, first));
        let synced = syncs.join().unwrap();
        assert!(synced.is_ok() || is_unsettled(synced));
        assert!(
            syncer.durable() <= first && process.control.durable() <= Some(first),
            "a truncated record counts as synced"
        );
    });
}
