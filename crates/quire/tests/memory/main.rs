//! A graph larger than memory: a process with a memory limit uses the graph through restarts and
//! checkpoints. A packed segment larger than memory: its reader gets a memory error, not a damage
//! error.
//!
//! Each test starts itself under a limit of the system (`RLIMIT_DATA`, by `ulimit -d` of the
//! shell), which counts the heap. The same process without the setting does not finish. This proves
//! that the graph does not fit into the limit.

use std::path::Path;
use std::process::{Command, Output};

use quire::events::{NewEvent, Query, ReadOptions};
use quire::graph::{BlockId, Direction, PutBlock, PutEdge, WalkPlan};
use quire::tools::{self, GraphMemory};
use quire::{Builder, Commit, Database, Durability};

const GRAPH: &str = "large";
const BLOCKS: u64 = 300_000;
/// Number of edges that leave each block.
const DEGREE: u64 = 5;

/// Heap limit of the process, in KiB. The graph needs more while a checkpoint is made, about 150
/// MB. A process that keeps the graph elsewhere needs two thirds of the limit.
const LIMIT_KIB: u64 = 108 << 10;
/// Heap limit of a process that only reads, in KiB. The graph needs more, and so does a checkpoint
/// in one piece.
const READING_LIMIT_KIB: u64 = 32 << 10;
/// Graph memory of both processes, in bytes.
const GRAPH_BYTES: u64 = 4 << 20;

const PATH: &str = "QUIRE_MEMORY_PATH";
const BOUND: &str = "QUIRE_MEMORY_BOUND";

fn builder(path: &Path) -> Builder {
    let builder = Database::builder(path).durability(Durability::Os).segment_bytes(4 << 20).commit_bytes_max(1 << 20);
    // A large state is rebuilt alongside the live one, and both together stay within the limit.
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

/// The test starts this function in a child. It does nothing in an ordinary run.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let path = Path::new(&path);
    fill(&bounded(path).open().expect("opened"));
    // Once from the checkpoint made by closing, and once more.
    for _ in 0..2 {
        let database = bounded(path).open().expect("opened again");
        look_through(&database);
        database.checkpoint().expect("saved");
        assert_ne!(asks_for_large_pages(), Some(true), "with so little memory");
    }
}

/// The test starts this function when the database exists. It verifies the database and opens it
/// read-only. The rest of the graph is mapped in the directory beside it.
#[test]
fn child_that_only_reads() {
    let Some(path) = std::env::var_os(PATH) else { return };
    let path = Path::new(&path);
    let folder = path.with_extension("beside");
    let bound = std::env::var(BOUND).ok().map(|bytes| bytes.parse().expect("a number"));
    let memory = bound.map(|heap_bytes_max| GraphMemory { heap_bytes_max, folder: folder.clone() });
    let verification = tools::verify(path, memory.as_ref(), &mut |_, _| ()).expect("there is something to verify");
    assert_eq!((verification.findings.as_slice(), verification.checkpoints), ([].as_slice(), 2));
    // A walk to all blocks needs more memory than that.
    assert_is_whole(&bounded(path).graph_memory_directory(folder).read_only(true).open().expect("opened"));
}

/// Returns whether this process has requested large pages anywhere. `None` on a system without
/// large pages.
fn asks_for_large_pages() -> Option<bool> {
    std::fs::metadata("/sys/kernel/mm/transparent_hugepage").ok()?;
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    Some(maps.lines().filter_map(|line| line.strip_prefix("VmFlags:")).any(|flags| flags.contains(" hg")))
}

fn fill(database: &Database) {
    for first in (0..BLOCKS).step_by(1_000) {
        let blocks = (first..first + 1_000).map(|block| PutBlock::new(GRAPH, id(block), "thing"));
        commit(database, blocks.fold(Commit::new(), |commit, block| commit.put_block(GRAPH, block)));
    }
    for first in (0..BLOCKS).step_by(500) {
        let edges = (first..first + 500).flat_map(|block| (0..DEGREE).map(move |edge| (block, target(block, edge))));
        let edges = edges.map(|(block, target)| PutEdge::new(GRAPH, id(block), "follows", id(target)));
        commit(database, edges.fold(Commit::new(), |commit, edge| commit.put_edge(GRAPH, edge)));
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
    // A backtrace needs memory that a child may not have; the child would then wait for itself.
    shell.env("RUST_BACKTRACE", "0");
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

    // A process that only reads stays within the limit, too, and leaves no files.
    let beside = path.with_extension("beside");
    std::fs::create_dir(&beside).expect("made");
    let output = run("child_that_only_reads", READING_LIMIT_KIB, &path, Some(GRAPH_BYTES));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((listed(&path), listed(&beside)), (left, Vec::new()));
    assert!(
        !run("child_that_only_reads", READING_LIMIT_KIB, &path, None).status.success(),
        "the limit would hold what is verified"
    );

    // Without the setting, the graph does not fit. The data that the limited process wrote is
    // readable without a limit.
    assert!(
        !run("child", LIMIT_KIB, &folder.path().join("unbounded"), None).status.success(),
        "the limit would hold all of the graph"
    );
    let database = builder(&path).open().expect("opened");
    look_through(&database);
    assert_ne!(asks_for_large_pages(), Some(false), "of a graph that is large and may have everything");
}

/// Number of packed records. Together they are larger than the memory of the process that reads
/// them.
const PACKED_RECORDS: u64 = 64;
const PACKED_BYTES: usize = 3 << 20;
const PACKED_LIMIT_KIB: u64 = 128 << 10;

/// The test starts this function when the database has packed records too large for its memory.
#[test]
fn child_that_reads_what_is_packed() {
    let Some(path) = std::env::var_os(PATH) else { return };
    // All unpacked records may stay in memory.
    let builder = Database::builder(Path::new(&path)).unpacked_bytes_max(u64::MAX).durability(Durability::Os);
    let database = builder.read_only(true).open().expect("opened");
    let selection = database.read_published(|view| view.events.select("store", &Query::all())).expect("open");
    let selection = selection.expect("it can be asked");
    let read = || {
        // Records unpacked for a read stay in memory with it.
        let history = database.history();
        let mut reading = selection.read(&history, ReadOptions::default()).map_err(quire::Error::from)?;
        let mut seen = 0;
        while reading.next().transpose().map_err(quire::Error::from)?.is_some() {
            seen += 1;
        }
        Ok::<u64, quire::Error>(seen)
    };
    for _ in 0..2 {
        let error = read().expect_err("all of it takes more than there is");
        assert_eq!(error.kind(), quire::ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("no memory is available for"), "{error}");
        assert_eq!(database.damage(), []);
    }
    drop(database);
    // With a lower limit, every record is readable.
    let builder = Database::builder(Path::new(&path)).unpacked_bytes_max(8 << 20).durability(Durability::Os);
    let database = builder.read_only(true).open().expect("opened");
    let events = database.events("store").read(&Query::all(), ReadOptions::default()).expect("readable");
    assert_eq!(events.events.len() as u64, PACKED_RECORDS);
}

#[test]
fn a_segment_without_memory_to_unpack_it_is_not_damaged() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("packed");
    let builder = Database::builder(&path).durability(Durability::Os).segment_bytes(8 << 20).commit_bytes_max(4 << 20);
    let database = builder.pack_segments(true).open().expect("opened");
    // The records shrink to half their size when packed.
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..PACKED_RECORDS {
        let text: Vec<u8> = (0..PACKED_BYTES).map(|_| b"0123456789abcdef"[random.usize(..16)]).collect();
        let with_event = Commit::new().produce("topic", quire::Message::new(&text));
        commit(&database, with_event.append("store", [NewEvent::new("Small")]));
    }
    for _ in 0..4 {
        let filler = vec![b'q'; PACKED_BYTES];
        commit(&database, Commit::new().produce("topic", quire::Message::new(&filler)));
        database.checkpoint().expect("saved");
    }
    while database.carry_out(quire::Duty::Seal).expect("sealed") {}
    database.compact().expect("compacted");
    drop(database);
    let log = std::fs::read_dir(path.join("shard-0000")).expect("listed").map(|file| file.expect("listed"));
    let log_bytes: u64 = log.map(|file| file.metadata().expect("there").len()).sum();
    assert!(log_bytes < PACKED_RECORDS * PACKED_BYTES as u64 * 3 / 4, "{log_bytes} bytes: it is packed");
    let output = run("child_that_reads_what_is_packed", PACKED_LIMIT_KIB, &path, None);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the child ran");
}
