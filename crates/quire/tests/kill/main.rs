//! The kill test: a process that commits over all four models is killed repeatedly, and the test
//! inspects its database.
//!
//! The test starts itself as the [`child`] and reads the acknowledged commits ([`ledger`]). It
//! kills the child with SIGKILL at a random moment, opens the database, and compares it with the
//! ledger ([`inspection`]). The next child continues in the same directory. The inspection may have
//! opened and closed the database there in between.
//!
//! In other runs the child is not killed, but dies of a memory [`limit`].

mod child;
mod inspection;
mod ledger;
mod limit;
mod random;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use quire::{Builder, Database, Durability};
use rustix::process::{Pid, Signal, kill_process};

use crate::child::Task;
use crate::ledger::Ledger;
use crate::limit::{Limit, Of};
use crate::random::Random;

/// Kills for each durability, unless the environment sets another number. After this many kills,
/// the directory is replaced by a new one.
const KILLS: u64 = 100;
const KILLS_PER_DIRECTORY: u64 = 10;
/// The environment variable with the number of kills: `cargo xtask kills`.
const KILLS_VARIABLE: &str = "QUIRE_KILLS";

fn kills() -> u64 {
    std::env::var(KILLS_VARIABLE).map_or(KILLS, |kills| kills.parse().expect("QUIRE_KILLS is a number"))
}

/// Number of processes that run out of memory, for each durability. The second constant is the most
/// additional memory that such a process may use, in bytes.
const SHORTAGES: u64 = 30;
const MORE_BYTES_MAX: u64 = 1 << 20;
/// The same limit, in bytes, for a process that has not yet opened the database or started threads.
/// Each thread needs a stack.
const MORE_BYTES_TO_OPEN_MAX: u64 = 32 << 20;
/// Longest time until a process has no memory left.
const SHORTAGE_MAX: Duration = Duration::from_secs(120);

/// Returns the builder of the child and the inspection. Its settings make segments end and
/// checkpoints happen often.
fn builder(path: &Path, durability: Durability) -> Builder {
    let builder = Database::builder(path).durability(durability);
    builder.segment_bytes(64 << 10).checkpoint_bytes(16 << 10).sync_interval(Duration::from_millis(3))
}

#[test]
fn acknowledged_commits_of_an_os_database_survive_kills_whole_in_order_and_once() {
    survive(Durability::Os);
}

#[test]
fn acknowledged_commits_of_a_sync_database_survive_kills_whole_in_order_and_once() {
    survive(Durability::Sync);
}

/// The test starts this function in the child. It does nothing in an ordinary run.
#[test]
fn child() {
    if let Some(task) = Task::from_environment() {
        task.commit_until_killed();
    }
}

fn survive(durability: Durability) {
    let mut random = Random::from_environment();
    println!("to choose the same moments again: QUIRE_KILL_SEED={}", random.seed());
    let mut acknowledged = 0;
    for begin in (0..kills()).step_by(usize::try_from(KILLS_PER_DIRECTORY).expect("few")) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("data");
        let mut ledger = Ledger::default();
        for run in begin..begin + KILLS_PER_DIRECTORY {
            run_and_kill(&path, durability, run, &mut random, &mut ledger);
            // The test inspects the directory itself, and then closes the database. Or it inspects
            // a copy: a later child or inspection then finds the state after several kills in a
            // row.
            let inspected = if random.below(2) == 0 { path.clone() } else { copy(&path, directory.path(), run) };
            println!("{durability} run {run}: {} acknowledged, inspecting {}", ledger.len(), inspected.display());
            inspection::inspect(&inspected, durability, &ledger);
        }
        acknowledged += ledger.len();
    }
    assert!(acknowledged > 0, "the child never came to commit");
}

#[test]
fn acknowledged_commits_of_an_os_database_survive_processes_out_of_memory() {
    survive_shortages(Durability::Os);
}

#[test]
fn acknowledged_commits_of_a_sync_database_survive_processes_out_of_memory() {
    survive_shortages(Durability::Sync);
}

/// Checks that a shortage of memory is survived. A failed allocation ends the process like a kill.
/// A file that can't be mapped, or a thread that can't be started, is reported as an error.
fn survive_shortages(durability: Durability) {
    let mut random = Random::from_environment();
    println!("to choose the same limits again: QUIRE_KILL_SEED={}", random.seed());
    let (mut acknowledged, mut aborts, mut errors) = (0, 0, 0);
    for begin in (0..SHORTAGES).step_by(usize::try_from(KILLS_PER_DIRECTORY).expect("few")) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("data");
        let mut ledger = Ledger::default();
        for run in begin..begin + KILLS_PER_DIRECTORY {
            let of = if random.below(3) == 0 { Of::Space } else { Of::Heap };
            let while_opening = random.below(4) == 0;
            let more_bytes_max = if while_opening { MORE_BYTES_TO_OPEN_MAX } else { MORE_BYTES_MAX };
            let limit = Limit { of, more_bytes: random.below(more_bytes_max), while_opening };
            match run_out_of_memory(&path, durability, run, limit, &mut ledger) {
                Shortage::Abort => aborts += 1,
                Shortage::Error => errors += 1,
            }
            let inspected = if random.below(2) == 0 { path.clone() } else { copy(&path, directory.path(), run) };
            inspection::inspect(&inspected, durability, &ledger);
        }
        acknowledged += ledger.len();
    }
    println!(
        "{durability}: {SHORTAGES} shortages, {aborts} aborts, {errors} errors, {acknowledged} acknowledged, 0 lost"
    );
    assert!(acknowledged > 0 && aborts > 0, "{acknowledged} acknowledged, {aborts} aborts, {errors} errors");
}

/// The end of a process without memory.
enum Shortage {
    /// A failed allocation.
    Abort,
    /// A reported error.
    Error,
}

/// Runs the child until it dies of the limit, and notes the acknowledged commits.
fn run_out_of_memory(path: &Path, durability: Durability, run: u64, limit: Limit, ledger: &mut Ledger) -> Shortage {
    let child = start(&Task { path: path.to_owned(), durability, run, threads: 3, limit: Some(limit) });
    let output = end_of(child).unwrap_or_else(|| panic!("run {run} with {limit:?} neither ends nor is refused"));
    let told = String::from_utf8_lossy(&output.stderr);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        ledger.note(line);
    }
    let ended = format!("run {run} with {limit:?}: {}, {told}", output.status);
    // ENOMEM, and EAGAIN, which refuses a thread.
    let of_memory = ["memory allocation of", "out of memory", "os error 12", "os error 11", "code: 12", "code: 11"];
    assert!(of_memory.iter().any(|reason| told.contains(reason)), "{ended}");
    match (output.status.signal(), output.status.code()) {
        (Some(6), _) => Shortage::Abort,
        (_, Some(101)) => Shortage::Error,
        _ => panic!("{ended}"),
    }
}

/// Returns the output of a child at its end. `None` when the child did not end by itself, and was
/// killed.
fn end_of(child: Child) -> Option<Output> {
    let process = Pid::from_child(&child);
    let (tell, told) = mpsc::channel();
    let waits = std::thread::spawn(move || tell.send(child.wait_with_output()));
    let output = told.recv_timeout(SHORTAGE_MAX).ok();
    if output.is_none() {
        kill_process(process, Signal::KILL).expect("it is there");
    }
    waits.join().expect("no panic").ok();
    output.map(|output| output.expect("it is waited for"))
}

/// Starts the child.
fn start(task: &Task) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("the test knows itself"));
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]).stdout(Stdio::piped());
    if task.limit.is_some() {
        // A backtrace of a panic would need memory.
        command.env("RUST_BACKTRACE", "0").stderr(Stdio::piped());
    }
    task.to_environment(&mut command);
    command.spawn().expect("the child starts")
}

/// Runs the child until a random moment, and notes the acknowledged commits.
fn run_and_kill(path: &Path, durability: Durability, run: u64, random: &mut Random, ledger: &mut Ledger) {
    let threads = 2 + random.below(3);
    let mut child = start(&Task { path: path.to_owned(), durability, run, threads, limit: None });
    let mut lines = BufReader::new(child.stdout.take().expect("its output is read")).lines();
    let mut note = |line: std::io::Result<String>| ledger.note(&line.expect("the pipe is readable"));
    if random.below(8) == 0 {
        // While the child opens or creates the database.
        spin(random.below(400_000));
    } else {
        let wanted = random.below(80);
        lines.by_ref().filter_map(&mut note).take(usize::try_from(wanted).expect("few")).for_each(drop);
        spin(random.below(30_000));
    }
    child.kill().expect("the child is killed");
    let status = child.wait().expect("the child has ended");
    assert_eq!(status.signal(), Some(9), "the child ended by itself, with {status}");
    // Output before the child's death is acknowledged, even if it is read later.
    lines.filter_map(note).for_each(drop);
}

/// Waits about `times` times ten nanoseconds, without a clock.
fn spin(times: u64) {
    (0..times).for_each(|_| std::hint::spin_loop());
}

/// Copies the files of a database as they are.
fn copy(path: &Path, beside: &Path, run: u64) -> PathBuf {
    let target = beside.join(format!("copy-{run}"));
    fs::create_dir(&target).expect("a directory is made");
    // A kill during the creation leaves any part of it.
    for entry in fs::read_dir(path).into_iter().flatten().map(|entry| entry.expect("an entry")) {
        let to = target.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            fs::create_dir(&to).expect("a directory is made");
            for file in fs::read_dir(entry.path()).expect("a directory").map(|file| file.expect("an entry")) {
                fs::copy(file.path(), to.join(file.file_name())).expect("a file is copied");
            }
        } else {
            fs::copy(entry.path(), to).expect("a file is copied");
        }
    }
    target
}
