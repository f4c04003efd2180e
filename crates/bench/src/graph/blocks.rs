//! Blocks: put, read from memory and from disk, looked up without success, sealed, and opened
//! again.

use std::hint::black_box;
use std::thread;

use quire::graph::Graph;
use quire::{Background, Database, Duty, NewBlock, ReadView};

use super::made::{GRAPH, KIND, builder, create, id, put_blocks, spread};
use crate::case::CaseRun;
use crate::cold::forget_files;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;

/// Content of existing blocks, in bytes.
const FILLED_BYTES: usize = 16;

/// Segments of a database for lookups of missing blocks.
const SEGMENTS: u64 = 20;

/// Puts new blocks one by one into a graph of `COUNT` blocks.
pub(super) fn put<const BLOCKS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    put_blocks(run, &database, BLOCKS, FILLED_BYTES)?;
    let warm_up = (run.ops / 10).clamp(1, 10_000);
    puts(run, &database, BLOCKS..BLOCKS + warm_up)?;
    let latencies = puts(run, &database, BLOCKS + warm_up..BLOCKS + warm_up + run.ops)?;
    let elapsed = latencies.total();
    Ok(CaseResult::of_clients([latencies], elapsed))
}

/// The threads of the case put blocks of their own.
pub(super) fn put_in_threads(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    put_blocks(run, &database, 1_000, FILLED_BYTES)?;
    let before = database.statistics();
    let each = run.ops.div_ceil(run.case.clients.into());
    let watch = Stopwatch::start();
    let clients: Vec<Result<Latencies>> = thread::scope(|scope| {
        let database = &database;
        let first = |client: u64| 1_000 + client * each;
        let start = |client| scope.spawn(move || puts(run, database, first(client)..first(client + 1)));
        let running: Vec<_> = (0..run.case.clients.into()).map(start).collect();
        running.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    });
    let elapsed = watch.elapsed();
    let after = database.statistics();
    let measured = CaseResult::of_clients(clients.into_iter().collect::<Result<Vec<_>>>()?, elapsed);
    let syncs = (after.syncs - before.syncs).max(1);
    Ok(measured.with("commits_per_sync", (after.commits - before.commits) as f64 / syncs as f64))
}

fn puts(run: &CaseRun<'_>, database: &Database, blocks: std::ops::Range<u64>) -> Result<Latencies> {
    let content = vec![b'q'; run.case.payload_bytes];
    let graph = database.graph(GRAPH);
    let mut recorder = Recorder::start_among_others();
    for (op, block) in (0..).zip(blocks) {
        run.go_on(op)?;
        graph.put_block(NewBlock::new(id(block), KIND).content(&content))?;
        recorder.lap();
    }
    Ok(recorder.into_latencies())
}

/// Reads blocks in place from a graph of `COUNT` blocks, many per access to the graph.
pub(super) fn read<const BLOCKS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    put_blocks(run, &database, BLOCKS, run.case.payload_bytes)?;
    let segments = database.statistics().segments as f64;
    Ok(looks(run, &database, |graph, view, op| read_block(run, graph, view, spread(op, BLOCKS)))?
        .with("segments", segments))
}

fn read_block(run: &CaseRun<'_>, graph: &Graph, view: &ReadView<'_>, block: u64) -> Result {
    let found = graph.block(view.history, id(block)).map_err(quire::Error::from)?;
    let found = found.ok_or_else(|| CommandError::new("a block is missing after its put"))?;
    assert_eq!(black_box(found.content).len(), run.case.payload_bytes, "the content is the block's");
    Ok(())
}

/// Looks up missing blocks in a graph whose blocks are in many sealed segments.
pub(super) fn absent(run: &CaseRun<'_>) -> Result<CaseResult> {
    let blocks = 100_000;
    let bytes = run.case.payload_bytes;
    let segment_bytes = (blocks * (bytes as u64 + 150) / SEGMENTS).max(1 << 20);
    let database = open(builder(run).segment_bytes(segment_bytes))?.database;
    put_blocks(run, &database, blocks, bytes)?;
    let segments = database.statistics().segments;
    assert!(segments >= SEGMENTS, "{segments} segments");
    let measured = looks(run, &database, |graph, view, op| {
        let found = graph.block(view.history, id(blocks + op)).map_err(quire::Error::from)?;
        assert!(black_box(found).is_none(), "the block was never put");
        Ok(())
    })?;
    Ok(measured.with("segments", segments as f64))
}

/// Runs `op` on the graph as often as the case's batch.
pub(super) fn looks(
    run: &CaseRun<'_>,
    database: &Database,
    mut look: impl FnMut(&Graph, &ReadView<'_>, u64) -> Result,
) -> Result<CaseResult> {
    let batch = run.case.batch as u64;
    let mut recorder = Recorder::start();
    // A tenth of the operations warms up.
    for op in 0..run.ops / 10 + run.ops {
        run.go_on(op)?;
        if op == run.ops / 10 {
            recorder = Recorder::start();
        }
        database.read_published(|view| {
            let graph = view.graphs.graph(GRAPH).expect("the graph was filled");
            (op * batch..(op + 1) * batch).try_for_each(|number| look(graph, view, number))
        })??;
        recorder.lap();
    }
    Ok(recorder.finish())
}

/// Reads blocks one by one that are in no cache.
pub(super) fn read_cold(run: &CaseRun<'_>) -> Result<CaseResult> {
    forget_files()?;
    let blocks = 1_000_000;
    let database = create(run)?;
    put_blocks(run, &database, blocks, run.case.payload_bytes)?;
    database.sync()?;
    drop(database);
    let database = open(builder(run))?.database;
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        // Drops pages that the kernel read ahead.
        forget_files()?;
        recorder.restart();
        database.read_published(|view| {
            let graph = view.graphs.graph(GRAPH).expect("the graph was filled");
            read_block(run, graph, view, spread(op + 1, blocks))
        })??;
        recorder.lap();
    }
    Ok(recorder.finish())
}

/// Builds the index of a segment with as many blocks as the case's batch.
pub(super) fn seal(run: &CaseRun<'_>) -> Result<CaseResult> {
    let (batch, bytes) = (run.case.batch as u64, run.case.payload_bytes);
    // A block takes its content and about a hundred bytes. A segment ends where the next block does
    // not fit.
    let segment_bytes = batch * (bytes as u64 + 104);
    let background = builder(run).segment_bytes(segment_bytes).commit_bytes_max(segment_bytes / 4);
    let database = open(background.background(Background::Caller))?.database;
    let graph = database.graph(GRAPH);
    let content = vec![b'q'; bytes];
    let mut block = 0;
    let mut recorder = Recorder::start();
    let mut sealed_blocks = 0;
    for op in 0..run.ops {
        run.go_on(op)?;
        let segments = database.statistics().segments;
        let first = block;
        while database.statistics().segments == segments {
            graph.put_block(NewBlock::new(id(block), KIND).content(&content))?;
            block += 1;
            database.carry_out(Duty::Prepare)?;
        }
        database.carry_out(Duty::Sync)?;
        sealed_blocks += block - first;
        recorder.restart();
        let sealed = database.carry_out(Duty::Seal)?;
        recorder.lap();
        assert!(sealed, "a full segment is sealed");
    }
    Ok(recorder.finish().with("blocks_per_segment", sealed_blocks as f64 / run.ops as f64))
}

/// Opens a cleanly closed database with a graph of `COUNT` blocks.
pub(super) fn reopen<const BLOCKS: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    put_blocks(run, &database, BLOCKS, FILLED_BYTES)?;
    database.checkpoint()?;
    let memory =
        database.read_published(|view| view.graphs.graph(GRAPH).expect("the graph was filled").memory_bytes())?;
    drop(database);
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        recorder.restart();
        let database = open(builder(run))?.database;
        recorder.lap();
        let blocks = database.read_published(|view| view.graphs.graph(GRAPH).map(Graph::block_count))?;
        assert_eq!(blocks, Some(BLOCKS as usize), "every block exists");
    }
    Ok(recorder.finish().with("memory_bytes_per_block", memory as f64 / BLOCKS as f64))
}
