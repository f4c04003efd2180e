//! Commits an imported file: checked as a whole, in one commit, or in several if that is allowed.
//!
//! A refusal comes before the first commit, with its line, unless other writers change the graph
//! between two commits. A crash leaves the items committed by then. Importing the same file again
//! puts all items, and none twice.

use std::collections::HashSet;

use quire::graph::{BlockId, BlockRef, Command, GraphLimit, PutBlock, PutEdge, Refusal, check_graph};
use quire::{Commit, Database, Operation, Outcome, Part, ReadView, Reason, Resource, ResourceKind};

use super::caller::ImportClient;
use super::item::{EndItem, Item, NumberedItem, wrong};
use crate::commit::committed;
use crate::error::Problem;
use quire_api::reply::{ImportProgress, ImportReply};

/// An upper bound of the bytes of a commit in the log besides its items: its header, and the name
/// of the graph.
const COMMIT_BYTES: usize = 400;

/// An upper bound of the bytes of an item in the log besides its content: ids, numbers, headers,
/// and a new kind or type.
const ITEM_BYTES: usize = 160;

/// Maximum number of items in a commit.
const ITEMS_MAX: usize = 100_000;

/// The options of an import.
#[derive(Debug, Clone, Copy)]
pub(super) struct ImportOptions {
    /// Use several commits when one is too small.
    pub(super) may_batch: bool,
    /// Put edges to missing blocks.
    pub(super) allow_missing: bool,
}

/// Commits the items. Calls `progress` before and after each commit with the number of committed
/// items and the total. By then only concurrent writers can make a commit fail.
pub(super) fn import(
    database: &Database,
    graph: &str,
    items: &[NumberedItem],
    terms: ImportOptions,
    caller: &ImportClient,
    progress: &mut dyn FnMut(ImportProgress),
) -> Result<ImportReply, Problem> {
    let ImportOptions { may_batch, allow_missing } = terms;
    check_graph(graph).map_err(|refusal| Problem::of_reason(&Reason::Graph(refusal)))?;
    let (blocks, edges): (Vec<&NumberedItem>, Vec<&NumberedItem>) =
        items.iter().partition(|lined| matches!(lined.item, Item::Block(_)));
    let counts = (blocks.len(), edges.len());
    let ordered: Vec<&NumberedItem> = blocks.into_iter().chain(edges).collect();
    let sizes = sizes(database, graph, &ordered, caller)?;
    let batches = batches(&ordered, &sizes, commit_items_bytes_max(database));
    if batches.len() > 1 {
        check_each(graph, &ordered, caller)?;
        check_names(database, graph, &ordered)?;
        if !allow_missing {
            check_ends(database, graph, &ordered, caller)?;
        }
        if !may_batch {
            let message = format!(
                "{} items exceed one commit: allow several (batches) to import them in {} commits",
                ordered.len(),
                batches.len()
            );
            return Err(Problem::too_large(message));
        }
    }
    let (mut position, mut imported) = (database.published().get(), 0);
    let commits = batches.len();
    progress(ImportProgress { imported, of: ordered.len() });
    for batch in batches {
        caller.check().map_err(|problem| problem.fact("imported", imported))?;
        let tags: Vec<Vec<&str>> = batch.iter().map(|lined| tags(&lined.item)).collect();
        let mut commit = Commit::new();
        for (lined, tags) in batch.iter().zip(&tags) {
            commit = commit.part(Part::Graph(command(graph, &lined.item, tags, allow_missing)));
        }
        let outcome = database.commit(&commit);
        let outcome = outcome.map_err(Problem::from).map_err(|problem| problem.fact("imported", imported))?;
        if let Outcome::Refused(refused) = &outcome {
            let line = batch[refused.part].line;
            let problem = committed(outcome).expect_err("the commit is refused");
            return Err(problem.at_line(line).fact("imported", imported));
        }
        position = committed(outcome)?.at.position.get();
        imported += batch.len();
        progress(ImportProgress { imported, of: ordered.len() });
    }
    Ok(ImportReply { blocks: counts.0, edges: counts.1, commits, position })
}

/// Maximum bytes of the items of a commit.
fn commit_items_bytes_max(database: &Database) -> usize {
    usize::try_from(database.commit_bytes_max()).unwrap_or(usize::MAX).saturating_sub(COMMIT_BYTES)
}

/// An upper bound of the bytes of each item in the log. An item that exceeds a commit is an error.
fn sizes(
    database: &Database,
    graph: &str,
    items: &[&NumberedItem],
    caller: &ImportClient,
) -> Result<Vec<usize>, Problem> {
    let bytes_max = commit_items_bytes_max(database);
    let mut sizes = Vec::with_capacity(items.len());
    for lined in items {
        caller.check()?;
        let mut bytes = bytes_of(&lined.item);
        // A block put by its id keeps its name.
        if let Item::Block(block) = &lined.item
            && let EndItem::Id(id) = block.block
            && is_there(database, graph, id)?
        {
            bytes += GraphLimit::BlockNameBytes.max();
        }
        if bytes > bytes_max {
            let what = if matches!(lined.item, Item::Block(_)) { "block" } else { "edge" };
            let message = format!("the {what} takes up to {bytes} bytes and exceeds the {bytes_max} bytes of a commit");
            let problem = Problem::too_large(message).at_line(lined.line);
            return Err(problem.fact("given", bytes).fact("most", bytes_max));
        }
        sizes.push(bytes);
    }
    Ok(sizes)
}

/// Splits the items into commits: one, or several that are small enough for other writers.
fn batches<'i>(items: &'i [&'i NumberedItem], sizes: &[usize], commit_bytes_max: usize) -> Vec<&'i [&'i NumberedItem]> {
    let is_one = sizes.iter().sum::<usize>() <= commit_bytes_max;
    let bytes_max = if is_one { commit_bytes_max } else { commit_bytes_max / 2 };
    let (mut batches, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (index, item) in sizes.iter().enumerate() {
        if index > from && (bytes + item > bytes_max || index - from == ITEMS_MAX) {
            batches.push(&items[from..index]);
            (from, bytes) = (index, 0);
        }
        bytes += item;
    }
    if from < items.len() {
        batches.push(&items[from..]);
    }
    batches
}

fn bytes_of(item: &Item) -> usize {
    let carried = match item {
        Item::Block(block) => {
            let tags: usize = block.tags.iter().map(|tag| tag.len() + 8).sum();
            let name = if let EndItem::Name(name) = &block.block { name.len() } else { 0 };
            name + block.kind.len() + block.metadata.len() + block.content.len() + block.source.len() + tags
        }
        Item::Edge(edge) => edge.edge_type.len() + edge.properties.len(),
    };
    carried + ITEM_BYTES
}

/// Checks that every item is valid in any graph.
fn check_each(graph: &str, items: &[&NumberedItem], caller: &ImportClient) -> Result<(), Problem> {
    for lined in items {
        caller.check()?;
        let checked = command(graph, &lined.item, &tags(&lined.item), true).check();
        checked.map_err(|refusal| Problem::of_reason(&Reason::Graph(refusal)).at_line(lined.line))?;
    }
    Ok(())
}

/// Checks that the graph can add the new kinds and edge types.
fn check_names(database: &Database, graph: &str, items: &[&NumberedItem]) -> Result<(), Problem> {
    let resource = Resource::new(ResourceKind::Graph, graph);
    let known = database.read_for(resource, Operation::Write, |view| {
        let owned = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect::<HashSet<String>>();
        let of_graph = |graph: &quire::graph::Graph| (owned(&mut graph.kinds()), owned(&mut graph.edge_types()));
        view.graphs.graph(graph).map(of_graph).unwrap_or_default()
    })?;
    let (mut kinds, mut edge_types) = known.wait()?;
    for lined in items {
        let (known, name, limit) = match &lined.item {
            Item::Block(block) => (&mut kinds, &block.kind, GraphLimit::Kinds),
            Item::Edge(edge) => (&mut edge_types, &edge.edge_type, GraphLimit::EdgeTypes),
        };
        if known.contains(name) {
            continue;
        }
        known.insert(name.clone());
        if known.len() > limit.max() {
            let refusal = Refusal::OverLimit { limit, found: known.len() };
            return Err(Problem::of_reason(&Reason::Graph(refusal)).at_line(lined.line));
        }
    }
    Ok(())
}

/// Checks that every edge has its ends, among the file's blocks or in the graph, as a single commit
/// would.
fn check_ends(database: &Database, graph: &str, items: &[&NumberedItem], caller: &ImportClient) -> Result<(), Problem> {
    let of_file: HashSet<[u8; 16]> = items
        .iter()
        .filter_map(|lined| match &lined.item {
            Item::Block(block) => Some(*block.block.block().id().as_bytes()),
            Item::Edge(_) => None,
        })
        .collect();
    for lined in items {
        let Item::Edge(edge) = &lined.item else { continue };
        caller.check()?;
        for (end, what) in [(&edge.source, "source"), (&edge.target, "target")] {
            let id = end.block().id();
            if !of_file.contains(id.as_bytes()) && !is_there(database, graph, id)? {
                let shown = match end {
                    EndItem::Name(name) => format!("{name:?}"),
                    EndItem::Id(id) => id.to_string(),
                };
                return Err(wrong(lined.line, format_args!("{what} block {shown} of the edge not found")));
            }
        }
    }
    Ok(())
}

fn is_there(database: &Database, graph: &str, id: BlockId) -> Result<bool, Problem> {
    let resource = Resource::new(ResourceKind::Graph, graph);
    let look = |view: &ReadView<'_>| view.graphs.graph(graph).is_some_and(|graph| graph.contains(id));
    let found = database.read_for(resource, Operation::Write, look)?;
    Ok(found.wait()?)
}

fn tags(item: &Item) -> Vec<&str> {
    match item {
        Item::Block(block) => block.tags.iter().map(String::as_str).collect(),
        Item::Edge(_) => Vec::new(),
    }
}

fn command<'c>(graph: &'c str, item: &'c Item, tags: &'c [&'c str], allow_missing: bool) -> Command<'c> {
    match item {
        Item::Block(block) => Command::PutBlock(PutBlock {
            source: &block.source,
            tags,
            metadata: &block.metadata,
            content: &block.content,
            ..PutBlock::new(graph, block.block.block(), &block.kind)
        }),
        Item::Edge(edge) => {
            let (source, target): (BlockRef<'_>, BlockRef<'_>) = (edge.source.block(), edge.target.block());
            let put = PutEdge::new(graph, source, &edge.edge_type, target);
            Command::PutEdge(PutEdge { properties: &edge.properties, allow_missing, ..put })
        }
    }
}
