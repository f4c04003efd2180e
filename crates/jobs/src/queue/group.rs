//! The groups of a queue: their order, and their limits.
//!
//! A group exists as long as it has jobs, or starts that its rate still counts. The unnamed group
//! always exists; in most queues it has all jobs. Groups with a job to fetch are in `ready`, in the
//! order of service: the most urgent job decides, then the longest wait since the group was served.
//! A group at a limit is not in `ready`, so a fetch never has to skip it.
//!
//! One entry changes many jobs of a group. A group is therefore placed once: when another group is
//! changed, or at the end of the entry ([`Groups::settle`]).

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem;

use quire_model::Timestamp;

use super::rate::Meter;
use crate::ordered::{OrderedKey, OrderedMap};
use crate::{JobId, Priority, QueueSettings};

/// The order in which a group's jobs are fetched.
pub(crate) type PendingKey = (Reverse<Priority>, JobId);

/// The order in which groups are served: urgency, turn, number.
pub(crate) type ReadyKey = (Reverse<Priority>, u64, u32);

impl OrderedKey for PendingKey {}

impl OrderedKey for ReadyKey {}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueGroup {
    pub(crate) name: Box<str>,
    /// Its jobs that may be fetched, the next one first.
    pub(crate) pending: OrderedMap<PendingKey>,
    pub(crate) active: u32,
    /// The number of its jobs that are neither pending nor active.
    pub(crate) resting: u64,
    /// When it was served last, or last began to wait, in turns of the queue.
    pub(crate) turn: u64,
    pub(crate) meter: Meter,
    standing: GroupPlace,
}

/// The place of a group in the order of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupPlace {
    /// In no order: it has no pending jobs, or is at its limit of active ones.
    Aside,
    /// In `ready`.
    Ready(Reverse<Priority>, u64),
    /// In `waiting`, until its rate opens or its meter has run down.
    Waiting(Timestamp),
}

/// The groups of a queue, by number. The number of a removed group is given again, the least free
/// one first, so that groups have the same numbers after a restart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    slots: Vec<Option<QueueGroup>>,
    free: BTreeSet<u32>,
    /// The group without a name, which needs no search.
    unnamed: Option<u32>,
    /// The others.
    numbers: BTreeMap<Box<str>, u32>,
    pub(crate) ready: OrderedMap<ReadyKey>,
    /// Groups that time will change.
    pub(crate) waiting: BTreeSet<(Timestamp, u32)>,
    /// The number of turns up to now.
    pub(crate) turns: u64,
    /// The last changed group, whose place may be outdated; `None` between entries.
    unsettled: Option<u32>,
    /// The memory of the groups with a name, by [`group_memory`].
    memory: u64,
}

/// The memory of a group with a name of `bytes` bytes: two copies, its jobs' map and its places.
pub(crate) const fn group_memory(bytes: usize) -> u64 {
    512 + 2 * bytes as u64
}

impl QueueGroup {
    fn new(name: &str) -> Self {
        QueueGroup {
            name: name.into(),
            pending: OrderedMap::default(),
            active: 0,
            resting: 0,
            turn: 0,
            meter: Meter::default(),
            standing: GroupPlace::Aside,
        }
    }

    /// Whether it is the group without a name, and remembers only its turn.
    fn is_idle(&self) -> bool {
        let is_empty = self.pending.is_empty() && self.active == 0 && self.resting == 0;
        self.name.is_empty() && is_empty && self.standing == GroupPlace::Aside && self.meter == Meter::new()
    }

    fn standing_at(&self, settings: &QueueSettings, now: Timestamp) -> GroupPlace {
        let idle_at = settings.group_rate.map_or(Timestamp::ZERO, |rate| self.meter.idle_at(rate));
        let Some(((urgency, _), ())) = self.pending.first() else {
            let kept_by_meter = self.active == 0 && self.resting == 0 && idle_at > now;
            return if kept_by_meter { GroupPlace::Waiting(idle_at) } else { GroupPlace::Aside };
        };
        if settings.group_active_max.is_some_and(|most| self.active >= most) {
            return GroupPlace::Aside;
        }
        let opens_at = settings.group_rate.map_or(Timestamp::ZERO, |rate| self.meter.opens_at(rate));
        if opens_at > now { GroupPlace::Waiting(opens_at) } else { GroupPlace::Ready(*urgency, self.turn) }
    }
}

/// The turns of groups without a job: all that such groups remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IdleTurns {
    turns: u64,
    /// The turn of the unnamed group, if it exists. It is then the only group.
    unnamed: Option<u64>,
}

impl IdleTurns {
    pub(crate) const NONE: IdleTurns = IdleTurns { turns: 0, unnamed: None };

    /// The groups with these turns.
    pub(crate) fn groups(self) -> Groups {
        let mut groups = Groups { turns: self.turns, ..Groups::new() };
        if let Some(turn) = self.unnamed {
            groups.slots.reserve_exact(1);
            groups.restore(Some(("", Meter::new())));
            groups.set_turn(0, turn);
        }
        groups
    }
}

impl Groups {
    pub(crate) const fn new() -> Self {
        Groups {
            slots: Vec::new(),
            free: BTreeSet::new(),
            unnamed: None,
            numbers: BTreeMap::new(),
            ready: OrderedMap::new(),
            waiting: BTreeSet::new(),
            turns: 0,
            unsettled: None,
            memory: 0,
        }
    }

    /// Returns the memory of the groups with a name.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Their turns; `None` when they remember more.
    pub(crate) fn idle(&self) -> Option<IdleTurns> {
        let unnamed = match &self.slots[..] {
            [] => None,
            [Some(group)] if group.is_idle() => Some(group.turn),
            _ => return None,
        };
        (self.unsettled.is_none() && self.waiting.is_empty()).then_some(IdleTurns { turns: self.turns, unnamed })
    }

    /// Sets when a group was served last.
    pub(crate) fn set_turn(&mut self, number: u32, turn: u64) {
        self.slots[number as usize].as_mut().expect("a group that is named is there").turn = turn;
    }

    pub(crate) fn get(&self, number: u32) -> &QueueGroup {
        self.slots[number as usize].as_ref().expect("a named group exists")
    }

    /// Whether there is a group of this number.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.slots.get(number as usize).is_some_and(Option::is_some)
    }

    /// The number of the group of this name, when there is one.
    #[inline]
    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        if name.is_empty() { self.unnamed } else { self.numbers.get(name).copied() }
    }

    /// The group with this name; created when missing.
    pub(crate) fn intern(&mut self, name: &str) -> u32 {
        if let Some(number) = self.number(name) {
            return number;
        }
        let number = self.free.pop_first().unwrap_or_else(|| {
            // Most queues have one group.
            self.slots.reserve_exact(usize::from(self.slots.is_empty()));
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("there are fewer groups than jobs")
        });
        self.put(number, QueueGroup::new(name));
        number
    }

    /// Puts a group under a free number.
    fn put(&mut self, number: u32, group: QueueGroup) {
        if group.name.is_empty() {
            self.unnamed = Some(number);
        } else {
            self.memory += group_memory(group.name.len());
            self.numbers.insert(group.name.clone(), number);
        }
        self.slots[number as usize] = Some(group);
    }

    /// Restores the next group under the next number. `None` leaves the number free.
    pub(crate) fn restore(&mut self, group: Option<(&str, Meter)>) {
        let number = u32::try_from(self.slots.len()).expect("a group's number");
        self.slots.push(None);
        match group {
            None => {
                self.free.insert(number);
            }
            Some((name, meter)) => self.put(number, QueueGroup { meter, ..QueueGroup::new(name) }),
        }
    }

    pub(crate) fn slots(&self) -> &[Option<QueueGroup>] {
        &self.slots
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &QueueGroup)> {
        (0..).zip(&self.slots).filter_map(|(number, group)| Some((number, group.as_ref()?)))
    }

    /// When the rate of the first group with jobs opens.
    pub(crate) fn opens_at(&self) -> Option<Timestamp> {
        self.waiting.iter().find(|(_, number)| !self.get(*number).pending.is_empty()).map(|(until, _)| *until)
    }

    /// The next turn.
    pub(crate) fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    /// Changes a group. A group that becomes ready joins the end of the order. The caller
    /// [releases](Groups::release) a group after taking its last job, and [settles](Groups::settle)
    /// it after the last change.
    pub(crate) fn change(
        &mut self,
        number: u32,
        settings: &QueueSettings,
        now: Timestamp,
        change: impl FnOnce(&mut QueueGroup),
    ) {
        if self.unsettled != Some(number) {
            self.settle(settings, now);
            self.unsettled = Some(number);
        }
        let group = self.slots[number as usize].as_mut().expect("a named group exists");
        let was_empty = group.pending.is_empty();
        change(group);
        if was_empty && !group.pending.is_empty() {
            self.turns += 1;
            group.turn = self.turns;
        }
    }

    /// Moves the last changed group to its current place.
    pub(crate) fn settle(&mut self, settings: &QueueSettings, now: Timestamp) {
        if let Some(number) = self.unsettled.take() {
            self.settle_group(number, settings, now);
        }
    }

    fn settle_group(&mut self, number: u32, settings: &QueueSettings, now: Timestamp) {
        let group = self.slots[number as usize].as_mut().expect("a named group exists");
        let before = group.standing;
        let after = group.standing_at(settings, now);
        group.standing = after;
        if before != after {
            self.unstand(number, before);
            self.stand(number, after);
        }
    }

    /// Lets a group go that has no jobs, and no starts that still count.
    pub(crate) fn release(&mut self, number: u32, settings: &QueueSettings, now: Timestamp) {
        let group = self.get(number);
        if !group.pending.is_empty() || group.active > 0 || group.resting > 0 || group.name.is_empty() {
            return;
        }
        self.settle(settings, now);
        if !matches!(self.get(number).standing, GroupPlace::Waiting(_)) {
            self.drop_group(number);
        }
    }

    fn stand(&mut self, number: u32, standing: GroupPlace) {
        match standing {
            GroupPlace::Aside => {}
            GroupPlace::Ready(urgency, turn) => {
                assert!(self.ready.add((urgency, turn, number)), "a group stands once")
            }
            GroupPlace::Waiting(until) => assert!(self.waiting.insert((until, number)), "a group waits once"),
        }
    }

    fn unstand(&mut self, number: u32, standing: GroupPlace) {
        match standing {
            GroupPlace::Aside => {}
            GroupPlace::Ready(urgency, turn) => {
                assert!(self.ready.take(&(urgency, turn, number)), "a group stood there")
            }
            GroupPlace::Waiting(until) => assert!(self.waiting.remove(&(until, number)), "a group waited"),
        }
    }

    fn drop_group(&mut self, number: u32) {
        if let Some(group) = self.slots[number as usize].take() {
            self.numbers.remove(&group.name);
            self.memory -= group_memory(group.name.len());
        }
        self.free.insert(number);
        while let Some(None) = self.slots.last() {
            self.slots.pop();
            self.free.remove(&u32::try_from(self.slots.len()).expect("a group's number"));
        }
    }

    /// Takes out the jobs that are not active, and returns those that are pending by the numbers of
    /// their groups. With `also_active`, the active jobs go as well.
    pub(crate) fn take_waiting(
        &mut self,
        settings: &QueueSettings,
        now: Timestamp,
        also_active: bool,
    ) -> BTreeMap<u32, OrderedMap<PendingKey>> {
        self.settle(settings, now);
        let numbers: Vec<u32> = self.iter().map(|(number, _)| number).collect();
        let mut taken = BTreeMap::new();
        for number in numbers {
            let group = self.slots[number as usize].as_mut().expect("the slot has a group");
            let pending = mem::take(&mut group.pending);
            group.resting = 0;
            if also_active {
                group.active = 0;
            }
            if !pending.is_empty() {
                taken.insert(number, pending);
            }
            self.settle_group(number, settings, now);
            self.release(number, settings, now);
        }
        taken
    }

    /// Moves the groups that time has changed to their current places.
    pub(crate) fn thaw(&mut self, settings: &QueueSettings, now: Timestamp) {
        while let Some((_, number)) = self.waiting.first().filter(|(until, _)| *until <= now).copied() {
            self.settle_group(number, settings, now);
            self.release(number, settings, now);
        }
    }

    /// Moves every group to its place under new settings. `fresh_meters`: whether the rate changed.
    pub(crate) fn resettle(&mut self, settings: &QueueSettings, now: Timestamp, fresh_meters: bool) {
        let numbers: Vec<u32> = self.iter().map(|(number, _)| number).collect();
        for number in numbers {
            if fresh_meters {
                self.slots[number as usize].as_mut().expect("the slot has a group").meter = Meter::default();
            }
            self.settle_group(number, settings, now);
            self.release(number, settings, now);
        }
    }
}
