//! What the background threads of a database are to do, and when: one what time brings to the queues, and another what may take long, such as
//! checkpoints, for which nobody's job is to wait.
//!
//! They sleep until they are told of log to checkpoint or of a time at which a job is due. Time is the database's clock, which
//! may be set: so a long sleep is cut short to look at it, and a step of the clock is noticed within a second. So is what was
//! published and no gauge tells yet: no commit wakes anyone for it. A database without threads is told by [`Duties::take`] what there
//! is to do.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire_model::Timestamp;

/// How long a thread sleeps at most while something will be due, for the clock may step; and how far an idle process falls
/// behind what others append.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

/// How long it leaves off after a failure, such as a full disk.
const REST: Duration = Duration::from_secs(1);

/// How long it is at least between two times at which gauges are told.
const GAUGE_INTERVAL_MICROS: u64 = 1_000_000;

/// What a thread is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Save the models' state.
    Checkpoint,
    /// Take in what time has brought to the queues.
    Tick,
    /// Rewrite segments of which much no longer counts.
    Compact,
    /// Take in what others have published, so that this process does not fall far behind.
    Follow,
    /// Let go of the records that their topics keep no longer.
    Retain,
    /// Tell how far groups are behind.
    Gauge,
    /// End.
    Stop,
}

/// What there is to do.
#[derive(Debug, Default)]
pub(crate) struct Duties {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    checkpoint: bool,
    /// The next time at which a job's state changes by itself.
    due: Option<Timestamp>,
    /// The next time at which to look at what no longer counts.
    compact: Option<Timestamp>,
    /// The next time at which to look at topics for records that they keep no longer.
    retain: Option<Timestamp>,
    /// Before this time gauges are not told again. Nobody is woken for them: that something was published is seen when the thread
    /// looks at the clock.
    gauge_from: Timestamp,
    /// Until when the thread sleeps at most that takes in what is due; `None` while it is awake, and looks at that before it sleeps again.
    sleeps_until: Option<Timestamp>,
    stop: bool,
}

impl Duties {
    /// A checkpoint is due.
    pub(crate) fn ask_for_checkpoint(&self) {
        self.lock().checkpoint = true;
        self.changed.notify_all();
    }

    /// The next time at which a job's state changes by itself is this one now.
    pub(crate) fn next_due(&self, due: Option<Timestamp>) {
        if self.lock().set_due(due) {
            self.changed.notify_all();
        }
    }

    /// At this time it is to be looked at what no longer counts.
    pub(crate) fn compact_at(&self, time: Timestamp) {
        self.lock().compact = Some(time);
        self.changed.notify_all();
    }

    /// Topics are to be looked at, for records that they keep no longer, at this time or earlier.
    pub(crate) fn retain_at(&self, time: Timestamp) {
        let mut pending = self.lock();
        pending.retain = Some(pending.retain.map_or(time, |known| known.min(time)));
        self.changed.notify_all();
    }

    /// The threads are to end.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Whether they are: what takes long and may be left for another time is.
    pub(crate) fn are_stopping(&self) -> bool {
        self.lock().stop
    }

    /// Waits before what failed is tried again.
    pub(crate) fn rest(&self) {
        let waited = self.changed.wait_timeout_while(self.lock(), REST, |pending| !pending.stop);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether a duty is to be done now; it is then no longer.
    pub(crate) fn take(&self, duty: Next, now: Timestamp) -> bool {
        let mut pending = self.lock();
        match duty {
            Next::Checkpoint => std::mem::take(&mut pending.checkpoint),
            Next::Tick => pending.due.is_some_and(|due| due <= now),
            Next::Compact => pending.compact.take_if(|time| *time <= now).is_some(),
            Next::Follow => true,
            Next::Retain => pending.retain.take_if(|time| *time <= now).is_some(),
            Next::Gauge => pending.take_gauge(now),
            Next::Stop => pending.stop,
        }
    }

    /// The threads are to look again at what they ask others for.
    pub(crate) fn look(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits for the next duty that is done in a moment: what time brings to the queues, and what others published. `now` tells the time, and
    /// `has_company` whether other processes have the log open.
    pub(crate) fn next_prompt(&self, now: impl Fn() -> Timestamp, has_company: impl Fn() -> bool) -> Next {
        let mut pending = self.lock();
        loop {
            if pending.stop {
                return Next::Stop;
            }
            let time = now();
            let due = pending.due.map(|due| until(due, time));
            if due == Some(Duration::ZERO) {
                // The tick says what is due next.
                return Next::Tick;
            }
            let company = has_company();
            if due.is_none() && !company {
                pending.sleeps_until = Some(Timestamp::MAX);
                pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
                pending.sleeps_until = None;
                continue;
            }
            let wait = due.map_or(LOOKED_EVERY, |due| due.min(LOOKED_EVERY));
            pending.sleeps_until = Some(time.plus_micros(wait.as_micros() as u64));
            let (guard, waited) = self.changed.wait_timeout(pending, wait).unwrap_or_else(PoisonError::into_inner);
            pending = guard;
            pending.sleeps_until = None;
            if company && waited.timed_out() && wait == LOOKED_EVERY {
                return Next::Follow;
            }
        }
    }

    /// Waits for the next duty that may take long. `now` tells the time, and `is_gauged` whether gauges tell what is published.
    pub(crate) fn next_long(&self, now: impl Fn() -> Timestamp, is_gauged: impl Fn() -> bool) -> Next {
        let mut pending = self.lock();
        loop {
            if pending.stop {
                return Next::Stop;
            }
            if std::mem::take(&mut pending.checkpoint) {
                return Next::Checkpoint;
            }
            let time = now();
            if !is_gauged() && pending.take_gauge(time) {
                return Next::Gauge;
            }
            if pending.retain.take_if(|due| *due <= time).is_some() {
                return Next::Retain;
            }
            if pending.compact.take_if(|due| *due <= time).is_some() {
                return Next::Compact;
            }
            let due = pending.retain.into_iter().chain(pending.compact).min();
            let wait = due.map_or(LOOKED_EVERY, |due| until(due, time).min(LOOKED_EVERY));
            let waited = self.changed.wait_timeout(pending, wait).unwrap_or_else(PoisonError::into_inner);
            pending = waited.0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    /// Notes when a job's state changes next, and says whether the thread has to be woken for it: who leases jobs all the time, to
    /// deadlines far away, does not wake it each time.
    fn set_due(&mut self, due: Option<Timestamp>) -> bool {
        self.due = due;
        due.zip(self.sleeps_until).is_some_and(|(due, until)| due < until)
    }

    /// Whether gauges may be told now; then not again before an interval is over.
    fn take_gauge(&mut self, now: Timestamp) -> bool {
        let takes = self.gauge_from <= now;
        if takes {
            self.gauge_from = now.plus_micros(GAUGE_INTERVAL_MICROS);
        }
        takes
    }
}

/// How long it is until a time.
fn until(due: Timestamp, now: Timestamp) -> Duration {
    Duration::from_micros(due.as_micros().saturating_sub(now.as_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_woken_only_for_what_is_due_before_it_looks_by_itself() {
        let at = |micros| Some(Timestamp::from_micros(micros));
        let wakes = |sleeps_until, due| Pending { sleeps_until, ..Pending::default() }.set_due(due);
        assert!(wakes(at(10), at(9)));
        assert!(wakes(at(u64::MAX), at(9)), "nothing else would wake it");
        assert!(!wakes(at(10), at(10)) && !wakes(at(10), None));
        assert!(!wakes(None, at(9)), "it looks before it sleeps");
    }

    #[test]
    fn whoever_sleeps_is_woken_for_what_is_due_and_says_so() {
        let duties = Duties::default();
        let now = || Timestamp::from_micros(5);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| duties.next_prompt(now, || false));
            while duties.lock().sleeps_until.is_none() {
                std::thread::yield_now();
            }
            duties.next_due(Some(Timestamp::from_micros(4)));
            assert_eq!(thread.join().expect("no panic"), Next::Tick);
        });
    }
}
