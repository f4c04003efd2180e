//! The blocks at the other ends of a block's edges.

use std::sync::Arc;

use axum::extract::State;
use quire::graph::{BlockId, Direction, End};
use serde::Serialize;

use super::{block_id, is_by_id, name, position, snapshot};
use crate::answer::{Answer, aside};
use crate::app::App;
use crate::error::Problem;
use crate::params::{Named, Params};

pub(super) const DIRECTIONS: [(&str, Direction); 3] =
    [("outgoing", Direction::Outgoing), ("incoming", Direction::Incoming), ("both", Direction::Both)];

#[derive(Debug, Serialize)]
struct Neighbours {
    neighbours: Vec<NeighbourReply>,
    /// Whether there are more than the limit.
    more: bool,
}

#[derive(Debug, Serialize)]
struct NeighbourReply {
    id: String,
    name: Option<String>,
    #[serde(rename = "type")]
    edge_type: String,
    /// Which end of the edge the neighbour is.
    end: &'static str,
}

/// `GET /v1/graph/{graph}/blocks/{block}/neighbours`: the blocks at the other ends of its edges.
pub(crate) async fn neighbours(
    State(app): State<Arc<App>>,
    Named((graph, block)): Named<(String, String)>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let id = block_id(is_by_id(&mut params)?, &block)?;
    let direction = params.word("direction", &DIRECTIONS)?.unwrap_or(Direction::Outgoing);
    let edge_types = params.all("type");
    let at = position(&mut params)?;
    let limit = params.limit()?;
    params.end()?;
    aside(move || {
        let edge_types: Vec<&str> = edge_types.iter().map(String::as_str).collect();
        let snapshot = snapshot(&app.database, &graph, at)?;
        let mut found = snapshot.neighbours(id, direction, &edge_types, None, limit + 1, |found| {
            (found.block, found.edge_type.to_owned(), found.end)
        })?;
        let more = found.len() > limit;
        found.truncate(limit);
        let reply = |(block, edge_type, end): (BlockId, String, End)| {
            Ok(NeighbourReply { id: block.to_string(), name: name(&snapshot, block)?, edge_type, end: shown(end) })
        };
        let neighbours = found.into_iter().map(reply).collect::<Result<_, Problem>>()?;
        Ok(Answer::of(&Neighbours { neighbours, more }))
    })
    .await
}

pub(super) fn shown(end: End) -> &'static str {
    if end == End::Source { "source" } else { "target" }
}
