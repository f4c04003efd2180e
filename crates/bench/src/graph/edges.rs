//! Edges: put between existing blocks, looked up, followed to the next block, and deleted in bulk.

use std::hint::black_box;

use quire::graph::{Direction, PutEdge, Reply};

use super::blocks::looks;
use super::made::{DEGREE, EDGE_TYPE, GRAPH, create, id, linked, put_blocks, put_star, spread, target};
use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::Result;

/// Puts edges one by one, each between two of `COUNT` blocks.
pub(super) fn put<const BLOCKS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    put_blocks(run, &database, BLOCKS, 16)?;
    let graph = database.graph(GRAPH);
    let put = |op: u64| {
        let source = spread(op, BLOCKS);
        let edge = PutEdge::new(GRAPH, id(source), EDGE_TYPE, id(target(source, op, BLOCKS)));
        graph.put_edge(edge)
    };
    let warm_up = (run.ops / 10).clamp(1, 10_000);
    for op in 0..warm_up {
        put(u64::MAX / 2 + op)?;
    }
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        put(op)?;
        recorder.lap();
    }
    Ok(recorder.finish())
}

/// Deletes the edges of a block with very many of them, as many per commit as the case's batch.
pub(super) fn delete_star(run: &CaseRun<'_>) -> Result<CaseResult> {
    let (parts, part) = (run.ops, run.case.batch as u64);
    let database = create(run)?;
    put_blocks(run, &database, parts * part + 1, 16)?;
    put_star(run, &database, parts * part)?;
    let graph = database.graph(GRAPH);
    let mut recorder = Recorder::start();
    for op in 0..parts {
        run.go_on(op)?;
        let reply = graph.delete_edges(id(0), run.case.batch)?;
        recorder.lap();
        assert_eq!(
            reply,
            Reply::EdgesDeleted { count: run.case.batch, is_more: op + 1 < parts },
            "each deletion removes one batch of the edges"
        );
    }
    Ok(recorder.finish().with("edges", (parts * part) as f64))
}

/// Looks up existing edges, many per access to the graph.
pub(super) fn lookup<const BLOCKS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = linked(run, BLOCKS, 16)?;
    let (blocks, edges, memory) = database.read_published(|view| {
        let graph = view.graphs.graph(GRAPH).expect("the graph was filled");
        (graph.block_count(), graph.edge_count(), graph.memory_bytes())
    })?;
    let measured = looks(run, &database, |graph, _, op| {
        let source = spread(op, BLOCKS);
        let found = graph.has_edge(id(source), EDGE_TYPE, id(target(source, op % DEGREE, BLOCKS)));
        assert!(black_box(found), "the edge was put");
        Ok(())
    })?;
    let numbers = [("blocks", blocks), ("edges", edges), ("memory_bytes", memory)];
    Ok(numbers.into_iter().fold(measured, |measured, (name, value)| measured.with(name, value as f64)))
}

/// Follows the first edge of a block to the version of its target, many per access to the graph.
pub(super) fn hop<const BLOCKS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = linked(run, BLOCKS, 16)?;
    looks(run, &database, |graph, _, op| {
        let first = graph.neighbours(id(spread(op, BLOCKS)), Direction::Outgoing, &[], None).next();
        let version = graph.version(first.expect("every block has edges").block);
        assert_eq!(black_box(version).get(), 1, "the edge was put once");
        Ok(())
    })
}
