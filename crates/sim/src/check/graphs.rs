//! The graph as it is and as it was: at positions of its history exactly what it was there, and before that nothing.

use quire::graph::{BlockId, Changed as Told, Direction, Wants};
use quire::{Database, ErrorKind, GraphSnapshot, Place, Position};

use super::{Found, Result, same, utf8};
use crate::book::{BLOCKS, GRAPH, text};
use crate::naive::{Changed, Graph, Known, Naive};

/// At how many positions between the first and the last the graph is looked at.
const LOOKS: u64 = 4;

pub(super) fn all(database: &Database, naive: &Naive) -> Result<()> {
    let (graph, last) = (&naive.graph, naive.records);
    let Some(snapshot) = database.graph(GRAPH).snapshot()? else {
        return same("whether the graph is there", &false, &graph.is_there);
    };
    // Another process may have published more by now, but nobody else acts while this is compared.
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
        Err(error) if error.kind() != ErrorKind::Gone => Err(Found::Error(error)),
        other => {
            let found = other.map(|snapshot| snapshot.is_some());
            Err(Found::Wrong(format!("the graph's history begins at {}, and as of {at} it is {found:?}", graph.from)))
        }
    }
}

fn compare(snapshot: &GraphSnapshot<'_>, known: &Known) -> Result<()> {
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

/// The feed of changes, which is whole from where the history begins on.
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

fn tell(what: Told<'_>) -> String {
    let number = |block| number_of(block).map_or_else(|| "none".to_owned(), |number| number.to_string());
    match what {
        Told::BlockPut(block) => {
            format!("put {} as {}: {}", number(block.id), block.version, utf8(block.content.to_vec()))
        }
        Told::BlockDeleted { block } => format!("deleted {}", number(block)),
        Told::EdgePut { source, target, .. } => format!("linked {} to {}", number(source), number(target)),
        Told::EdgeDeleted { source, target, .. } => format!("parted {} from {}", number(source), number(target)),
    }
}

fn expected(what: Changed) -> String {
    match what {
        Changed::BlockPut { block, version, value } => format!("put {block} as {version}: {}", text(value)),
        Changed::BlockDeleted { block } => format!("deleted {block}"),
        Changed::EdgePut { source, target } => format!("linked {source} to {target}"),
        Changed::EdgeDeleted { source, target } => format!("parted {source} from {target}"),
    }
}

/// The versions of a block, of which those that were kept no longer at some time may be gone with a compaction.
fn versions(database: &Database, naive: &Naive, block: usize) -> Result<()> {
    let read = database.graph(GRAPH).read(|graph, view| {
        let versions = graph.versions(view.history, BlockId::of_name(BLOCKS[block]), Place::END, usize::MAX)?;
        let version = |change: &quire::graph::Change<'_>| match change.what {
            Told::BlockPut(block) => Some(block.version.get()),
            _ => None,
        };
        Ok::<_, quire::Error>(
            versions.iter().map(|change| (change.place.position.get(), version(change))).collect::<Vec<_>>(),
        )
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
