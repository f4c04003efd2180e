//! The service `Quire`: commits of parts of any models, all or none, and the figures of the server.
//!
//! ```text
//! Commit ─▶ part: lists, then commands that borrow them ─▶ Database::submit ─▶ the ticket ─▶ reply, or a refusal
//!                                       a dry run: Database::dry_run ─┘
//! Refusals, History ─▶ server_reads
//! ```

mod part;
mod reply;
mod server_reads;

use std::sync::Arc;

use prost::Message as _;
use quire::{Commit, Database, DryRun, Outcome, Ticket};
use quire_access::BoundedRequest;
use tonic::{Request, Response, Status};

use crate::app::{App, ServiceComponents};
use crate::aside::{INLINE_BYTES_MAX, aside};
use crate::error::{ItemFault, failed, overloaded, refused_in_part};
use crate::idempotency::{self, CallKey};
use crate::metering::claimed;
use crate::proto::quire_server::Quire;
use crate::proto::{
    CommitPart, CommitRequest, CommitResponse, HistoryRequest, HistoryResponse, RefusalsRequest, RefusalsResponse,
};

use part::{PartLists, lists_bytes};

/// The service.
#[derive(Debug)]
pub(crate) struct CommitService {
    components: Arc<ServiceComponents>,
}

impl CommitService {
    pub(crate) fn new(components: Arc<ServiceComponents>) -> Self {
        CommitService { components }
    }

    /// The components for the running call.
    fn app(&self) -> Arc<App> {
        self.components.call()
    }
}

/// Passes the parts to the database, as the function `submit` commits.
fn submit_as<T>(
    database: &Database,
    key: &CallKey,
    parts: &[CommitPart],
    submit: fn(&Database, &Commit<'_>) -> quire::Result<T>,
) -> Result<T, Status> {
    let in_part = |index: usize| move |fault: ItemFault| fault.in_part(index);
    let lists = parts.iter().enumerate().map(|(index, part)| PartLists::of(part).map_err(in_part(index)));
    let lists = lists.collect::<Result<Vec<_>, _>>()?;
    let mut commit = Commit::new();
    for (index, (part, lists)) in parts.iter().zip(&lists).enumerate() {
        commit = commit.part(part::part(part, lists).map_err(in_part(index))?);
    }
    submit(database, &key.on(commit)).map_err(failed)
}

/// Passes the parts to the database, on another thread when they are large or take long.
async fn submitted(app: &Arc<App>, key: CallKey, request: CommitRequest) -> Result<Ticket<Outcome>, Status> {
    // A part of two bytes becomes a command of hundreds.
    let mut claim = app.caller().claim();
    claim.grow(lists_bytes(&request.parts)).map_err(overloaded)?;
    let bounded = BoundedRequest::begin(app.database());
    if request.encoded_len() <= INLINE_BYTES_MAX
        && let Some(ticket) = submit_as(bounded.database(), &key, &request.parts, Database::submit_briefly)?
    {
        return Ok(ticket);
    }
    let app = app.within(&bounded);
    aside(move || submit_as(app.database(), &key, &request.parts, Database::submit)).await
}

/// Decides the parts on another thread, and commits nothing. Waits until everything that the
/// decision rests on is durable.
async fn dry_run(app: &Arc<App>, key: CallKey, request: CommitRequest) -> Result<DryRun, Status> {
    let mut claim = app.caller().claim();
    claim.grow(lists_bytes(&request.parts)).map_err(overloaded)?;
    let bounded = BoundedRequest::begin(app.database());
    let app = app.within(&bounded);
    let ticket = aside(move || submit_as(app.database(), &key, &request.parts, Database::dry_run)).await?;
    ticket.await.map_err(failed)
}

/// Converts the result of a commit, or of a dry run.
fn response(outcome: Outcome) -> Result<Response<CommitResponse>, Status> {
    match outcome {
        Outcome::Committed(committed) => {
            let message = CommitResponse {
                position: committed.at.position.get(),
                time_us: committed.at.time.as_micros(),
                replies: committed.replies.into_iter().map(reply::reply).collect(),
                ..CommitResponse::default()
            };
            Ok(idempotency::response(message, committed.is_replay))
        }
        Outcome::Refused(refusal) => Err(refused_in_part(&refusal)),
    }
}

#[tonic::async_trait]
impl Quire for CommitService {
    async fn commit(&self, request: Request<CommitRequest>) -> Result<Response<CommitResponse>, Status> {
        let (key, app) = (CallKey::of(request.metadata())?, self.app());
        let request = request.into_inner();
        if request.dry_run {
            let DryRun { outcome, entries } = dry_run(&app, key, request).await?;
            let mut response = response(outcome)?;
            let message = response.get_mut();
            message.dry_run = true;
            message.entries = entries.iter().map(reply::drafted).collect();
            return Ok(response);
        }
        response(submitted(&app, key, request).await?.await.map_err(failed)?)
    }

    async fn refusals(&self, _request: Request<RefusalsRequest>) -> Result<Response<RefusalsResponse>, Status> {
        server_reads::refusals(&self.app()).map(claimed)
    }

    async fn history(&self, request: Request<HistoryRequest>) -> Result<Response<HistoryResponse>, Status> {
        server_reads::history(&self.app(), &request.into_inner()).map(claimed)
    }
}

#[cfg(test)]
mod tests {
    use quire_access::budget::{ByteBudget, FrontEnd};
    use tokio::sync::watch;
    use tonic_types::StatusExt;

    use super::*;
    use crate::proto::commit_part::{EachPart, Kind};

    #[tokio::test]
    async fn many_small_parts_are_claimed_before_they_become_commands() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(quire::Durability::Os).open().expect("opened");
        let (_close, closed) = watch::channel(false);
        let budget = ByteBudget::new(ByteBudget::BYTES_LEAST);
        let (app, _end) = App::open(database, budget.caller(FrontEnd::Grpc, None), closed);
        let parts = || vec![CommitPart::default(); 100_000];
        let each = Kind::Each(Box::new(EachPart { parts: parts() }));
        for parts in [parts(), vec![CommitPart { kind: Some(each) }]] {
            let refused = submitted(&app, CallKey::default(), CommitRequest { parts, dry_run: false })
                .await
                .expect_err("there is too little memory");
            let reason = refused.get_details_error_info().expect("a reason").reason;
            assert_eq!(reason, "TOO_LARGE", "{refused:?}");
        }
        assert_eq!(budget.usage().bytes_used, 0);
    }
}
