//! The graph test: several processes change and read one graph, and are killed repeatedly. The test
//! compares their output with a naive graph.
//!
//! The test starts itself as [`child`]ren. A child's commits follow from its number ([`steps`]). It
//! prints only the replies, and a digest of the whole graph as of each position that it read.
//!
//! The parent then reads the feed of changes, position by position, alongside a [`naive`] graph
//! ([`inspection`]). Each reply and digest must equal the naive graph's at that position. The
//! parent repeats this after sealing, compaction and restarts.

mod child;
mod inspection;
mod naive;
#[path = "../kill/random.rs"]
mod random;
mod steps;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use quire::streams::{self, TopicRef};
use quire::{Builder, Commit, Database, Durability, Part};

use crate::inspection::Ledger;
use crate::random::Random;

/// Number of processes that run at a time.
const PROCESSES: usize = 3;
/// Number of replies that end a run.
const ANSWERS: usize = 6_000;
/// Approximate number of times that a child is killed and replaced.
const KILLS: u64 = 12;
/// Longest silence of a live child.
const SILENCE: Duration = Duration::from_secs(60);

pub(crate) const GRAPH: &str = "shared";
/// The topic whose records make segments worth a compaction.
pub(crate) const TOPIC: &str = "filler";

/// Returns the builder of all processes. Its settings make segments end and checkpoints happen
/// often.
pub(crate) fn builder(path: &Path) -> Builder {
    let builder = Database::builder(path).durability(Durability::Os);
    builder.segment_bytes(64 << 10).checkpoint_bytes(128 << 10).sync_interval(Duration::from_millis(3))
}

/// The test starts this function in each child. It does nothing in an ordinary run.
#[test]
fn child() {
    if let Some(task) = child::Task::from_environment() {
        task.work_until_killed();
    }
}

#[test]
fn processes_that_share_a_graph_get_the_replies_of_a_naive_graph_however_they_die() {
    let mut random = Random::from_environment();
    println!("to choose the same moments again: QUIRE_KILL_SEED={}", random.seed());
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("data");
    let ledger = share(&path, &mut random);
    println!("{} answers and {} reads", ledger.answers(), ledger.reads());
    assert!(ledger.reads() > 100, "the children never came to read");

    let open = || builder(&path).open().expect("what was killed opens");
    let database = open();
    inspection::inspect(&database, &ledger);
    let segments = database.statistics().segments;
    assert!(segments > 5, "the segments were to be sealed, and there are {segments}");
    // Deletes the records around the graph's entries, so that compaction moves the entries into
    // other files.
    let all = streams::Command::DeleteRecords {
        topic: TopicRef::Name(TOPIC),
        partition: 0,
        before: None,
        keep_unread: false,
    };
    database.commit(&Commit::new().part(Part::Streams(all))).expect("durable").committed().expect("accepted");
    database.checkpoint().expect("saved");
    let compacted = database.compact().expect("compacted");
    assert!(compacted.entries_dropped > 100, "{compacted:?}");
    inspection::inspect(&database, &ledger);
    drop(database);
    let database = open();
    let pasts = inspection::inspect(&database, &ledger);
    // Then trims most of the graph's history, half of the rest at a time.
    let mut begins = 0;
    while begins + 2 < pasts.len() {
        begins += (pasts.len() - begins) / 2;
        let from = pasts[begins].0;
        database.graph(GRAPH).trim_history(from).expect("accepted");
        assert!(database.compact().expect("compacted").entries_dropped > 0);
        inspection::recall(&database, &pasts, from);
    }
    drop(database);
    inspection::recall(&open(), &pasts, pasts[begins].0);
}

/// Runs children and kills some, until there are enough replies.
fn share(path: &Path, random: &mut Random) -> Ledger {
    drop(builder(path).open().expect("it is made"));
    let (told, lines) = mpsc::channel();
    let mut started = 0;
    let mut start = || {
        started += 1;
        spawn(&child::Task { path: path.to_owned(), run: started }, told.clone())
    };
    let mut running: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let mut ledger = Ledger::default();
    let mut next_kill = ANSWERS / 20;
    while ledger.answers() < ANSWERS {
        ledger.note(&lines.recv_timeout(SILENCE).expect("the children are at work"));
        if ledger.answers() > next_kill {
            next_kill += usize::try_from(random.below(2 * ANSWERS as u64 / KILLS)).expect("few");
            let victim = usize::try_from(random.below(PROCESSES as u64)).expect("few");
            kill(std::mem::replace(&mut running[victim], start()));
        }
    }
    running.into_iter().for_each(kill);
    drop(told);
    lines.iter().for_each(|line| ledger.note(&line));
    ledger
}

/// Starts a child, and a thread that forwards its output.
fn spawn(task: &child::Task, told: Sender<String>) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("the test knows itself"));
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]).stdout(Stdio::piped());
    task.to_environment(&mut command);
    let mut child = command.spawn().expect("the child starts");
    let mut output = BufReader::new(child.stdout.take().expect("its output is read"));
    std::thread::spawn(move || {
        let mut line = String::new();
        while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            // An incomplete line is ignored.
            if line.ends_with('\n') && told.send(line.trim_end().to_owned()).is_err() {
                break;
            }
            line.clear();
        }
    });
    child
}

fn kill(mut child: Child) {
    child.kill().expect("the child is killed");
    child.wait().expect("the child has ended");
}
