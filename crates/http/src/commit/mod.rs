//! `POST /v1/commit`: parts of any models, all or none. The direct routes commit one part in the
//! same way.

pub(crate) mod reply;

use std::sync::Arc;

use axum::extract::State;
use quire::{AcceptedCommit, Database, DryRun, Outcome, Ticket};
use quire_access::BoundedRequest;
use quire_api::Failure;
use quire_api::request::{CommitRequest, PartRequest, Slices};

use crate::app::App;
use crate::body::{Body, BodyText};
use crate::commit::reply::{commit_reply, dry_run_reply, part_fields};
use crate::error::Problem;
use crate::idempotency::RequestKey;
use crate::params::Params;
use crate::response::JsonResponse;

/// Commits, and answers once it is durable. With `dry_run` it only decides, and commits nothing.
pub(crate) async fn commit(
    State(app): State<Arc<App>>,
    mut params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    let is_dry_run = params.one("dry_run")?.unwrap_or(false);
    params.end()?;
    if is_dry_run {
        return dry_run(&app, key, body).await;
    }
    let ticket = submitted(&app, body, move |database, body, pace| {
        submit_at(database, &key, &body.parse::<CommitRequest<'_>>()?.parts, pace)
    });
    Ok(done(&app, &committed(ticket.await?.await?)?))
}

/// Decides a commit, and answers once everything that the decision rests on is durable.
async fn dry_run(app: &Arc<App>, key: RequestKey, body: Body) -> Result<JsonResponse, Problem> {
    let ticket = submitted(app, body, move |database, body, pace| match pace {
        CommitPace::Brief => Ok(None),
        CommitPace::Any => {
            let request = body.parse::<CommitRequest<'_>>()?;
            with_commit(database, &key, &request.parts, |commit| Ok(Some(database.dry_run(commit)?)))
        }
    });
    let DryRun { outcome, entries } = ticket.await?.await?;
    let answer = committed(outcome)?;
    Ok(JsonResponse::of_done(&app.memory, &dry_run_reply(&answer, &entries)).replay(answer.is_replay))
}

/// The response to a commit.
pub(crate) fn done(app: &App, committed: &AcceptedCommit) -> JsonResponse {
    JsonResponse::of_done(&app.memory, &commit_reply(committed)).replay(committed.is_replay)
}

/// Reads the one part of a direct route from the names in its path and its body.
pub(crate) type ReadPart = for<'r> fn(&'r [String], &'r BodyText) -> Result<PartRequest<'r>, Problem>;

/// Commits the one part of a direct route. Answers with the fields of its reply.
pub(crate) async fn commit_part(
    app: &Arc<App>,
    key: RequestKey,
    names: Vec<String>,
    body: Body,
    read: ReadPart,
) -> Result<JsonResponse, Problem> {
    let begin =
        move |database: &Database, body: &BodyText, pace| submit_at(database, &key, &[read(&names, body)?], pace);
    let ticket = submitted(app, body, begin);
    let committed = committed(ticket.await.map_err(Problem::of_one)?.await?).map_err(Problem::of_one)?;
    let reply = committed.replies.first().expect("a part has a reply");
    Ok(JsonResponse::of_done(&app.memory, &part_fields(reply)).replay(committed.is_replay))
}

/// How long passing a commit to the database may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitPace {
    /// Short enough for a thread that serves connections.
    Brief,
    /// Without limit.
    Any,
}

/// Passes the commit of a body to the database. It uses another thread when the body or the commit
/// is long. `begin` returns nothing, and has done nothing, when the commit can't be brief.
pub(crate) async fn submitted<T: Send + 'static>(
    app: &Arc<App>,
    body: Body,
    begin: impl Fn(&Database, &BodyText, CommitPace) -> Result<Option<Ticket<T>>, Problem> + Send + 'static,
) -> Result<Ticket<T>, Problem> {
    let request = BoundedRequest::begin(&app.database());
    let database = request.database().clone();
    body.commit(move |body, pace| begin(&database, body, pace)).await
}

/// Passes the parts to the database. Borrowed data is free again when this returns.
pub(crate) fn submit(
    database: &Database,
    key: &RequestKey,
    parts: &[PartRequest<'_>],
) -> Result<Ticket<Outcome>, Problem> {
    Ok(submit_at(database, key, parts, CommitPace::Any)?.expect("an unlimited commit is never put off"))
}

/// The same; returns nothing, and does nothing, when it has to be brief and can't be.
pub(crate) fn submit_at(
    database: &Database,
    key: &RequestKey,
    parts: &[PartRequest<'_>],
    pace: CommitPace,
) -> Result<Option<Ticket<Outcome>>, Problem> {
    with_commit(database, key, parts, |commit| submit_commit(database, commit, pace))
}

/// Passes the commit of these parts to `pass`.
fn with_commit<T>(
    database: &Database,
    key: &RequestKey,
    parts: &[PartRequest<'_>],
    pass: impl FnOnce(&quire::Commit<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let in_part = |index: usize| move |problem: Problem| problem.fact("part", index);
    let slices: Vec<_> = parts.iter().map(Slices::of).collect::<Result<_, Failure>>()?;
    let commit = key.commit(database, |now| {
        let mut commit = quire::Commit::new();
        for (index, (part, slices)) in parts.iter().zip(&slices).enumerate() {
            commit = commit.part(part.part(slices, now).map_err(Problem::from).map_err(in_part(index))?);
        }
        Ok(commit)
    })?;
    pass(&commit)
}

/// Passes a commit to the database, like [`submit_at`].
pub(crate) fn submit_commit(
    database: &Database,
    commit: &quire::Commit<'_>,
    pace: CommitPace,
) -> Result<Option<Ticket<Outcome>>, Problem> {
    Ok(match pace {
        CommitPace::Brief => database.submit_briefly(commit)?,
        CommitPace::Any => Some(database.submit(commit)?),
    })
}

/// Returns the committed result; a refusal becomes a problem.
pub(crate) fn committed(outcome: Outcome) -> Result<AcceptedCommit, Problem> {
    match outcome {
        Outcome::Committed(committed) => Ok(committed),
        Outcome::Refused(refused) => Err(Problem::refused(&refused)),
    }
}
