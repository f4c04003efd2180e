//! The time: a thread that reads the time after another thread never reads an earlier time, even if
//! the clock is set meanwhile.

use std::sync::Arc;

use loom::thread;
use quire_model::Timestamp;
use quire_threads::{AtomicU64, Ordering};

use super::in_every_order;
use crate::time::clock::{Clock, ManualClock};
use crate::time::steady::SteadyClock;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

/// A time that follows a clock, and the latest time that a thread has read.
#[derive(Debug)]
struct SharedTime {
    clock: Arc<ManualClock>,
    steady: SteadyClock,
    latest: AtomicU64,
}

impl SharedTime {
    fn new() -> Arc<Self> {
        let clock = Arc::new(ManualClock::new(at(1000)));
        let steady = SteadyClock::new(Arc::clone(&clock) as _, at(1000));
        Arc::new(SharedTime { clock, steady, latest: AtomicU64::new(0) })
    }

    fn read(&self) {
        let before = self.latest.load(Ordering::Acquire);
        let now = self.steady.now().as_micros();
        assert!(now >= before, "{now} is read after {before}");
        self.latest.fetch_max(now, Ordering::AcqRel);
    }
}

#[test]
fn no_time_is_earlier_than_one_that_was_read_before() {
    in_every_order(3, || {
        let told = SharedTime::new();
        let other = {
            let told = Arc::clone(&told);
            thread::spawn(move || {
                told.read();
                told.read();
            })
        };
        told.clock.set(at(1005));
        told.read();
        told.clock.step(at(1003));
        told.read();
        other.join().unwrap();
        told.read();
    });
}

#[test]
fn the_time_is_no_earlier_than_a_record_of_another_process() {
    in_every_order(3, || {
        let told = SharedTime::new();
        let others = [3000, 2000].map(|record| {
            let told = Arc::clone(&told);
            thread::spawn(move || {
                told.steady.not_before(at(record));
                assert!(told.steady.now() >= at(record), "as it was before the record of second {record}");
            })
        });
        told.clock.set(at(1001));
        told.read();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(told.steady.now() >= at(3000));
    });
}
