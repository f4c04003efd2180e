//! Syncs in rounds. Each caller sleeps for one round: the running round if it covers the caller's
//! record, or else the next.
//!
//! ```text
//! round 7 runs: callers that appended before its target was taken sleep for 7
//!               callers that appended since sleep for 8
//! round 7 ends: every sleeper of 7 wakes, and continues without a lock
//!               one sleeper of 8 wakes, to lead round 8, and the others sleep on
//! ```
//! So no caller is woken for a round that answers others. A caller that is woken to lead may find
//! that another process has synced its record. That caller passes the lead on. A round may wait for
//! callers that are [expected back](crate::durable::sync_delay). Callers that come meanwhile sleep
//! for this round, too.

use std::time::Duration;

use quire_model::Position;
use quire_threads::{AtomicU64, Ordering};

use crate::durable::wake_signal::WakeSignal;

/// Where callers sleep. The lock that guards [`Rounds`] does not guard this.
#[derive(Debug, Default)]
pub(crate) struct Cohorts {
    /// One signal for rounds with even numbers, and one for rounds with odd numbers.
    signals: [WakeSignal; 2],
    /// The number of the last round that has ended.
    ended: AtomicU64,
}

/// The running round, and the number of callers asleep for each round.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// The number of the round that runs, or ran last.
    number: u64,
    running: bool,
    /// The last position that the round covers.
    target: Position,
    /// The callers asleep for rounds with even numbers, and for rounds with odd numbers.
    asleep: [usize; 2],
}

/// A caller that is about to sleep.
#[derive(Debug)]
#[must_use]
pub(crate) struct Sleeper {
    round: u64,
    seen: u32,
}

/// How a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundOutcome {
    /// The sleeper's round has ended.
    Ended,
    /// The signal was given before the round ended: a caller must lead the round.
    LeadRequested,
    /// Neither happened in time.
    TimedOut,
}

/// A round that has ended and whose sleepers are not woken yet.
#[derive(Debug)]
#[must_use]
pub(crate) struct EndedRound {
    round: u64,
    /// The number of callers that slept for this round.
    pub(crate) answered: usize,
    /// Whether a caller sleeps for the next round.
    goes_on: bool,
}

impl Rounds {
    /// Returns whether a round runs.
    pub(crate) fn running(&self) -> bool {
        self.running
    }

    /// Begins the next round, which covers the records appended up to `target`.
    pub(crate) fn begin(&mut self, target: Position) {
        assert!(!self.running, "one round at a time");
        assert_eq!(self.asleep[parity(self.number)], 0, "the callers of the last round were answered");
        (self.number, self.running, self.target) = (self.number + 1, true, target);
    }

    /// Ends the running round.
    pub(crate) fn end(&mut self, cohorts: &Cohorts) -> EndedRound {
        assert!(self.running, "only a running round ends");
        self.running = false;
        cohorts.ended.store(self.number, Ordering::Release);
        let answered = std::mem::take(&mut self.asleep[parity(self.number)]);
        EndedRound { round: self.number, answered, goes_on: self.asleep[parity(self.number + 1)] > 0 }
    }

    /// Registers a caller that waits for an appended record. The caller sleeps for the round that
    /// covers the record.
    pub(crate) fn join(&mut self, position: Position, cohorts: &Cohorts) -> Sleeper {
        let round = if self.running && position <= self.target { self.number } else { self.number + 1 };
        debug_assert!(self.running || round == self.number + 1, "no caller sleeps for a round that has ended");
        self.asleep[parity(round)] += 1;
        Sleeper { round, seen: cohorts.signals[parity(round)].count() }
    }

    /// Unregisters a caller that slept and is awake. Returns whether its round has not begun yet.
    pub(crate) fn leave(&mut self, sleeper: &Sleeper) -> bool {
        let has_ended = sleeper.round < self.number || (sleeper.round == self.number && !self.running);
        if !has_ended {
            assert!(self.asleep[parity(sleeper.round)] > 0, "a sleeper is counted for one round");
            self.asleep[parity(sleeper.round)] -= 1;
        }
        sleeper.round > self.number && !self.running
    }

    /// Passes the lead on from a caller that was woken before its round ended and does not lead it.
    /// Another caller leads the round, if any sleeps for it.
    pub(crate) fn pass_on(&self, cohorts: &Cohorts) {
        if !self.running && self.asleep[parity(self.number + 1)] > 0 {
            cohorts.signals[parity(self.number + 1)].wake_one();
        }
    }
}

impl Cohorts {
    /// Sleeps until the sleeper's round has ended, the sleeper must lead it, or `at_most` has
    /// passed. The sleep may also end early.
    pub(crate) fn sleep(&self, sleeper: &Sleeper, at_most: Option<Duration>) -> RoundOutcome {
        debug_assert!(sleeper.round > 0, "rounds are counted from 1");
        let signal = &self.signals[parity(sleeper.round)];
        let was_woken = match at_most {
            Some(time) => signal.sleep_at_most(sleeper.seen, time),
            None => {
                signal.sleep(sleeper.seen);
                true
            }
        };
        match self.ended.load(Ordering::Acquire) >= sleeper.round {
            true => RoundOutcome::Ended,
            false if was_woken => RoundOutcome::LeadRequested,
            false => RoundOutcome::TimedOut,
        }
    }

    /// Wakes the caller that leads the next round, and then the callers that slept for this round.
    pub(crate) fn tell(&self, ended: &EndedRound) {
        if ended.goes_on {
            self.signals[parity(ended.round + 1)].wake_one();
        }
        if ended.answered > 0 {
            self.signals[parity(ended.round)].wake_all();
        }
    }

    /// Wakes every sleeper: no round follows, or a truncation may have removed a sleeper's
    /// record.
    pub(crate) fn wake_all(&self) {
        self.signals.iter().for_each(WakeSignal::wake_all);
    }
}

fn parity(round: u64) -> usize {
    (round % 2) as usize
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::{self, Receiver, Sender};
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// The longest wait of a test for an event that must come. No test waits for an event that must
    /// not come.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[derive(Default)]
    struct Shared {
        rounds: Mutex<Rounds>,
        cohorts: Cohorts,
    }

    impl Shared {
        /// Begins the next round, up to a position.
        fn begin(&self, target: u64) {
            self.rounds.lock().unwrap().begin(Position::new(target));
        }

        fn end_of_next(&self, target: u64) -> usize {
            self.begin(target);
            self.end()
        }

        fn end(&self) -> usize {
            let ended = self.rounds.lock().unwrap().end(&self.cohorts);
            self.cohorts.tell(&ended);
            ended.answered
        }
    }

    /// Starts a thread that sleeps until a record is synced, and returns once the thread sleeps.
    /// When the thread wakes, it sends the record's position and whether its round had ended. Then
    /// it calls `then`.
    fn sleeper(
        shared: &Arc<Shared>,
        position: u64,
        woken: &Sender<(u64, bool)>,
        then: impl FnOnce(&Shared) + Send + 'static,
    ) {
        let sleeper = shared.rounds.lock().unwrap().join(Position::new(position), &shared.cohorts);
        let (shared, woken) = (Arc::clone(shared), woken.clone());
        let (begun, id) = mpsc::channel();
        thread::spawn(move || {
            begun.send(rustix::thread::gettid()).unwrap();
            let slept = shared.cohorts.sleep(&sleeper, None);
            if slept != RoundOutcome::Ended {
                assert!(shared.rounds.lock().unwrap().leave(&sleeper), "its round has begun");
            }
            woken.send((position, slept == RoundOutcome::Ended)).unwrap();
            then(&shared);
        });
        let id = id.recv().unwrap().as_raw_nonzero();
        let is_asleep = || fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap().contains(") S ");
        while !is_asleep() {
            thread::yield_now();
        }
    }

    fn next(woken: &Receiver<(u64, bool)>) -> (u64, bool) {
        woken.recv_timeout(PATIENCE).expect("somebody sleeps on whom nobody wakes")
    }

    #[test]
    fn a_sync_round_wakes_the_waiters_it_covers_and_a_leader_of_the_next_round() {
        let (shared, (sender, woken)) = (Arc::<Shared>::default(), mpsc::channel());
        shared.begin(2);
        for position in 1..=2 {
            sleeper(&shared, position, &sender, |_| {});
        }
        for position in 3..=5 {
            sleeper(&shared, position, &sender, |_| {});
        }
        assert_eq!(shared.end(), 2);
        let mut woken_by_it: Vec<_> = (0..3).map(|_| next(&woken)).collect();
        woken_by_it.sort_unstable();
        let [(1, true), (2, true), (leader @ 3..=5, false)] = woken_by_it[..] else { panic!("{woken_by_it:?}") };
        shared.begin(5);
        assert_eq!(shared.end(), 2, "the leader does not sleep for it any more");
        let mut others = [next(&woken), next(&woken)];
        others.sort_unstable();
        assert!(others.iter().all(|(position, ended)| *ended && *position != leader), "{others:?}");
    }

    #[test]
    fn a_woken_leader_without_work_passes_the_lead_on() {
        let (shared, (sender, woken)) = (Arc::<Shared>::default(), mpsc::channel());
        shared.begin(0);
        for position in 1..=5 {
            sleeper(&shared, position, &sender, |shared| shared.rounds.lock().unwrap().pass_on(&shared.cohorts));
        }
        shared.end();
        let mut all: Vec<_> = (0..5).map(|_| next(&woken).0).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_caller_between_two_rounds_sleeps_until_the_next_one() {
        let (shared, (sender, woken)) = (Arc::<Shared>::default(), mpsc::channel());
        sleeper(&shared, 1, &sender, |_| {});
        let watching = shared.rounds.lock().unwrap().join(Position::new(2), &shared.cohorts);
        assert_eq!(shared.cohorts.sleep(&watching, Some(Duration::from_millis(1))), RoundOutcome::TimedOut);
        assert!(shared.rounds.lock().unwrap().leave(&watching));
        shared.begin(2);
        assert_eq!(shared.end(), 1);
        assert_eq!(next(&woken), (1, true));
        assert_eq!(shared.cohorts.sleep(&watching, None), RoundOutcome::Ended);
        assert!(
            !shared.rounds.lock().unwrap().leave(&watching),
            "who left late is not counted among those of another round"
        );
        assert_eq!(shared.end_of_next(3), 0);
    }

    #[test]
    fn no_thread_sleeps_on_after_the_last_round() {
        let (shared, (sender, woken)) = (Arc::<Shared>::default(), mpsc::channel());
        shared.begin(1);
        for position in 1..=3 {
            sleeper(&shared, position, &sender, |_| {});
        }
        drop(shared.rounds.lock().unwrap().end(&shared.cohorts));
        shared.cohorts.wake_all();
        for _ in 0..3 {
            next(&woken);
        }
    }
}
