//! `walk(graph, start, …)`: the blocks that edges reach from a block, by a walk of the database.

use std::sync::Arc;

use quire::graph::{BlockId, Direction, Visit, WalkBound, WalkPlan};
use quire::{Error, ErrorKind, GraphSnapshot, Result};
use quire_vtab::{ColumnKind, EQUAL, NoRows, RowSource, ScanRequest, TableColumn};

use super::graphs::snapshot;
use super::{TableKind, key, never};
use crate::SqlValue;
use crate::context::{StatementContext, invalid};

pub(super) const WALK: TableKind = TableKind {
    name: "walk",
    about: "A block that edges reach from a start, the nearest first. For example, `walk('air/routes', 'EWR')`. \
        The arguments are the last five columns; the last three may be missing.",
    columns: &[
        TableColumn::new("id", ColumnKind::Text, "The id of the block. Join it with `blocks.id`."),
        TableColumn::new("name", ColumnKind::Text, "The name of the block; `NULL` when it is missing or has none."),
        TableColumn::new("depth", ColumnKind::Integer, "The number of edges from the start."),
        TableColumn::new("via", ColumnKind::Text, "The type of the last edge; `NULL` for the start."),
        TableColumn::new("previous", ColumnKind::Text, "The id of the block before it; `NULL` for the start."),
        TableColumn::new("graph", ColumnKind::Text, "The name of the graph.").filtered(EQUAL, 1_000).argument(),
        TableColumn::new("start", ColumnKind::Text, "The name of the first block.").filtered(EQUAL, 1_000).argument(),
        TableColumn::new("direction", ColumnKind::Text, "`outgoing` (by default), `incoming` or `both`.")
            .filtered(EQUAL, 1)
            .argument(),
        TableColumn::new("types", ColumnKind::Text, "The types of the edges, separated by commas; all by default.")
            .filtered(EQUAL, 1)
            .argument(),
        TableColumn::new("depth_max", ColumnKind::Integer, "The most edges from the start; no limit by default.")
            .filtered(EQUAL, 1)
            .argument(),
    ],
    rows: 1_000_000_000,
    order: None,
    in_order: never,
    scan,
};

const GRAPH: usize = 5;
const START: usize = 6;
const DIRECTION: usize = 7;
const TYPES: usize = 8;
const DEPTH_MAX: usize = 9;

/// The most blocks of a walk, which take 32 MB.
const VISITED_MAX: usize = 1_000_000;

/// How many blocks are named before writers get their turn.
const ROWS_AT_ONCE: usize = 256;

/// The arguments of a walk, as a statement gave them.
#[derive(Debug, Clone)]
struct WalkArguments {
    graph: String,
    start: String,
    direction: Option<String>,
    types: Option<String>,
    depth_max: Option<i64>,
}

impl WalkArguments {
    /// Returns the arguments; `None` when one is `NULL`, or several differ.
    fn of(request: &ScanRequest) -> Result<Option<Self>> {
        let text = |column: usize| request.texts(column).map(|mut texts| texts.pop());
        let (Some(graph), Some(start)) = (text(GRAPH), text(START)) else {
            return Err(invalid("walk takes a graph and the name of a block, for example walk('air/routes', 'EWR')"));
        };
        let depths = match request.integers(DEPTH_MAX) {
            Some(depths) => depths.list.map(|depths| depths.first().copied()),
            None => Some(None),
        };
        let (direction, types) = (text(DIRECTION), text(TYPES));
        let (Some(graph), Some(start)) = (graph, start) else { return Ok(None) };
        if matches!(direction, Some(None)) || matches!(types, Some(None)) || matches!(depths, Some(None)) {
            return Ok(None);
        }
        let (direction, types, depth_max) = (direction.flatten(), types.flatten(), depths.flatten());
        Ok(Some(WalkArguments { graph, start, direction, types, depth_max }))
    }

    /// Walks the graph.
    fn walk(&self, snapshot: &GraphSnapshot) -> Result<Vec<Visit>> {
        let direction = match self.direction.as_deref() {
            None | Some("outgoing") => Direction::Outgoing,
            Some("incoming") => Direction::Incoming,
            Some("both") => Direction::Both,
            Some(other) => {
                return Err(invalid(format!("the direction of a walk is outgoing, incoming or both, not {other:?}")));
            }
        };
        let types = self.types.iter().flat_map(|types| types.split(',')).map(str::trim);
        let types: Vec<&str> = types.filter(|name| !name.is_empty()).collect();
        let depth_max = match self.depth_max {
            None => usize::MAX,
            Some(depth) => {
                usize::try_from(depth).map_err(|_| invalid(format!("the depth of a walk is from 0, not {depth}")))?
            }
        };
        let plan =
            WalkPlan { direction, edge_types: &types, depth_max, visited_max: VISITED_MAX, ..WalkPlan::default() };
        let walk = match snapshot.walk(&[BlockId::of_name(&self.start)], plan, None) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            walk => walk?,
        };
        match walk.bound() {
            None | Some(WalkBound::Depth) => Ok(walk.visits().collect()),
            Some(WalkBound::Steps) => {
                let message = "the walk needs more steps than the request has: walk less deep, or along fewer types";
                Err(Error::new(ErrorKind::TooCostly, message))
            }
            Some(_) => {
                let message = format!("the walk reaches more than {VISITED_MAX} blocks: give it a depth, or types");
                Err(Error::new(ErrorKind::TooCostly, message))
            }
        }
    }
}

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let Some(arguments) = WalkArguments::of(request)? else { return Ok(Box::new(NoRows)) };
    let Some(snapshot) = snapshot(context, &arguments.graph)? else { return Ok(Box::new(NoRows)) };
    let (mut visits, columns) = (arguments.walk(&snapshot)?.into_iter(), request.columns);
    let types: Vec<String> = snapshot.look(|graph| Ok(graph.edge_type_names().map(str::to_owned).collect()))?;
    Ok(context.source(move |page, count| {
        for visit in visits.by_ref().take(count.min(ROWS_AT_ONCE)) {
            let name = match columns.has(1) {
                true => snapshot.block(visit.block, |block| block.name.map(str::to_owned))?.flatten(),
                false => None,
            };
            let id = visit.block.to_string();
            let previous = visit.from.map(|step| step.block.to_string());
            let via = visit.from.and_then(|step| types.get(usize::from(step.edge_type)));
            let row_key = key(&[&arguments.graph, &arguments.start, &id]);
            let row = [
                id.into(),
                name.into(),
                SqlValue::count(visit.depth as u64),
                via.map(String::as_str).into(),
                previous.into(),
                arguments.graph.as_str().into(),
                arguments.start.as_str().into(),
                arguments.direction.as_deref().into(),
                arguments.types.as_deref().into(),
                arguments.depth_max.into(),
            ];
            page.push(row_key, row);
        }
        Ok(())
    }))
}
