//! Blocks: puts, and reads of one block, its versions, lists of blocks, and the missing ends of
//! edges.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::graph::{Block, BlockId, Direction, GraphChangeKind, ListCursor, ListPlan, Wants};
use quire::{Database, ErrorKind, History, Operation, Place, Position, Resource, ResourceKind};
use quire_access::BoundedRequest;
use quire_api::{ListPage, NoFacts};

use super::{block_id, filter, given_name, is_by_id, is_count, position, snapshot, unknown_block, unknown_graph};
use crate::app::App;
use crate::body::{Body, BodyText};
use crate::bytes::value;
use crate::commit::{ReadPart, commit_part};
use crate::error::Problem;
use crate::given::GivenField;
use crate::idempotency::RequestKey;
use crate::memory::Claim;
use crate::params::{Params, PathNames};
use crate::response::{JsonResponse, bounded};
use quire_api::reply::{BlockCount, BlockReply, GraphRead, MissingBlock, VersionReply};
use quire_api::request::PartRequest;

/// How long a list searches for blocks before it returns what it has.
const LIST_TIME_MAX: Duration = Duration::from_secs(2);

/// How many slots are scanned before writers get their turn.
const SLOTS_AT_ONCE: u32 = 65_536;

/// How many slots are scanned in a step.
const SLOTS_PER_STEP: u64 = 16;

/// Copies a block, within the free memory.
///
/// # Errors
/// When there is too little memory.
pub(super) fn block_within(claim: &mut Claim, block: &Block<'_>) -> Result<BlockReply, Problem> {
    claim.grow(block.metadata.len() + block.content.len())?;
    Ok(block_reply(block))
}

/// Copies a block.
pub(super) fn block_reply(block: &Block<'_>) -> BlockReply {
    BlockReply {
        id: block.id.to_string(),
        name: block.name.map(str::to_owned),
        version: block.version.get(),
        kind: block.kind.to_owned(),
        source: block.source.to_owned(),
        tags: block.tags().map(str::to_owned).collect(),
        time_ms: block.time.as_millis(),
        metadata: value(block.metadata.to_vec()),
        content: value(block.content.to_vec()),
    }
}

/// `GET /v1/graphs/{graph}/blocks/{block}`: a block.
pub(crate) async fn block(
    State(app): State<Arc<App>>,
    PathNames((graph, block)): PathNames<(String, String)>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let is_by_id = is_by_id(&mut params)?;
    let id = block_id(is_by_id, &block)?;
    let at = position(&mut params)?;
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let mut claim = app.memory.claim();
        let snapshot = snapshot(database, &graph, at)?;
        let found = snapshot.block(id, |block| block_within(&mut claim, block))?;
        JsonResponse::within(claim, &found.ok_or_else(|| unknown_block(&snapshot, id, given_name(is_by_id, &block)))??)
    })
    .await
}

/// `POST /v1/graphs/{graph}/blocks/{block}`: puts a block.
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    PathNames((graph, block)): PathNames<(String, String)>,
    mut params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    let is_by_id = is_by_id(&mut params)?;
    params.end()?;
    block_id(is_by_id, &block)?;
    let read: ReadPart = match is_by_id {
        true => |names, body| put_block(names, GivenField::Id("block", &names[1]), body),
        false => |names, body| put_block(names, GivenField::Name("block", &names[1]), body),
    };
    commit_part(&app, key, vec![graph, block], body, read).await
}

/// The part of a body that puts the block of this field into the graph of the first name.
fn put_block<'r>(names: &'r [String], block: GivenField<'r>, body: &'r BodyText) -> Result<PartRequest<'r>, Problem> {
    body.parse_with(&[GivenField::Name("graph", &names[0]), block]).map(PartRequest::PutBlock)
}

/// `GET /v1/graphs/{graph}/blocks/{block}/versions`: the versions of a block, newest first.
pub(crate) async fn versions(
    State(app): State<Arc<App>>,
    PathNames((graph, block)): PathNames<(String, String)>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let id = block_id(is_by_id(&mut params)?, &block)?;
    let before = params.cursor("before")?.map(Position::new);
    let limit = params.limit()?;
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let snapshot = snapshot(database, &graph, None)?;
        let before = before.unwrap_or_else(|| snapshot.at().next());
        let mut claim = app.memory.claim();
        let versions = snapshot.look(|graph| {
            let (mut versions, mut refused) = (Vec::new(), None);
            let (mut last, mut next) = (None::<String>, None);
            graph.versions(snapshot.history(), id, Place::new(before, 0), &mut |change| {
                if versions.len() == limit {
                    next = last.take();
                    return Wants::Break(());
                }
                let position = change.place.position.get();
                let version = match &change.what {
                    GraphChangeKind::BlockPut(block) => block_within(&mut claim, block)
                        .map(|block| VersionReply::Put { position, block: Box::new(block) }),
                    _ => Ok(VersionReply::Deleted { position, time_ms: change.time.as_millis() }),
                };
                match version {
                    Ok(version) => versions.push(version),
                    Err(problem) => {
                        refused = Some(problem);
                        return Wants::Break(());
                    }
                }
                last = Some(position.to_string());
                Wants::Continue(())
            })?;
            Ok(match refused {
                None => Ok(ListPage::of(versions, next, NoFacts {})),
                Some(problem) => Err(problem),
            })
        })?;
        JsonResponse::within(claim, &versions?)
    })
    .await
}

/// `GET /v1/graphs/{graph}/blocks`: blocks by kind, tag, source and metadata.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let asked = filter::of(&mut params)?;
    let source_prefix: String = params.one("source_prefix")?.unwrap_or_default();
    let after: Option<String> = params.one("cursor")?;
    let mut at = position(&mut params)?;
    let is_count = is_count(&mut params)?;
    let limit = params.limit()?;
    params.end()?;
    let mut from = ListCursor::START;
    if let Some(after) = &after {
        let (position, cursor) = cursor(after)?;
        if at.is_some_and(|at| at != position) {
            return Err(Problem::invalid("cursor continues at the position of the first page: leave at out"));
        }
        (at, from) = (Some(position), cursor);
    }
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let snapshot = snapshot(database, &graph, at)?;
        let position = snapshot.at().get();
        let shown = |next: ListCursor| {
            let Place { position: at, index } = next.place;
            format!("{position}-{}-{at}-{index}", next.kind)
        };
        if is_count {
            let (count, next) = asked.with(|filter| {
                let plan = ListPlan { filter, source_prefix: &source_prefix };
                snapshot.count(&plan, from, Some(LIST_TIME_MAX))
            })?;
            return JsonResponse::of(&app.memory, &BlockCount { position, count, next_cursor: next.map(shown) });
        }
        let (mut blocks, mut claim, mut refused) = (Vec::new(), app.memory.claim(), None);
        let next = asked.with(|filter| {
            let plan = ListPlan { filter, source_prefix: &source_prefix };
            snapshot.list(&plan, from, Some(LIST_TIME_MAX), |block| {
                match block_within(&mut claim, block) {
                    Ok(block) => blocks.push(block),
                    Err(problem) => {
                        refused = Some(problem);
                        return Wants::Break(());
                    }
                }
                if blocks.len() == limit { Wants::Break(()) } else { Wants::Continue(()) }
            })
        })?;
        if let Some(refused) = refused {
            return Err(refused);
        }
        JsonResponse::within(claim, &ListPage::of(blocks, next.map(shown), GraphRead { position }))
    })
    .await
}

/// Where a list continues, and the position that it is read at.
fn cursor(text: &str) -> Result<(Position, ListCursor), Problem> {
    let invalid = || Problem::invalid(format!("cursor must be the `next_cursor` of a page, got {text:?}"));
    let numbers: Vec<u64> = text.split('-').map(str::parse).collect::<Result<_, _>>().map_err(|_| invalid())?;
    let [at, kind, position, index] = numbers[..] else { return Err(invalid()) };
    let (kind, index) = u16::try_from(kind).ok().zip(u32::try_from(index).ok()).ok_or_else(invalid)?;
    let place = Place::new(Position::new(position), index);
    Ok((Position::new(at), ListCursor { kind, place }))
}

/// `GET /v1/graphs/{graph}/missing`: the ends of edges without a block, ordered by slot. Each page
/// continues after the previous one.
pub(crate) async fn missing(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let from = params.one("cursor")?.unwrap_or(0);
    let limit = params.limit()?;
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let (found, next) = missing_from(database, &graph, from, limit)?;
        let next = next.map(|slot| slot.to_string());
        let resource = Resource::new(ResourceKind::Graph, &graph);
        let blocks = database.read_for(resource, Operation::Read, |view| {
            let graph = view.graphs.graph(&graph)?;
            let block = |id: &BlockId| MissingBlock {
                id: id.to_string(),
                outgoing: graph.degree(*id, Direction::Outgoing, &[]),
                incoming: graph.degree(*id, Direction::Incoming, &[]),
            };
            Some(found.iter().map(block).collect::<Vec<_>>())
        })?;
        let blocks = blocks.wait()?.ok_or_else(|| unknown_graph(&graph))?;
        JsonResponse::of(&app.memory, &ListPage::of(blocks, next, NoFacts {}))
    })
    .await
}

/// Up to `limit` ends of edges without a block from a slot on, and the slot of the next one. A page
/// that uses up the steps of its request is short, and has a next page.
fn missing_from(
    database: &Database,
    graph: &str,
    from: u32,
    limit: usize,
) -> Result<(Vec<BlockId>, Option<u32>), Problem> {
    let (first, mut missing, mut slot) = (from, Vec::new(), Some(from));
    while let Some(from) = slot {
        // One more block shows whether there is a next page, and where it begins.
        let count_max = limit + 1 - missing.len();
        let resource = Resource::new(ResourceKind::Graph, graph);
        let found = database.read_for(resource, Operation::Read, |view| -> quire::Result<_> {
            let Some(graph) = view.graphs.graph(graph) else { return Ok(None) };
            let (found, next) = graph.missing_blocks(from, count_max, SLOTS_AT_ONCE);
            let scanned = next.map_or(graph.block_count() as u64, |next| (next - from).into());
            view.history.claim(scanned.min(SLOTS_AT_ONCE.into()) / SLOTS_PER_STEP)?;
            Ok(Some((found, next)))
        })?;
        let found = match found.wait()? {
            Err(error) if error.kind() == ErrorKind::TooCostly && from > first => return Ok((missing, Some(from))),
            found => found?,
        };
        let (found, next) = found.ok_or_else(|| unknown_graph(graph))?;
        for (slot, id) in found {
            if missing.len() == limit {
                return Ok((missing, Some(slot)));
            }
            missing.push(id);
        }
        slot = next;
    }
    Ok((missing, None))
}
