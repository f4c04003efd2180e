//! Named subscriptions: matches become jobs of the queue of the same name, each once.

use super::{Draft, Job, Naive, NaivePayload, NaiveReply, Part, Phase, Rival};

/// The default settings of a delivered job.
const PRIORITY: u8 = 128;
const ATTEMPTS_MAX: u16 = 5;

/// A named subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) store: usize,
    pub(crate) tag: usize,
    /// Matches up to here were delivered.
    pub(crate) position: u64,
}

impl Naive {
    /// The pending deliveries of the records up to `published`: a commit for each subscription.
    /// Each is readable immediately or not.
    pub(crate) fn deliveries(&self, published: u64, at_once: bool) -> Vec<Part> {
        let mut all_can_be_read = self.records <= published;
        let of = |(&name, subscription): (&usize, &Subscription)| {
            let events = &self.stores.get(&subscription.store)?.events;
            let events = || (1..).zip(events).take_while(|(_, event)| event.record <= published);
            let is_new = |at: u64| at > subscription.position;
            let matches = events().filter(|(at, event)| is_new(*at) && event.tag == subscription.tag && !event.gone);
            let positions: Vec<u64> = matches.map(|(at, _)| at).collect();
            // After all scanned records, if all are readable.
            let last = *positions.last()?;
            let to = if all_can_be_read { events().count() as u64 } else { last };
            all_can_be_read &= at_once;
            Some(Part::Deliver { name, positions, to })
        };
        self.subscriptions.iter().filter_map(of).collect()
    }
}

impl Draft {
    pub(super) fn subscribe(
        &mut self,
        name: usize,
        store: usize,
        tag: usize,
        after: Option<u64>,
    ) -> Option<NaiveReply> {
        let there = self.after.subscriptions.get(&name).copied();
        there.is_none_or(|there| there.store == store).then_some(())?;
        let head = self.after.stores.get(&store).map_or(0, |store| store.events.len() as u64);
        let position = after.or(there.map(|there| there.position)).unwrap_or(0);
        (position <= head).then_some(())?;
        (!self.after.rivals.contains(&Rival::Queue(name))).then_some(())?;
        self.has_store_name(store)?;
        self.effects = true;
        self.after.stores.entry(store).or_default();
        self.after.subscriptions.insert(name, Subscription { store, tag, position });
        self.after.subscribed.insert(name);
        Some(NaiveReply::NOTHING)
    }

    pub(super) fn unsubscribe(&mut self, name: usize) -> Option<NaiveReply> {
        self.after.subscriptions.remove(&name)?;
        self.effects = true;
        Some(NaiveReply::NOTHING)
    }

    pub(super) fn deliver(&mut self, name: usize, positions: &[u64], to: u64) -> Option<NaiveReply> {
        let subscription = self.after.subscriptions.get_mut(&name)?;
        subscription.position = to;
        let store = subscription.store;
        (self.effects, self.delivers) = (true, true);
        self.after.queues.insert(name);
        self.after.jobs.extend(positions.iter().map(|position| Job {
            queue: name,
            priority: PRIORITY,
            attempt: 0,
            attempts_max: ATTEMPTS_MAX,
            carries: NaivePayload::Event { store, position: *position },
            phase: Phase::Pending,
            is_lost: false,
        }));
        Some(NaiveReply::Done)
    }
}
