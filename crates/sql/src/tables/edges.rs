//! `edges`: from each source, along the edges that leave it.

use std::collections::VecDeque;
use std::sync::Arc;

use quire::graph::{BlockId, Direction, End, ListCursor, ListPlan, Neighbour, Wants};
use quire::{GraphSnapshot, Result};
use quire_vtab::{ColumnKind, ColumnSet, EQUAL, NoRows, RowPage, RowSource, ScanRequest, TableColumn};

use super::graphs::{graphs_named, snapshot};
use super::{TableKind, key, never};
use crate::SqlValue;
use crate::context::StatementContext;

pub(super) const EDGES: TableKind = TableKind {
    name: "edges",
    about: "An edge of a graph. Join `source` and `target` with `blocks.id`.",
    columns: &[
        TableColumn::new("graph", ColumnKind::Text, "The name of the graph.").filtered(EQUAL, 4).listed(),
        TableColumn::new("source", ColumnKind::Text, "The id of the block that it leaves.")
            .filtered(EQUAL, 100_000)
            .listed(),
        TableColumn::new("type", ColumnKind::Text, "The type.").filtered(EQUAL, 10).listed(),
        TableColumn::new("target", ColumnKind::Text, "The id of the block that it enters.")
            .filtered(EQUAL, 100_000)
            .listed(),
        TableColumn::new("properties", ColumnKind::Bytes, "The properties."),
        TableColumn::new("time_ms", ColumnKind::Integer, "When it was last put, in milliseconds since 1970."),
        TableColumn::new("commit_position", ColumnKind::Integer, "The position of the commit that last put it."),
    ],
    rows: 1_000_000,
    order: None,
    in_order: never,
    scan,
};

const GRAPH: usize = 0;
const SOURCE: usize = 1;
const TYPE: usize = 2;
const TARGET: usize = 3;
const PROPERTIES: usize = 4;
const TIME: usize = 5;
const COMMIT: usize = 6;

/// How many blocks are listed at once.
const BLOCKS_AT_ONCE: usize = 256;

fn scan(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let ids =
        |column| request.texts(column).map(|ids| ids.iter().filter_map(|id| id.parse().ok()).collect::<Vec<BlockId>>());
    let (sources, targets, types) = (ids(SOURCE), ids(TARGET), request.texts(TYPE));
    if types.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Box::new(NoRows));
    }
    let (direction, ends) = match (sources, targets) {
        (None, Some(targets)) => (Direction::Incoming, Some(targets)),
        (sources, _) => (Direction::Outgoing, sources),
    };
    let mut scan = EdgeScan {
        context: Arc::clone(context),
        graphs: graphs_named(context, request)?,
        types: types.unwrap_or_default(),
        direction,
        ends,
        columns: request.columns,
        current: None,
    };
    Ok(context.source(move |page, count| scan.read(page, count)))
}

#[derive(Debug)]
struct EdgeScan {
    context: Arc<StatementContext>,
    graphs: VecDeque<String>,
    types: Vec<String>,
    direction: Direction,
    /// The blocks whose edges are wanted; `None`: every source.
    ends: Option<Vec<BlockId>>,
    columns: ColumnSet,
    current: Option<GraphWalk>,
}

/// The walk over the edges of one graph.
#[derive(Debug)]
struct GraphWalk {
    name: String,
    snapshot: GraphSnapshot,
    /// Blocks whose edges are read next.
    blocks: VecDeque<BlockId>,
    /// Where the list of blocks continues.
    list: Option<ListCursor>,
    /// Whether sources without a block are still to be listed.
    has_missing: bool,
    /// The last edge of the first block that was read.
    after: Option<(BlockId, String)>,
}

impl EdgeScan {
    fn read(&mut self, page: &mut RowPage, count: usize) -> Result<()> {
        while page.len() < count && !page.is_full() {
            self.context.check(0)?;
            let Some(mut walk) = self.current.take() else {
                let Some(name) = self.graphs.pop_front() else { return Ok(()) };
                self.current = self.begin(name)?;
                continue;
            };
            if self.step(&mut walk, page, count)? {
                self.current = Some(walk);
            }
        }
        Ok(())
    }

    fn begin(&self, name: String) -> Result<Option<GraphWalk>> {
        let Some(snapshot) = snapshot(&self.context, &name)? else { return Ok(None) };
        let (blocks, list, has_missing) = match &self.ends {
            Some(ends) => (ends.clone().into(), None, false),
            None => (VecDeque::new(), Some(ListCursor::START), true),
        };
        Ok(Some(GraphWalk { name, snapshot, blocks, list, has_missing, after: None }))
    }

    /// Reads edges of one block, or lists blocks. Returns whether the walk continues.
    fn step(&self, walk: &mut GraphWalk, page: &mut RowPage, count: usize) -> Result<bool> {
        let Some(block) = walk.blocks.front().copied() else { return walk.list_more() };
        let types: Vec<&str> = self.types.iter().map(String::as_str).collect();
        let end = if self.direction == Direction::Outgoing { End::Target } else { End::Source };
        let after = walk.after.as_ref().map(|(block, edge_type)| Neighbour { block: *block, edge_type, end });
        let most = count - page.len();
        let found = walk.snapshot.neighbours(block, self.direction, &types, after, most, |neighbour| {
            (neighbour.block, neighbour.edge_type.to_owned())
        })?;
        for (other, edge_type) in &found {
            let (source, target) =
                if self.direction == Direction::Outgoing { (block, *other) } else { (*other, block) };
            self.push(walk, page, source, edge_type, target)?;
        }
        if found.len() < most {
            walk.blocks.pop_front();
            walk.after = None;
        } else {
            walk.after = found.into_iter().next_back();
        }
        Ok(true)
    }

    fn push(
        &self,
        walk: &GraphWalk,
        page: &mut RowPage,
        source: BlockId,
        edge_type: &str,
        target: BlockId,
    ) -> Result<()> {
        let columns = self.columns;
        let (mut properties, mut time, mut position) = (SqlValue::Null, SqlValue::Null, SqlValue::Null);
        if [PROPERTIES, TIME, COMMIT].into_iter().any(|column| columns.has(column)) {
            walk.snapshot.edge(source, edge_type, target, |edge| {
                properties = SqlValue::text_or_blob(edge.properties);
                time = SqlValue::count(edge.time.as_millis());
                position = SqlValue::count(edge.place.position.get());
            })?;
        }
        let (source, target) = (source.to_string(), target.to_string());
        let key = key(&[&walk.name, &source, edge_type, &target]);
        let row = [
            columns.value(GRAPH, || walk.name.as_str()),
            source.into(),
            edge_type.into(),
            target.into(),
            properties,
            time,
            position,
        ];
        page.push(key, row);
        Ok(())
    }
}

impl GraphWalk {
    /// Lists more blocks. Returns whether there may be any.
    fn list_more(&mut self) -> Result<bool> {
        if let Some(cursor) = self.list.take() {
            let blocks = &mut self.blocks;
            self.list = self.snapshot.list(&ListPlan::default(), cursor, None, |block| {
                blocks.push_back(block.id);
                if blocks.len() < BLOCKS_AT_ONCE { Wants::Continue(()) } else { Wants::Break(()) }
            })?;
            return Ok(true);
        }
        if std::mem::take(&mut self.has_missing) {
            self.blocks = self.snapshot.missing_sources()?.into();
            return Ok(true);
        }
        Ok(false)
    }
}
