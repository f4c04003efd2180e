//! Waiters and publishers: a waiter that checked before a publication is woken, and a reader of the
//! tail sees all stores before it.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use quire_mapped::Appender;
use quire_model::Position;
use quire_threads::{AtomicBool, AtomicU64, Ordering};

use super::in_every_order;
use super::process::{Machine, Process};
use crate::durable::gate::{Gate, GateKind, WaitOutcome};
use crate::durable::wake_signal::WakeSignal;
use crate::time::deadline::WaitDeadline;

const FIRST: Position = Position::new(1);

/// A relaxed store before a publication.
#[derive(Debug, Default)]
struct Record(AtomicU64);

impl Record {
    fn write(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    fn check(&self) {
        assert_eq!(self.0.load(Ordering::Relaxed), 1, "a reader of the tail sees the record");
    }
}

fn gate(process: &Process) -> Arc<Gate> {
    Arc::new(Gate::new(GateKind::AtOnce, Arc::clone(&process.control)))
}

/// The waiters of a process, and a record to publish.
fn waiters() -> (Process, Arc<Gate>, Arc<Record>) {
    let process = Machine::new(1).open();
    let gate = gate(&process);
    (process, gate, Arc::default())
}

#[test]
fn a_thread_that_checks_before_it_sleeps_misses_no_wake_up() {
    in_every_order(3, || {
        let (signal, done) = (Arc::<WakeSignal>::default(), Arc::<AtomicBool>::default());
        let sleepers = [(); 2].map(|()| {
            let (signal, done) = (Arc::clone(&signal), Arc::clone(&done));
            thread::spawn(move || {
                loop {
                    let seen = signal.count();
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    signal.sleep(seen);
                }
            })
        });
        done.store(true, Ordering::Relaxed);
        signal.wake_all();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

#[test]
fn a_waiter_is_woken_by_its_publication_and_sees_the_record() {
    in_every_order(3, || {
        let (_process, gate, record) = waiters();
        let waiting = [(); 2].map(|()| {
            let (gate, record) = (Arc::clone(&gate), Arc::clone(&record));
            thread::spawn(move || {
                gate.published().wait(FIRST.into(), || {}).unwrap();
                record.check();
            })
        });
        record.write();
        drop(gate.appended(FIRST));
        waiting.into_iter().for_each(|waiting| waiting.join().unwrap());
    });
}

#[test]
fn a_spinning_reader_of_the_tail_sees_the_record() {
    in_every_order(3, || {
        let (process, gate, record) = waiters();
        let control = Arc::clone(&process.control);
        let reader = {
            let (gate, record, control) = (Arc::clone(&gate), Arc::clone(&record), Arc::clone(&control));
            thread::spawn(move || {
                if gate.position() >= FIRST || control.tail_is(FIRST) {
                    record.check();
                }
            })
        };
        record.write();
        control.set_tail(FIRST);
        drop(gate.appended(FIRST));
        reader.join().unwrap();
    });
}

#[test]
fn a_reader_below_the_settled_mark_sees_the_bytes() {
    in_every_order(3, || {
        let mut appender = Appender::in_memory(64).unwrap();
        let (view, record) = (appender.view(), Arc::<Record>::default());
        let reader = {
            let record = Arc::clone(&record);
            thread::spawn(move || {
                if view.bytes(0..1).is_some() {
                    record.check();
                }
            })
        };
        record.write();
        appender.settle(1);
        reader.join().unwrap();
    });
}

/// A waker that records its wake-up.
#[derive(Debug, Default)]
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_waker_is_woken_unless_its_poll_saw_the_publish() {
    in_every_order(3, || {
        let (_process, gate, record) = waiters();
        let polls = {
            let (gate, record) = (Arc::clone(&gate), Arc::clone(&record));
            thread::spawn(move || {
                let (told, mut key) = (Arc::<WakeFlag>::default(), None);
                let poll = gate.published().poll(FIRST.into(), &Waker::from(Arc::clone(&told)), &mut key);
                if poll.is_ready() {
                    record.check();
                }
                (poll.is_ready(), told)
            })
        };
        record.write();
        drop(gate.appended(FIRST));
        let (is_ready, told) = polls.join().unwrap();
        assert!(is_ready || told.0.load(Ordering::Relaxed), "a future is forgotten");
    });
}

#[test]
fn a_waiter_gets_the_error_of_a_failed_log() {
    in_every_order(3, || {
        let (_process, gate, _) = waiters();
        let waits = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.published().wait(FIRST.into(), || {}).unwrap_err())
        };
        let sleeps = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                gate.published().sleep(FIRST, WaitDeadline::after(Duration::MAX), || false).unwrap_err()
            })
        };
        drop(gate.published().fail("the disk is gone"));
        for told in [waits.join().unwrap(), sleeps.join().unwrap()] {
            assert!(told.to_string().contains("the disk is gone"), "{told}");
        }
    });
}

#[test]
fn a_sleeping_thread_is_woken_by_a_publication_in_its_process() {
    in_every_order(3, || {
        let (_process, gate, record) = waiters();
        let sleeps = {
            let (gate, record) = (Arc::clone(&gate), Arc::clone(&record));
            thread::spawn(move || {
                let slept = gate.published().sleep(FIRST, WaitDeadline::after(Duration::MAX), || false).unwrap();
                assert_eq!(slept, WaitOutcome::Published);
                record.check();
            })
        };
        record.write();
        drop(gate.appended(FIRST));
        sleeps.join().unwrap();
    });
}

#[test]
fn a_sleeping_thread_is_woken_by_a_publication_in_another_process() {
    in_every_order(3, || {
        let machine = Machine::new(2);
        let (publishes, sleeps) = (machine.open(), machine.open());
        let record = Arc::<Record>::default();
        let here = gate(&publishes);
        let asleep = {
            let (gate, record) = (gate(&sleeps), Arc::clone(&record));
            thread::spawn(move || {
                let control = &sleeps.control;
                let is_behind = || control.tail_is(FIRST);
                let slept = gate.published().sleep(FIRST, WaitDeadline::after(Duration::MAX), is_behind).unwrap();
                assert_eq!(slept, WaitOutcome::Behind);
                record.check();
            })
        };
        record.write();
        publishes.control.set_tail(FIRST);
        drop(here.appended(FIRST));
        asleep.join().unwrap();
    });
}

#[test]
fn a_registration_that_ends_during_a_publication_leaves_no_waiter_counted() {
    in_every_order(3, || {
        let (_process, gate, _) = waiters();
        let gives_up = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                let mut key = None;
                let poll = gate.published().poll(FIRST.into(), Waker::noop(), &mut key);
                assert!(matches!(poll, Poll::Pending | Poll::Ready(Ok(()))));
                key.into_iter().for_each(|key| gate.published().forget(key));
            })
        };
        drop(gate.appended(FIRST));
        gives_up.join().unwrap();
        assert!(!gate.published().has_waiters());
    });
}
