//! A graph that is larger than memory: a process that may not have so much works with it, through restarts and checkpoints.
//!
//! The test starts itself under a limit of the system (`RLIMIT_DATA`, by `ulimit -d` of the shell), which counts what is on the
//! heap. The same process without the setting does not come to its end: so the limit is one that the graph does not fit into.

use std::path::Path;
use std::process::{Command, Output};

use quire::graph::{BlockId, Direction, PutBlock, PutEdge, WalkPlan};
use quire::tools::{self, GraphMemory};
use quire::{Builder, Commit, Database, Durability};

const GRAPH: &str = "large";
const BLOCKS: u64 = 300_000;
/// Edges that leave a block.
const DEGREE: u64 = 5;

/// What the process may have on the heap, in KiB: less than the graph takes while a checkpoint of it is made, which is about
/// 150 MB, and half as much again as the process needs that keeps it elsewhere.
const LIMIT_KIB: u64 = 108 << 10;
/// What a process may have that only reads: less than the graph takes, and less than a checkpoint of it in one piece.
const READING_LIMIT_KIB: u64 = 32 << 10;
/// What of either the graph may have, in bytes.
const GRAPH_BYTES: u64 = 4 << 20;

const PATH: &str = "QUIRE_MEMORY_PATH";
const BOUND: &str = "QUIRE_MEMORY_BOUND";

fn builder(path: &Path) -> Builder {
    let builder = Database::builder(path).durability(Durability::Os).segment_bytes(4 << 20).commit_bytes_max(1 << 20);
    // A large state is made again beside the live one, and both together keep to the bound.
    builder.checkpoint_bytes(32 << 20).checkpoint_pause_bytes(0)
}

fn bounded(path: &Path) -> Builder {
    match std::env::var(BOUND) {
        Ok(bytes) => builder(path).graph_memory_bytes(bytes.parse().expect("a number")),
        Err(_) => builder(path),
    }
}

fn id(block: u64) -> BlockId {
    BlockId::of_name(&block.to_string())
}

fn target(block: u64, edge: u64) -> u64 {
    (block * 7_919 + edge * 104_729 + 1) % BLOCKS
}

/// What the test starts itself for; does nothing in an ordinary run.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let path = Path::new(&path);
    fill(&bounded(path).open().expect("opened"));
    // Once from the checkpoint of closing, and once more.
    for _ in 0..2 {
        let database = bounded(path).open().expect("opened again");
        look_through(&database);
        database.checkpoint().expect("saved");
        assert_ne!(asks_for_large_pages(), Some(true), "with so little memory");
    }
}

/// What the test starts itself for when the database is there: verifies it, and looks at it to read only, with what does not fit in the
/// folder beside it.
#[test]
fn child_that_only_reads() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let path = Path::new(&path);
    let folder = path.with_extension("beside");
    let bound = std::env::var(BOUND).ok().map(|bytes| bytes.parse().expect("a number"));
    let memory = bound.map(|heap_bytes_max| GraphMemory { heap_bytes_max, folder: folder.clone() });
    let verification = tools::verify(path, memory.as_ref(), &mut |_, _| ()).expect("there is something to verify");
    assert_eq!((verification.findings.as_slice(), verification.checkpoints), ([].as_slice(), 2));
    // A walk to everything remembers more than that.
    assert_is_whole(&bounded(path).graph_memory_folder(folder).read_only(true).open().expect("opened"));
}

/// Whether this process has asked for large pages anywhere; `None` where the system has none to be asked for.
fn asks_for_large_pages() -> Option<bool> {
    std::fs::metadata("/sys/kernel/mm/transparent_hugepage").ok()?;
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    Some(maps.lines().filter_map(|line| line.strip_prefix("VmFlags:")).any(|flags| flags.contains(" hg")))
}

fn fill(database: &Database) {
    for first in (0..BLOCKS).step_by(1_000) {
        let blocks = (first..first + 1_000).map(|block| PutBlock::new(GRAPH, id(block), "thing"));
        commit(database, blocks.fold(Commit::new(), Commit::put_block));
    }
    for first in (0..BLOCKS).step_by(500) {
        let edges = (first..first + 500).flat_map(|block| (0..DEGREE).map(move |edge| (block, target(block, edge))));
        let edges = edges.map(|(block, target)| PutEdge::new(GRAPH, id(block), "follows", id(target)));
        commit(database, edges.fold(Commit::new(), Commit::put_edge));
    }
}

fn commit(database: &Database, commit: Commit<'_>) {
    database.commit(&commit).expect("committed").committed().expect("accepted");
}

fn assert_is_whole(database: &Database) {
    let counts =
        database.graph(GRAPH).read(|graph, _| (graph.block_count() as u64, graph.edge_count() as u64)).expect("read");
    assert_eq!(counts, Some((BLOCKS, BLOCKS * DEGREE)));
}

fn look_through(database: &Database) {
    assert_is_whole(database);
    let graph = database.graph(GRAPH);
    for block in (0..BLOCKS).step_by(997) {
        let has = |graph: &quire::graph::Graph| {
            let targets = (0..DEGREE).map(|edge| id(target(block, edge)));
            let all = targets.clone().all(|target| graph.has_edge(id(block), "follows", target));
            all && graph.neighbours(id(block), Direction::Outgoing, &[], None).count() as u64 == DEGREE
        };
        assert_eq!(graph.read(|graph, _| has(graph)).expect("read"), Some(true), "the edges of block {block}");
    }
    let everything = WalkPlan { depth_max: usize::MAX, visited_max: usize::MAX, ..WalkPlan::default() };
    let snapshot = graph.snapshot().expect("read").expect("it is there");
    let walk = snapshot.walk(&[id(0)], everything, None).expect("walked");
    assert_eq!((walk.visited() as u64, walk.bound()), (BLOCKS, None));
}

/// Starts a child under the limit.
fn run(child: &str, limit_kib: u64, path: &Path, graph_bytes: Option<u64>) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -d {limit_kib} && exec \"$0\" \"$@\"")]);
    shell.arg(std::env::current_exe().expect("the test knows itself"));
    shell.args(["--exact", child, "--nocapture", "--test-threads=1"]).env(PATH, path);
    if let Some(bytes) = graph_bytes {
        shell.env(BOUND, bytes.to_string());
    }
    shell.output().expect("the child starts")
}

#[test]
fn a_graph_larger_than_a_limit_on_memory_works_within_it() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("bounded");
    let output = run("child", LIMIT_KIB, &path, Some(GRAPH_BYTES));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = |path: &Path| -> Vec<_> {
        let files = std::fs::read_dir(path).expect("listed").map(|file| file.expect("listed").file_name());
        files.collect()
    };
    let left = listed(&path);
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("graph-memory")), "{left:?}");

    // Who only reads it keeps to the bound, too, and leaves nothing anywhere.
    let beside = path.with_extension("beside");
    std::fs::create_dir(&beside).expect("made");
    let output = run("child_that_only_reads", READING_LIMIT_KIB, &path, Some(GRAPH_BYTES));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((listed(&path), listed(&beside)), (left, Vec::new()));
    assert!(
        !run("child_that_only_reads", READING_LIMIT_KIB, &path, None).status.success(),
        "the limit would hold what is verified"
    );

    // Without the setting it does not fit; and what the bounded process has written is there without a bound.
    assert!(
        !run("child", LIMIT_KIB, &folder.path().join("unbounded"), None).status.success(),
        "the limit would hold all of the graph"
    );
    let database = builder(&path).open().expect("opened");
    look_through(&database);
    assert_ne!(asks_for_large_pages(), Some(false), "of a graph that is large and may have everything");
}
