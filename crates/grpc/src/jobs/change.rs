//! Administrative changes of jobs: one by one, and all that a filter matches.

use std::sync::Arc;

use prost::Message as _;
use quire::jobs::{BulkProgress, Change, Command, Filter, JobId, JobState, Priority, Reply, States};
use quire::{PermittedView, Timestamp};
use quire_access::budget::ByteClaim;
use tonic::Status;

use super::request::{CommandReply, attempts, chosen, small, submit_each};
use super::{answered, one};
use crate::app::App;
use crate::aside::{INLINE_BYTES_MAX, aside};
use crate::error::{ItemFault, failed, overloaded};
use crate::idempotency::CallKey;
use crate::proto::bulks_response::Bulk;
use crate::proto::job_change::{Retry, What};
use crate::proto::{
    BeginBulkRequest, BulksRequest, BulksResponse, ChangeJobsRequest, ChangeResult, JobChange, JobFilter,
    change_jobs_request,
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
    let submit = move || submit_each(theirs.database(), &CallKey::default(), request.items.iter().map(command));
    let submitted = if bytes <= INLINE_BYTES_MAX { submit()? } else { aside(submit).await? };
    Ok(submitted.answers().await?.0.into_iter().map(changed).collect())
}

/// The command that changes a job.
pub(crate) fn command(item: &change_jobs_request::Item) -> Result<Command<'_>, ItemFault> {
    Ok(Command::Change { job: job_id(&item.job)?, change: change_of(item.change.as_ref())? })
}

fn changed(answer: CommandReply) -> ChangeResult {
    match answer {
        Ok(Reply::Changed { state }) => {
            ChangeResult { state: state.map(JobState::name).unwrap_or_default().to_owned(), refused: None }
        }
        Ok(other) => unreachable!("a change returns a state, not {other:?}"),
        Err(refusal) => ChangeResult { state: String::new(), refused: Some(*refusal) },
    }
}

/// Parses the id of a job.
pub(super) fn job_id(text: &str) -> Result<JobId, ItemFault> {
    text.parse().map_err(|_| ItemFault::invalid(format!("invalid job id {text:?}")))
}

/// The ids of jobs in a filter, for the filter to borrow.
pub(crate) fn jobs_of(filter: Option<&JobFilter>) -> Result<Vec<JobId>, ItemFault> {
    filter.into_iter().flat_map(|filter| &filter.jobs).map(|job| job_id(job)).collect()
}

/// The tags in a filter, for the filter to borrow.
pub(crate) fn tags_of(filter: Option<&JobFilter>) -> Vec<&str> {
    filter.into_iter().flat_map(|filter| &filter.tags).map(String::as_str).collect()
}

/// The filter in a message; without a message, it matches every job.
pub(crate) fn filter<'r>(
    given: Option<&'r JobFilter>,
    tags: &'r [&'r str],
    jobs: &'r [JobId],
) -> Result<Filter<'r>, ItemFault> {
    let Some(given) = given else { return Ok(Filter::default()) };
    let state =
        |name: &String| JobState::from_name(name).ok_or_else(|| ItemFault::invalid(format!("unknown state {name:?}")));
    let states = given.states.iter().map(state).collect::<Result<Vec<_>, _>>()?;
    Ok(Filter {
        jobs: Some(jobs).filter(|jobs| !jobs.is_empty()),
        queue: given.queue.as_deref(),
        states: if states.is_empty() { States::default() } else { States::of(states) },
        kind: given.kind.as_deref(),
        tags,
        enqueued_from: given.enqueued_from_us.map(Timestamp::from_micros),
        enqueued_before: given.enqueued_before_us.map(Timestamp::from_micros),
        finished_from: given.finished_from_us.map(Timestamp::from_micros),
        finished_before: given.finished_before_us.map(Timestamp::from_micros),
        attempts_min: given.attempts_min.map(|least| attempts("attempts_min", least)).transpose()?,
        error: given.error.as_deref(),
    })
}

/// The command that changes every job that a filter matches. `tags` and `jobs` are those of the
/// filter.
pub(crate) fn bulk<'r>(
    request: &'r BeginBulkRequest,
    tags: &'r [&'r str],
    jobs: &'r [JobId],
) -> Result<Command<'r>, ItemFault> {
    let filter = filter(request.filter.as_ref(), tags, jobs)?;
    Ok(Command::Bulk { filter, change: change_of(request.change.as_ref())? })
}

/// Starts a bulk change of all jobs that a filter matches; returns its id.
pub(super) async fn begin_bulk(app: &App, request: BeginBulkRequest) -> Result<String, Status> {
    let (tags, jobs) = (tags_of(request.filter.as_ref()), jobs_of(request.filter.as_ref())?);
    let ticket = one(app, bulk(&request, &tags, &jobs)?)?;
    match answered(ticket).await? {
        Reply::BulkBegun { bulk } => Ok(bulk.to_string()),
        other => unreachable!("a bulk change returns its id, not {other:?}"),
    }
}

/// Reports the progress of the bulk changes that the client may see.
pub(super) async fn bulks(app: &App, request: BulksRequest) -> Result<(BulksResponse, ByteClaim), Status> {
    let of = |(bulk, progress): (quire::jobs::BulkId, BulkProgress)| {
        let BulkProgress { looked_at, changed, refused, done, stopped } = progress;
        Bulk { bulk: bulk.to_string(), looked_at, changed, refused, done, stopped }
    };
    let mut claim = app.caller().claim();
    let look = |view: &PermittedView<'_>| {
        let mut shown = Vec::new();
        for (bulk, progress) in view.jobs.bulks() {
            if view.shows_bulk(bulk).map_err(|error| failed(error.into()))? {
                let message = of((bulk, progress));
                if request.bulk.is_empty() || message.bulk == request.bulk {
                    claim.grow(size_of::<Bulk>() + message.encoded_len()).map_err(overloaded)?;
                    shown.push(message);
                }
            }
        }
        Ok::<_, Status>(shown)
    };
    let ticket = app.database().read_permitted(look).map_err(failed)?;
    let bulks = ticket.await.map_err(failed)??;
    Ok((BulksResponse { bulks }, claim))
}
