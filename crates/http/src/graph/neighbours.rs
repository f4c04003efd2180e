//! The neighbours of a block, and their number.

use std::sync::Arc;

use axum::extract::State;
use quire::Position;
use quire::graph::{BlockId, Direction, End, Neighbour};
use quire_access::BoundedRequest;
use quire_api::ListPage;

use super::{block_id, is_by_id, is_count, name, position, snapshot};
use crate::app::App;
use crate::error::Problem;
use crate::params::{Params, PathNames};
use crate::response::{JsonResponse, bounded};
use quire_api::reply::{Degree, GraphRead, NeighbourCount, NeighbourReply};

pub(super) const DIRECTIONS: [(&str, Direction); 3] =
    [("outgoing", Direction::Outgoing), ("incoming", Direction::Incoming), ("both", Direction::Both)];

/// `GET /v1/graphs/{graph}/blocks/{block}/degree`: the number of its edges, in each direction.
pub(crate) async fn degree(
    State(app): State<Arc<App>>,
    PathNames((graph, block)): PathNames<(String, String)>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let id = block_id(is_by_id(&mut params)?, &block)?;
    let edge_types = params.all("type");
    let at = position(&mut params)?;
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let edge_types: Vec<&str> = edge_types.iter().map(String::as_str).collect();
        let snapshot = snapshot(database, &graph, at)?;
        let degree = |direction| snapshot.degree(id, direction, &edge_types);
        let (outgoing, incoming) = (degree(Direction::Outgoing)?, degree(Direction::Incoming)?);
        JsonResponse::of(&app.memory, &Degree { position: snapshot.at().get(), outgoing, incoming })
    })
    .await
}

/// `GET /v1/graphs/{graph}/blocks/{block}/neighbours`: the blocks at the other ends of its edges.
pub(crate) async fn neighbours(
    State(app): State<Arc<App>>,
    PathNames((graph, block)): PathNames<(String, String)>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let id = block_id(is_by_id(&mut params)?, &block)?;
    let direction = params.word("direction", &DIRECTIONS)?.unwrap_or(Direction::Outgoing);
    let edge_types = params.all("type");
    let mut at = position(&mut params)?;
    let is_count = is_count(&mut params)?;
    let after: Option<String> = params.one("cursor")?;
    if is_count && after.is_some() {
        return Err(Problem::invalid("count=true counts all neighbours: leave cursor out"));
    }
    let limit = params.limit()?;
    params.end()?;
    let after = after.as_deref().map(cursor).transpose()?;
    if let Some((position, _)) = &after {
        if at.is_some_and(|at| at != *position) {
            return Err(Problem::invalid("cursor continues at the position of the first page: leave at out"));
        }
        at = Some(*position);
    }
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let edge_types: Vec<&str> = edge_types.iter().map(String::as_str).collect();
        let snapshot = snapshot(database, &graph, at)?;
        if is_count {
            let (position, count) = (snapshot.at().get(), snapshot.degree(id, direction, &edge_types)?);
            return JsonResponse::of(&app.memory, &NeighbourCount { position, count });
        }
        let after = after.as_ref().map(|(_, after)| after.neighbour());
        let mut found = snapshot.neighbours(id, direction, &edge_types, after, limit + 1, |found| {
            (found.block, found.edge_type.to_owned(), found.end)
        })?;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found
            .last()
            .filter(|_| more)
            .map(|(block, edge_type, end)| format!("{}-{}-{block}-{edge_type}", snapshot.at(), shown(*end)));
        let reply = |(block, edge_type, end): (BlockId, String, End)| {
            Ok(NeighbourReply {
                id: block.to_string(),
                name: name(&snapshot, block)?,
                edge_type,
                end: shown(end).into(),
            })
        };
        let neighbours = found.into_iter().map(reply).collect::<Result<Vec<_>, Problem>>()?;
        JsonResponse::of(&app.memory, &ListPage::of(neighbours, next, GraphRead { position: snapshot.at().get() }))
    })
    .await
}

/// The last neighbour of an earlier response.
#[derive(Debug)]
struct After {
    block: BlockId,
    edge_type: String,
    end: End,
}

impl After {
    fn neighbour(&self) -> Neighbour<'_> {
        Neighbour { block: self.block, edge_type: &self.edge_type, end: self.end }
    }
}

/// Where a response ended, and the position that it was read at.
fn cursor(text: &str) -> Result<(Position, After), Problem> {
    let invalid = || Problem::invalid(format!("cursor must be the `next_cursor` of a page, got {text:?}"));
    let mut parts = text.splitn(4, '-');
    let mut part = || parts.next().ok_or_else(invalid);
    let position = part()?.parse().map_err(|_| invalid())?;
    let end = match part()? {
        "source" => End::Source,
        "target" => End::Target,
        _ => return Err(invalid()),
    };
    let block = part()?.parse().map_err(|_| invalid())?;
    Ok((Position::new(position), After { block, edge_type: part()?.to_owned(), end }))
}

pub(super) fn shown(end: End) -> &'static str {
    if end == End::Source { "source" } else { "target" }
}
