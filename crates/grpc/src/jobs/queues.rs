//! Queues as a whole: their counts and settings.

use quire::jobs::{Command, JobState, QueueChange, QueueStats, Rate, Reply};
use quire::{Commit, Outcome, Part, jobs};
use quire_access::BoundedRequest;
use quire_access::budget::ByteClaim;
use tonic::Status;

use super::{answered, one};
use crate::app::App;
use crate::aside::aside;
use crate::error::{failed, invalid, overloaded, refused};
use crate::proto::queues_response::Queue;
use crate::proto::start_rate::{Kind, SlidingWindow, TokenBucket};
use crate::proto::{QueueSettings, QueuesRequest, QueuesResponse, SetQueueRequest, StartRate};

/// The requested queues that exist.
pub(super) async fn queues(app: &App, request: QueuesRequest) -> Result<(QueuesResponse, ByteClaim), Status> {
    let (bounded, mut claim) = (BoundedRequest::begin(app.database()), app.caller().claim());
    let database = bounded.database().clone();
    aside(move || {
        let mut within = |name: &str, stats, settings| {
            claim.grow(QUEUE_BYTES + name.len()).map_err(overloaded)?;
            Ok(queue(name, stats, settings))
        };
        let listed = match request.queues {
            all if all.is_empty() => database.visit_queues(usize::MAX, &mut within),
            named => database.visit_queues_named(named, &mut within),
        };
        let queues = listed.map_err(failed)?.into_iter().collect::<Result<_, Status>>()?;
        Ok((QueuesResponse { queues }, claim))
    })
    .await
}

/// The memory of a queue in a list without its name: its counts by state and its settings.
const QUEUE_BYTES: usize = 1 << 10;

fn queue(name: &str, stats: QueueStats, settings: jobs::QueueSettings) -> Queue {
    let jobs = JobState::ALL.into_iter().map(|state| (state.name().to_owned(), stats.of(state))).collect();
    let jobs::QueueSettings {
        paused,
        draining,
        jobs_max,
        active_max,
        group_active_max,
        rate,
        group_rate,
        retention_micros,
    } = settings;
    let settings = QueueSettings {
        paused: Some(paused),
        draining: Some(draining),
        jobs_max,
        active_max,
        group_active_max,
        rate: rate.map(rate_told),
        group_rate: group_rate.map(rate_told),
        retention_us: retention_micros,
    };
    Queue { queue: name.to_owned(), jobs, settings: Some(settings) }
}

fn rate_told(rate: Rate) -> StartRate {
    let kind = match rate {
        Rate::TokenBucket { count, per_micros, burst } => {
            Kind::TokenBucket(TokenBucket { count, per_us: per_micros, burst })
        }
        Rate::SlidingWindow { count, window_micros } => {
            Kind::SlidingWindow(SlidingWindow { count, window_us: window_micros })
        }
    };
    StartRate { kind: Some(kind) }
}

fn rate_of(rate: &StartRate) -> Option<Rate> {
    match rate.kind {
        None => None,
        Some(Kind::TokenBucket(TokenBucket { count, per_us, burst })) => {
            Some(Rate::TokenBucket { count, per_micros: per_us, burst })
        }
        Some(Kind::SlidingWindow(SlidingWindow { count, window_us })) => {
            Some(Rate::SlidingWindow { count, window_micros: window_us })
        }
    }
}

/// The changes of the given settings.
pub(crate) fn changes(settings: Option<&QueueSettings>) -> Vec<QueueChange> {
    let QueueSettings { paused, draining, jobs_max, active_max, group_active_max, rate, group_rate, retention_us } =
        settings.copied().unwrap_or_default();
    let most = |most: u32| (most > 0).then_some(most);
    let changes = [
        paused.map(QueueChange::Paused),
        draining.map(QueueChange::Draining),
        jobs_max.map(|limit| QueueChange::JobsMax(most(limit))),
        active_max.map(|limit| QueueChange::ActiveMax(most(limit))),
        group_active_max.map(|limit| QueueChange::GroupActiveMax(most(limit))),
        rate.map(|rate| QueueChange::Rate(rate_of(&rate))),
        group_rate.map(|rate| QueueChange::GroupRate(rate_of(&rate))),
        retention_us.map(|micros| QueueChange::Retention((micros > 0).then_some(micros))),
    ];
    changes.into_iter().flatten().collect()
}

/// Changes all given settings, or none.
pub(super) async fn set(app: &App, request: SetQueueRequest) -> Result<(), Status> {
    let changes = changes(request.settings.as_ref());
    if changes.is_empty() {
        return Err(invalid("give at least one setting"));
    }
    let mut commit = Commit::new();
    for change in changes {
        commit = commit.part(Part::Jobs(Command::SetQueue { queue: &request.queue, change }));
    }
    match app.database().submit(&commit).map_err(failed)?.await.map_err(failed)? {
        Outcome::Committed(_) => Ok(()),
        Outcome::Refused(refusal) => Err(refused(&refusal)),
    }
}

/// Cancels the jobs of a queue that no worker holds, or deletes the queue with all of its jobs;
/// returns their number.
pub(super) async fn clear(app: &App, command: Command<'_>) -> Result<u64, Status> {
    match answered(one(app, command)?).await? {
        Reply::Cleared { jobs } => Ok(jobs),
        other => unreachable!("clearing a queue returns a count, not {other:?}"),
    }
}
