//! The schedule: which duty is due, and how long the duty threads sleep.
//!
//! One thread carries out prompt duties: the passing of time in the queues, and following other
//! processes. Another carries out long duties, such as checkpoints, so that no job waits for them.
//! The threads sleep until a duty is requested or due. Time is the database's clock, which may be
//! set: a thread wakes at least once a second while anything is scheduled, and so notices a step of
//! the clock. It also notices published records that the gauges lack, so no commit wakes a thread
//! for gauges. A shard without threads asks [`Schedule::take`].

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire_model::Timestamp;

/// Longest sleep while anything is scheduled, because the clock may step. Also how far an idle
/// process falls behind others.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The pause after a failure, such as a full disk.
const PAUSE: Duration = Duration::from_secs(1);

/// Shortest interval between two writes of the gauges.
const GAUGE_INTERVAL_MICROS: u64 = 1_000_000;

/// A duty that is due for a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DueDuty {
    /// Save the models' state.
    Checkpoint,
    /// Apply the passing of time to the queues.
    Tick,
    /// Rewrite segments of which much no longer counts.
    Compact,
    /// Apply records of other processes, so that this process does not fall far behind.
    Follow,
    /// Trim records beyond their retention.
    Retain,
    /// Write the lags of consumer groups.
    Gauge,
    /// End the thread.
    Stop,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    pending: Mutex<PendingDuties>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PendingDuties {
    checkpoint: bool,
    /// Next time at which a job's state changes by itself.
    job_due: Option<Timestamp>,
    /// Next time to compact.
    compact: Option<Timestamp>,
    /// Next time to trim.
    retain: Option<Timestamp>,
    /// Gauges are not written before this time. No thread is woken for them: it checks for
    /// published records when it wakes.
    gauge_from: Timestamp,
    /// Until when the thread of prompt duties sleeps at most. `None` while it is awake: it then
    /// checks `job_due` before it sleeps.
    sleeps_until: Option<Timestamp>,
    stop: bool,
}

impl Schedule {
    /// Requests a checkpoint.
    pub(crate) fn request_checkpoint(&self) {
        self.lock().checkpoint = true;
        self.changed.notify_all();
    }

    /// Sets the next time at which a job's state changes by itself.
    pub(crate) fn set_job_due(&self, due: Option<Timestamp>) {
        if self.lock().set_job_due(due) {
            self.changed.notify_all();
        }
    }

    /// Schedules the next compaction.
    pub(crate) fn compact_at(&self, time: Timestamp) {
        self.lock().compact = Some(time);
        self.changed.notify_all();
    }

    /// Schedules the next retention, unless an earlier one is scheduled.
    pub(crate) fn retain_at(&self, time: Timestamp) {
        let mut pending = self.lock();
        pending.retain = Some(pending.retain.map_or(time, |known| known.min(time)));
        self.changed.notify_all();
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Whether the shard is closing: a long duty then leaves the rest to the next opening.
    pub(crate) fn is_stopping(&self) -> bool {
        self.lock().stop
    }

    /// Waits before a failed duty is retried.
    pub(crate) fn pause(&self) {
        let waited = self.changed.wait_timeout_while(self.lock(), PAUSE, |pending| !pending.stop);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether a duty is due at `now`. It is then no longer due.
    pub(crate) fn take(&self, duty: DueDuty, now: Timestamp) -> bool {
        let mut pending = self.lock();
        match duty {
            DueDuty::Checkpoint => std::mem::take(&mut pending.checkpoint),
            // Stays due until the tick's commit sets the next time.
            DueDuty::Tick => pending.job_due.is_some_and(|due| due <= now),
            DueDuty::Compact => pending.compact.take_if(|time| *time <= now).is_some(),
            DueDuty::Follow => true,
            DueDuty::Retain => pending.retain.take_if(|time| *time <= now).is_some(),
            DueDuty::Gauge => pending.take_gauge(now),
            DueDuty::Stop => pending.stop,
        }
    }

    /// Makes the threads check again what they read outside of the schedule.
    pub(crate) fn recheck(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits for the next prompt duty. `now` reads the clock, and `has_other_processes` returns
    /// whether other processes have the log open.
    pub(crate) fn next_prompt(&self, now: impl Fn() -> Timestamp, has_other_processes: impl Fn() -> bool) -> DueDuty {
        let mut pending = self.lock();
        loop {
            if pending.stop {
                return DueDuty::Stop;
            }
            let time = now();
            let due = pending.job_due.map(|due| until(due, time));
            if due == Some(Duration::ZERO) {
                // The tick's commit sets the next time.
                return DueDuty::Tick;
            }
            let has_others = has_other_processes();
            if due.is_none() && !has_others {
                pending.sleeps_until = Some(Timestamp::MAX);
                pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
                pending.sleeps_until = None;
                continue;
            }
            let wait = due.map_or(SLEEP_MAX, |due| due.min(SLEEP_MAX));
            pending.sleeps_until = Some(time.plus_micros(wait.as_micros() as u64));
            let (guard, waited) = self.changed.wait_timeout(pending, wait).unwrap_or_else(PoisonError::into_inner);
            pending = guard;
            pending.sleeps_until = None;
            if has_others && waited.timed_out() && wait == SLEEP_MAX {
                return DueDuty::Follow;
            }
        }
    }

    /// Waits for the next long duty. `now` reads the clock, and `is_gauged` returns whether the
    /// gauges cover the published log.
    pub(crate) fn next_long(&self, now: impl Fn() -> Timestamp, is_gauged: impl Fn() -> bool) -> DueDuty {
        let mut pending = self.lock();
        loop {
            if pending.stop {
                return DueDuty::Stop;
            }
            if std::mem::take(&mut pending.checkpoint) {
                return DueDuty::Checkpoint;
            }
            let time = now();
            if !is_gauged() && pending.take_gauge(time) {
                return DueDuty::Gauge;
            }
            if pending.retain.take_if(|due| *due <= time).is_some() {
                return DueDuty::Retain;
            }
            if pending.compact.take_if(|due| *due <= time).is_some() {
                return DueDuty::Compact;
            }
            let due = pending.retain.into_iter().chain(pending.compact).min();
            let wait = due.map_or(SLEEP_MAX, |due| until(due, time).min(SLEEP_MAX));
            let waited = self.changed.wait_timeout(pending, wait).unwrap_or_else(PoisonError::into_inner);
            pending = waited.0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingDuties> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingDuties {
    /// Sets when a job's state changes next. Returns whether the thread must be woken: clients that
    /// lease jobs all the time, with deadlines far away, do not wake it each time.
    fn set_job_due(&mut self, due: Option<Timestamp>) -> bool {
        self.job_due = due;
        due.zip(self.sleeps_until).is_some_and(|(due, until)| due < until)
    }

    /// Whether gauges may be written now. If so, they may be written again after an interval.
    fn take_gauge(&mut self, now: Timestamp) -> bool {
        let takes = self.gauge_from <= now;
        if takes {
            self.gauge_from = now.plus_micros(GAUGE_INTERVAL_MICROS);
        }
        takes
    }
}

/// The duration until `due`; zero if it is past.
fn until(due: Timestamp, now: Timestamp) -> Duration {
    Duration::from_micros(due.as_micros().saturating_sub(now.as_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_is_woken_only_for_a_time_before_its_sleep_ends() {
        let at = |micros| Some(Timestamp::from_micros(micros));
        let wakes = |sleeps_until, due| PendingDuties { sleeps_until, ..PendingDuties::default() }.set_job_due(due);
        assert!(wakes(at(10), at(9)));
        assert!(wakes(at(u64::MAX), at(9)), "no timeout ends this sleep");
        assert!(!wakes(at(10), at(10)) && !wakes(at(10), None));
        assert!(!wakes(None, at(9)), "an awake thread checks before it sleeps");
    }

    #[test]
    fn a_sleeping_thread_is_woken_for_an_earlier_time() {
        let schedule = Schedule::default();
        let now = || Timestamp::from_micros(5);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| schedule.next_prompt(now, || false));
            while schedule.lock().sleeps_until.is_none() {
                std::thread::yield_now();
            }
            schedule.set_job_due(Some(Timestamp::from_micros(4)));
            assert_eq!(thread.join().expect("no panic"), DueDuty::Tick);
        });
    }
}
