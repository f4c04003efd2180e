//! Compares the feed of changes, and all replies to the children, with the naive graph.

use std::collections::BTreeMap;

use quire::graph::{BlockId, GraphChangeKind, Wants};
use quire::{Database, ErrorKind, Place, Position};

use crate::GRAPH;
use crate::child::everything;
use crate::naive::{Naive, Shown, digest};
use crate::steps::{Step, TYPES, names, steps};

/// One in this many positions is read again.
const RECALLED_EVERY: usize = 16;

/// The replies to the children, by position.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The child, the number of the commit, and the graph's replies. Every commit has a message,
    /// and therefore its own position.
    committed: BTreeMap<Position, (u64, u64, Vec<String>)>,
    read: BTreeMap<Position, Vec<u64>>,
    refused: usize,
}

impl Ledger {
    pub(crate) fn answers(&self) -> usize {
        self.refused + self.committed.len()
    }

    pub(crate) fn reads(&self) -> usize {
        self.read.values().map(Vec::len).sum()
    }

    /// Reads a line, unless it is the test harness's.
    pub(crate) fn note(&mut self, line: &str) {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["committed", run, commit, position, ref replies @ ..] => {
                let replies = replies.iter().map(|reply| (*reply).to_owned()).collect();
                let before =
                    self.committed.insert(Position::new(number(position)), (number(run), number(commit), replies));
                assert_eq!(before, None, "a position is given once");
            }
            ["refused", ..] => self.refused += 1,
            ["read", position, digest] => {
                let digest = u64::from_str_radix(digest, 16).expect("a digest");
                self.read.entry(Position::new(number(position))).or_default().push(digest);
            }
            _ => {}
        }
    }
}

/// Replays everything that ever happened to the graph. Returns the graph at some positions.
pub(crate) fn inspect(database: &Database, ledger: &Ledger) -> Vec<(Position, Shown)> {
    let names = names();
    let changes = changes(database, &names);
    let mut naive = Naive::default();
    let (mut found, mut reads, mut pasts) = (Position::ZERO, 0, Vec::new());
    for position in (1..=database.published().get()).map(Position::new) {
        let before = naive.clone();
        for step in changes.get(&position).into_iter().flatten() {
            naive.take(step);
        }
        if let Some((run, number, replies)) = ledger.committed.get(&position) {
            let mut after = before.clone();
            for (step, reply) in steps(*run, *number).iter().zip(replies) {
                assert!(after.accepts(step), "commit {number} of child {run} at {position}: {step:?} was accepted");
                assert_eq!(after.take(step), *reply, "commit {number} of child {run} at {position}: {step:?}");
            }
            assert_eq!(after, naive, "commit {number} of child {run} is what the record at {position} holds");
            found = position;
        }
        for told in ledger.read.get(&position).into_iter().flatten() {
            let shown = naive.shown(&names);
            assert_eq!(digest(&shown), *told, "a child read something else than this at {position}: {shown:?}");
            reads += 1;
            if reads % RECALLED_EVERY != 0 {
                continue;
            }
            // The graph of that position reads the same now.
            let snapshot = database.graph(GRAPH).snapshot_at(position).expect("readable").expect("it is there");
            assert_eq!(everything(&snapshot, &names), shown, "as of {position}");
            pasts.push((position, shown));
        }
    }
    let last = ledger.committed.keys().next_back().copied().unwrap_or(Position::ZERO);
    assert_eq!(found, last, "what was acknowledged is there");
    let snapshot = database.graph(GRAPH).snapshot().expect("readable").expect("it is there");
    assert_eq!(everything(&snapshot, &names), naive.shown(&names));
    pasts.push((snapshot.at(), naive.shown(&names)));
    pasts
}

/// Checks that the graph is unchanged at these positions, starting at `from`, and that it refuses
/// earlier ones.
pub(crate) fn recall(database: &Database, pasts: &[(Position, Shown)], from: Position) {
    let names = names();
    for (position, shown) in pasts {
        match database.graph(GRAPH).snapshot_at(*position) {
            Ok(snapshot) => {
                assert!(*position >= from, "{position} is before {from}");
                assert_eq!(everything(&snapshot.expect("it is there"), &names), *shown, "as of {position}");
            }
            Err(error) => assert!(error.kind() == ErrorKind::Gone && *position < from, "{error}, as of {position}"),
        }
    }
}

/// The feed of changes, as steps that are accepted, by position.
fn changes(database: &Database, names: &[String]) -> BTreeMap<Position, Vec<Step>> {
    let number = |id: BlockId| names.iter().position(|name| BlockId::of_name(name) == id).expect("one of ours");
    let edge_type = |name: &str| TYPES.iter().position(|known| *known == name).expect("one of ours");
    let mut changes: BTreeMap<Position, Vec<Step>> = BTreeMap::new();
    let mut feed = database.graph(GRAPH).changes(Place::START);
    let is_all = feed.visit_next(|change| {
        let step = match &change.what {
            GraphChangeKind::BlockPut(block) => Step::PutBlock {
                block: number(block.id),
                expect: None,
                content: String::from_utf8(block.content.to_vec()).expect("it was put as text"),
            },
            GraphChangeKind::BlockDeleted { block } => Step::DeleteBlock { block: number(*block) },
            GraphChangeKind::EdgePut { source, edge_type: name, target, .. } => {
                let (source, edge_type, target) = (number(*source), edge_type(name), number(*target));
                Step::PutEdge { source, edge_type, target, allow_missing: true }
            }
            GraphChangeKind::EdgeDeleted { source, edge_type: name, target } => {
                let (source, edge_type, target) = (number(*source), edge_type(name), number(*target));
                Step::DeleteEdge { source, edge_type, target }
            }
        };
        changes.entry(change.place.position).or_default().push(step);
        Wants::Continue(())
    });
    assert!(is_all.expect("readable"), "nothing broke off");
    changes
}
