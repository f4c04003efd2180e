//! Edges: put between blocks that are there, looked up, followed to the next block, and deleted many at once.

use std::hint::black_box;

use quire::graph::{Direction, PutEdge, Reply};

use super::blocks::looks;
use super::made::{DEGREE, EDGE_TYPE, GRAPH, create, id, linked, put_blocks, put_star, spread, target};
use crate::bench::case::Run;
use crate::bench::measurement::{Measured, Recorder};
use crate::failure::Result;

/// Puts edges one by one, each between two of so many blocks.
pub(super) fn put<const BLOCKS: u64>(run: &Run<'_>) -> Result<Measured> {
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

/// Deletes the edges of a block that has very many, as many in a commit as the case has in a batch, until none is left.
pub(super) fn delete_star(run: &Run<'_>) -> Result<Measured> {
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
        assert_eq!(reply, Reply::EdgesDeleted { count: run.case.batch, is_more: op + 1 < parts }, "of all its edges");
    }
    Ok(recorder.finish().with("edges", (parts * part) as f64))
}

/// Looks up edges that are there, many a look at the graph.
pub(super) fn lookup<const BLOCKS: u64>(run: &Run<'_>) -> Result<Measured> {
    let database = linked(run, BLOCKS, 16)?;
    let (blocks, edges, memory) = database.read_published(|view| {
        let graph = view.graphs.graph(GRAPH).expect("it was filled");
        (graph.block_count(), graph.edge_count(), graph.memory_bytes())
    })?;
    let measured = looks(run, &database, |graph, _, op| {
        let source = spread(op, BLOCKS);
        let found = graph.has_edge(id(source), EDGE_TYPE, id(target(source, op % DEGREE, BLOCKS)));
        assert!(black_box(found), "it was put");
        Ok(())
    })?;
    let numbers = [("blocks", blocks), ("edges", edges), ("memory_bytes", memory)];
    Ok(numbers.into_iter().fold(measured, |measured, (name, value)| measured.with(name, value as f64)))
}

/// Follows the first edge of a block to the version of the block where it arrives, many a look at the graph.
pub(super) fn hop<const BLOCKS: u64>(run: &Run<'_>) -> Result<Measured> {
    let database = linked(run, BLOCKS, 16)?;
    looks(run, &database, |graph, _, op| {
        let first = graph.neighbours(id(spread(op, BLOCKS)), Direction::Outgoing, &[], None).next();
        let version = graph.version(first.expect("every block has edges").block);
        assert_eq!(black_box(version).get(), 1, "it was put once");
        Ok(())
    })
}
