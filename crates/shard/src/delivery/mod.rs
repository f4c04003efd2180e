//! Delivery: each event that matches a named subscription becomes a job of the queue of the same
//! name.
//!
//! A subscription is a query and a position. Leases, attempts, dead letters and limits are those of
//! queues. One thread reads after each position. One commit enqueues a job for each match and moves
//! the position. So each match becomes exactly one job, in the order of the events, also when other
//! processes deliver or a process dies. No writer waits for a delivery. A delivery stops while its
//! queue has many jobs, so a slow subscriber has a queue of limited length.
//!
//! A delivery is checked by the rights of the client that put the subscription. While the client
//! lacks one, the subscription stays where it is, and [`ReadView::pause_of`] returns the reason.

mod event_ref;
mod requests;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quire_log::Clock;

use crate::commands::Commands;
use crate::decide::WriterState;
use crate::duties::Duty;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{self, Attempts, EventPosition, MoveSubscription, ReadOptions, Subscription};
use crate::jobs::{self, Backoff, JobSpec, JobState};
use crate::logged_state::LoggedState;
use crate::permitted::PermittedCommands;
use crate::refusal::Reason;
use crate::view::pause_of;
pub use event_ref::EventRef;
pub(crate) use requests::DeliveryRequests;

/// A delivery continues while its queue has at most this many unfinished jobs.
const UNFINISHED_JOBS_MAX: u64 = 512;

/// Largest number of jobs that one commit enqueues.
const JOBS_AT_ONCE: usize = 512;

/// Estimated bytes of a job in the log, without its payload, kind and group.
const JOB_BYTES: usize = 96;

/// The position moves over this many events without a match. Fewer are read again after a restart.
const MOVED_OVER_EVENTS: u64 = 10_000;

/// The duty that delivers the events of a shard.
#[derive(Debug, Default)]
pub(crate) struct DeliveryDuty {
    /// How far each subscription was read without a match, while its position was not moved.
    read_up_to: Mutex<BTreeMap<String, (Subscription, EventPosition)>>,
}

/// One read for a subscription.
struct DeliveryRead {
    subscription: Subscription,
    store: String,
    selection: events::Selection,
    after: EventPosition,
    /// Whether the whole state that the read was planned by is published.
    is_published: bool,
    /// Largest number of matches that the queue and one commit take; at least one.
    matches_max: usize,
}

/// The job of a match.
struct MatchJob {
    payload: String,
    event_type: String,
    group: String,
}

impl MatchJob {
    fn enqueue<'a>(&'a self, queue: &'a str, attempts: &Attempts<'_>) -> jobs::Command<'a> {
        let Attempts { attempts_max, backoff_micros, backoff_max_micros, .. } = *attempts;
        // A subscription may set longer waits than a job can have.
        let (_, most) = jobs::JobLimit::BackoffMicros.range();
        let (base_micros, max_micros) = (backoff_micros.min(most), backoff_max_micros.min(most));
        let backoff = Backoff::Exponential { base_micros, max_micros };
        let (kind, group) = (&*self.event_type, &*self.group);
        let job = JobSpec { kind, group, attempts_max, backoff, ..JobSpec::new(self.payload.as_bytes()) };
        jobs::Command::Enqueue { queue, job }
    }
}

impl DeliveryDuty {
    /// Delivers as many events as the queues take. Returns whether there were any.
    ///
    /// # Errors
    /// As [`LoggedState::commit`].
    pub(crate) fn run(&self, shard: &LoggedState) -> Result<bool> {
        // The leader delivers for all nodes.
        if !shard.office.decides() {
            return Ok(false);
        }
        let names: Vec<String> = {
            let state = shard.read_latest()?;
            state.models.events.subscriptions().map(|(name, _)| name.to_owned()).collect()
        };
        self.read_up_to().retain(|name, _| names.contains(name));
        let (mut any, mut failure) = (false, None);
        for name in &names {
            loop {
                match self.deliver_some(shard, name) {
                    Ok(true) => any = true,
                    Ok(false) => break,
                    // Other subscriptions continue.
                    Err(error) if error.kind() == ErrorKind::Refused => {
                        failure = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        failure.map_or(Ok(any), Err)
    }

    /// Delivers on each request until the shard is closing.
    pub(crate) fn run_in_background(&self, shard: &LoggedState) {
        while let Some(position) = shard.delivery_requests.next() {
            let delivered = shard.log.reach(position).map_err(Error::from).and_then(|()| self.run(shard));
            match shard.failures.note(Duty::Deliver, shard.log.clock().now(), delivered) {
                Ok(_) => {}
                // The next commit reports the failure.
                Err(error) if error.kind() == ErrorKind::Failed => return,
                // Such as a full disk: finished jobs and time may help.
                Err(_) => {
                    shard.delivery_requests.pause();
                    shard.delivery_requests.request(position);
                }
            }
        }
    }

    /// Delivers a limited number of events of one subscription. Returns whether there may be more.
    fn deliver_some(&self, shard: &LoggedState, name: &str) -> Result<bool> {
        let Some(read) = self.plan(&*shard.read_latest()?, shard, name) else { return Ok(false) };
        let DeliveryRead { subscription, store, selection, after, is_published, matches_max } = read;
        let history = shard.log.reader();
        let mut reading = selection.read(&history, ReadOptions { after, ..ReadOptions::default() })?;
        let (mut matched, mut to): (Vec<MatchJob>, _) = (Vec::new(), None);
        // Half of a commit's limit, because the bytes of a job in the log are an estimate.
        let mut bytes_left = shard.log.settings().record_bytes_max / 2;
        while matched.len() < matches_max && bytes_left > 0 {
            let Some(event) = reading.next().transpose()? else {
                // An unpublished trim may end after unpublished events. A later delivery reads
                // those events.
                let last = to.unwrap_or(after);
                to = Some(if is_published { reading.head().max(last) } else { last });
                break;
            };
            let payload = EventRef { store: store.clone(), position: event.position }.to_string();
            let group = printable(subscription.group_of(event.tags()));
            let bytes = JOB_BYTES + payload.len() + event.event_type.len() + group.len();
            bytes_left = bytes_left.saturating_sub(bytes as u64);
            matched.push(MatchJob { payload, event_type: printable(event.event_type), group });
            to = Some(event.position);
            // Unpacked segments are released with this reader.
            if history.holds_too_much() {
                break;
            }
        }
        let to = to.expect("both limits are above zero");
        assert!(to >= after, "a delivery does not go back");
        if matched.is_empty() && to.get() < subscription.position.get().saturating_add(MOVED_OVER_EVENTS) {
            self.read_up_to().insert(name.to_owned(), (subscription, to));
            return Ok(false);
        }
        enqueue_and_move(shard, name, &subscription, &matched, to)
    }

    /// Plans the next read for a subscription. Returns `None` if no event follows its position, its
    /// queue takes no job, or its creator lacks a permission.
    fn plan(&self, state: &WriterState, shard: &LoggedState, name: &str) -> Option<DeliveryRead> {
        let (events, jobs) = (&state.models.events, &state.models.jobs);
        let subscription = events.subscription(name)?;
        let stats = jobs.queue_stats(name).unwrap_or_default();
        let unfinished: u64 =
            JobState::ALL.iter().filter(|state| !state.is_finished()).map(|state| stats.of(*state)).sum();
        let settings = jobs.queue_settings(name).unwrap_or_default();
        // The queue would refuse a whole commit with one job too many.
        let jobs_left = settings.jobs_max.map_or(u64::MAX, |most| u64::from(most).saturating_sub(unfinished));
        let matches_max = jobs_left.min(JOBS_AT_ONCE as u64) as usize;
        let read_up_to = self.read_up_to();
        let read_up_to = read_up_to.get(name).filter(|(known, _)| known == subscription).map(|(_, to)| *to);
        let after = read_up_to.unwrap_or_default().max(subscription.position);
        let takes_jobs = unfinished <= UNFINISHED_JOBS_MAX && matches_max > 0 && !settings.draining;
        if after >= events.last_appended(subscription.store) || !takes_jobs {
            return None;
        }
        // The commit checks it again. Without this check, all matches would be read in vain.
        if pause_of(&state.models, &state.creators, name, subscription).is_some() {
            return None;
        }
        let store = events.store_name(subscription.store).expect("a subscription's store exists").to_owned();
        let mut query = subscription.query.clone();
        // Later events may follow, so none is the last one.
        query.items.iter_mut().for_each(|item| item.only_last_event = false);
        let selection = events.select(&store, &query).expect("the query was checked with the subscription");
        let is_published = state.writer.mark().position <= shard.log.published();
        Some(DeliveryRead { subscription: subscription.clone(), store, selection, after, is_published, matches_max })
    }

    fn read_up_to(&self) -> MutexGuard<'_, BTreeMap<String, (Subscription, EventPosition)>> {
        self.read_up_to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name without control characters, which events from earlier versions may have in types and
/// tags, and jobs cannot.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}

/// Enqueues a job for each match, and moves the subscription past them. Returns whether there may
/// be more to deliver.
fn enqueue_and_move(
    shard: &LoggedState,
    name: &str,
    subscription: &Subscription,
    matched: &[MatchJob],
    to: EventPosition,
) -> Result<bool> {
    let jobs: Vec<_> = matched.iter().map(|matched| matched.enqueue(name, &subscription.attempts)).collect();
    let moved = MoveSubscription { name, from: subscription.position, to };
    let commands = Commands { events: &[events::Command::MoveSubscription(moved)], jobs: &jobs, ..Commands::default() };
    // Commit point: the jobs are enqueued and the subscription has moved past their events, or
    // neither.
    let permitted = match &subscription.creator {
        Some(creator) => PermittedCommands::by_creator(commands, creator),
        None => PermittedCommands::by_owner(commands),
    };
    let decided = shard.commit_permitted_in_background(shard.log.clock().now(), &permitted)?;
    match decided.verdict {
        Ok(_) => Ok(true),
        // Another process has delivered, or the subscription was changed: read it again.
        Err(refused) if matches!(refused.reason, Reason::Events(_)) => Ok(true),
        // The queue cannot be created.
        Err(refused) if matches!(refused.reason, Reason::Jobs(jobs::Refusal::Claim(_))) => {
            let message = format!("subscription {name:?} cannot deliver: {}", refused.reason);
            Err(Error::new(ErrorKind::Refused, message))
        }
        // The queue takes no jobs at present, or the creator has just lost a permission.
        Err(_) => Ok(false),
    }
}
