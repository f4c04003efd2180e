//! `POST /v1/commit`: parts of any models, all or none.

pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod request;

use std::sync::Arc;

use axum::extract::State;
use quire::{Committed, Database, Outcome, Ticket};

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::body::Body;
use crate::commit::reply::CommitReply;
use crate::commit::request::{CommitRequest, PartRequest, Slices};
use crate::error::Problem;

/// A body of more bytes is parsed apart from the threads that serve connections.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Commits, and answers once it is durable.
pub(crate) async fn commit(State(app): State<Arc<App>>, body: Body) -> Result<Answer, Problem> {
    let ticket = submitted(&app, body, |database, body, pace| {
        submit_at(database, &body.parse::<CommitRequest<'_>>()?.parts, pace)
    });
    let committed = committed(ticket.await?.await?)?;
    Ok(Answer::of_done(&app.memory, &CommitReply::of(&committed)))
}

/// How long handing a commit to the database may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As long as a thread that serves connections can be spared.
    Brief,
    /// As long as it takes.
    Any,
}

/// Hands what a body asks for to the database, apart from the threads that serve connections when the body is long or the commit takes long.
/// `begin` gives nothing, and has done nothing, when it can't be brief.
pub(crate) async fn submitted(
    app: &Arc<App>,
    body: Body,
    begin: impl Fn(&Database, &Body, Pace) -> Result<Option<Ticket<Outcome>>, Problem> + Send + 'static,
) -> Result<Ticket<Outcome>, Problem> {
    if body.len() <= INLINE_BYTES_MAX
        && let Some(ticket) = begin(&app.database, &body, Pace::Brief)?
    {
        return Ok(ticket);
    }
    let theirs = Arc::clone(app);
    let ticket = aside(move || begin(&theirs.database, &body, Pace::Any)).await?;
    Ok(ticket.expect("it may take as long as it takes"))
}

/// Hands the parts to the database. What they borrow is free again when this returns.
pub(crate) fn submit(database: &Database, parts: &[PartRequest<'_>]) -> Result<Ticket<Outcome>, Problem> {
    Ok(submit_at(database, parts, Pace::Any)?.expect("it may take as long as it takes"))
}

/// The same; nothing, and nothing was done, when it has to be brief and can't be.
pub(crate) fn submit_at(
    database: &Database,
    parts: &[PartRequest<'_>],
    pace: Pace,
) -> Result<Option<Ticket<Outcome>>, Problem> {
    let in_part = |index: usize| move |problem: Problem| problem.fact("part", index);
    let slices: Vec<_> = parts.iter().map(Slices::of).collect::<Result<_, _>>()?;
    let mut commit = quire::Commit::new();
    for (index, (part, slices)) in parts.iter().zip(&slices).enumerate() {
        commit = commit.part(part.part(slices, database.now()).map_err(in_part(index))?);
    }
    Ok(match pace {
        Pace::Brief => database.submit_briefly(&commit)?,
        Pace::Any => Some(database.submit(&commit)?),
    })
}

/// What was committed; a refusal is the problem that it is.
pub(crate) fn committed(outcome: Outcome) -> Result<Committed, Problem> {
    match outcome {
        Outcome::Committed(committed) => Ok(committed),
        Outcome::Refused(refused) => Err(refusal::problem(&refused)),
    }
}
