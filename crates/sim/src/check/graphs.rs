//! The current graph and its history: exact at each position of the history, and refused before it.

use quire::graph::{BlockId, Direction, GraphChangeKind as ChangeKind, Wants};
use quire::{Database, ErrorKind, GraphSnapshot, Place, Position};

use super::{CheckError, Result, same, utf8};
use crate::book::{BLOCKS, GRAPH, text};
use crate::naive::{Graph, Naive, NaiveEffect, NaiveGraphState};

/// At how many positions of the history the graph is compared.
const LOOKS: u64 = 4;

pub(super) fn all(database: &Database, naive: &Naive) -> Result<()> {
    let (graph, last) = (&naive.graph, naive.records);
    let Some(snapshot) = database.graph(GRAPH).snapshot()? else {
        return same("whether the graph is there", &false, &graph.is_there);
    };
    // Another process may have published more, but no process acts during the comparison.
    same("the graph's position", &snapshot.at().get(), &last)?;
    compare(&snapshot, &graph.newest())?;
    let between = last.saturating_sub(graph.from);
    let looks = (0..=LOOKS).map(|look| graph.from + between * look / LOOKS);
    for at in graph.from.checked_sub(1).into_iter().chain(looks) {
        as_of(database, graph, at)?;
    }
    changes(database, graph)?;
    (0..BLOCKS.len()).try_for_each(|block| versions(database, naive, block))
}

fn as_of(database: &Database, graph: &Graph, at: u64) -> Result<()> {
    match database.graph(GRAPH).snapshot_at(Position::new(at)) {
        Ok(Some(snapshot)) if at >= graph.from => compare(&snapshot, &graph.as_of(at)),
        Err(error) if error.kind() == ErrorKind::Gone && at < graph.from => Ok(()),
        Err(error) if error.kind() != ErrorKind::Gone => Err(CheckError::Error(error)),
        other => {
            let found = other.map(|snapshot| snapshot.is_some());
            Err(CheckError::Wrong(format!(
                "the graph's history begins at {}, and as of {at} it is {found:?}",
                graph.from
            )))
        }
    }
}

fn compare(snapshot: &GraphSnapshot, known: &NaiveGraphState) -> Result<()> {
    let (mut blocks, mut edges, mut incoming) = (Vec::new(), Vec::new(), Vec::new());
    for (number, name) in BLOCKS.iter().enumerate() {
        let id = BlockId::of_name(name);
        let block = snapshot.block(id, |block| (number, block.version.get(), utf8(block.content.to_vec())))?;
        blocks.extend(block);
        let at_ends = |direction| {
            snapshot.neighbours(id, direction, &["knows"], None, usize::MAX, |neighbour| number_of(neighbour.block))
        };
        edges.extend(at_ends(Direction::Outgoing)?.into_iter().map(|far| (Some(number), far)));
        incoming.extend(at_ends(Direction::Incoming)?.into_iter().map(|far| (far, Some(number))));
    }
    let at = snapshot.at();
    let expected = known.blocks.iter().map(|(block, (version, value))| (*block, *version, text(*value)));
    same(format_args!("blocks as of {at}"), &blocks, &expected.collect())?;
    let expected = known.edges.iter().map(|(source, target)| (Some(*source), Some(*target))).collect();
    edges.sort_unstable();
    same(format_args!("edges as of {at}, from their sources"), &edges, &expected)?;
    incoming.sort_unstable();
    same(format_args!("edges as of {at}, from their targets"), &incoming, &expected)
}

/// The feed of changes, complete from the start of the history.
fn changes(database: &Database, graph: &Graph) -> Result<()> {
    let read = database.graph(GRAPH).read(|found, view| {
        let (mut told, from) = (Vec::new(), Place::new(Position::new(graph.from), 0));
        found.changes(view.history, view.position, from, &mut |change| {
            told.push((change.place.position.get(), tell(change.what)));
            Wants::Continue(())
        })?;
        Ok::<_, quire::Error>(told)
    })?;
    let expected: Vec<_> = graph.changes().map(|change| (change.record, expected(change.what))).collect();
    same("changes of the graph", &read.transpose()?.unwrap_or_default(), &expected)
}

fn tell(what: ChangeKind<'_>) -> String {
    let number = |block| number_of(block).map_or_else(|| "none".to_owned(), |number| number.to_string());
    match what {
        ChangeKind::BlockPut(block) => {
            format!("put {} as {}: {}", number(block.id), block.version, utf8(block.content.to_vec()))
        }
        ChangeKind::BlockDeleted { block } => format!("deleted {}", number(block)),
        ChangeKind::EdgePut { source, target, .. } => format!("linked {} to {}", number(source), number(target)),
        ChangeKind::EdgeDeleted { source, target, .. } => format!("parted {} from {}", number(source), number(target)),
    }
}

fn expected(what: NaiveEffect) -> String {
    match what {
        NaiveEffect::BlockPut { block, version, value } => format!("put {block} as {version}: {}", text(value)),
        NaiveEffect::BlockDeleted { block } => format!("deleted {block}"),
        NaiveEffect::EdgePut { source, target } => format!("linked {source} to {target}"),
        NaiveEffect::EdgeDeleted { source, target } => format!("parted {source} from {target}"),
    }
}

/// The versions of a block. Versions that were once outside the retention may have been compacted.
fn versions(database: &Database, naive: &Naive, block: usize) -> Result<()> {
    let read = database.graph(GRAPH).read(|graph, view| {
        let mut versions = Vec::new();
        graph.versions(view.history, BlockId::of_name(BLOCKS[block]), Place::END, &mut |change| {
            let version = match change.what {
                ChangeKind::BlockPut(block) => Some(block.version.get()),
                _ => None,
            };
            versions.push((change.place.position.get(), version));
            Wants::Continue(())
        })?;
        Ok::<_, quire::Error>(versions)
    })?;
    let found = read.transpose()?.unwrap_or_default();
    let (expected, least) = naive.graph.versions(block);
    let mut all = expected.iter();
    let some_are_gone = naive.compacted
        && found.len() >= least
        && found[..least] == expected[..least]
        && found.iter().all(|version| all.any(|expected| expected == version));
    if some_are_gone { Ok(()) } else { same(format_args!("versions of block {block}"), &found, &expected) }
}

fn number_of(id: BlockId) -> Option<usize> {
    BLOCKS.iter().position(|name| BlockId::of_name(name) == id)
}
