//! Frequent operations allocate nothing once they have warmed up. Their memory belongs to the
//! caller, or was allocated earlier.

use allocation_counter::measure;
use quire::{Database, Durability, Message, Sequence};

/// Number of operations before the count, and during it.
const WARM_UP: u64 = 20_000;
const COUNTED: u64 = 1_000;

/// The index of the active segment grows with the segment. Each of its lists doubles, so an append
/// rarely allocates.
const GROWTHS_MAX: u64 = 4;

/// Counts the allocations of the calling thread.
fn allocations(mut work: impl FnMut(u64)) -> u64 {
    (0..WARM_UP).for_each(&mut work);
    measure(|| (WARM_UP..WARM_UP + COUNTED).for_each(&mut work)).count_total
}

fn open(path: &std::path::Path) -> Database {
    Database::builder(path).durability(Durability::Os).open().expect("opened")
}

#[test]
fn a_message_that_is_produced_allocates_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(directory.path());
    let topic = database.topic("topic");
    let (mut producer, payload) = (topic.producer(), [b'q'; 116]);
    let allocated = allocations(|_| {
        producer.produce(&[Message::new(&payload[..])]).expect("accepted");
    });
    assert!(allocated <= GROWTHS_MAX, "{allocated} allocations in {COUNTED} messages");
}

#[test]
fn an_offset_that_a_group_commits_allocates_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = open(directory.path());
    let topic = database.topic("topic");
    topic.produce(Message::new(b"m")).expect("accepted");
    let allocated = allocations(|next| topic.commit_offset("group", 0, Sequence::new(next)).expect("accepted"));
    assert!(allocated <= GROWTHS_MAX, "{allocated} allocations in {COUNTED} offsets");
}
