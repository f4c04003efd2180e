//! The graphs that cases work on: blocks with ids all over, and random edges between them, the same each time for one size.

use std::hint::black_box;

use quire::graph::BlockId;
use quire::{Builder, Commit, Database, NewBlock, NewEdge, Outcome};

use crate::bench::case::Run;
use crate::failure::{Failure, Result};
use crate::opening::open;

pub(super) const GRAPH: &str = "bench";
pub(super) const EDGE_TYPE: &str = "calls";
pub(super) const KIND: &str = "function";

/// How many edges leave a block.
pub(super) const DEGREE: u64 = 5;

/// How many commands a commit has that fills a graph.
const BATCH: u64 = 1_000;

/// The golden ratio in 128 bits, odd: numbers multiplied with it are far from each other, and no two are the same.
const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// The id of the block with this number.
pub(super) fn id(number: u64) -> BlockId {
    BlockId::new((u128::from(number) + 1).wrapping_mul(SPREAD).to_be_bytes())
}

/// The number below `end` that an operation works on: every operation on another, none beside the one before.
pub(super) fn spread(op: u64, end: u64) -> u64 {
    let spread = op.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(spread) * u128::from(end)) >> 64) as u64
}

/// The block at which an edge of this block arrives.
pub(super) fn target(block: u64, edge: u64, blocks: u64) -> u64 {
    spread(black_box(block * DEGREE + edge).wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5851_f42d, blocks)
}

/// How every case opens its database.
pub(super) fn builder(run: &Run<'_>) -> Builder {
    Database::builder(&run.path).durability(run.case.durability).create(true)
}

pub(super) fn create(run: &Run<'_>) -> Result<Database> {
    Ok(open(builder(run))?.database)
}

/// Puts so many blocks of so many bytes.
pub(super) fn put_blocks(run: &Run<'_>, database: &Database, blocks: u64, bytes: usize) -> Result {
    let content = vec![b'q'; bytes];
    batches(run, database, blocks, |commit, block| {
        commit.put_block(GRAPH, NewBlock::new(id(block), KIND).content(&content))
    })
}

/// Puts the edges of so many blocks that are there. A pair of blocks has one edge at most, so a few are put again.
pub(super) fn put_edges(run: &Run<'_>, database: &Database, blocks: u64) -> Result {
    batches(run, database, blocks * DEGREE, |commit, number| {
        let (block, edge) = (number / DEGREE, number % DEGREE);
        commit.put_edge(GRAPH, NewEdge::new(id(block), EDGE_TYPE, id(target(block, edge, blocks))))
    })
}

/// Puts edges from the first block to so many others that are there.
pub(super) fn put_star(run: &Run<'_>, database: &Database, rays: u64) -> Result {
    batches(run, database, rays, |commit, ray| commit.put_edge(GRAPH, NewEdge::new(id(0), EDGE_TYPE, id(ray + 1))))
}

/// A graph of so many blocks of so many bytes, with edges.
pub(super) fn linked(run: &Run<'_>, blocks: u64, bytes: usize) -> Result<Database> {
    let database = create(run)?;
    put_blocks(run, &database, blocks, bytes)?;
    put_edges(run, &database, blocks)?;
    Ok(database)
}

fn batches<'c>(run: &Run<'_>, database: &Database, count: u64, put: impl Fn(Commit<'c>, u64) -> Commit<'c>) -> Result {
    for first in (0..count).step_by(BATCH as usize) {
        run.go_on(first / BATCH)?;
        let commit = (first..count.min(first + BATCH)).fold(Commit::new(), &put);
        if let Outcome::Refused(refused) = database.commit(&commit)? {
            return Err(Failure::new(refused.to_string()));
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
