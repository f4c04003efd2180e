//! What one commit does to the order of a queue: which jobs it has handed out, and whose turn it is then.
//!
//! The state's order is read as it stands; groups that the commit has touched are set aside in an order of their own, and the
//! two are merged. A pending job is handed out at most once: `taken` marks how far a group's stored jobs were used up,
//! `offered` holds those that became pending in this commit.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;

use quire_model::Timestamp;

use crate::draft::GROUP_UNKNOWN;
use crate::group::{Group, PendingKey, ReadyKey};
use crate::job::Job;
use crate::queue::Queue;
use crate::rate::Meter;
use crate::{JobId, JobState, QueueSettings, Rate};

#[derive(Debug, Default)]
pub(crate) struct DraftQueue {
    /// Other settings than the state's.
    pub(crate) settings: Option<QueueSettings>,
    /// Whether its waiting jobs are cancelled; when it is destroyed, all.
    pub(crate) cleared: bool,
    pub(crate) destroyed: bool,
    /// How many more unfinished jobs it has than in the state.
    pub(crate) live: i64,
    /// How many more of its jobs are active than in the state.
    active: i64,
    /// How many have started; since a rate was set, if one was: the state's meter counts no longer then.
    started: u32,
    fresh_meter: bool,
    fresh_group_meters: bool,
    turns: u64,
    groups: BTreeMap<u32, DraftGroup>,
    /// The touched groups that have jobs, in their order.
    ready: BTreeSet<ReadyKey>,
    /// How far the state's order was gone through.
    passed: Option<ReadyKey>,
    thawed: bool,
}

#[derive(Debug, Default)]
struct DraftGroup {
    active: i64,
    started: u32,
    turn: u64,
    taken: Option<PendingKey>,
    offered: BTreeSet<PendingKey>,
    standing: Option<ReadyKey>,
}

/// Whether this many may be active, and this many more start.
fn has_room(most: Option<u32>, active: i64, open: impl FnOnce(Rate) -> u32, rate: Option<Rate>, started: u32) -> bool {
    most.is_none_or(|most| active < i64::from(most)) && rate.is_none_or(|rate| open(rate) > started)
}

/// How many may start now.
fn open(meter: &Meter, fresh: bool, rate: Rate, now: Timestamp) -> u32 {
    if fresh { Meter::default().available(rate, now) } else { meter.available(rate, now) }
}

impl DraftQueue {
    /// Puts other settings in place. Groups that were passed over may stand under these, and a rate counts from when it was
    /// set.
    pub(crate) fn set(&mut self, settings: QueueSettings, before: &QueueSettings) {
        if settings.rate != before.rate {
            (self.fresh_meter, self.started) = (true, 0);
        }
        if settings.group_rate != before.group_rate {
            self.fresh_group_meters = true;
            self.groups.values_mut().for_each(|group| group.started = 0);
        }
        self.settings = Some(settings);
        self.passed = None;
    }

    /// Whether clearing or destroying the queue took a job of the state.
    pub(crate) fn has_taken(&self, job: &Job) -> bool {
        self.destroyed || self.cleared && job.state != JobState::Active
    }

    /// The draft of a group of the state.
    fn touch(&mut self, stored: &Group, number: u32) -> &mut DraftGroup {
        self.groups.entry(number).or_insert_with(|| DraftGroup { turn: stored.turn, ..DraftGroup::default() })
    }

    pub(crate) fn add_active(&mut self, stored: Option<&Queue>, group: u32, by: i64) {
        self.active += by;
        if let Some(stored) = stored.filter(|_| group != GROUP_UNKNOWN) {
            self.touch(stored.groups.get(group), group).active += by;
            self.stand(stored, group);
        }
    }

    /// Hands a job back that became pending.
    pub(crate) fn offer(&mut self, stored: Option<&Queue>, id: JobId, job: &Job) {
        if let Some(stored) = stored.filter(|_| job.group != GROUP_UNKNOWN) {
            let (cleared, turn) = (self.cleared, stored.groups.turns + self.turns + 1);
            let group = stored.groups.get(job.group);
            let draft = self.touch(group, job.group);
            if draft.first(group, cleared).is_none() {
                draft.turn = turn;
            }
            draft.offered.insert((core::cmp::Reverse(job.priority), id));
            self.turns += 1;
            self.stand(stored, job.group);
        }
    }

    /// Takes back what was [offered](DraftQueue::offer), if it was.
    pub(crate) fn withdraw(&mut self, stored: Option<&Queue>, id: JobId, job: &Job) {
        if let Some(stored) = stored
            && let Some(draft) = self.groups.get_mut(&job.group)
            && draft.offered.remove(&(core::cmp::Reverse(job.priority), id))
        {
            self.stand(stored, job.group);
        }
    }

    /// Puts a touched group where it may stand; whether it is at its limits is looked at when its turn has come.
    fn stand(&mut self, stored: &Queue, number: u32) {
        let cleared = self.cleared;
        let draft = self.groups.get_mut(&number).expect("a touched group");
        let first = draft.first(stored.groups.get(number), cleared);
        let standing = first.map(|((urgency, _), _)| (urgency, draft.turn, number));
        if let Some(before) = core::mem::replace(&mut draft.standing, standing) {
            self.ready.remove(&before);
        }
        standing.map(|standing| self.ready.insert(standing));
    }

    /// Takes the next job. `may_run` says of a job whether it may be handed out: one of the state (`false`), or one that
    /// became pending in this commit.
    pub(crate) fn take(
        &mut self,
        stored: &Queue,
        settings: &QueueSettings,
        now: Timestamp,
        may_run: impl Fn(JobId, bool) -> bool,
    ) -> Option<JobId> {
        let active = stored.leased.len() as i64 + self.active;
        let open = |rate| open(&stored.meter, self.fresh_meter, rate, now);
        if settings.paused
            || self.destroyed
            || !has_room(settings.active_max, active, open, settings.rate, self.started)
        {
            return None;
        }
        self.thaw(stored, now);
        loop {
            self.touch_next(stored);
            let (_, _, number) = self.ready.first().copied()?;
            if let Some(id) = self.take_of(stored, number, settings, now, &may_run) {
                return Some(id);
            }
        }
    }

    /// Touches the groups whose rate has opened since the last entry.
    fn thaw(&mut self, stored: &Queue, now: Timestamp) {
        if core::mem::replace(&mut self.thawed, true) {
            return;
        }
        for (_, number) in stored.groups.waiting.iter().take_while(|(until, _)| *until <= now) {
            self.touch(stored.groups.get(*number), *number);
            self.stand(stored, *number);
        }
    }

    /// Touches the first group of the state that is not, when it comes before all that are.
    fn touch_next(&mut self, stored: &Queue) {
        if self.settings.is_some() {
            // Other limits let other groups stand: all of them are looked at.
            if self.passed.replace((core::cmp::Reverse(crate::Priority::new(0)), u64::MAX, u32::MAX)).is_none() {
                for (number, group) in stored.groups.iter() {
                    self.touch(group, number);
                    self.stand(stored, number);
                }
            }
            return;
        }
        let from = self.passed.map_or(Bound::Unbounded, Bound::Excluded);
        let untouched = |key: &&ReadyKey| !self.groups.contains_key(&key.2);
        let Some(next) = stored.groups.ready.range((from, Bound::Unbounded)).find(untouched).copied() else { return };
        if self.ready.first().is_none_or(|first| next < *first) {
            self.passed = Some(next);
            self.touch(stored.groups.get(next.2), next.2);
            self.stand(stored, next.2);
        }
    }

    /// Takes the next job of a group that has its turn. `None` when it has none to give after all: it stands elsewhere then.
    fn take_of(
        &mut self,
        stored: &Queue,
        number: u32,
        settings: &QueueSettings,
        now: Timestamp,
        may_run: impl Fn(JobId, bool) -> bool,
    ) -> Option<JobId> {
        let cleared = self.cleared;
        let group = stored.groups.get(number);
        let fresh = self.fresh_group_meters;
        let draft = self.groups.get_mut(&number).expect("a touched group");
        let open = |rate| open(&group.meter, fresh, rate, now);
        let active = i64::from(group.active) + draft.active;
        if !has_room(settings.group_active_max, active, open, settings.group_rate, draft.started) {
            let standing = draft.standing.take();
            standing.map(|standing| self.ready.remove(&standing));
            return None;
        }
        while let Some((key, offered)) = draft.first(group, cleared) {
            let runs = may_run(key.1, offered);
            if runs && draft.standing.is_some_and(|(urgency, ..)| urgency != key.0) {
                // It had its turn for a job that is gone: others may be more urgent than the next.
                break;
            }
            if offered {
                draft.offered.remove(&key);
            } else {
                draft.taken = Some(key);
            }
            if runs {
                self.turns += 1;
                self.started += 1;
                draft.started += 1;
                draft.turn = stored.groups.turns + self.turns;
                self.stand(stored, number);
                return Some(key.1);
            }
        }
        self.stand(stored, number);
        None
    }
}

impl DraftGroup {
    /// The next job of the group, and whether it became pending in this commit.
    fn first(&self, stored: &Group, cleared: bool) -> Option<(PendingKey, bool)> {
        let from = self.taken.map_or(Bound::Unbounded, Bound::Excluded);
        let stored = if cleared { None } else { stored.pending.range((from, Bound::Unbounded)).next() };
        match (self.offered.first(), stored) {
            (Some(offered), Some(stored)) if offered < stored => Some((*offered, true)),
            (_, Some(stored)) => Some((*stored, false)),
            (Some(offered), None) => Some((*offered, true)),
            (None, None) => None,
        }
    }
}
