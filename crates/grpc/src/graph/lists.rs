//! Lists in pages: of blocks, of neighbours, and of the ends of edges without a block.

use std::sync::Arc;
use std::time::Duration;

use quire::graph::{self, BlockId, Direction, End, ListCursor, ListPlan, Wants};
use quire::{GraphFilter, Operation, Position, Resource, ResourceKind};
use tonic::Status;

use super::{message, request, snapshot};
use crate::app::App;
use crate::error::{failed, invalid, not_found};
use crate::pages::{PAGE_BYTES, PAGE_ITEMS_MAX, PageStream, PagedResult, stream};
use crate::proto::{self, missing_response, neighbours_response};

/// A page of a list is sent after this time, even if it is empty.
const PAGE_TIME_MAX: Duration = Duration::from_secs(1);

/// How many slots are scanned before writers get their turn.
const SLOTS_AT_ONCE: u32 = 65_536;

#[derive(Debug)]
struct BlockPages {
    graph: String,
    filter: GraphFilter,
    source_prefix: String,
    left: u64,
    at: Option<Position>,
    from: Option<ListCursor>,
    /// The number of blocks so far, when only that is returned.
    count: Option<u64>,
}

/// The matching blocks.
pub(super) async fn blocks(
    app: Arc<App>,
    request: proto::ListBlocksRequest,
) -> Result<PageStream<proto::ListBlocksResponse>, Status> {
    let proto::ListBlocksRequest { graph, filter, source_prefix, limit, at, count_only } = request;
    if count_only && limit.is_some() {
        return Err(invalid("count_only counts all blocks: leave limit out"));
    }
    let (filter, left, at) = (request::filter(filter)?, limit.unwrap_or(u64::MAX), at.map(Position::new));
    let (from, count) = (Some(ListCursor::START), count_only.then_some(0));
    stream(app, BlockPages { graph, filter, source_prefix, left, at, from, count }).await
}

impl PagedResult for BlockPages {
    type Page = proto::ListBlocksResponse;

    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status> {
        let Some(from) = self.from.filter(|_| self.left > 0) else { return Ok(None) };
        let snapshot = snapshot(app, &self.graph, self.at)?;
        self.at = Some(snapshot.at());
        let position = snapshot.at().get();
        if let Some(count) = &mut self.count {
            let (more, next) = self
                .filter
                .with(|filter| {
                    let plan = ListPlan { filter, source_prefix: &self.source_prefix };
                    snapshot.count(&plan, from, Some(PAGE_TIME_MAX))
                })
                .map_err(failed)?;
            *count += more;
            self.from = next;
            let count = Some(*count).filter(|_| next.is_none());
            return Ok(Some(proto::ListBlocksResponse { blocks: Vec::new(), position, count }));
        }
        let items_max = usize::try_from(self.left).unwrap_or(usize::MAX).min(PAGE_ITEMS_MAX);
        let (mut blocks, mut bytes) = (Vec::new(), 0);
        let next = self.filter.with(|filter| {
            let plan = ListPlan { filter, source_prefix: &self.source_prefix };
            snapshot.list(&plan, from, Some(PAGE_TIME_MAX), |block| {
                let block = message::block(block);
                bytes += message::bytes_of(&block);
                blocks.push(block);
                if blocks.len() == items_max || bytes >= PAGE_BYTES { Wants::Break(()) } else { Wants::Continue(()) }
            })
        });
        self.from = next.map_err(failed)?;
        self.left -= blocks.len() as u64;
        Ok(Some(proto::ListBlocksResponse { blocks, position, count: None }))
    }
}

#[derive(Debug)]
struct NeighbourPages {
    graph: String,
    block: BlockId,
    direction: Direction,
    types: Vec<String>,
    left: u64,
    at: Option<Position>,
    /// The last neighbour sent: its block, the type of its edge, and its end of it.
    after: Option<(BlockId, String, End)>,
    /// Whether only the number of neighbours is returned.
    is_count: bool,
    is_done: bool,
}

/// The neighbours of a block.
pub(super) async fn neighbours(
    app: Arc<App>,
    request: proto::NeighboursRequest,
) -> Result<PageStream<proto::NeighboursResponse>, Status> {
    let direction = message::direction(request.direction)?;
    let block = request::id("block", request.block.as_ref())?;
    let proto::NeighboursRequest { graph, types, limit, at, after, count_only: is_count, .. } = request;
    if is_count && (limit.is_some() || after.is_some()) {
        return Err(invalid("count_only counts all neighbours: leave limit and after out"));
    }
    let (left, at) = (limit.unwrap_or(u64::MAX), at.map(Position::new));
    let after = after.map(behind).transpose()?;
    let pages = NeighbourPages { graph, block, direction, types, left, at, after, is_count, is_done: false };
    stream(app, pages).await
}

/// The last neighbour of an earlier response.
fn behind(after: neighbours_response::Neighbour) -> Result<(BlockId, String, End), Status> {
    let id = request::id("after", Some(&proto::BlockRef { r#ref: Some(proto::block_ref::Ref::Id(after.id)) }))?;
    Ok((id, after.r#type, if after.incoming { End::Source } else { End::Target }))
}

impl PagedResult for NeighbourPages {
    type Page = proto::NeighboursResponse;

    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status> {
        if self.is_done || self.left == 0 {
            return Ok(None);
        }
        let snapshot = snapshot(app, &self.graph, self.at)?;
        self.at = Some(snapshot.at());
        let items_max = usize::try_from(self.left).unwrap_or(usize::MAX).min(PAGE_ITEMS_MAX);
        let types: Vec<&str> = self.types.iter().map(String::as_str).collect();
        let position = snapshot.at().get();
        if self.is_count {
            self.is_done = true;
            let count = snapshot.degree(self.block, self.direction, &types).map_err(failed)?;
            return Ok(Some(proto::NeighboursResponse { position, count: Some(count as u64), ..Default::default() }));
        }
        let after = self.after.as_ref();
        let after = after.map(|(block, edge_type, end)| graph::Neighbour { block: *block, edge_type, end: *end });
        let found = snapshot.neighbours(self.block, self.direction, &types, after, items_max, |found| {
            (found.block, found.edge_type.to_owned(), found.end)
        });
        let found = found.map_err(failed)?;
        self.is_done = found.len() < items_max;
        self.left -= found.len() as u64;
        self.after = found.last().cloned().or(self.after.take());
        let message = |(block, edge_type, end)| neighbours_response::Neighbour {
            id: message::id(block),
            r#type: edge_type,
            incoming: end == End::Source,
        };
        let neighbours = found.into_iter().map(message).collect();
        Ok(Some(proto::NeighboursResponse { neighbours, position, count: None }))
    }
}

#[derive(Debug)]
struct MissingPages {
    graph: String,
    slot: Option<u32>,
}

/// The ends of edges without a block.
pub(super) async fn missing(
    app: Arc<App>,
    request: proto::MissingRequest,
) -> Result<PageStream<proto::MissingResponse>, Status> {
    stream(app, MissingPages { graph: request.graph, slot: Some(0) }).await
}

impl PagedResult for MissingPages {
    type Page = proto::MissingResponse;

    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status> {
        let Some(from) = self.slot else { return Ok(None) };
        let resource = Resource::new(ResourceKind::Graph, &self.graph);
        let found = app.database().read_for(resource, Operation::Read, |view| {
            let graph = view.graphs.graph(&self.graph)?;
            let (found, next) = graph.missing_blocks(from, PAGE_ITEMS_MAX, SLOTS_AT_ONCE);
            let degree = |id, direction| graph.degree(id, direction, &[]) as u64;
            let message = |(_, id)| missing_response::MissingBlock {
                id: message::id(id),
                outgoing: degree(id, Direction::Outgoing),
                incoming: degree(id, Direction::Incoming),
            };
            Some((found.into_iter().map(message).collect(), next))
        });
        let found = found.map_err(failed)?.wait().map_err(failed)?;
        let (blocks, next) = found.ok_or_else(|| not_found(format!("unknown graph {:?}", self.graph)))?;
        self.slot = next;
        Ok(Some(proto::MissingResponse { blocks }))
    }
}
