//! The runner: carries out the duties of a shard, in its threads or when the caller asks.

use quire_log::{Clock, ProcessEvent};
use quire_model::StepBudget;

use crate::commands::Commands;
use crate::compaction::CompactionDuty;
use crate::delivery::DeliveryDuty;
use crate::duties::{DueDuty, Duty};
use crate::error::{ErrorKind, Result};
use crate::gauges::GaugeDuty;
use crate::logged_state::LoggedState;
use crate::{jobs, retention};

/// The most steps of one tick, which take a few milliseconds at most. Other writers wait meanwhile.
const TICK_STEPS: u64 = 8_192;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DutyRunner<'s> {
    pub(crate) shard: &'s LoggedState,
    pub(crate) compaction: &'s CompactionDuty,
    pub(crate) delivery: &'s DeliveryDuty,
    pub(crate) gauges: &'s GaugeDuty,
}

impl DutyRunner<'_> {
    /// Carries out prompt duties until the shard is closing.
    pub(crate) fn run_prompt(self) {
        let log = &self.shard.log;
        self.run(|| self.shard.schedule.next_prompt(|| log.clock().now(), || log.has_other_processes()));
    }

    /// Carries out long duties until the shard is closing.
    pub(crate) fn run_long(self) {
        let log = &self.shard.log;
        self.run(|| self.shard.schedule.next_long(|| log.clock().now(), || self.gauges.are_current(self.shard)));
    }

    fn run(self, next: impl Fn() -> DueDuty) {
        let shard = self.shard;
        loop {
            let done = match next() {
                DueDuty::Stop => return,
                DueDuty::Checkpoint => self.note(Duty::Checkpoint, self.for_all(LoggedState::checkpoint)).map(drop),
                // The next read or commit reports a failure.
                DueDuty::Follow => shard.catch_up(),
                DueDuty::Tick => self.note(Duty::Tick, self.tick()),
                DueDuty::Compact => {
                    self.compaction.schedule(shard);
                    self.note(Duty::Compact, self.for_all(|shard| self.compaction.run(shard))).map(drop)
                }
                DueDuty::Retain => {
                    retention::schedule(shard);
                    self.note(Duty::Retain, self.for_all(retention::run)).map(drop)
                }
                // Unreadable records do not delay the other duties.
                DueDuty::Gauge => match self.note(Duty::Gauge, self.gauges.run(shard)) {
                    Err(error) if error.kind() == ErrorKind::Failed => Err(error),
                    _ => Ok(()),
                },
            };
            match done {
                Ok(()) => {}
                // The next commit reports the failure.
                Err(error) if error.kind() == ErrorKind::Failed => return,
                Err(_) => shard.schedule.pause(),
            }
        }
    }

    /// Applies records of other processes whenever a thread of this process waits for them.
    pub(crate) fn listen(self) {
        let mut has_others = false;
        loop {
            match self.shard.log.listen(has_others) {
                ProcessEvent::Published => {
                    if self.shard.catch_up().is_err() {
                        // The next read or commit reports the failure.
                        return;
                    }
                }
                ProcessEvent::OthersChanged => {
                    has_others = !has_others;
                    self.shard.schedule.recheck();
                }
                // The other process keeps segments that this one has not released. Reads report
                // damage.
                ProcessEvent::Compaction => drop(self.compaction.attend(self.shard)),
                ProcessEvent::Stop => return,
            }
        }
    }

    /// Delivers events until the shard is closing.
    pub(crate) fn deliver(self) {
        self.delivery.run_in_background(self.shard);
    }

    /// Carries out `duty` if it is due. Returns whether there was anything to do.
    pub(crate) fn carry_out(self, duty: Duty) -> Result<bool> {
        let shard = self.shard;
        let now = shard.log.clock().now();
        let is_due = |due| shard.schedule.take(due, now);
        match duty {
            Duty::Sync => Ok(shard.log.carry_out(quire_log::LogDuty::Sync)?),
            Duty::Prepare => Ok(shard.log.carry_out(quire_log::LogDuty::Prepare)?),
            Duty::Seal => Ok(shard.log.carry_out(quire_log::LogDuty::Seal)?),
            Duty::Checkpoint if is_due(DueDuty::Checkpoint) => self.note(duty, shard.checkpoint()).map(|()| true),
            Duty::Tick if is_due(DueDuty::Tick) => self.note(duty, self.tick()).map(|()| true),
            Duty::Compact if self.compaction.attend(shard)? => Ok(true),
            Duty::Compact if is_due(DueDuty::Compact) => {
                self.compaction.schedule(shard);
                Ok(self.note(duty, self.for_all(|shard| self.compaction.run(shard)))?.is_some())
            }
            Duty::Retain if is_due(DueDuty::Retain) => {
                retention::schedule(shard);
                self.note(duty, retention::run(shard))
            }
            Duty::Deliver if shard.delivery_requests.take().is_some() => self.note(duty, self.delivery.run(shard)),
            Duty::Gauge if self.gauges.are_due(shard)? && is_due(DueDuty::Gauge) => {
                self.note(duty, self.gauges.run(shard))
            }
            Duty::Checkpoint | Duty::Tick | Duty::Compact | Duty::Retain | Duty::Deliver | Duty::Gauge => Ok(false),
        }
    }

    /// Applies the passing of time to the queues, and advances a bulk change: a limited number of
    /// jobs and steps in one commit, so that other writers get their turn.
    fn tick(self) -> Result<()> {
        if !self.shard.office.decides() {
            return Ok(());
        }
        let commands = Commands { jobs: &[jobs::Command::Tick], ..Commands::default() };
        let mut steps = TICK_STEPS;
        loop {
            let budget = StepBudget::new(steps);
            match self.shard.commit_in_background_within(&budget, self.shard.log.clock().now(), &commands) {
                // One job takes more.
                Err(error) if error.kind() == ErrorKind::TooCostly => steps = steps.saturating_mul(4),
                ticked => return ticked.map(drop),
            }
        }
    }

    /// Carries out a duty that one of the processes with the shard open carries out for all, if it
    /// is this one.
    fn for_all<T>(self, duty: impl FnOnce(&LoggedState) -> Result<T>) -> Result<Option<T>> {
        if self.shard.log.takes_duties()? { duty(self.shard).map(Some) } else { Ok(None) }
    }

    /// Keeps the result of a duty for operators, because no caller waits for it.
    fn note<T>(self, duty: Duty, done: Result<T>) -> Result<T> {
        self.shard.failures.note(duty, self.shard.log.clock().now(), done)
    }
}
