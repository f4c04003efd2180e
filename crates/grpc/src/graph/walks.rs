//! Walks, paths, orders and components. The walk runs before the first page, and its result is sent
//! in pages.

use std::sync::Arc;
use std::time::Duration;

use quire::graph::{BlockId, Direction, End, TraversalOrder, Visit, Walk, WalkBound, WalkPlan, truncate_sets};
use quire::{GraphFilter, GraphSnapshot, Position};
use quire_access::budget::ByteClaim;
use tonic::Status;

use super::{message, request, snapshot};
use crate::app::App;
use crate::error::{CallFailure, failed, invalid, overloaded, too_large, unknown_block};
use crate::pages::{PAGE_BYTES, PAGE_ITEMS_MAX, PageStream, PagedResult, stream};
use crate::proto::{self, BlockRef, BlockSet, WalkRequest};

/// Default and maximum depth of a walk.
const DEPTH: (usize, usize) = (1, 10_000_000);

/// Default depth of paths.
const PATHS_DEPTH: usize = 100;

/// Default and maximum number of blocks that a walk visits.
const VISITED: (usize, usize) = (100_000, 10_000_000);

/// Default number of paths.
const PATHS: usize = 100;

/// Default and maximum duration of a walk, in milliseconds.
const TIME_MS: (u32, u32) = (10_000, 60_000);

/// Maximum number of starts of a walk.
const STARTS_MAX: usize = 100_000;

/// A walk's parameters.
#[derive(Debug)]
struct WalkQuery {
    graph: String,
    at: Option<Position>,
    starts: Vec<BlockId>,
    /// Whether every block is a start.
    is_whole: bool,
    /// The starts as they were given, for error messages.
    given: Vec<BlockRef>,
    types: Vec<String>,
    filter: GraphFilter,
    direction: Direction,
    order: TraversalOrder,
    through_others: bool,
    with_missing: bool,
    with_edges: bool,
    depth_max: usize,
    visited_max: usize,
    results_max: Option<usize>,
    time_max: Duration,
}

impl WalkQuery {
    fn of(request: WalkRequest, depth: usize) -> Result<Self, Status> {
        let starts = request::ids("start", &request.starts)?;
        if request.whole_graph {
            if !starts.is_empty() {
                return Err(invalid("whole_graph begins at every block: leave starts out"));
            }
        } else if starts.is_empty() || starts.len() > STARTS_MAX {
            return Err(invalid(format!("a walk must have 1 to {STARTS_MAX} starts, got {}", starts.len())));
        }
        if request.with_edges && request.depth_first {
            return Err(invalid("edges require the order breadth first"));
        }
        let most = |field: &str, given: Option<u32>, (default, most): (usize, usize)| match given {
            Some(given) if given as usize > most => {
                Err(invalid(format!("{field} must be at most {most}, got {given}")))
            }
            given => Ok(given.map_or(default, |given| given as usize)),
        };
        let time_ms = most("time_ms_max", request.time_ms_max, (TIME_MS.0 as usize, TIME_MS.1 as usize))?;
        Ok(WalkQuery {
            direction: message::direction(request.direction)?,
            order: if request.depth_first { TraversalOrder::DepthFirst } else { TraversalOrder::BreadthFirst },
            depth_max: most("depth_max", request.depth_max, (depth, DEPTH.1))?,
            visited_max: most("visited_max", request.visited_max, VISITED)?.max(1),
            results_max: request.results_max.map(|results| results as usize),
            time_max: Duration::from_millis(time_ms as u64),
            at: request.at.map(Position::new),
            graph: request.graph,
            starts,
            is_whole: request.whole_graph,
            given: request.starts,
            types: request.types,
            filter: request::filter(request.filter)?,
            through_others: !request.only_through_matches,
            with_missing: !request.without_missing,
            with_edges: request.with_edges,
        })
    }

    /// The same for orders and components: filters apply only to the blocks that the walk continues
    /// through.
    fn of_whole(request: WalkRequest, depth: usize) -> Result<Self, Status> {
        if request.with_edges {
            return Err(invalid("paths, orders and components do not support other edges"));
        }
        if request.count_only {
            return Err(invalid("count_only is for Walk, ListBlocks and Neighbours"));
        }
        let asked = WalkQuery::of(request, depth)?;
        if asked.through_others && asked.filter != GraphFilter::default() {
            return Err(invalid("the filter requires only_through_matches in this call"));
        }
        Ok(asked)
    }

    /// Passes the plan to `walk`.
    fn with<T>(&self, walk: impl FnOnce(WalkPlan<'_>) -> Result<T, CallFailure>) -> Result<T, Status> {
        let edge_types: Vec<&str> = self.types.iter().map(String::as_str).collect();
        let walked = self.filter.with(|filter| {
            walk(WalkPlan {
                order: self.order,
                direction: self.direction,
                edge_types: &edge_types,
                filter,
                exempt: None,
                through_others: self.through_others,
                with_missing: self.with_missing,
                with_edges: self.with_edges,
                depth_max: self.depth_max,
                visited_max: self.visited_max,
                results_max: self.results_max.unwrap_or(usize::MAX),
            })
        });
        walked.map_err(|CallFailure(status)| status)
    }

    /// Checks that the walk has starts, as walks and paths must.
    fn check_starts(&self) -> Result<(), Status> {
        if self.is_whole { Err(invalid("whole_graph is for Order and Components")) } else { Ok(()) }
    }

    /// The graph to walk; every start must exist.
    fn snapshot(&self, app: &App) -> Result<GraphSnapshot, Status> {
        let snapshot = snapshot(app, &self.graph, self.at)?;
        for (start, given) in self.starts.iter().zip(&self.given) {
            if !snapshot.contains(*start).map_err(failed)? {
                return Err(unknown_block(snapshot.unknown_block(*start, request::name(Some(given)))));
            }
        }
        Ok(snapshot)
    }

    fn walk(&self, app: &App) -> Result<WalkResult, Status> {
        let snapshot = self.snapshot(app)?;
        let mut memory = WalkMemory::new(app);
        let claim = |bytes| memory.cover(bytes);
        let walk = self.with(|plan| match self.is_whole {
            true => snapshot.walk_whole_claiming(plan, Some(self.time_max), claim),
            false => snapshot.walk_claiming(&self.starts, plan, Some(self.time_max), claim),
        })?;
        WalkResult::of(walk, &snapshot, memory)
    }
}

/// The memory of a walk and its results, until they are sent.
#[derive(Debug)]
struct WalkMemory(ByteClaim);

impl WalkMemory {
    fn new(app: &App) -> Self {
        WalkMemory(app.caller().claim())
    }

    /// Claims or releases bytes, so that the claim has `bytes`.
    fn cover(&mut self, bytes: usize) -> Result<(), CallFailure> {
        self.0.shrink_to(bytes);
        self.grow(bytes - self.0.bytes()).map_err(CallFailure)
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        // The pages are claimed next to it, and all of them are within the share of the client.
        let share = self.0.caller().share_up_to(usize::MAX);
        if self.0.bytes() + bytes > share {
            return Err(too_large(format!("the walk exceeds the {share} bytes of memory of a client: visit less")));
        }
        self.0.grow(bytes).map_err(overloaded)
    }
}

/// The names of the edge types, by their numbers.
fn edge_types(snapshot: &GraphSnapshot) -> Result<Vec<String>, Status> {
    snapshot.look(|graph| Ok(graph.edge_type_names().map(str::to_owned).collect())).map_err(failed)
}

fn visit(edge_types: &[String], visit: Visit, block: Option<proto::Block>) -> proto::Visit {
    let step = visit.from;
    proto::Visit {
        id: message::id(visit.block),
        depth: u32::try_from(visit.depth).unwrap_or(u32::MAX),
        from: step.map(|step| message::id(step.block)).unwrap_or_default(),
        r#type: step.map(|step| edge_types[usize::from(step.edge_type)].clone()).unwrap_or_default(),
        incoming: step.is_some_and(|step| step.end == End::Source),
        block,
    }
}

/// A finished walk, and the names of the edge types in it.
#[derive(Debug)]
struct WalkResult {
    walk: Walk,
    edge_types: Vec<String>,
    memory: WalkMemory,
}

impl WalkResult {
    fn of(walk: Walk, snapshot: &GraphSnapshot, memory: WalkMemory) -> Result<Self, Status> {
        Ok(WalkResult { walk, edge_types: edge_types(snapshot)?, memory })
    }

    fn bound(&self) -> i32 {
        message::bound(self.walk.bound())
    }

    fn position(&self) -> u64 {
        self.walk.at().get()
    }
}

/// Sends a walk.
struct WalkPages {
    asked: WalkQuery,
    with_blocks: bool,
    is_count: bool,
    walked: Option<WalkResult>,
    /// How many visits and edges were sent.
    told: (usize, usize),
    is_done: bool,
}

/// Streams the blocks around some.
pub(super) async fn walk(app: Arc<App>, request: WalkRequest) -> Result<PageStream<proto::WalkResponse>, Status> {
    let (with_blocks, is_count) = (request.with_blocks, request.count_only);
    if is_count && (with_blocks || request.results_max.is_some()) {
        return Err(invalid("count_only returns no blocks: leave results_max and with_blocks out"));
    }
    let asked = WalkQuery::of(request, DEPTH.0)?;
    asked.check_starts()?;
    stream(app, WalkPages { asked, with_blocks, is_count, walked: None, told: (0, 0), is_done: false }).await
}

impl PagedResult for WalkPages {
    type Page = proto::WalkResponse;

    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status> {
        if self.is_done {
            return Ok(None);
        }
        let walked = match self.walked.take() {
            Some(walked) => walked,
            None => self.asked.walk(app)?,
        };
        if self.is_count {
            self.is_done = true;
            let count = Some(walked.walk.visits().count() as u64);
            let edge_count = self.asked.with_edges.then(|| walked.walk.edges().count() as u64);
            let (bound, position) = (walked.bound(), walked.position());
            return Ok(Some(proto::WalkResponse { bound, position, count, edge_count, ..Default::default() }));
        }
        let snapshot = snapshot(app, &self.asked.graph, Some(walked.walk.at()))?;
        let (mut visits, mut bytes) = (Vec::new(), 0);
        for (number, visit) in walked.walk.visits_from(self.told.0) {
            let block = match self.with_blocks {
                true => snapshot.block(visit.block, message::block).map_err(failed)?,
                false => None,
            };
            bytes += 64 + block.as_ref().map_or(0, message::bytes_of);
            visits.push(self::visit(&walked.edge_types, visit, block));
            self.told.0 = number + 1;
            if visits.len() == PAGE_ITEMS_MAX || bytes >= PAGE_BYTES {
                break;
            }
        }
        let mut edges = Vec::new();
        if visits.is_empty() {
            let edge = |edge: quire::graph::WalkedEdge| proto::WalkedEdge {
                source: message::id(edge.source),
                r#type: walked.edge_types[usize::from(edge.edge_type)].clone(),
                target: message::id(edge.target),
            };
            for (number, told) in walked.walk.edges_from(self.told.1).take(PAGE_ITEMS_MAX) {
                edges.push(edge(told));
                self.told.1 = number + 1;
            }
        }
        let is_end = visits.is_empty() && edges.is_empty();
        // A walk without matches still has a page, with its limit.
        self.is_done = is_end;
        let (bound, position) = (walked.bound(), walked.position());
        let page = proto::WalkResponse { visits, edges, bound, position, ..Default::default() };
        self.walked = Some(walked);
        Ok(if is_end && self.told != (0, 0) { None } else { Some(page) })
    }
}

/// Sends paths.
struct PathPages {
    asked: WalkQuery,
    target: BlockId,
    /// The target as it was given, for error messages.
    given: Option<BlockRef>,
    is_all: bool,
    with_blocks: bool,
    found: Option<FoundPaths>,
}

struct FoundPaths {
    edge_types: Vec<String>,
    position: u64,
    ways: std::vec::IntoIter<Vec<Visit>>,
    /// The unsent rest of the current path.
    way: std::vec::IntoIter<Visit>,
    bound: Option<WalkBound>,
    is_done: bool,
    /// The memory of the paths.
    _memory: WalkMemory,
}

/// Streams the paths from one block to another.
pub(super) async fn paths(
    app: Arc<App>,
    request: proto::PathsRequest,
) -> Result<PageStream<proto::PathsResponse>, Status> {
    let proto::PathsRequest { walk, target, all: is_all } = request;
    let walk = walk.ok_or_else(|| invalid("walk is missing: it has the start"))?;
    let (with_blocks, given) = (walk.with_blocks, target);
    let target = request::id("target", given.as_ref())?;
    let asked = WalkQuery::of_whole(walk, PATHS_DEPTH)?;
    asked.check_starts()?;
    if asked.starts.len() != 1 || asked.order == TraversalOrder::DepthFirst {
        return Err(invalid("paths must have exactly one start and the order breadth first"));
    }
    stream(app, PathPages { asked, target, given, is_all, with_blocks, found: None }).await
}

impl PathPages {
    fn find(&self, app: &App) -> Result<FoundPaths, Status> {
        let WalkQuery { starts, time_max, with_missing, .. } = &self.asked;
        let snapshot = self.asked.snapshot(app)?;
        let target = self.target;
        let is_target = if *with_missing { snapshot.knows(target) } else { snapshot.contains(target) };
        if !is_target.map_err(failed)? {
            return Err(unknown_block(snapshot.unknown_block(target, request::name(self.given.as_ref()))));
        }
        let mut memory = WalkMemory::new(app);
        let found = self.asked.with(|plan| {
            let (ends, time_max, claim) = ((starts[0], target), Some(*time_max), |bytes| memory.cover(bytes));
            match self.is_all {
                true => {
                    let count_max = self.asked.results_max.unwrap_or(PATHS);
                    snapshot.paths_claiming(ends, plan, count_max, time_max, claim)
                }
                false => snapshot.shortest_path_claiming(ends, plan, time_max, claim),
            }
        })?;
        Ok(FoundPaths {
            edge_types: edge_types(&snapshot)?,
            position: snapshot.at().get(),
            ways: found.paths.into_iter(),
            way: Vec::new().into_iter(),
            bound: found.bound,
            is_done: false,
            _memory: memory,
        })
    }
}

impl PagedResult for PathPages {
    type Page = proto::PathsResponse;

    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status> {
        let mut found = match self.found.take() {
            Some(found) => found,
            None => self.find(app)?,
        };
        if found.is_done {
            return Ok(None);
        }
        if found.way.as_slice().is_empty() {
            let way = found.ways.next();
            found.is_done = way.is_none();
            found.way = way.unwrap_or_default().into_iter();
        }
        let snapshot = snapshot(app, &self.asked.graph, Some(Position::new(found.position)))?;
        let (mut visits, mut bytes) = (Vec::new(), 0);
        while visits.len() < PAGE_ITEMS_MAX
            && bytes < PAGE_BYTES
            && let Some(visit) = found.way.next()
        {
            let block = match self.with_blocks {
                true => snapshot.block(visit.block, message::block).map_err(failed)?,
                false => None,
            };
            bytes += 64 + block.as_ref().map_or(0, message::bytes_of);
            visits.push(self::visit(&found.edge_types, visit, block));
        }
        let bound = message::bound(found.bound.filter(|_| found.is_done));
        let (position, more) = (found.position, !found.way.as_slice().is_empty());
        let page = proto::PathsResponse { visits, bound, position, more };
        self.found = Some(found);
        Ok(Some(page))
    }
}

/// Sets of blocks, sent in pages: a large set in several.
struct SetPages {
    sets: std::vec::IntoIter<Vec<BlockId>>,
    /// The unsent rest of the current set.
    set: std::vec::IntoIter<BlockId>,
}

impl SetPages {
    fn new(sets: Vec<Vec<BlockId>>) -> Self {
        SetPages { sets: sets.into_iter(), set: Vec::new().into_iter() }
    }

    fn page(&mut self) -> Vec<BlockSet> {
        let (mut page, mut left) = (Vec::new(), PAGE_ITEMS_MAX);
        while left > 0 {
            if self.set.as_slice().is_empty() {
                let Some(set) = self.sets.next() else { break };
                self.set = set.into_iter();
            }
            let ids: Vec<_> = self.set.by_ref().take(left).map(message::id).collect();
            left -= ids.len();
            page.push(BlockSet { ids, more: !self.set.as_slice().is_empty() });
        }
        page
    }
}

/// The analysis of the edges between the visited blocks.
struct WalkAnalysis<Made> {
    asked: WalkQuery,
    /// Maximum number of blocks to return.
    count_max: usize,
    /// Analyses a walk, and returns whether it had more blocks than the maximum.
    make: fn(&Walk, usize) -> (Made, bool),
    made: Option<(Made, i32, u64)>,
    memory: Option<WalkMemory>,
    is_begun: bool,
}

impl<Made> WalkAnalysis<Made> {
    fn new(request: WalkRequest, make: fn(&Walk, usize) -> (Made, bool)) -> Result<Self, Status> {
        if request.with_blocks {
            return Err(invalid("orders and components return ids: leave with_blocks out"));
        }
        let mut asked = WalkQuery::of_whole(request, DEPTH.1)?;
        asked.with_edges = true;
        if asked.order == TraversalOrder::DepthFirst {
            return Err(invalid("orders and components require the order breadth first"));
        }
        let count_max = asked.results_max.take().unwrap_or(usize::MAX);
        Ok(WalkAnalysis { asked, count_max, make, made: None, memory: None, is_begun: false })
    }

    /// The result, its limit and the position; and whether this is the first page.
    fn made(&mut self, app: &App) -> Result<(&mut (Made, i32, u64), bool), Status> {
        if self.made.is_none() {
            let mut walked = self.asked.walk(app)?;
            walked.memory.grow(walked.walk.analysis_bytes())?;
            let (made, is_cut) = (self.make)(&walked.walk, self.count_max);
            // The limit of the response is reached last, and reported first.
            let bound = Some(WalkBound::Results).filter(|_| is_cut).or(walked.walk.bound());
            self.made = Some((made, message::bound(bound), walked.position()));
            // The result stays, and the walk does not.
            let WalkResult { walk, mut memory, .. } = walked;
            let result_bytes = walk.analysis_bytes();
            drop(walk);
            memory.0.shrink_to(result_bytes);
            self.memory = Some(memory);
        }
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        Ok((self.made.as_mut().expect("just made"), is_first))
    }
}

/// The order, the cycles, and the blocks after them.
type WalkOrder = (std::vec::IntoIter<BlockId>, SetPages, std::vec::IntoIter<BlockId>);

/// The visited blocks in topological order.
pub(super) async fn order(app: Arc<App>, request: WalkRequest) -> Result<PageStream<proto::OrderResponse>, Status> {
    let make = |walk: &Walk, count_max| {
        let mut found = walk.topological_order();
        let is_cut = found.truncate(count_max);
        ((found.order.into_iter(), SetPages::new(found.cycles), found.behind.into_iter()), is_cut)
    };
    stream(app, WalkAnalysis::<WalkOrder>::new(request, make)?).await
}

impl PagedResult for WalkAnalysis<WalkOrder> {
    type Page = proto::OrderResponse;

    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status> {
        let (((order, cycles, behind), bound, position), is_first) = self.made(app)?;
        let mut page = proto::OrderResponse { bound: *bound, position: *position, ..proto::OrderResponse::default() };
        page.order = order.take(PAGE_ITEMS_MAX).map(message::id).collect();
        if page.order.is_empty() {
            page.cycles = cycles.page();
        }
        if page.order.is_empty() && page.cycles.is_empty() {
            page.behind = behind.take(PAGE_ITEMS_MAX).map(message::id).collect();
        }
        let is_end = page.order.is_empty() && page.cycles.is_empty() && page.behind.is_empty() && !is_first;
        Ok((!is_end).then_some(page))
    }
}

/// The strongly connected components of the visited blocks.
pub(super) async fn components(
    app: Arc<App>,
    request: WalkRequest,
) -> Result<PageStream<proto::ComponentsResponse>, Status> {
    let make = |walk: &Walk, count_max| {
        let mut found = walk.components();
        let is_cut = truncate_sets(&mut found, count_max);
        (SetPages::new(found), is_cut)
    };
    stream(app, WalkAnalysis::<SetPages>::new(request, make)?).await
}

impl PagedResult for WalkAnalysis<SetPages> {
    type Page = proto::ComponentsResponse;

    fn next(&mut self, app: &App) -> Result<Option<Self::Page>, Status> {
        let ((sets, bound, position), is_first) = self.made(app)?;
        let components = sets.page();
        let is_end = components.is_empty() && !is_first;
        Ok((!is_end).then_some(proto::ComponentsResponse { components, bound: *bound, position: *position }))
    }
}
