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
pub(crate) const INLINE_BYTES_MAX: usize = 64 << 10;

/// Commits, and answers once it is durable.
pub(crate) async fn commit(State(app): State<Arc<App>>, body: Body) -> Result<Answer, Problem> {
    let short = body.len() <= INLINE_BYTES_MAX;
    let theirs = Arc::clone(&app);
    let begin = move || submit(&theirs.database, &body.parse::<CommitRequest<'_>>()?.parts);
    let ticket = if short { begin()? } else { aside(begin).await? };
    let committed = committed(ticket.await?)?;
    Ok(Answer::of_done(&app.memory, &CommitReply::of(&committed)))
}

/// Hands the parts to the database. What they borrow is free again when this returns.
pub(crate) fn submit(database: &Database, parts: &[PartRequest<'_>]) -> Result<Ticket<Outcome>, Problem> {
    let in_part = |index: usize| move |problem: Problem| problem.fact("part", index);
    let slices: Vec<_> = parts.iter().map(Slices::of).collect::<Result<_, _>>()?;
    let mut commit = quire::Commit::new();
    for (index, (part, slices)) in parts.iter().zip(&slices).enumerate() {
        commit = commit.part(part.part(slices, database.now()).map_err(in_part(index))?);
    }
    Ok(database.submit(&commit)?)
}

/// What was committed; a refusal is the problem that it is.
pub(crate) fn committed(outcome: Outcome) -> Result<Committed, Problem> {
    match outcome {
        Outcome::Committed(committed) => Ok(committed),
        Outcome::Refused(refused) => Err(refusal::problem(&refused)),
    }
}
