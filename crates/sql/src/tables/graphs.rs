//! `graphs` and `blocks`.

use std::collections::VecDeque;
use std::sync::Arc;

use quire::graph::{Block, BlockFilter, BlockId, ListCursor, ListPlan, Wants};
use quire::{GraphSnapshot, Operation, ResourceKind, Result};
use quire_vtab::{ColumnKind, ColumnSet, EQUAL, MATCH, NoRows, RowPage, RowSource, ScanRequest, TableColumn};

use super::{TableKind, json_array, key, named, never, permits};
use crate::SqlValue;
use crate::context::{StatementContext, invalid};
use crate::pattern;

pub(super) const GRAPHS: TableKind = TableKind {
    name: "graphs",
    about: "A graph.",
    columns: &[
        TableColumn::new("name", ColumnKind::Text, "The name.").filtered(EQUAL, 1_000).listed(),
        TableColumn::new("blocks", ColumnKind::Integer, "The number of blocks."),
        TableColumn::new("edges", ColumnKind::Integer, "The number of edges."),
    ],
    rows: 10,
    order: None,
    in_order: never,
    scan: graphs,
};

pub(super) const BLOCKS: TableKind = TableKind {
    name: "blocks",
    about: "A block of a graph.",
    columns: &[
        TableColumn::new("graph", ColumnKind::Text, "The name of the graph.").filtered(EQUAL, 4).listed(),
        TableColumn::new("id", ColumnKind::Text, "The id.").filtered(EQUAL, 100_000).listed(),
        TableColumn::new("name", ColumnKind::Text, "The name; `NULL` when it was only put by id.")
            .filtered(EQUAL, 100_000)
            .listed(),
        TableColumn::new("kind", ColumnKind::Text, "The kind.").filtered(EQUAL, 10).listed(),
        TableColumn::new("source", ColumnKind::Text, "The origin; empty for none."),
        TableColumn::new("version", ColumnKind::Integer, "The version."),
        TableColumn::new("time_ms", ColumnKind::Integer, "When the version was put, in milliseconds since 1970."),
        TableColumn::new("tags", ColumnKind::Text, "The tags, as a JSON array.").filtered(MATCH, 1_000),
        TableColumn::new("metadata", ColumnKind::Bytes, "The metadata."),
        TableColumn::new("content", ColumnKind::Bytes, "The content."),
        TableColumn::new("commit_position", ColumnKind::Integer, "The position of the commit that put the version."),
    ],
    rows: 100_000,
    order: None,
    in_order: never,
    scan: blocks,
};

const GRAPH: usize = 0;
const ID: usize = 1;
const NAME: usize = 2;
const KIND: usize = 3;
const TAGS: usize = 7;
const METADATA: usize = 8;
const CONTENT: usize = 9;

fn graphs(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    context.check_now("graphs")?;
    let (own, names) = (Arc::clone(context), request.texts(0));
    Ok(context.once(move |page| {
        let found = own.database.read_permitted(|view| {
            let shown = view.graphs.iter().filter(|(name, _)| view.shows(ResourceKind::Graph, name));
            let row = |(name, graph): (&str, &quire::graph::Graph)| {
                (name.to_owned(), graph.block_count() as u64, graph.edge_count() as u64)
            };
            shown.map(row).collect::<Vec<_>>()
        })?;
        for (name, blocks, edges) in found.wait()? {
            if names.as_ref().is_none_or(|names| names.contains(&name)) {
                page.push(key(&[&name]), [name.into(), SqlValue::count(blocks), SqlValue::count(edges)]);
            }
        }
        Ok(())
    }))
}

/// Returns the names of the graphs that a scan visits.
pub(super) fn graphs_named(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<VecDeque<String>> {
    let list = || {
        context.database.read_published_permitted(|view| {
            let shown = view.graphs.iter().filter(|(name, _)| view.permits(ResourceKind::Graph, name, Operation::Read));
            shown.map(|(name, _)| name.to_owned()).collect()
        })
    };
    Ok(named(request, GRAPH, list)?.into())
}

/// Returns the snapshot of a graph that the client may read; `None` when there is none.
pub(super) fn snapshot(context: &StatementContext, graph: &str) -> Result<Option<GraphSnapshot>> {
    if !permits(context, ResourceKind::Graph, graph, Operation::Read)? {
        return Ok(None);
    }
    context.database.graph(graph).snapshot_at(context.at)
}

fn blocks(context: &Arc<StatementContext>, request: &ScanRequest) -> Result<Box<dyn RowSource>> {
    let mut alternatives = pattern::joined(&request.patterns(TAGS).map_err(invalid)?).map_err(invalid)?;
    if alternatives.len() > 1 {
        return Err(invalid("blocks.tags MATCH takes one alternative: join two queries by UNION in place of OR"));
    }
    let ids = request.texts(ID).map(|ids| ids.iter().filter_map(|id| id.parse().ok()).collect::<Vec<BlockId>>());
    let by_name = request.texts(NAME).map(|names| names.iter().map(|name| BlockId::of_name(name)).collect());
    let ids = ids.or(by_name);
    let kinds = request.texts(KIND);
    if ids.as_ref().is_some_and(Vec::is_empty) || kinds.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Box::new(NoRows));
    }
    let tags = alternatives.pop().unwrap_or_default();
    // A look-up by id compares no tags.
    let ids = ids.filter(|_| tags.is_empty());
    let mut scan = BlockScan {
        context: Arc::clone(context),
        graphs: graphs_named(context, request)?,
        ids,
        kinds: kinds.unwrap_or_default(),
        tags,
        columns: request.columns,
        current: None,
    };
    Ok(context.source(move |page, count| scan.read(page, count)))
}

#[derive(Debug)]
struct BlockScan {
    context: Arc<StatementContext>,
    graphs: VecDeque<String>,
    ids: Option<Vec<BlockId>>,
    kinds: Vec<String>,
    tags: Vec<String>,
    columns: ColumnSet,
    current: Option<(String, GraphSnapshot, ListCursor)>,
}

impl BlockScan {
    fn read(&mut self, page: &mut RowPage, count: usize) -> Result<()> {
        while page.is_empty() {
            self.context.check(0)?;
            let Some((name, snapshot, cursor)) = self.current.take() else {
                let Some(name) = self.graphs.pop_front() else { return Ok(()) };
                let Some(snapshot) = snapshot(&self.context, &name)? else { continue };
                self.current = Some((name, snapshot, ListCursor::START));
                continue;
            };
            if let Some(ids) = &self.ids {
                for id in ids {
                    snapshot.block(*id, |block| push(page, self.columns, &name, block))?;
                }
                continue;
            }
            let kinds: Vec<&str> = self.kinds.iter().map(String::as_str).collect();
            let tags: Vec<&str> = self.tags.iter().map(String::as_str).collect();
            let filter = BlockFilter { kinds: &kinds, tags: &tags, ..BlockFilter::default() };
            let plan = ListPlan { filter, ..ListPlan::default() };
            let next = snapshot.list(&plan, cursor, None, |block| {
                push(page, self.columns, &name, block);
                if page.len() >= count || page.is_full() { Wants::Break(()) } else { Wants::Continue(()) }
            })?;
            self.current = next.map(|next| (name, snapshot, next));
        }
        Ok(())
    }
}

fn push(page: &mut RowPage, columns: ColumnSet, graph: &str, block: &Block<'_>) {
    let row = [
        columns.value(GRAPH, || graph),
        block.id.to_string().into(),
        columns.value(NAME, || block.name),
        columns.value(KIND, || block.kind),
        block.source.into(),
        SqlValue::count(block.version.get()),
        SqlValue::count(block.time.as_millis()),
        if columns.has(TAGS) { json_array(block.tags().map(str::as_bytes)) } else { SqlValue::Null },
        if columns.has(METADATA) { SqlValue::text_or_blob(block.metadata) } else { SqlValue::Null },
        if columns.has(CONTENT) { SqlValue::text_or_blob(block.content) } else { SqlValue::Null },
        SqlValue::count(block.place.position.get()),
    ];
    page.push([block.place.position.get(), block.place.index.into()], row);
}
