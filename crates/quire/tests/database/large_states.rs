//! A state too large to be encoded while commits wait is built again next to it: the same to the
//! byte, and no commit waits.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use quire::events::NewEvent;
use quire::{Background, Builder, Commit, Database, Durability, Duty, ManualClock, NewBlock, Timestamp};

use crate::checkpoints::step;
use crate::support::{Place, Telling, everything};

/// Saves under the lock, and next to the state.
const PAUSE_BYTES: [u64; 2] = [u64::MAX, 0];

/// Deterministic: two databases with the same commits are the same.
fn builder(place: &Place, pause_bytes: u64) -> Builder {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    place.builder(Durability::Os).id(7).clock(clock).checkpoint_pause_bytes(pause_bytes)
}

#[test]
fn it_is_the_same_to_the_byte_as_one_that_was_saved_while_commits_wait() {
    let saved = PAUSE_BYTES.map(|pause_bytes| {
        let place = Place::new();
        let database = builder(&place, pause_bytes).open().expect("opened");
        let files: Vec<_> = (0..4)
            .map(|round| {
                (round * 25..round * 25 + 25).for_each(|number| step(&database, number));
                database.checkpoint().expect("saved");
                fs::read(place.checkpoints().last().expect("a checkpoint")).expect("readable")
            })
            .collect();
        let live = everything(&database);
        drop(database);
        assert_eq!(live, everything(&builder(&place, pause_bytes).open().expect("opened")));
        files
    });
    assert!(saved[0] == saved[1], "the files differ");
}

#[test]
fn commits_and_reads_go_on_while_it_is_made_and_what_they_add_is_not_in_it() {
    let place = Place::new();
    let storage = Arc::new(Telling::default());
    let database = builder(&place, 0).storage(storage.storage()).open().expect("opened");
    (0..20).for_each(|number| step(&database, number));
    database.checkpoint().expect("saved");
    (20..40).for_each(|number| step(&database, number));
    let (told, go_on) = storage.hold();
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| database.checkpoint());
        told.recv_timeout(Duration::from_secs(60)).expect("the checkpoint before is read");
        let (done, is_done) = channel();
        let (database, other) = (&database, done.clone());
        scope.spawn(move || {
            (40..60).for_each(|number| step(database, number));
            other.send(everything(database)).expect("awaited");
        });
        let live = is_done.recv_timeout(Duration::from_secs(60)).expect("nobody waits for the checkpoint");
        go_on.send(()).expect("awaited");
        checkpoint.join().expect("no panic").expect("saved");
        storage.let_go();
        assert_eq!(live, everything(database));
    });
    let live = everything(&database);
    drop(database);
    assert_eq!(live, everything(&builder(&place, 0).open().expect("opened")));
}

#[test]
fn one_that_is_small_enough_is_not_made_again() {
    let place = Place::new();
    let storage = Arc::new(Telling::default());
    let database = builder(&place, u64::MAX).storage(storage.storage()).open().expect("opened");
    step(&database, 0);
    database.checkpoint().expect("saved");
    step(&database, 1);
    // A reader of a checkpoint would not continue.
    let (told, _) = storage.hold();
    database.checkpoint().expect("saved");
    assert!(told.try_recv().is_err());
    storage.let_go();
}

#[test]
fn the_next_checkpoint_follows_after_as_many_bytes_of_log_as_the_last_one_had() {
    let place = Place::new();
    let database =
        builder(&place, u64::MAX).checkpoint_bytes(4096).background(Background::Caller).open().expect("opened");
    let due = |database: &Database| database.carry_out(Duty::Checkpoint).expect("answered");
    let names: Vec<_> = (0..500).map(|number| format!("block {number}")).collect();
    let blocks = names
        .iter()
        .fold(Commit::new(), |commit, name| commit.put_block("graph", NewBlock::new(name.as_str(), "thing")));
    database.commit(&blocks).expect("durable").committed().expect("accepted");
    assert!(due(&database), "there is enough log");
    let saved = fs::metadata(place.checkpoints().last().expect("a checkpoint")).expect("there").len();
    assert!(saved > 3 * 4096, "{saved} bytes");
    let data = [0; 1000];
    let mut bytes = 0;
    while bytes + 4096 < saved {
        database.events("store").append([NewEvent::new("Made").data(data)]).expect("accepted");
        bytes += 1000;
        assert!(!due(&database), "{bytes} of {saved} bytes");
    }
    while !due(&database) {
        database.events("store").append([NewEvent::new("Made").data(data)]).expect("accepted");
    }
}
