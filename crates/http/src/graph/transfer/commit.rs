//! Committing what was read of a file: checked as a whole, in one commit, or in several where that is allowed.
//!
//! What is refused is refused before the first commit, but for what others change between two. A crash leaves what was committed by then;
//! the same file again puts all of it, and nothing twice.

use std::collections::HashSet;

use quire::graph::{BlockId, BlockRef, Command, PutBlock, PutEdge};
use quire::{Commit, Database, Outcome, Part, Reason};
use serde::Serialize;

use super::item::{EndItem, Item, Lined, wrong};
use crate::commit::committed;
use crate::commit::refusal::of_reason;
use crate::error::Problem;

/// About how many bytes an item takes in the log besides what it carries: ids, tags and headers.
const ITEM_BYTES: usize = 200;

/// The most items of a commit.
const ITEMS_MAX: usize = 100_000;

/// What an import may do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// Take several commits when one does not hold it.
    pub(super) may_batch: bool,
    /// Put edges to blocks that are not there.
    pub(super) allow_missing: bool,
}

/// How far an import has come.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Progress {
    /// Items that are in.
    imported: usize,
    of: usize,
}

/// How an import went.
#[derive(Debug, Serialize)]
pub(super) struct Imported {
    blocks: usize,
    edges: usize,
    commits: usize,
    position: u64,
}

/// Commits the items. Tells `progress` before and after each commit how many of them are in, and how many there are; nothing is
/// in doubt any more by then but what others do meanwhile.
pub(super) fn import(
    database: &Database,
    graph: &str,
    items: &[Lined],
    terms: Terms,
    progress: &mut dyn FnMut(Progress),
) -> Result<Imported, Problem> {
    let Terms { may_batch, allow_missing } = terms;
    let (blocks, edges): (Vec<&Lined>, Vec<&Lined>) =
        items.iter().partition(|lined| matches!(lined.item, Item::Block(_)));
    let counts = (blocks.len(), edges.len());
    let ordered: Vec<&Lined> = blocks.into_iter().chain(edges).collect();
    let batches = batches(&ordered, database.commit_bytes_max() as usize);
    if batches.len() > 1 {
        if !may_batch {
            let message = format!(
                "{} items do not fit into one commit; with batches=true they are put in {} commits, one after the other",
                ordered.len(),
                batches.len()
            );
            return Err(Problem::too_large(message));
        }
        check_each(graph, &ordered)?;
        if !allow_missing {
            check_ends(database, graph, &ordered)?;
        }
    }
    let (mut position, mut imported) = (database.published().get(), 0);
    let commits = batches.len();
    progress(Progress { imported, of: ordered.len() });
    for batch in batches {
        let tags: Vec<Vec<&str>> = batch.iter().map(|lined| tags(&lined.item)).collect();
        let mut commit = Commit::new();
        for (lined, tags) in batch.iter().zip(&tags) {
            commit = commit.part(Part::Graph(command(graph, &lined.item, tags, allow_missing)));
        }
        let outcome = database.commit(&commit);
        let outcome = outcome.map_err(Problem::from).map_err(|problem| problem.fact("imported", imported))?;
        if let Outcome::Refused(refused) = &outcome {
            let line = batch[refused.part].line;
            let problem = committed(outcome).expect_err("it is refused");
            return Err(problem.at_line(line).fact("imported", imported));
        }
        position = committed(outcome)?.at.position.get();
        imported += batch.len();
        progress(Progress { imported, of: ordered.len() });
    }
    Ok(Imported { blocks: counts.0, edges: counts.1, commits, position })
}

/// The items in pieces that fit into a commit each.
fn batches<'i>(items: &'i [&'i Lined], commit_bytes_max: usize) -> Vec<&'i [&'i Lined]> {
    let bytes_max = commit_bytes_max / 2;
    let (mut batches, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (index, lined) in items.iter().enumerate() {
        let item = bytes_of(&lined.item);
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
            block.metadata.len() + block.content.len() + block.source.len() + tags
        }
        Item::Edge(edge) => edge.properties.len(),
    };
    carried + ITEM_BYTES
}

/// That every item is one that some graph would take.
fn check_each(graph: &str, items: &[&Lined]) -> Result<(), Problem> {
    for lined in items {
        let checked = command(graph, &lined.item, &tags(&lined.item), true).check();
        checked.map_err(|refusal| of_reason(&Reason::Graph(refusal)).at_line(lined.line))?;
    }
    Ok(())
}

/// That every edge has its ends, among the file's blocks or in the graph: what a single commit would decide.
fn check_ends(database: &Database, graph: &str, items: &[&Lined]) -> Result<(), Problem> {
    let of_file: HashSet<[u8; 16]> = items
        .iter()
        .filter_map(|lined| match &lined.item {
            Item::Block(block) => Some(*block.block.block().id().as_bytes()),
            Item::Edge(_) => None,
        })
        .collect();
    for lined in items {
        let Item::Edge(edge) = &lined.item else { continue };
        for (end, what) in [(&edge.source, "source"), (&edge.target, "target")] {
            let id = end.block().id();
            if !of_file.contains(id.as_bytes()) && !is_there(database, graph, id)? {
                let shown = match end {
                    EndItem::Name(name) => format!("{name:?}"),
                    EndItem::Id(id) => id.to_string(),
                };
                return Err(wrong(lined.line, format_args!("the edge's {what} {shown} is not there")));
            }
        }
    }
    Ok(())
}

fn is_there(database: &Database, graph: &str, id: BlockId) -> Result<bool, Problem> {
    let found = database.read(|view| view.graphs.graph(graph).is_some_and(|graph| graph.contains(id)))?;
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
