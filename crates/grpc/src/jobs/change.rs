//! Administrative changes of jobs: one by one, and all that a filter matches.

use std::sync::Arc;

use prost::Message as _;
use quire::Timestamp;
use quire::jobs::{BulkProgress, Change, Command, Filter, JobId, JobState, Priority, Reply, States};
use tonic::Status;

use super::request::{CommandReply, attempts, chosen, small, submit_each};
use super::{answered, one};
use crate::app::App;
use crate::aside::{INLINE_BYTES_MAX, aside};
use crate::error::{ItemFault, failed};
use crate::proto::bulks_response::Bulk;
use crate::proto::job_change::{Retry, What};
use crate::proto::{
    BeginBulkRequest, BulksRequest, ChangeJobsRequest, ChangeResult, JobChange, JobFilter, change_jobs_request,
};

/// The change in a message.
fn change_of(change: Option<&JobChange>) -> Result<Change<'_>, ItemFault> {
    Ok(match change.and_then(|change| change.what.as_ref()) {
        Some(What::Cancel(why)) => Change::Cancel { reason: &why.reason },
        Some(What::Hold(why)) => Change::Hold { reason: &why.reason },
        Some(What::Release(said)) => {
            chosen("release", *said)?;
            Change::Release
        }
        Some(What::RunAtUs(at)) => Change::Reschedule { run_at: Timestamp::from_micros(*at) },
        Some(What::Retry(Retry { payload })) => Change::Retry { payload: payload.as_deref() },
        Some(What::Delete(said)) => {
            chosen("delete", *said)?;
            Change::Delete
        }
        Some(What::MoveTo(queue)) => Change::Move { queue },
        Some(What::Priority(priority)) => Change::Priority(Priority::new(small("priority", *priority)?)),
        Some(What::AttemptsMax(most)) => Change::AttemptsMax(attempts("attempts_max", *most)?),
        Some(What::Payload(payload)) => Change::Payload(payload),
        None => return Err(ItemFault::invalid("the change has no kind")),
    })
}

/// Changes jobs, each by itself.
pub(super) async fn change(app: &Arc<App>, request: ChangeJobsRequest) -> Result<Vec<ChangeResult>, Status> {
    let bytes = request.encoded_len();
    let theirs = Arc::clone(app);
    let submit = move || submit_each(&theirs.database, request.items.iter().map(command));
    let submitted = if bytes <= INLINE_BYTES_MAX { submit()? } else { aside(submit).await? };
    Ok(submitted.answers().await?.into_iter().map(changed).collect())
}

fn command(item: &change_jobs_request::Item) -> Result<Command<'_>, ItemFault> {
    Ok(Command::Change { job: job_id(&item.job)?, change: change_of(item.change.as_ref())? })
}

fn changed(answer: CommandReply) -> ChangeResult {
    match answer {
        Ok(Reply::Changed { state }) => {
            ChangeResult { state: state.map(JobState::name).unwrap_or_default().to_owned(), refused: None }
        }
        Ok(other) => unreachable!("a change returns a state, not {other:?}"),
        Err(refusal) => ChangeResult { state: String::new(), refused: Some(refusal) },
    }
}

/// Parses the id of a job.
pub(super) fn job_id(text: &str) -> Result<JobId, ItemFault> {
    text.parse().map_err(|_| ItemFault::invalid(format!("invalid job id {text:?}")))
}

/// Uses the filter in a message.
pub(super) fn with_filter<T>(
    filter: Option<&JobFilter>,
    act: impl FnOnce(&Filter<'_>) -> Result<T, Status>,
) -> Result<T, Status> {
    let none = JobFilter::default();
    let filter = filter.unwrap_or(&none);
    let state =
        |name: &String| JobState::from_name(name).ok_or_else(|| ItemFault::invalid(format!("unknown state {name:?}")));
    let states = filter.states.iter().map(state).collect::<Result<Vec<_>, _>>()?;
    let tags: Vec<&str> = filter.tags.iter().map(String::as_str).collect();
    let jobs = filter.jobs.iter().map(|job| job_id(job)).collect::<Result<Vec<_>, _>>()?;
    act(&Filter {
        jobs: Some(&*jobs).filter(|jobs| !jobs.is_empty()),
        queue: filter.queue.as_deref(),
        states: if states.is_empty() { States::default() } else { States::of(states) },
        kind: filter.kind.as_deref(),
        tags: &tags,
        enqueued_from: filter.enqueued_from_us.map(Timestamp::from_micros),
        enqueued_before: filter.enqueued_before_us.map(Timestamp::from_micros),
        finished_from: filter.finished_from_us.map(Timestamp::from_micros),
        finished_before: filter.finished_before_us.map(Timestamp::from_micros),
        attempts_min: filter.attempts_min.map(|least| attempts("attempts_min", least)).transpose()?,
        error: filter.error.as_deref(),
    })
}

/// Starts a bulk change of all jobs that a filter matches; returns its id.
pub(super) async fn begin_bulk(app: &App, request: BeginBulkRequest) -> Result<String, Status> {
    let ticket = with_filter(request.filter.as_ref(), |filter| {
        one(app, Command::Bulk { filter: *filter, change: change_of(request.change.as_ref())? })
    })?;
    match answered(ticket).await? {
        Reply::BulkBegun { bulk } => Ok(bulk.to_string()),
        other => unreachable!("a bulk change returns its id, not {other:?}"),
    }
}

/// Reports the progress of bulk changes.
pub(super) async fn bulks(app: &App, request: BulksRequest) -> Result<Vec<Bulk>, Status> {
    let of = |(bulk, progress): (quire::jobs::BulkId, BulkProgress)| {
        let BulkProgress { looked_at, changed, refused, done } = progress;
        Bulk { bulk: bulk.to_string(), looked_at, changed, refused, done }
    };
    let ticket = app.database.read(|view| view.jobs.bulks().map(of).collect::<Vec<_>>()).map_err(failed)?;
    let mut all = ticket.await.map_err(failed)?;
    all.retain(|bulk| request.bulk.is_empty() || bulk.bulk == request.bulk);
    Ok(all)
}
