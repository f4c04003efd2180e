//! The commands of a child. They depend only on the child's number and its count of earlier
//! commits.

use quire::Commit;
use quire::graph::{Command, PutBlock, PutEdge, Version};

use crate::random::Random;
use crate::{GRAPH, TOPIC};

pub(crate) const BLOCKS: usize = 24;
pub(crate) const TYPES: [&str; 3] = ["calls", "imports", "knows"];

/// A command to the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    PutBlock { block: usize, expect: Option<u64>, content: String },
    DeleteBlock { block: usize },
    PutEdge { source: usize, edge_type: usize, target: usize, allow_missing: bool },
    DeleteEdge { source: usize, edge_type: usize, target: usize },
}

/// Returns the commands of a commit: commit `number` of child `run`.
pub(crate) fn steps(run: u64, number: u64) -> Vec<Step> {
    let mut random = Random::new((run << 32) | number);
    let mut below = |end: usize| usize::try_from(random.below(end as u64)).expect("few");
    let count = 1 + below(3);
    (0..count)
        .map(|index| {
            let (block, other, edge_type) = (below(BLOCKS), below(BLOCKS), below(TYPES.len()));
            match below(20) {
                0..8 => {
                    let expect = (below(12) == 0).then(|| below(4) as u64);
                    Step::PutBlock { block, expect, content: format!("{run}.{number}.{index}") }
                }
                8..10 => Step::DeleteBlock { block },
                10..17 => Step::PutEdge { source: block, edge_type, target: other, allow_missing: below(3) == 0 },
                _ => Step::DeleteEdge { source: block, edge_type, target: other },
            }
        })
        .collect()
}

/// Returns a commit of these commands, and a message that no reader needs.
pub(crate) fn commit<'c>(steps: &'c [Step], names: &'c [String]) -> Commit<'c> {
    let commit = Commit::new().produce(TOPIC, quire::Message::new([7; 200]));
    steps.iter().fold(commit, |commit, step| match step {
        Step::PutBlock { block, expect, content } => commit.part(Command::PutBlock(PutBlock {
            content: content.as_bytes(),
            expect: expect.map(Version::new),
            ..PutBlock::new(GRAPH, &*names[*block], "thing")
        })),
        Step::DeleteBlock { block } => commit.delete_block(GRAPH, &*names[*block]),
        Step::PutEdge { source, edge_type, target, allow_missing } => {
            let edge = PutEdge::new(GRAPH, &*names[*source], TYPES[*edge_type], &*names[*target]);
            commit.part(Command::PutEdge(PutEdge { allow_missing: *allow_missing, ..edge }))
        }
        Step::DeleteEdge { source, edge_type, target } => {
            commit.delete_edge(GRAPH, &*names[*source], TYPES[*edge_type], &*names[*target])
        }
    })
}

pub(crate) fn names() -> Vec<String> {
    (0..BLOCKS).map(|block| format!("block {block}")).collect()
}
