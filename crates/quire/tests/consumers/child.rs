//! A process that the test kills: a member of the group. It prints its deliveries and its commits.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command as Process;
use std::time::Duration;

use quire::{Commit, ConsumerSettings, Database, Delivery, Durability, ErrorKind, Lease, Message, PartitionSharing};

use crate::random::Random;
use crate::{GROUP, OUT, TOPIC};

/// Short, so that other members soon read the partitions of a killed member.
const LEASE_MS: u64 = 300;

/// How long a member waits for records in one call.
const WAIT: Duration = Duration::from_millis(20);

/// The arguments of the child.
pub(crate) struct Task {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    /// Number of the child. No two children have the same number.
    pub(crate) run: u64,
}

impl Task {
    pub(crate) fn to_environment(&self, command: &mut Process) {
        command.env("QUIRE_CONSUMERS_PATH", &self.path);
        command.env("QUIRE_CONSUMERS_TASK", format!("{} {}", self.durability, self.run));
    }

    pub(crate) fn from_environment() -> Option<Self> {
        let path = PathBuf::from(std::env::var_os("QUIRE_CONSUMERS_PATH")?);
        let task = std::env::var("QUIRE_CONSUMERS_TASK").expect("it comes with the path");
        let (durability, run) = task.split_once(' ').expect("a task");
        let durability = if durability == "os" { Durability::Os } else { Durability::Sync };
        Some(Task { path, durability, run: run.parse().expect("a number") })
    }

    pub(crate) fn work_until_killed(&self) {
        // Ends the line that the test harness printed before the test.
        tell("");
        let database = &crate::builder(&self.path, self.durability).open().expect("the database opens");
        let mut random = Random::new(self.run);
        loop {
            be_a_member(database, &mut random);
        }
    }
}

/// Reads for a while, and leaves.
fn be_a_member(database: &Database, random: &mut Random) {
    let lease = Lease { duration: Duration::from_millis(LEASE_MS), ..Lease::default() };
    let records_max = usize::try_from(1 + random.below(60)).expect("few");
    let settings =
        ConsumerSettings { sharing: PartitionSharing::Lease(lease), records_max, ..ConsumerSettings::default() };
    let mut consumer = database.topic(TOPIC).consumer(GROUP, settings).expect("a member");
    for _ in 0..1 + random.below(60) {
        // Records committed by now must not be delivered again.
        let seen = database.published();
        let Some(delivery) = consumer.wait(WAIT).expect("readable") else {
            tell("idle");
            continue;
        };
        let (partition, first, last) = range(&delivery);
        tell(&format!("got {partition} {first} {last} {seen}"));
        // A failed handler: the next reader receives the records again.
        if random.below(20) == 0 {
            return;
        }
        let value = format!("{first} {last}");
        let commit = Commit::new().produce(OUT, Message::new(&value).partition(partition));
        match consumer.ack_in(commit, &delivery) {
            Ok(()) => tell(&format!("took {partition} {} {}", last + 1, database.published())),
            Err(error) if error.kind() == ErrorKind::Refused => tell("refused"),
            Err(error) => panic!("a commit is taken or refused, and not: {error}"),
        }
    }
}

/// Returns the partition, and the first and last offset, of consecutive records. Each record states
/// its own partition and offset.
fn range(delivery: &Delivery) -> (u32, u64, u64) {
    let offsets: Vec<u64> = delivery.records().map(|record| record.offset.get()).collect();
    for (record, offset) in delivery.records().zip(offsets[0]..) {
        let value = std::str::from_utf8(record.value.expect("a value")).expect("text");
        assert_eq!(value, format!("{} {offset}", delivery.partition));
        assert_eq!(record.offset.get(), offset);
    }
    assert_eq!(delivery.lost, 0);
    (delivery.partition, offsets[0], offsets[offsets.len() - 1])
}

/// Prints a whole line, or none.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
}
