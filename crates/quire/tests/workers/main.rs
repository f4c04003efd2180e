//! The workers' test: several processes enqueue, fetch and end jobs of one database, and are killed
//! repeatedly.
//!
//! The test starts itself as [`child`]ren and reads their output ([`ledger`]). It kills them with
//! SIGKILL at random moments and starts others in their place. After enough operations, it works
//! off the remaining jobs and compares the log with the output ([`inspection`]):
//!
//! * Every acknowledged job was delivered.
//! * No acknowledged end was undone.
//! * No limit was exceeded.

mod child;
mod inspection;
mod ledger;
#[path = "../kill/random.rs"]
mod random;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use quire::jobs::{QueueChange, Rate};
use quire::{Builder, Database, Durability};

use crate::ledger::Ledger;
use crate::random::Random;

/// Number of processes that run at a time.
const PROCESSES: usize = 3;
/// Acknowledged operations that end a run, unless `QUIRE_KILL_OPERATIONS` sets another number.
const OPERATIONS: u64 = 10_000;

/// Longest silence of a live child.
const SILENCE: Duration = Duration::from_secs(60);

/// A queue with no limits and one with all of them.
pub(crate) const FREE: &str = "kill/free";
pub(crate) const LIMITED: &str = "kill/limited";
pub(crate) const ACTIVE_MAX: u32 = 12;
pub(crate) const GROUP_ACTIVE_MAX: u32 = 5;
pub(crate) const RATE_COUNT: u32 = 150;
pub(crate) const RATE_MICROS: u64 = 100_000;

/// Returns the builder of all processes. Its settings make segments end and checkpoints happen
/// often.
fn builder(path: &Path, durability: Durability) -> Builder {
    let builder = Database::builder(path).durability(durability);
    builder.segment_bytes(256 << 10).checkpoint_bytes(128 << 10).sync_interval(Duration::from_millis(3))
}

#[test]
fn a_sync_database_delivers_what_it_acknowledged_and_keeps_its_limits_however_its_workers_die() {
    survive(Durability::Sync);
}

#[test]
fn an_os_database_delivers_what_it_acknowledged_and_keeps_its_limits_however_its_workers_die() {
    survive(Durability::Os);
}

/// The test starts this function in each child. It does nothing in an ordinary run.
#[test]
fn child() {
    if let Some(task) = child::Task::from_environment() {
        task.work_until_killed();
    }
}

fn survive(durability: Durability) {
    let mut random = Random::from_environment();
    println!("to choose the same moments again: QUIRE_KILL_SEED={}", random.seed());
    let operations = std::env::var("QUIRE_KILL_OPERATIONS").ok().map(|number| number.parse().expect("a number"));
    let operations: u64 = operations.unwrap_or(OPERATIONS);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("data");
    set_limits(&builder(&path, durability).open().expect("it opens"));

    let (told, lines) = mpsc::channel();
    let mut started = 0;
    let mut start = || {
        started += 1;
        spawn(&child::Task { path: path.clone(), durability, run: started }, told.clone())
    };
    let mut running: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let mut ledger = Ledger::default();
    let (mut kills, mut next_kill) = (0, 0);
    while ledger.operations < operations {
        ledger.note(&lines.recv_timeout(SILENCE).expect("the children are at work"));
        if ledger.operations > next_kill {
            next_kill = ledger.operations + random.below(operations / 20);
            let victim = usize::try_from(random.below(PROCESSES as u64)).expect("few");
            kill(std::mem::replace(&mut running[victim], start()));
            kills += 1;
        }
    }
    running.into_iter().for_each(kill);
    // A child's output counts even if it is read after the child's death. The readers continue
    // until the pipes are empty.
    drop(told);
    lines.iter().for_each(|line| ledger.note(&line));
    println!("{durability}: {kills} kills, {ledger}");
    inspection::inspect(&builder(&path, durability).open().expect("what was killed opens"), &mut ledger);
}

fn set_limits(database: &Database) {
    let queue = database.queue(LIMITED);
    for change in [
        QueueChange::ActiveMax(Some(ACTIVE_MAX)),
        QueueChange::GroupActiveMax(Some(GROUP_ACTIVE_MAX)),
        QueueChange::Rate(Some(Rate::SlidingWindow { count: RATE_COUNT, window_micros: RATE_MICROS })),
    ] {
        queue.set(change).expect("durable");
    }
    database.sync().expect("synced");
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
        // The kill may cut the last line. A line without an end is ignored.
        while output.read_line(&mut line).is_ok() && line.ends_with('\n') && told.send(line.clone()).is_ok() {
            line.clear();
        }
    });
    child
}

fn kill(mut child: Child) {
    child.kill().expect("the child is killed");
    let status = child.wait().expect("the child has ended");
    assert_eq!(status.signal(), Some(9), "the child ended by itself, with {status}");
}
