//! Walks, paths between two blocks, and orders and components of the blocks that a walk reaches.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use quire::graph::{BlockId, BlockRef, Direction, TraversalOrder, Visit, Walk, WalkBound, WalkPlan, truncate_sets};
use quire::{Database, GraphFilter, GraphSnapshot, Timestamp};
use quire_access::BoundedRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::neighbours::{DIRECTIONS, shown};
use super::{block_id, filter, given_name, is_by_id, is_count, name, position, snapshot, unknown_block};
use crate::app::App;
use crate::body::{Body, BodyText};
use crate::error::Problem;
use crate::json::BoundedList;
use crate::params::{Params, PathNames, within};
use crate::response::{JsonResponse, bounded};
use quire_api::reply::{
    ComponentsReply, NamedBlock, OrderReply, PathsReply, VisitReply, WalkCount, WalkReply, WalkedEdgeReply,
};
use quire_api::request::BlockRequest;

/// Default and maximum depth of a walk.
const DEPTH: (usize, usize) = (1, 10_000_000);

/// Default and maximum number of blocks that a walk visits.
const VISITED: (usize, usize) = (100_000, 10_000_000);

/// Default and maximum duration of a walk, in milliseconds.
const TIME_MS: (u64, u64) = (10_000, 60_000);

/// Maximum number of starts in a body.
const STARTS_MAX: usize = 100_000;

/// The memory of a visit and of an edge in a response before it is written, in bytes.
const VISIT_BYTES: usize = 400;
const EDGE_BYTES: usize = 200;

const ORDERS: [(&str, TraversalOrder); 2] =
    [("breadth", TraversalOrder::BreadthFirst), ("depth", TraversalOrder::DepthFirst)];

/// The parameters of a walk.
struct WalkParams {
    is_by_id: bool,
    at: Option<quire::Position>,
    filter: GraphFilter,
    edge_types: Vec<String>,
    direction: Direction,
    through_others: bool,
    with_missing: bool,
    depth_max: usize,
    visited_max: usize,
    time: Duration,
}

impl WalkParams {
    fn of(params: &mut Params, depth: usize) -> Result<Self, Problem> {
        let time_ms = within("time_ms", params.one("time_ms")?.unwrap_or(TIME_MS.0), 1..=TIME_MS.1)?;
        Ok(WalkParams {
            is_by_id: is_by_id(params)?,
            at: position(params)?,
            filter: filter::of(params)?,
            edge_types: params.all("type"),
            direction: params.word("direction", &DIRECTIONS)?.unwrap_or(Direction::Outgoing),
            through_others: params.one("through")?.unwrap_or(true),
            with_missing: params.one("missing")?.unwrap_or(true),
            depth_max: within("depth", params.one("depth")?.unwrap_or(depth), 0..=DEPTH.1)?,
            visited_max: within("visited", params.one("visited")?.unwrap_or(VISITED.0), 1..=VISITED.1)?,
            time: Duration::from_millis(time_ms),
        })
    }

    /// The same for orders and components: filters apply only to the blocks that the walk continues
    /// through.
    fn of_whole(params: &mut Params, depth: usize) -> Result<Self, Problem> {
        let asked = WalkParams::of(params, depth)?;
        if asked.through_others && asked.filter != GraphFilter::default() {
            return Err(Problem::invalid("the filters kind, tag and metadata require through=false on this route"));
        }
        Ok(asked)
    }

    /// Passes the plan to `walk`, breadth first.
    fn with<T>(&self, walk: impl FnOnce(WalkPlan<'_>) -> T) -> T {
        let edge_types: Vec<&str> = self.edge_types.iter().map(String::as_str).collect();
        self.filter.with(|filter| {
            walk(WalkPlan {
                order: TraversalOrder::BreadthFirst,
                direction: self.direction,
                edge_types: &edge_types,
                filter,
                exempt: None,
                through_others: self.through_others,
                with_missing: self.with_missing,
                with_edges: false,
                depth_max: self.depth_max,
                visited_max: self.visited_max,
                results_max: usize::MAX,
            })
        })
    }
}

/// `GET /v1/graphs/{graph}/walk`: the blocks around one.
pub(crate) async fn walk(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let asked = WalkParams::of(&mut params, DEPTH.0)?;
    let order = params.word("order", &ORDERS)?.unwrap_or(TraversalOrder::BreadthFirst);
    let start: String = params.one("start")?.ok_or_else(|| Problem::invalid("start must name a block"))?;
    let with_edges = params.one("edges")?.unwrap_or(false);
    let is_count = is_count(&mut params)?;
    let results_max = if is_count { usize::MAX } else { params.limit()? };
    params.end()?;
    if with_edges && order == TraversalOrder::DepthFirst {
        return Err(Problem::invalid("edges require the order breadth first"));
    }
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let id = block_id(asked.is_by_id, &start)?;
        let end = RequestEnd::after(database, asked.time);
        let snapshot = snapshot(database, &graph, asked.at)?;
        is_there(&snapshot, id, given_name(asked.is_by_id, &start))?;
        let mut claim = app.memory.claim();
        let walked = asked.with(|plan| {
            let plan = WalkPlan { order, with_edges, results_max, ..plan };
            snapshot.walk_claiming(&[id], plan, Some(end.left()), |bytes| claim.cover(bytes))
        })?;
        if is_count {
            let (bound, position) = (walked.bound().map(bound), walked.at().get());
            let edges = with_edges.then(|| walked.edges().count());
            let count = WalkCount { count: walked.visits().count(), edges, bound, position };
            return JsonResponse::within(claim, &count);
        }
        claim.grow(VISIT_BYTES * walked.visits().count() + EDGE_BYTES * walked.edges().count())?;
        let mut names = NameCache::of(&snapshot, end)?;
        let visits = names.visits(walked.visits())?;
        let edges = with_edges.then(|| {
            let reply = |edge: quire::graph::WalkedEdge| WalkedEdgeReply {
                source: edge.source.to_string(),
                edge_type: names.edge_types[usize::from(edge.edge_type)].clone(),
                target: edge.target.to_string(),
            };
            walked.edges().map(reply).collect()
        });
        let (bound, position) = (names.bound(walked.bound()).map(bound), walked.at().get());
        JsonResponse::within(claim, &WalkReply { visits, edges, bound, position })
    })
    .await
}

/// `GET /v1/graphs/{graph}/paths`: a shortest path from one block to another, or all of them.
pub(crate) async fn paths(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let asked = WalkParams::of_whole(&mut params, 100)?;
    let mut end = |name: &str| {
        let block: Option<String> = params.one(name)?;
        block.ok_or_else(|| Problem::invalid(format!("{name} must name a block")))
    };
    let (from, to) = (end("from")?, end("to")?);
    let is_all = params.one("all")?.unwrap_or(false);
    let count_max = params.limit()?;
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let (start, target) = (block_id(asked.is_by_id, &from)?, block_id(asked.is_by_id, &to)?);
        let end = RequestEnd::after(database, asked.time);
        let snapshot = snapshot(database, &graph, asked.at)?;
        is_there(&snapshot, start, given_name(asked.is_by_id, &from))?;
        let is_target = if asked.with_missing { snapshot.knows(target)? } else { snapshot.contains(target)? };
        if !is_target {
            return Err(unknown_block(&snapshot, target, given_name(asked.is_by_id, &to)));
        }
        let position = snapshot.at().get();
        let mut names = NameCache::of(&snapshot, end)?;
        let mut claim = app.memory.claim();
        let found = asked.with(|plan| {
            let (ends, time_max, claim) = ((start, target), Some(end.left()), |bytes| claim.cover(bytes));
            match is_all {
                true => snapshot.paths_claiming(ends, plan, count_max, time_max, claim),
                false => snapshot.shortest_path_claiming(ends, plan, time_max, claim),
            }
        })?;
        let (found, bound) = (found.paths, found.bound);
        claim.grow(VISIT_BYTES * found.iter().map(Vec::len).sum::<usize>())?;
        let mut paths = Vec::with_capacity(found.len());
        for way in found {
            let visits = names.visits(way)?;
            // A path is whole or left out.
            if names.is_late {
                break;
            }
            paths.push(visits);
        }
        let bound = names.bound(bound).map(self::bound);
        JsonResponse::within(claim, &PathsReply { paths, bound, position })
    })
    .await
}

/// `GET /v1/graphs/{graph}/order`: the blocks reachable from some, each after all blocks with an
/// edge to it.
pub(crate) async fn order(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let starts = GivenStarts::Params(WalkStarts::of_params(&mut params)?);
    analyse(app, graph, params, starts, ordered).await
}

/// `POST /v1/graphs/{graph}/order`: the same from the blocks in the body, or for the whole graph.
pub(crate) async fn order_from(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    analyse(app, graph, params, GivenStarts::Body(body), ordered).await
}

/// `GET /v1/graphs/{graph}/components`: the strongly connected components of the blocks reachable
/// from some.
pub(crate) async fn components(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let starts = GivenStarts::Params(WalkStarts::of_params(&mut params)?);
    analyse(app, graph, params, starts, parted).await
}

/// `POST /v1/graphs/{graph}/components`: the same from the blocks in the body, or of the whole
/// graph.
pub(crate) async fn components_from(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    analyse(app, graph, params, GivenStarts::Body(body), parted).await
}

fn ordered(walked: &Walk, limit: usize, names: &mut NameCache<'_>) -> Result<OrderReply, Problem> {
    let mut found = walked.topological_order();
    let (is_cut, position) = (found.truncate(limit), walked.at().get());
    let cycles = names.sets(found.cycles)?;
    let (order, behind) = (names.blocks(found.order)?, names.blocks(found.behind)?);
    let bound = names.bound_of_whole(walked, is_cut);
    Ok(OrderReply { order, cycles, behind, bound, position })
}

fn parted(walked: &Walk, limit: usize, names: &mut NameCache<'_>) -> Result<ComponentsReply, Problem> {
    let mut found = walked.components();
    let (is_cut, position) = (truncate_sets(&mut found, limit), walked.at().get());
    let components = names.sets(found)?;
    let bound = names.bound_of_whole(walked, is_cut);
    Ok(ComponentsReply { components, bound, position })
}

/// The body of an order or of components.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartsRequest<'r> {
    #[serde(borrow, default)]
    starts: BoundedList<BlockRequest<'r>, STARTS_MAX>,
    /// Every block instead.
    #[serde(default)]
    whole: bool,
}

/// The blocks from which an order or components begin.
#[derive(Debug)]
enum WalkStarts {
    /// Each with its name, if the request names it.
    Blocks(Vec<(BlockId, Option<String>)>),
    Whole,
}

/// Where a request gives its starts. A body is long, and is parsed on another thread.
enum GivenStarts {
    Params(WalkStarts),
    Body(Body),
}

impl WalkStarts {
    fn of_params(params: &mut Params) -> Result<Self, Problem> {
        let given = params.all("start");
        if given.is_empty() {
            return Err(Problem::invalid("start must name a block; it may be given several times"));
        }
        let is_by_id = is_by_id(params)?;
        let start = |start: String| {
            let id = block_id(is_by_id, &start)?;
            Ok((id, Some(start).filter(|_| !is_by_id)))
        };
        Ok(WalkStarts::Blocks(given.into_iter().map(start).collect::<Result<_, Problem>>()?))
    }

    fn of_body(body: &mut BodyText) -> Result<Self, Problem> {
        // The parsed names, and their copies.
        body.grow(2 * body.len())?;
        let StartsRequest { starts: BoundedList(starts), whole } = body.parse()?;
        match (starts.len(), whole) {
            (0, true) => Ok(WalkStarts::Whole),
            (0, false) | (_, true) => {
                Err(Problem::invalid("either starts must name blocks, or whole must be true: give one of the two"))
            }
            (_, false) => {
                let start = |start: &BlockRequest<'_>| match start.block() {
                    BlockRef::Name(name) => (BlockId::of_name(name), Some(name.to_owned())),
                    BlockRef::Id(id) => (id, None),
                };
                Ok(WalkStarts::Blocks(starts.iter().map(start).collect()))
            }
        }
    }
}

/// Walks from the starts with edges, and computes a result from the walk.
async fn analyse<T: Serialize + 'static>(
    app: Arc<App>,
    graph: String,
    mut params: Params,
    starts: GivenStarts,
    make: fn(&Walk, usize, &mut NameCache<'_>) -> Result<T, Problem>,
) -> Result<JsonResponse, Problem> {
    let asked = WalkParams::of_whole(&mut params, DEPTH.1)?;
    let limit = params.limit()?;
    params.end()?;
    if asked.is_by_id {
        return Err(Problem::invalid("the body identifies a block by its name or by {\"id\": ...}: leave by out"));
    }
    let request = BoundedRequest::begin(&app.database());
    let analysed = move |database: &Database, starts: WalkStarts| {
        let end = RequestEnd::after(database, asked.time);
        let snapshot = snapshot(database, &graph, asked.at)?;
        let mut claim = app.memory.claim();
        let walked = asked.with(|plan| {
            let plan = WalkPlan { with_edges: true, ..plan };
            let WalkStarts::Blocks(starts) = starts else {
                return snapshot.walk_whole_claiming(plan, Some(end.left()), |bytes| claim.cover(bytes));
            };
            let mut ids = Vec::with_capacity(starts.len());
            for (id, name) in starts {
                is_there(&snapshot, id, name.as_deref())?;
                ids.push(id);
            }
            snapshot.walk_claiming(&ids, plan, Some(end.left()), |bytes| claim.cover(bytes))
        })?;
        claim.grow(walked.analysis_bytes() + VISIT_BYTES * limit.min(walked.visited()))?;
        let made = make(&walked, limit, &mut NameCache::of(&snapshot, end)?)?;
        JsonResponse::within(claim, &made)
    };
    match starts {
        GivenStarts::Params(starts) => bounded(request, move |database| analysed(database, starts)).await,
        GivenStarts::Body(body) => {
            // The claim of a body covers the starts, so the body stays as long.
            let work = move |database: &Database, mut body: BodyText| {
                let starts = WalkStarts::of_body(&mut body)?;
                analysed(database, starts)
            };
            body.bounded(request, work).await
        }
    }
}

/// Checks that a start of a walk exists.
fn is_there(snapshot: &GraphSnapshot, id: BlockId, name: Option<&str>) -> Result<(), Problem> {
    if snapshot.contains(id)? { Ok(()) } else { Err(unknown_block(snapshot, id, name)) }
}

fn bound(bound: WalkBound) -> Cow<'static, str> {
    Cow::Borrowed(match bound {
        WalkBound::Depth => "depth",
        WalkBound::Visited => "visited",
        WalkBound::Results => "limit",
        WalkBound::Time => "time",
        WalkBound::Steps => "steps",
    })
}

/// The end of the time that a request may take, for the walk and for the names in its response.
#[derive(Debug, Clone, Copy)]
struct RequestEnd<'a> {
    database: &'a Database,
    at: Timestamp,
}

impl<'a> RequestEnd<'a> {
    fn after(database: &'a Database, time: Duration) -> Self {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        RequestEnd { database, at: database.now().plus_micros(micros) }
    }

    fn left(&self) -> Duration {
        Duration::from_micros(self.at.as_micros().saturating_sub(self.database.now().as_micros()))
    }
}

/// The names of blocks and edge types, each read once. After the end of the request's time it reads
/// no further names: the response is cut there.
struct NameCache<'a> {
    snapshot: &'a GraphSnapshot,
    end: RequestEnd<'a>,
    /// Whether the time ended.
    is_late: bool,
    blocks: HashMap<[u8; 16], Option<String>>,
    edge_types: Vec<String>,
}

impl<'a> NameCache<'a> {
    fn of(snapshot: &'a GraphSnapshot, end: RequestEnd<'a>) -> Result<Self, Problem> {
        let edge_types = snapshot.look(|graph| Ok(graph.edge_type_names().map(str::to_owned).collect()))?;
        Ok(NameCache { snapshot, end, is_late: false, blocks: HashMap::new(), edge_types })
    }

    /// The limit that ended a response.
    fn bound(&self, walked: Option<WalkBound>) -> Option<WalkBound> {
        Some(WalkBound::Time).filter(|_| self.is_late).or(walked)
    }

    /// The limit that ended a result of a walk. The limit of the response is reached last, and
    /// reported first.
    fn bound_of_whole(&self, walked: &Walk, is_cut: bool) -> Option<Cow<'static, str>> {
        Some(WalkBound::Results).filter(|_| is_cut).or(self.bound(walked.bound())).map(bound)
    }

    fn check_time(&mut self) -> bool {
        self.is_late = self.is_late || self.end.left().is_zero();
        !self.is_late
    }

    fn name(&mut self, id: BlockId) -> Result<Option<String>, Problem> {
        if let Some(known) = self.blocks.get(id.as_bytes()) {
            return Ok(known.clone());
        }
        let found = name(self.snapshot, id)?;
        self.blocks.insert(*id.as_bytes(), found.clone());
        Ok(found)
    }

    fn blocks(&mut self, ids: Vec<BlockId>) -> Result<Vec<NamedBlock>, Problem> {
        let mut blocks = Vec::new();
        for id in ids {
            if !self.check_time() {
                break;
            }
            blocks.push(NamedBlock { id: id.to_string(), name: self.name(id)? });
        }
        Ok(blocks)
    }

    /// Whole sets of blocks.
    fn sets(&mut self, sets: Vec<Vec<BlockId>>) -> Result<Vec<Vec<NamedBlock>>, Problem> {
        let mut named = Vec::with_capacity(sets.len());
        for set in sets {
            let blocks = self.blocks(set)?;
            if self.is_late {
                break;
            }
            named.push(blocks);
        }
        Ok(named)
    }

    fn visits(&mut self, visits: impl IntoIterator<Item = Visit>) -> Result<Vec<VisitReply>, Problem> {
        let mut named = Vec::new();
        for visit in visits {
            if !self.check_time() {
                break;
            }
            named.push(self.visit(visit)?);
        }
        Ok(named)
    }

    fn visit(&mut self, visit: Visit) -> Result<VisitReply, Problem> {
        Ok(VisitReply {
            id: visit.block.to_string(),
            name: self.name(visit.block)?,
            depth: visit.depth,
            from: visit.from.map(|step| step.block.to_string()),
            edge_type: visit.from.map(|step| self.edge_types[usize::from(step.edge_type)].clone()),
            end: visit.from.map(|step| shown(step.end).into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use quire::{NewBlock, NewEdge};

    use super::*;

    #[test]
    fn after_the_time_of_a_request_its_response_is_cut_and_reports_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        let graph = database.graph("air");
        for name in ["EWR", "IAH"] {
            graph.put_block(NewBlock::new(name, "airport")).expect("put");
        }
        graph.put_edge(NewEdge::new("EWR", "flies_to", "IAH")).expect("put");
        let snapshot = graph.snapshot().expect("readable").expect("a graph");
        let [ewr, iah] = ["EWR", "IAH"].map(BlockId::of_name);
        let walked = snapshot.walk(&[ewr], WalkPlan::default(), None).expect("walked");
        let in_time = RequestEnd::after(&database, Duration::from_secs(600));
        let late = RequestEnd { at: Timestamp::ZERO, ..in_time };

        let mut names = NameCache::of(&snapshot, in_time).expect("named");
        assert_eq!(names.visits(walked.visits()).expect("read").len(), 2);
        assert_eq!(names.sets(vec![vec![ewr], vec![iah]]).expect("read").len(), 2);
        assert_eq!(names.bound(None), None);

        let mut names = NameCache::of(&snapshot, late).expect("named");
        assert_eq!(names.visits(walked.visits()).expect("read").len(), 0);
        assert_eq!(names.sets(vec![vec![ewr], vec![iah]]).expect("read").len(), 0);
        assert_eq!(names.bound(None), Some(WalkBound::Time));
        assert_eq!(names.bound_of_whole(&walked, true).as_deref(), Some("limit"));
    }
}
