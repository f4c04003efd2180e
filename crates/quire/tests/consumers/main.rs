//! The consumers' test: members of a group by lease in several processes read a topic, and are
//! killed repeatedly.
//!
//! The test starts itself as [`child`]ren and produces messages meanwhile. It reads the output of
//! the children ([`ledger`]), kills them with SIGKILL at random moments, and starts others in their
//! place. When everything is committed, it compares the log with the output:
//!
//! * No record is lost.
//! * No committed record was delivered again.
//! * Each result of a record was committed once.

mod child;
mod ledger;
#[path = "../kill/random.rs"]
mod random;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use quire::{Builder, Database, Durability, Message, Sequence};

use crate::ledger::Ledger;
use crate::random::Random;

/// Number of processes that run at a time.
const PROCESSES: usize = 4;
pub(crate) const PARTITIONS: u32 = 12;
/// Messages for each partition. `QUIRE_KILL_OPERATIONS`, if set, is the total over all partitions.
const MESSAGES: u64 = 1_500;
/// Most deliveries between two kills of a member.
const DELIVERIES_A_KILL: u64 = 40;

/// Longest silence of a live child.
const SILENCE: Duration = Duration::from_secs(60);

pub(crate) const TOPIC: &str = "in";
/// The topic of the results. A result is in the partition with the number of its records'
/// partition.
pub(crate) const OUT: &str = "out";
pub(crate) const GROUP: &str = "readers";

/// Returns the builder of all processes. Its settings make segments end and checkpoints happen
/// often.
fn builder(path: &Path, durability: Durability) -> Builder {
    let builder = Database::builder(path).durability(durability);
    builder.segment_bytes(256 << 10).checkpoint_bytes(128 << 10).sync_interval(Duration::from_millis(3))
}

#[test]
fn a_sync_database_hands_each_record_to_a_group_until_it_is_taken_however_its_members_die() {
    survive(Durability::Sync);
}

#[test]
fn an_os_database_hands_each_record_to_a_group_until_it_is_taken_however_its_members_die() {
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
    let messages = operations.map_or(MESSAGES, |all: u64| all.div_ceil(PARTITIONS.into()));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("data");
    let database = builder(&path, durability).open().expect("it opens");
    for topic in [TOPIC, OUT] {
        database.topic(topic).create(PARTITIONS).expect("created");
    }

    let (told, lines) = mpsc::channel();
    let mut started = 0;
    let mut start = || {
        started += 1;
        spawn(&child::Task { path: path.clone(), durability, run: started }, told.clone())
    };
    let mut running: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let mut ledger = Ledger::default();
    let (mut kills, mut next_kill) = (0, 0);
    let seed = random.below(u64::MAX);
    std::thread::scope(|scope| {
        scope.spawn(|| produce(&database, messages, Random::new(seed)));
        while !is_all_committed(&database, messages) {
            ledger.note(&lines.recv_timeout(SILENCE).expect("the children are at work"));
            if ledger.deliveries > next_kill {
                next_kill = ledger.deliveries + random.below(DELIVERIES_A_KILL);
                let victim = usize::try_from(random.below(PROCESSES as u64)).expect("few");
                kill(std::mem::replace(&mut running[victim], start()));
                kills += 1;
            }
        }
    });
    running.into_iter().for_each(kill);
    // A child's output counts even if it is read after the child's death. The readers continue
    // until the pipes are empty.
    drop(told);
    lines.iter().for_each(|line| ledger.note(&line));
    drop(database);
    let database = builder(&path, durability).open().expect("what was killed opens");
    assert!(is_all_committed(&database, messages), "what was committed is so behind a restart");
    for partition in 0..PARTITIONS {
        ledger.check(partition, messages);
        assert_followed_once(&database, partition, messages);
    }
    println!("{durability}: {kills} kills, {ledger}");
}

/// Produces messages that state their partition and offset, in batches of random sizes.
fn produce(database: &Database, messages: u64, mut random: Random) {
    let mut next = [0; PARTITIONS as usize];
    while next.iter().any(|next| *next < messages) {
        let partition = u32::try_from(random.below(PARTITIONS.into())).expect("few");
        let first = next[partition as usize];
        let end = messages.min(first + 1 + random.below(40));
        let values: Vec<String> = (first..end).map(|offset| format!("{partition} {offset}")).collect();
        let batch: Vec<_> = values.iter().map(|value| Message::new(value).partition(partition)).collect();
        if !batch.is_empty() {
            let produced = database.topic(TOPIC).producer().produce(&batch).expect("durable");
            assert_eq!(produced.base_offset, Sequence::new(first));
            next[partition as usize] = end;
        }
    }
}

fn is_all_committed(database: &Database, messages: u64) -> bool {
    (0..PARTITIONS).all(|partition| {
        let committed = database.topic(TOPIC).committed_offset(GROUP, partition).expect("readable");
        committed.is_some_and(|committed| committed.get() == messages)
    })
}

/// Checks that the handled ranges of offsets are consecutive, from the first record to the last.
fn assert_followed_once(database: &Database, partition: u32, messages: u64) {
    let (mut from, mut next) = (Sequence::new(0), 0);
    let end = database.topic(OUT).offsets(partition).expect("readable").next;
    while from < end {
        let read = database.topic(OUT).fetch(partition, from, 1 << 20).expect("readable");
        for record in read.records {
            let text = String::from_utf8(record.value.expect("a value")).expect("text");
            let (first, last) = text.split_once(' ').expect("a range");
            assert_eq!(first, next.to_string(), "in partition {partition}, where {next} was next");
            next = last.parse::<u64>().expect("an offset") + 1;
        }
        from = read.next_offset;
    }
    assert_eq!(next, messages, "in partition {partition}");
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
