//! Walks: around a block, and through a whole graph.

use std::hint::black_box;

use quire::graph::{BlockId, WalkPlan};

use super::made::{GRAPH, create, id, linked, put_blocks, put_edges, spread};
use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::{CommandError, Result};

/// Walks breadth first to depth 5 from a block of 10,000, each walk from another block.
pub(super) fn near(run: &CaseRun<'_>) -> Result<CaseResult> {
    let blocks = 10_000;
    let database = linked(run, blocks, 16)?;
    let snapshot = database.graph(GRAPH).snapshot()?.ok_or_else(|| CommandError::new("the graph was filled"))?;
    let plan = WalkPlan { depth_max: 5, ..WalkPlan::default() };
    let mut visited = 0;
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        let walk = snapshot.walk(&[id(spread(op, blocks))], plan, None)?;
        visited += black_box(walk.visited());
        recorder.lap();
    }
    Ok(recorder.finish().with("visited_per_walk", visited as f64 / run.ops as f64))
}

/// Walks breadth first through all blocks that are reachable from a block.
pub(super) fn whole<const BLOCKS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    put_blocks(run, &database, BLOCKS, 16)?;
    put_edges(run, &database, BLOCKS)?;
    let (edges, memory) = database.read_published(|view| {
        let graph = view.graphs.graph(GRAPH).expect("the graph was filled");
        (graph.edge_count(), graph.memory_bytes())
    })?;
    let snapshot = database.graph(GRAPH).snapshot()?.ok_or_else(|| CommandError::new("the graph was filled"))?;
    let plan = WalkPlan { depth_max: usize::MAX, visited_max: usize::MAX, ..WalkPlan::default() };
    let starts: [BlockId; 1] = [id(0)];
    let mut recorder = Recorder::start();
    let mut visited = 0;
    for op in 0..run.ops {
        run.go_on(op)?;
        let walk = snapshot.walk(&starts, plan, None)?;
        visited = black_box(walk.visited());
        recorder.lap();
    }
    assert!(visited as u64 > BLOCKS * 9 / 10, "a walk must reach nearly every block, but reached {visited}");
    let seconds = recorder.mean().as_secs_f64();
    // The edges of a visited block are followed. Nearly all blocks are visited.
    let followed = edges as f64 * visited as f64 / BLOCKS as f64;
    let measured = recorder.finish().with("edges_per_s", followed / seconds);
    Ok(measured.with("visited", visited as f64).with("memory_bytes", memory as f64).with("edges", edges as f64))
}
