//! Whom a sync lets go first: those whom the sync before it has answered, and who tend to append again at once.
//!
//! The first of them to be back would sync for itself alone, and the others wait for two syncs; so it waits until as many records are
//! appended as the last sync answered callers. It gives its processor to others, and looks again, for no longer than two syncs take:
//! where it takes longer to bring all back, their appending is better done beside the next sync. Where they do not come in time, it
//! is tried again after twice as many syncs each time, so that it costs little where it does not pay. Who is alone waits for nobody.

use quire_model::Position;
use quire_threads::yield_now;

/// How often the processor is given away at most, should the clock stand still.
const YIELDS_MAX: u32 = 1_000;

/// After how many syncs it is tried again at the latest.
const PAUSE_MAX: u32 = 64;

/// For how many times as long as a sync takes those who were answered are waited for.
const WAIT_SYNCS: u64 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// As far as is appended when all are back.
    until: Position,
    /// When nobody is waited for any more, on the clock that measures.
    end_ns: u64,
    /// For how many syncs nobody is waited for.
    paused: u32,
    /// How many that were the last time.
    pause: u32,
    /// How long a sync takes when nothing else holds up who does it: the shortest lately. One that takes longer is taken for a
    /// slower disk only little by little.
    fastest_ns: Option<u64>,
}

impl Gathering {
    /// A sync has ended: `records` is how many it covers that none before it did, of whom it answers the caller that made it and
    /// `sleepers` at most; `appended` is the last record by now.
    pub(crate) fn answered(&mut self, records: u64, sleepers: usize, appended: Position, ended_ns: u64, took_ns: u64) {
        let callers = sleepers as u64 + 1;
        self.until = Position::new(appended.get() + records.min(callers));
        let fastest_ns = self.fastest_ns.map_or(took_ns, |fastest| took_ns.min(fastest + fastest / 16 + 1));
        self.fastest_ns = Some(fastest_ns);
        self.end_ns = ended_ns.saturating_add(WAIT_SYNCS * fastest_ns);
    }

    /// What is to be waited for before the next sync begins, if anything; it is said how that went with [`Gathering::ended`].
    pub(crate) fn begin(&mut self) -> Option<Wait> {
        if self.paused > 0 {
            self.paused -= 1;
            return None;
        }
        Some(Wait { until: self.until, end_ns: self.end_ns })
    }

    /// Whether everybody came back in time.
    pub(crate) fn ended(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Late => {}
            Outcome::Back => self.pause = 0,
            Outcome::Missed => {
                self.pause = (self.pause * 2).clamp(1, PAUSE_MAX);
                self.paused = self.pause;
            }
        }
    }
}

/// How a wait went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All were back, or came.
    Back,
    /// Somebody did not come.
    Missed,
    /// The time was over before it began: that says nothing.
    Late,
}

/// Whom to wait for, and until when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    until: Position,
    end_ns: u64,
}

impl Wait {
    /// Gives the processor to others until they have appended, or the time is over.
    pub(crate) fn carry_out(self, appended: impl Fn() -> Position, now_ns: impl Fn() -> u64) -> Outcome {
        if appended() >= self.until {
            return Outcome::Back;
        }
        if now_ns() >= self.end_ns {
            return Outcome::Late;
        }
        for _ in 0..YIELDS_MAX {
            yield_now();
            if appended() >= self.until {
                return Outcome::Back;
            }
            if now_ns() >= self.end_ns {
                break;
            }
        }
        Outcome::Missed
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const TOOK_NS: u64 = 100;

    /// A sync that covered `records` and woke so many has ended at 0, and a record is appended each so many nanoseconds. Says how many
    /// records are appended when the next sync begins, and how the wait went.
    fn next_sync(gathering: &mut Gathering, records: u64, sleepers: usize, each_ns: u64) -> (u64, Option<Outcome>) {
        gathering.answered(records, sleepers, Position::ZERO, 0, TOOK_NS);
        let now = Cell::new(0);
        let appended = || Position::new(now.get() / each_ns);
        let outcome = gathering.begin().map(|wait| {
            wait.carry_out(appended, || {
                now.set(now.get() + 1);
                now.get()
            })
        });
        outcome.into_iter().for_each(|outcome| gathering.ended(outcome));
        (appended().get(), outcome)
    }

    #[test]
    fn those_who_were_answered_are_waited_for_until_they_are_back() {
        let mut gathering = Gathering::default();
        for _ in 0..3 {
            assert_eq!(next_sync(&mut gathering, 8, 16, 10), (8, Some(Outcome::Back)));
        }
    }

    #[test]
    fn records_that_nobody_waits_for_bring_nobody_back() {
        assert_eq!(next_sync(&mut Gathering::default(), 1_000, 0, 10), (1, Some(Outcome::Back)));
    }

    #[test]
    fn who_made_the_sync_is_waited_for_like_those_it_woke() {
        assert_eq!(next_sync(&mut Gathering::default(), 8, 7, 10), (8, Some(Outcome::Back)));
    }

    #[test]
    fn who_does_not_come_is_waited_for_ever_more_rarely() {
        let mut gathering = Gathering::default();
        let waits: Vec<usize> = (0..300).filter(|_| next_sync(&mut gathering, 8, 16, 60).1.is_some()).collect();
        assert_eq!(waits, [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]);
        gathering = Gathering { paused: 0, ..gathering };
        assert_eq!(next_sync(&mut gathering, 8, 16, 1).1, Some(Outcome::Back));
        assert_eq!(next_sync(&mut gathering, 8, 16, 1).1, Some(Outcome::Back), "and they are waited for again at once");
    }

    #[test]
    fn who_begins_long_after_the_last_sync_waits_for_nobody() {
        let mut gathering = Gathering::default();
        gathering.answered(8, 16, Position::ZERO, 0, TOOK_NS);
        let outcome = gathering.begin().unwrap().carry_out(|| Position::ZERO, || WAIT_SYNCS * TOOK_NS);
        assert_eq!(outcome, Outcome::Late);
    }

    #[test]
    fn a_clock_that_stands_still_holds_nobody_up_for_ever() {
        let mut gathering = Gathering::default();
        gathering.answered(8, 16, Position::ZERO, 0, TOOK_NS);
        assert_eq!(gathering.begin().unwrap().carry_out(|| Position::ZERO, || 0), Outcome::Missed);
    }
}
