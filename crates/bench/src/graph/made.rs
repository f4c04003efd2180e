//! The graphs of the cases: blocks with scattered ids, and random edges between them. They are the
//! same each time for one size.

use std::hint::black_box;

use quire::graph::BlockId;
use quire::{Builder, Commit, Database, NewBlock, NewEdge, Outcome};

use crate::case::CaseRun;
use quire_cli::failure::{CommandError, Result};
use quire_cli::opening::open;

pub(super) const GRAPH: &str = "bench";
pub(super) const EDGE_TYPE: &str = "calls";
pub(super) const KIND: &str = "function";

/// Outgoing edges of a block.
pub(super) const DEGREE: u64 = 5;

/// Commands per commit while a graph is filled.
const BATCH: u64 = 1_000;

/// The golden ratio in 128 bits, odd. Its multiples are far from each other, and all different.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// The id of block `number`.
pub(super) fn id(number: u64) -> BlockId {
    BlockId::new((u128::from(number) + 1).wrapping_mul(SPREAD).to_be_bytes())
}

/// A number below `end` for each operation: all different, and far from the number of the previous
/// operation.
pub(super) fn spread(op: u64, end: u64) -> u64 {
    let spread = op.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(spread) * u128::from(end)) >> 64) as u64
}

/// The target of an edge of this block.
pub(super) fn target(block: u64, edge: u64, blocks: u64) -> u64 {
    spread(black_box(block * DEGREE + edge).wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5851_f42d, blocks)
}

/// Opens the database of a case.
pub(super) fn builder(run: &CaseRun<'_>) -> Builder {
    Database::builder(&run.path).durability(run.case.durability).create(true)
}

pub(super) fn create(run: &CaseRun<'_>) -> Result<Database> {
    Ok(open(builder(run))?.database)
}

/// Puts `count` blocks of `bytes` bytes.
pub(super) fn put_blocks(run: &CaseRun<'_>, database: &Database, blocks: u64, bytes: usize) -> Result {
    let content = vec![b'q'; bytes];
    batches(run, database, blocks, |commit, block| {
        commit.put_block(GRAPH, NewBlock::new(id(block), KIND).content(&content))
    })
}

/// Puts the edges of `count` existing blocks. Two blocks have at most one edge, so a few are put
/// again.
pub(super) fn put_edges(run: &CaseRun<'_>, database: &Database, blocks: u64) -> Result {
    batches(run, database, blocks * DEGREE, |commit, number| {
        let (block, edge) = (number / DEGREE, number % DEGREE);
        commit.put_edge(GRAPH, NewEdge::new(id(block), EDGE_TYPE, id(target(block, edge, blocks))))
    })
}

/// Puts edges from the first block to `count` other blocks.
pub(super) fn put_star(run: &CaseRun<'_>, database: &Database, rays: u64) -> Result {
    batches(run, database, rays, |commit, ray| commit.put_edge(GRAPH, NewEdge::new(id(0), EDGE_TYPE, id(ray + 1))))
}

/// A graph of `count` blocks of `bytes` bytes, with edges.
pub(super) fn linked(run: &CaseRun<'_>, blocks: u64, bytes: usize) -> Result<Database> {
    let database = create(run)?;
    put_blocks(run, &database, blocks, bytes)?;
    put_edges(run, &database, blocks)?;
    Ok(database)
}

fn batches<'c>(
    run: &CaseRun<'_>,
    database: &Database,
    count: u64,
    put: impl Fn(Commit<'c>, u64) -> Commit<'c>,
) -> Result {
    for first in (0..count).step_by(BATCH as usize) {
        run.go_on(first / BATCH)?;
        let commit = (first..count.min(first + BATCH)).fold(Commit::new(), &put);
        if let Outcome::Refused(refused) = database.commit(&commit)? {
            return Err(CommandError::new(refused.to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ_and_edges_arrive_at_blocks_all_over() {
        let ids: HashSet<[u8; 16]> = (0..10_000).map(|number| *id(number).as_bytes()).collect();
        assert_eq!(ids.len(), 10_000);
        let targets: HashSet<u64> =
            (0..2_000).flat_map(|block| (0..DEGREE).map(move |edge| target(block, edge, 1_000))).collect();
        assert!(targets.iter().all(|target| *target < 1_000));
        assert!(targets.len() > 990, "{} of 1,000 blocks have incoming edges", targets.len());
    }
}
