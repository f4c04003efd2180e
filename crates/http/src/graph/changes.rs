//! The feed of a graph's changes, which can be waited for.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::graph::{Change, Changed, Wants};
use quire::{Place, Position};
use serde::Serialize;

use super::blocks::BlockReply;
use super::snapshot;
use crate::answer::{Answer, aside};
use crate::app::App;
use crate::bytes::Shown;
use crate::error::Problem;
use crate::params::{Named, Params, within};

/// How long a request may wait for a change, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;

#[derive(Debug, Serialize)]
struct Changes {
    changes: Vec<ChangeReply>,
    /// What `after` goes on with.
    next: String,
}

#[derive(Debug, Serialize)]
struct ChangeReply {
    position: u64,
    time_ms: u64,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum What {
    BlockPut(Box<BlockReply>),
    BlockDeleted {
        id: String,
    },
    EdgePut {
        source: String,
        #[serde(rename = "type")]
        edge_type: String,
        target: String,
        #[serde(flatten)]
        properties: Shown<'static>,
    },
    EdgeDeleted {
        source: String,
        #[serde(rename = "type")]
        edge_type: String,
        target: String,
    },
}

/// `GET /v1/graph/{graph}/changes`: what was put and deleted, in order. With `wait_ms` it waits for a change when there is none.
pub(crate) async fn changes(
    State(app): State<Arc<App>>,
    Named(graph): Named<String>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let after: Option<String> = params.one("after")?;
    let from = after.as_deref().map_or(Ok(Place::START), place)?;
    let wait_ms = within("wait_ms", params.one("wait_ms")?.unwrap_or(0), 0..=WAIT_MS_MAX)?;
    let limit = params.limit()?;
    params.end()?;
    let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
    loop {
        let seen = app.database.published();
        let (app_aside, graph) = (Arc::clone(&app), graph.clone());
        let page = aside(move || page(&app_aside, &graph, from, limit)).await?;
        let arrival = app.database.arrival_after(seen);
        if !page.changes.is_empty() || wait_ms == 0 {
            return Ok(Answer::of(&page));
        }
        tokio::select! {
            arrived = arrival => arrived?,
            () = tokio::time::sleep_until(deadline) => return Ok(Answer::of(&page)),
            () = app.closing() => return Ok(Answer::of(&page)),
        }
    }
}

fn page(app: &App, graph: &str, from: Place, limit: usize) -> Result<Changes, Problem> {
    let snapshot = snapshot(&app.database, graph, None)?;
    let mut changes = Vec::new();
    let next = snapshot.look(|graph| {
        let next = graph.changes(snapshot.history(), from, &mut |change| {
            changes.push(shown(change));
            if changes.len() == limit { Wants::Break(()) } else { Wants::Continue(()) }
        })?;
        Ok(next)
    })?;
    let Place { position, index } = next;
    Ok(Changes { changes, next: format!("{position}-{index}") })
}

fn shown(change: &Change<'_>) -> ChangeReply {
    let what = match &change.what {
        Changed::BlockPut(block) => What::BlockPut(Box::new(BlockReply::of(block))),
        Changed::BlockDeleted { block } => What::BlockDeleted { id: block.to_string() },
        Changed::EdgePut { source, edge_type, target, properties } => What::EdgePut {
            source: source.to_string(),
            edge_type: (*edge_type).to_owned(),
            target: target.to_string(),
            properties: Shown::value("properties", properties.to_vec()),
        },
        Changed::EdgeDeleted { source, edge_type, target } => What::EdgeDeleted {
            source: source.to_string(),
            edge_type: (*edge_type).to_owned(),
            target: target.to_string(),
        },
    };
    ChangeReply { position: change.place.position.get(), time_ms: change.time.as_millis(), what }
}

fn place(text: &str) -> Result<Place, Problem> {
    let parsed = text.split_once('-').and_then(|(position, index)| position.parse().ok().zip(index.parse().ok()));
    let (position, index) =
        parsed.ok_or_else(|| Problem::invalid(format!("after is the `next` of an answer, not {text:?}")))?;
    Ok(Place::new(Position::new(position), index))
}
