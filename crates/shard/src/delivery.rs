//! Delivery: what named subscriptions ask for becomes jobs of the queue of the same name.
//!
//! A subscription is a question and a position; leases, attempts, dead letters and limits are those of queues, and there is no second
//! mechanism for them. One thread reads behind each position, and in one commit enqueues a job for each match and moves the
//! position: so each match becomes one job, in the order of the events, whoever else delivers and whenever a process dies. Writers wait for none
//! of it. It delivers only as far ahead as a queue has room, so a slow subscriber costs a queue of a bounded length.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire_log::Clock;
use quire_model::Position;

use crate::decide::{Commands, Replies};
use crate::duty::Duty;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{self, Attempts, EventPosition, MoveSubscription, ReadOptions, Subscription};
use crate::jobs::{self, Backoff, JobState, NewJob};
use crate::refusal::Reason;
use crate::shard::Shard;

/// A queue holds at most so many unfinished jobs for delivery to go on, ...
const AHEAD_JOBS_LOW: u64 = 512;

/// ... and then gets at most so many in one commit.
const DELIVERED_AT_ONCE: usize = 512;

/// About what a job takes in the log beside its payload, its kind and its group.
const JOB_BYTES: usize = 96;

/// A position is moved over so many events of which none matches; fewer are looked at again after a restart.
const MOVED_OVER_EVENTS: u64 = 10_000;

/// How long it leaves off after a failure, such as a full disk.
const REST: Duration = Duration::from_secs(1);

/// The event that a job of a subscription is about: the job's payload, as JSON.
///
/// ```
/// use quire::EventRef;
///
/// let event: EventRef = r#"{"store":"air/flights","position":7}"#.parse()?;
/// assert_eq!((event.store.as_str(), event.position.get()), ("air/flights", 7));
/// assert_eq!(event.to_string(), r#"{"store":"air/flights","position":7}"#);
/// # Ok::<(), quire::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRef {
    /// The name of the store.
    pub store: String,
    /// The position in it.
    pub position: EventPosition,
}

impl std::fmt::Display for EventRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No character of a store's name needs an escape.
        write!(f, "{{\"store\":\"{}\",\"position\":{}}}", self.store, self.position)
    }
}

impl FromStr for EventRef {
    type Err = Error;

    /// Reads what [`EventRef`] displays.
    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (store, rest) = text.strip_prefix("{\"store\":\"")?.split_once("\",\"position\":")?;
            let position = rest.strip_suffix('}')?.parse().ok()?;
            Some(EventRef { store: store.to_owned(), position: EventPosition::new(position) })
        };
        parse().ok_or_else(|| Error::new(ErrorKind::Invalid, "the payload of the job names no event"))
    }
}

/// Whether there is something to deliver.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    pending: Mutex<Pending>,
    changed: Condvar,
    /// How far was looked, of subscriptions whose position was not moved because nothing matched.
    looked: Mutex<BTreeMap<String, (Subscription, EventPosition)>>,
}

#[derive(Debug, Default)]
struct Pending {
    /// Something may be delivered once this is published.
    asked: Option<Position>,
    stop: bool,
}

impl Deliveries {
    /// There may be something to deliver once this is published.
    pub(crate) fn ask(&self, position: Position) {
        let mut pending = self.lock();
        pending.asked = Some(pending.asked.map_or(position, |known| known.max(position)));
        drop(pending);
        self.changed.notify_all();
    }

    /// The thread is to end.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_all();
    }

    /// Takes what was asked for.
    pub(crate) fn take(&self) -> Option<Position> {
        self.lock().asked.take()
    }

    /// Waits until something is asked for; `None` at the end.
    pub(crate) fn next(&self) -> Option<Position> {
        let idle = |pending: &mut Pending| pending.asked.is_none() && !pending.stop;
        let waited = self.changed.wait_while(self.lock(), idle);
        let mut pending = waited.unwrap_or_else(PoisonError::into_inner);
        if pending.stop { None } else { pending.asked.take() }
    }

    /// Waits before what failed is tried again.
    fn rest(&self) {
        let waited = self.changed.wait_timeout_while(self.lock(), REST, |pending| !pending.stop);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn looked(&self) -> MutexGuard<'_, BTreeMap<String, (Subscription, EventPosition)>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be read for a subscription.
struct Looking {
    subscription: Subscription,
    store: String,
    selection: events::Selection,
    after: EventPosition,
    /// Whether all that the state rests on can be read.
    is_published: bool,
    /// As many matches as the queue has room for, and one commit takes; at least one.
    matches_max: usize,
}

/// A match, as a job.
struct Matched {
    payload: String,
    event_type: String,
    group: String,
}

impl Matched {
    fn enqueue<'a>(&'a self, queue: &'a str, attempts: &Attempts<'_>) -> jobs::Command<'a> {
        let Attempts { attempts_max, backoff_micros, backoff_max_micros, .. } = *attempts;
        // One that says longer waits as long as a job may.
        let (_, most) = jobs::Limit::BackoffMicros.range();
        let (base_micros, max_micros) = (backoff_micros.min(most), backoff_max_micros.min(most));
        let backoff = Backoff::Exponential { base_micros, max_micros };
        let (kind, group) = (&*self.event_type, &*self.group);
        let job = NewJob { kind, group, attempts_max, backoff, ..NewJob::new(self.payload.as_bytes()) };
        jobs::Command::Enqueue { queue, job }
    }
}

impl Shard {
    /// Delivers all there is room for; says whether there was anything.
    ///
    /// # Errors
    /// As [`Shard::commit`].
    pub(crate) fn deliver(&self) -> Result<bool> {
        let names: Vec<String> = {
            let state = self.state_now()?;
            state.models.events.subscriptions().map(|(name, _)| name.to_owned()).collect()
        };
        self.deliveries.looked().retain(|name, _| names.contains(name));
        let mut any = false;
        for name in &names {
            while self.deliver_for(name)? {
                any = true;
            }
        }
        Ok(any)
    }

    /// Delivers a bounded number of events for a subscription; says whether there may be more to do.
    fn deliver_for(&self, name: &str) -> Result<bool> {
        let Some(looking) = self.looking(name)? else { return Ok(false) };
        let Looking { subscription, store, selection, after, is_published, matches_max } = looking;
        let history = self.log.reader();
        let mut reading = selection.read(&history, ReadOptions { after, ..ReadOptions::default() })?;
        let (mut matched, mut to): (Vec<Matched>, _) = (Vec::new(), None);
        // Half of what a commit may take, as it is about what a job takes in the log.
        let mut bytes_left = self.log.settings().record_bytes_max / 2;
        while matched.len() < matches_max && bytes_left > 0 {
            let Some(event) = reading.next().transpose()? else {
                // What was let go of by commits that can't be read yet may end behind events that can't be either: they come later.
                let last = to.unwrap_or(after);
                to = Some(if is_published { reading.head().max(last) } else { last });
                break;
            };
            let mut payload = String::new();
            let event_ref = EventRef { store: store.clone(), position: event.position };
            write!(payload, "{event_ref}").expect("a string takes everything");
            let group = subscription.group_of(event.tags()).to_owned();
            let bytes = JOB_BYTES + payload.len() + event.event_type.len() + group.len();
            bytes_left = bytes_left.saturating_sub(bytes as u64);
            matched.push(Matched { payload, event_type: event.event_type.to_owned(), group });
            to = Some(event.position);
            // What is unpacked to be read goes with this look.
            if history.holds_too_much() {
                break;
            }
        }
        let to = to.expect("both bounds are more than zero");
        if matched.is_empty() && to.get() < subscription.position.get().saturating_add(MOVED_OVER_EVENTS) {
            self.deliveries.looked().insert(name.to_owned(), (subscription, to));
            return Ok(false);
        }
        self.hand_over(name, &subscription, &matched, to)
    }

    /// What is to be read for a subscription; `None` when there is nothing behind it, or no room.
    fn looking(&self, name: &str) -> Result<Option<Looking>> {
        let state = self.state_now()?;
        let (events, jobs) = (&state.models.events, &state.models.jobs);
        let Some(subscription) = events.subscription(name) else { return Ok(None) };
        let stats = jobs.queue_stats(name).unwrap_or_default();
        let unfinished: u64 =
            JobState::ALL.iter().filter(|state| !state.is_finished()).map(|state| stats.of(*state)).sum();
        let settings = jobs.queue_settings(name).unwrap_or_default();
        // A commit with one job too many would be refused as a whole.
        let room = settings.jobs_max.map_or(u64::MAX, |most| u64::from(most).saturating_sub(unfinished));
        let matches_max = room.min(DELIVERED_AT_ONCE as u64) as usize;
        let looked = self.deliveries.looked();
        let looked = looked.get(name).filter(|(known, _)| known == subscription).map(|(_, looked)| *looked);
        let after = looked.unwrap_or_default().max(subscription.position);
        let has_room = unfinished <= AHEAD_JOBS_LOW && matches_max > 0 && !settings.draining;
        if after >= events.last_appended(subscription.store) || !has_room {
            return Ok(None);
        }
        let store = events.store_name(subscription.store).expect("a subscription's store is there").to_owned();
        let mut query = subscription.query.clone();
        // There is no last one of what is to come.
        query.items.iter_mut().for_each(|item| item.only_last_event = false);
        let selection = events.select(&store, &query).expect("the query was checked when the subscription was put");
        let is_published = state.writer.mark().position <= self.log.published();
        Ok(Some(Looking { subscription: subscription.clone(), store, selection, after, is_published, matches_max }))
    }

    /// Makes jobs of what matched, and moves the subscription behind it.
    fn hand_over(
        &self,
        name: &str,
        subscription: &Subscription,
        matched: &[Matched],
        to: EventPosition,
    ) -> Result<bool> {
        let jobs: Vec<_> = matched.iter().map(|matched| matched.enqueue(name, &subscription.attempts)).collect();
        let moved = MoveSubscription { name, from: subscription.position, to };
        let commands =
            Commands { events: &[events::Command::MoveSubscription(moved)], jobs: &jobs, ..Commands::default() };
        // Commit point: the jobs are there and the subscription is behind their events, or neither.
        let decided = self.commit(self.log.clock().now(), &commands, &mut Replies::default())?;
        self.log.request(decided.rests_on);
        match decided.verdict {
            Ok(_) => Ok(true),
            // Another process has delivered, or it was changed: look again.
            Err(refused) if matches!(refused.reason, Reason::Events(_)) => Ok(true),
            // The queue takes no jobs, for now.
            Err(_) => Ok(false),
        }
    }

    /// Delivers whenever there is something to deliver, until the database is closed.
    pub(crate) fn deliver_in_background(&self) {
        while let Some(position) = self.deliveries.next() {
            let delivered = self.log.wait(position).map_err(Error::from).and_then(|()| self.deliver());
            match self.noted(Duty::Deliver, delivered) {
                Ok(_) => {}
                // Who commits is told by the commit.
                Err(error) if error.kind() == ErrorKind::Failed => return,
                // On a full disk, say: jobs that are done, and time, may help.
                Err(_) => {
                    self.deliveries.rest();
                    self.deliveries.ask(position);
                }
            }
        }
    }
}
