//! The changes of a commit to the order of a queue: the jobs that it has fetched, and the next
//! group.
//!
//! The order in the state is read unchanged; groups that the commit has touched have an order of
//! their own, and the two are merged. A pending job is returned at most once: each touched group
//! scans its stored jobs once, and `offered` holds the jobs that became pending in this commit.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::iter::Peekable;

use quire_model::Timestamp;

use super::table::Table;
use crate::job::Job;
use crate::ordered::OrderedKeys;
use crate::queue::{Meter, PendingKey, Queue, QueueGroup, ReadyKey};
use crate::{JobId, JobState, QueueSettings, Rate};

/// The number of the group of a job that this commit put into its queue. One that is active counts
/// in its group, so it has the group's own number when the state has the group.
pub(crate) const GROUP_UNKNOWN: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct DraftQueue<'d> {
    /// The queue in the state; `None` when this commit created it.
    stored: Option<&'d Queue>,
    /// Other settings than the state's.
    settings: Option<Box<QueueSettings>>,
    /// Whether its waiting jobs are cancelled; when it is destroyed, all.
    pub(crate) cleared: bool,
    pub(crate) destroyed: bool,
    /// The change of the number of unfinished jobs.
    pub(crate) live: i64,
    /// The change of the number of active jobs.
    active: i64,
    /// The number of started jobs. After this commit set a rate, it counts from there, and the
    /// state's meter no longer counts.
    started: u32,
    fresh_meter: bool,
    fresh_group_meters: bool,
    turns: u64,
    groups: Table<u32, DraftGroup<'d>>,
    /// The touched groups that have jobs, in their order.
    ready: ReadyGroups,
    /// The rest of the state's order.
    untouched: Option<Peekable<OrderedKeys<'d, ReadyKey>>>,
    /// Whether all groups of the state are touched.
    all_touched: bool,
    thawed: bool,
}

#[derive(Debug)]
struct DraftGroup<'d> {
    stored: &'d QueueGroup,
    /// The change of the number of active jobs. It is counted while there is a limit.
    active: i64,
    started: u32,
    turn: u64,
    /// The rest of the state's pending jobs, once some were taken.
    rest: Option<Peekable<OrderedKeys<'d, PendingKey>>>,
    offered: BTreeSet<PendingKey>,
    standing: Option<ReadyKey>,
}

/// Groups in the order in which they are served. The first is stored apart: most commits touch one
/// group.
#[derive(Debug, Default)]
struct ReadyGroups {
    first: Option<ReadyKey>,
    others: BTreeSet<ReadyKey>,
}

impl ReadyGroups {
    fn insert(&mut self, key: ReadyKey) {
        match self.first {
            None => self.first = Some(key),
            Some(first) if key < first => {
                self.others.insert(first);
                self.first = Some(key);
            }
            Some(_) => drop(self.others.insert(key)),
        }
    }

    fn remove(&mut self, key: &ReadyKey) {
        if self.first == Some(*key) {
            self.first = self.others.pop_first();
        } else {
            self.others.remove(key);
        }
    }
}

/// Whether this many may be active, and this many more start.
fn has_room(most: Option<u32>, active: i64, open: impl FnOnce(Rate) -> u32, rate: Option<Rate>, started: u32) -> bool {
    most.is_none_or(|most| active < i64::from(most)) && rate.is_none_or(|rate| open(rate) > started)
}

/// Returns the number of jobs that may start now.
fn open(meter: &Meter, fresh: bool, rate: Rate, now: Timestamp) -> u32 {
    if fresh { Meter::default().available(rate, now) } else { meter.available(rate, now) }
}

impl<'d> DraftQueue<'d> {
    pub(crate) fn new(stored: Option<&'d Queue>) -> Self {
        DraftQueue {
            stored,
            settings: None,
            cleared: false,
            destroyed: false,
            live: 0,
            active: 0,
            started: 0,
            fresh_meter: false,
            fresh_group_meters: false,
            turns: 0,
            groups: Table::default(),
            ready: ReadyGroups::default(),
            untouched: None,
            all_touched: false,
            thawed: false,
        }
    }

    /// The settings of the queue; `None` when it has had none yet.
    fn set_settings(&self) -> Option<&QueueSettings> {
        self.settings.as_deref().or(self.stored.map(|stored| &stored.settings))
    }

    pub(crate) fn settings(&self) -> QueueSettings {
        self.set_settings().copied().unwrap_or_default()
    }

    /// Applies other settings. Groups that were at a limit may be below the new one, and a rate
    /// counts from the time of its setting.
    pub(crate) fn set(&mut self, settings: QueueSettings) {
        let before = self.settings();
        if settings.rate != before.rate {
            (self.fresh_meter, self.started) = (true, 0);
        }
        if settings.group_rate != before.group_rate {
            self.fresh_group_meters = true;
            self.groups.values_mut().for_each(|group| group.started = 0);
        }
        self.settings = Some(settings.into());
        self.all_touched = false;
    }

    /// Recounts the active jobs of the groups; `changes` are the differences that the commit makes.
    pub(crate) fn recount(&mut self, changes: impl Iterator<Item = (u32, i64)>) {
        self.groups.values_mut().for_each(|group| group.active = 0);
        let Some(stored) = self.stored else { return };
        for (group, by) in changes.filter(|(group, _)| *group != GROUP_UNKNOWN) {
            self.touch(stored, group).active += by;
        }
    }

    /// Whether clearing or destroying the queue took a job of the state.
    pub(crate) fn has_taken(&self, job: &Job) -> bool {
        self.destroyed || self.cleared && job.state != JobState::Active
    }

    /// The draft of a group of the state.
    fn touch(&mut self, stored: &'d Queue, number: u32) -> &mut DraftGroup<'d> {
        self.groups.get_or(number, || DraftGroup::new(stored.groups.get(number)))
    }

    /// Returns the change of the number of active jobs.
    pub(crate) fn active(&self) -> i64 {
        self.active
    }

    pub(crate) fn add_active(&mut self, group: u32, by: i64) {
        self.active += by;
        if let Some(stored) = self.stored.filter(|_| group != GROUP_UNKNOWN)
            && self.set_settings().is_some_and(|settings| settings.group_active_max.is_some())
        {
            self.touch(stored, group).active += by;
            self.stand(group);
        }
    }

    /// Hands a job back that became pending.
    pub(crate) fn offer(&mut self, id: JobId, job: &Job) {
        if let Some(stored) = self.stored.filter(|_| job.group != GROUP_UNKNOWN) {
            let (cleared, turn) = (self.cleared, stored.groups.turns + self.turns + 1);
            let draft = self.touch(stored, job.group);
            if draft.first(cleared).is_none() {
                draft.turn = turn;
            }
            draft.offered.insert((core::cmp::Reverse(job.priority), id));
            self.turns += 1;
            self.stand(job.group);
        }
    }

    /// Withdraws a job that was [offered](DraftQueue::offer).
    pub(crate) fn withdraw(&mut self, id: JobId, job: &Job) {
        if let Some(draft) = self.groups.get_mut(job.group)
            && draft.offered.remove(&(core::cmp::Reverse(job.priority), id))
        {
            self.stand(job.group);
        }
    }

    /// Inserts a touched group at its place in the order. Its limits are checked when its turn
    /// comes.
    fn stand(&mut self, number: u32) {
        let draft = self.groups.get_mut(number).expect("a touched group");
        let first = draft.first(self.cleared);
        let standing = first.map(|((urgency, _), _)| (urgency, draft.turn, number));
        let before = core::mem::replace(&mut draft.standing, standing);
        if before != standing {
            before.into_iter().for_each(|before| self.ready.remove(&before));
            standing.into_iter().for_each(|standing| self.ready.insert(standing));
        }
    }

    /// Takes the next job. `may_run` gives a job if it may be handed out: one of the state
    /// (`false`), or one that became pending in this commit.
    pub(crate) fn take<'j>(
        &mut self,
        now: Timestamp,
        may_run: impl Fn(JobId, bool) -> Option<&'j Job>,
    ) -> Option<(JobId, &'j Job)> {
        let (stored, settings) = (self.stored?, self.settings());
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
            let (_, _, number) = self.ready.first?;
            if let Some(taken) = self.take_of(stored, number, &settings, now, &may_run) {
                return Some(taken);
            }
        }
    }

    /// Touches the groups whose rate has opened since the last entry.
    fn thaw(&mut self, stored: &'d Queue, now: Timestamp) {
        if core::mem::replace(&mut self.thawed, true) {
            return;
        }
        for (_, number) in stored.groups.waiting.iter().take_while(|(until, _)| *until <= now) {
            self.touch(stored, *number);
            self.stand(*number);
        }
    }

    /// Touches the first untouched group of the state, if it precedes all touched groups.
    fn touch_next(&mut self, stored: &'d Queue) {
        if self.settings.is_some() {
            // New limits can make any group ready, so all groups are checked.
            if !core::mem::replace(&mut self.all_touched, true) {
                for (number, _) in stored.groups.iter() {
                    self.touch(stored, number);
                    self.stand(number);
                }
            }
            return;
        }
        let untouched = self.untouched.get_or_insert_with(|| stored.groups.ready.keys().peekable());
        while untouched.next_if(|(.., number)| self.groups.contains(*number)).is_some() {}
        let Some((.., number)) = untouched.next_if(|next| self.ready.first.is_none_or(|first| **next < first)).copied()
        else {
            return;
        };
        self.touch(stored, number);
        self.stand(number);
    }

    /// Takes the next job of the group whose turn it is. `None` when the group has no job to run;
    /// it then moved in the order.
    fn take_of<'j>(
        &mut self,
        stored: &Queue,
        number: u32,
        settings: &QueueSettings,
        now: Timestamp,
        may_run: impl Fn(JobId, bool) -> Option<&'j Job>,
    ) -> Option<(JobId, &'j Job)> {
        let (cleared, fresh) = (self.cleared, self.fresh_group_meters);
        let draft = self.groups.get_mut(number).expect("a touched group");
        let meter = &draft.stored.meter;
        let active = i64::from(draft.stored.active) + draft.active;
        let open = |rate| open(meter, fresh, rate, now);
        if !has_room(settings.group_active_max, active, open, settings.group_rate, draft.started) {
            let standing = draft.standing.take();
            standing.into_iter().for_each(|standing| self.ready.remove(&standing));
            return None;
        }
        while let Some((key, offered)) = draft.first(cleared) {
            let job = may_run(key.1, offered);
            if job.is_some() && draft.standing.is_some_and(|(urgency, ..)| urgency != key.0) {
                // The group had its turn because of a deleted job. Other groups may be more urgent
                // than its next job.
                break;
            }
            draft.pass_over(key, offered);
            if let Some(job) = job {
                self.turns += 1;
                self.started += 1;
                draft.started += 1;
                draft.turn = stored.groups.turns + self.turns;
                self.stand(number);
                return Some((key.1, job));
            }
        }
        self.stand(number);
        None
    }
}

impl<'d> DraftGroup<'d> {
    fn new(stored: &'d QueueGroup) -> Self {
        let (turn, offered) = (stored.turn, BTreeSet::new());
        DraftGroup { stored, active: 0, started: 0, turn, rest: None, offered, standing: None }
    }

    /// The next job of the group, and whether it became pending in this commit.
    #[inline]
    fn first(&mut self, cleared: bool) -> Option<(PendingKey, bool)> {
        let rest = self.rest.get_or_insert_with(|| self.stored.pending.keys().peekable());
        let stored = if cleared { None } else { rest.peek().copied() };
        match (self.offered.first(), stored) {
            (Some(offered), Some(stored)) if offered < stored => Some((*offered, true)),
            (_, Some(stored)) => Some((*stored, false)),
            (Some(offered), None) => Some((*offered, true)),
            (None, None) => None,
        }
    }

    /// Continues after the [first](DraftGroup::first) job.
    fn pass_over(&mut self, key: PendingKey, offered: bool) {
        if offered {
            self.offered.remove(&key);
        } else {
            self.rest.as_mut().and_then(Iterator::next);
        }
    }
}
