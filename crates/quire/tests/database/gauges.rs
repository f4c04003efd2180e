//! The lags of groups, as another process reads them on the statistics page. One of the processes
//! with the database open writes them.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use quire::events::{EventPosition, NewEvent};
use quire::jobs::JobSpec;
use quire::streams::{Command, Committer, Despite, TopicRef};
use quire::tools::{Gauges, shards};
use quire::{
    Background, Commit, Database, Durability, Duty, ErrorKind, ManualClock, Message, NextEvent, Part, Sequence,
    Timestamp,
};

use crate::support::{Place, files};

const START_MS: u64 = 1_790_000_000_000;

/// A place with its own clock.
struct Scene {
    place: Place,
    clock: Arc<ManualClock>,
}

impl Scene {
    fn new() -> Self {
        Scene { place: Place::new(), clock: Arc::new(ManualClock::new(Timestamp::from_millis(START_MS))) }
    }

    fn open_by(&self, background: Background, durability: Durability) -> Database {
        let builder = self.place.builder(durability).clock(self.clock.clone()).background(background);
        builder.open().expect("opened")
    }

    fn open(&self, durability: Durability) -> Database {
        self.open_by(Background::Caller, durability)
    }

    /// Advances the clock by a second.
    fn pass(&self) {
        let now = quire::Clock::now(&*self.clock);
        self.clock.set(now.plus_micros(1_000_000));
    }

    /// Returns the gauges on the page.
    fn gauges(&self) -> Option<Gauges> {
        let shards = shards(&self.place.path()).expect("a database");
        shards[0].page().expect("there is a page").gauges
    }

    /// Returns the lags on the page.
    fn lags(&self) -> Vec<(String, u64)> {
        let told = self.gauges().expect("told");
        told.first.into_iter().map(|gauge| (gauge.name, gauge.value)).collect()
    }

    /// Writes the gauges, a second later.
    fn gauge(&self, database: &Database) -> Vec<(String, u64)> {
        self.pass();
        assert!(database.carry_out(Duty::Gauge).expect("told"));
        self.lags()
    }
}

fn named<const N: usize>(lags: [(&str, u64); N]) -> Vec<(String, u64)> {
    lags.map(|(name, lag)| (name.to_owned(), lag)).into()
}

fn produce(database: &Database, partition: u32, records: usize) {
    for _ in 0..records {
        database.topic("t").produce(Message::new("x").partition(partition)).expect("produced");
    }
}

fn commit(database: &Database, group: &str, partition: u32, offset: u64) {
    let commit = Commit::new().commit_offset(group, "t", partition, Sequence::new(offset));
    database.commit(&commit).expect("durable").committed().expect("accepted");
}

/// Returns the lag of a group as a process with the database open reads it.
fn described(database: &Database, group: &str) -> u64 {
    let described = database.group(group).describe().expect("readable").expect("there");
    described.offsets.iter().map(quire::GroupOffset::lag).sum()
}

#[test]
fn the_lag_of_a_group_grows_with_produced_records_and_falls_with_its_commits() {
    for durability in [Durability::Os, Durability::Sync] {
        let scene = Scene::new();
        let database = scene.open(durability);
        database.topic("t").create(2).expect("created");
        produce(&database, 0, 5);
        commit(&database, "slow", 0, 2);
        commit(&database, "quick", 0, 5);
        assert_eq!(scene.gauge(&database), named([("slow", 3), ("quick", 0)]), "the largest first");
        produce(&database, 0, 4);
        produce(&database, 1, 7);
        assert_eq!(
            scene.gauge(&database),
            named([("slow", 7), ("quick", 4)]),
            "where nothing is committed, nothing lags"
        );
        commit(&database, "quick", 1, 0);
        assert_eq!(scene.gauge(&database), named([("quick", 11), ("slow", 7)]));
        assert_eq!([described(&database, "quick"), described(&database, "slow")], [11, 7]);
        for (group, partition, offset) in [("slow", 0, 9), ("quick", 0, 9), ("quick", 1, 7)] {
            commit(&database, group, partition, offset);
        }
        assert_eq!(scene.gauge(&database), named([("quick", 0), ("slow", 0)]), "all is read");
        database.group("slow").delete(Despite::Nobody).expect("deleted");
        assert_eq!(scene.gauge(&database), named([("quick", 0)]));
    }
}

#[test]
fn a_group_reads_event_stores_and_queues_and_deleted_records_do_not_count() {
    let scene = Scene::new();
    let database = scene.open(Durability::Os);
    produce(&database, 0, 10);
    commit(&database, "g", 0, 1);
    let delete = Command::DeleteRecords {
        keep_unread: false,
        topic: TopicRef::Name("t"),
        partition: 0,
        before: Some(Sequence::new(4)),
    };
    database.commit(&Commit::new().part(Part::Streams(delete))).expect("durable").committed().expect("accepted");
    assert_eq!(scene.gauge(&database), named([("g", 6)]));
    for _ in 0..3 {
        database.events("store").append([NewEvent::new("E")]).expect("appended");
        database.queue("queue").enqueue(JobSpec::new(b"job")).expect("accepted");
    }
    database.group("g").commit_position("store", EventPosition::new(2)).expect("accepted");
    assert_eq!(scene.gauge(&database), named([("g", 8)]));
    database.group("g").commit_in_queue("queue", NextEvent::First).expect("accepted");
    let lag = described(&database, "g");
    assert!(lag > 8);
    assert_eq!(scene.gauge(&database), named([("g", lag)]));
    let destroy = Part::Jobs(quire::jobs::Command::Destroy { queue: "queue" });
    database.commit(&Commit::new().part(destroy)).expect("durable").committed().expect("accepted");
    assert_eq!(scene.gauge(&database), named([("g", 8)]), "what is gone has nothing to read");
    assert_eq!(described(&database, "g"), 8);
}

#[test]
fn the_gauges_are_taken_at_most_once_a_second_and_only_of_new_publications() {
    let scene = Scene::new();
    let database = scene.open(Durability::Os);
    let gauge = || database.carry_out(Duty::Gauge).expect("told");
    assert!(gauge(), "one that was opened has no group, and says so");
    assert_eq!(scene.gauges().map(|told| told.count), Some(0));
    scene.pass();
    assert!(!gauge(), "nothing was published");
    produce(&database, 0, 3);
    commit(&database, "g", 0, 1);
    assert!(gauge());
    commit(&database, "g", 0, 2);
    assert!(!gauge(), "a second is not over");
    assert_eq!(scene.lags(), named([("g", 2)]));
    scene.pass();
    assert!(gauge());
    let told = scene.gauges().expect("told");
    assert_eq!((scene.lags(), told.position), (named([("g", 1)]), database.published()));
    for _ in 0..3 {
        scene.pass();
        assert!(!gauge());
    }
    assert_eq!(scene.gauges(), Some(told), "and so it stays");
}

#[test]
fn no_reader_sees_a_record_that_a_crash_could_undo() {
    let scene = Scene::new();
    let database = scene.open(Durability::Sync);
    produce(&database, 0, 3);
    let offset = Commit::new().commit_offset("g", "t", 0, Sequence::new(1));
    let ticket = database.submit(&offset).expect("appended");
    let before = database.published();
    assert_eq!(scene.gauge(&database), named([("g", 2)]));
    assert!(database.published() > before, "what it rests on is synced first");
    ticket.wait().expect("durable").committed().expect("accepted");
}

#[test]
fn it_is_right_when_the_database_was_closed_and_after_a_restart() {
    for durability in [Durability::Os, Durability::Sync] {
        for background in [Background::Caller, Background::Threads] {
            let scene = Scene::new();
            let database = scene.open_by(background, durability);
            produce(&database, 0, 3);
            commit(&database, "g", 0, 1);
            drop(database);
            assert_eq!(scene.lags(), named([("g", 2)]));
            fs::remove_file(scene.place.shard().join("statistics")).expect("removed");
            drop(scene.open_by(background, durability));
            assert_eq!(scene.lags(), named([("g", 2)]), "made anew");
        }
    }
}

#[test]
fn one_of_several_openings_gauges_for_all_and_another_takes_over_when_it_closes() {
    for durability in [Durability::Os, Durability::Sync] {
        let scene = Scene::new();
        let (first, second) = (scene.open(durability), scene.open(durability));
        assert!(first.carry_out(Duty::Gauge).expect("told"));
        produce(&second, 0, 3);
        commit(&second, "g", 0, 1);
        assert!(!second.carry_out(Duty::Gauge).expect("looked"), "the first does so for all");
        assert_eq!(scene.gauge(&first), named([("g", 2)]));
        produce(&second, 0, 1);
        drop(first);
        assert_eq!(scene.lags(), named([("g", 3)]), "who closes it tells what came since");
        produce(&second, 0, 1);
        assert_eq!(scene.gauge(&second), named([("g", 4)]));
    }
}

#[test]
fn the_background_threads_gauge_whichever_process_commits() {
    let scene = Scene::new();
    // By the machine's clock.
    let open = || scene.place.open(Durability::Os);
    let (first, second) = (open(), open());
    let await_lags = |wanted: &[(String, u64)]| {
        while scene.gauges().is_none_or(|told| told.count != 1) || scene.lags() != wanted {
            first.wait_after(second.published(), Duration::from_millis(5)).expect("not failed");
        }
    };
    for (database, offset) in [(&first, 1), (&second, 2)] {
        produce(database, 0, 3);
        commit(database, "g", 0, offset);
        await_lags(&named([("g", described(database, "g"))]));
    }
    drop(first);
    let first = open();
    drop(second);
    commit(&first, "g", 0, 6);
    while scene.lags() != named([("g", 0)]) {
        first.wait_after(first.published(), Duration::from_millis(5)).expect("not failed");
    }
}

#[test]
fn many_groups_and_partitions_are_gauged_in_slices_and_all_are_counted() {
    let scene = Scene::new();
    let database = scene.open(Durability::Os);
    database.topic("t").create(700).expect("created");
    let offset = |group, partition| {
        Part::Streams(Command::CommitOffset {
            group,
            topic: TopicRef::Name("t"),
            partition,
            offset: Sequence::new(0),
            leader_epoch: None,
            metadata: "",
            by: Committer::Anyone,
        })
    };
    for partition in 0..700 {
        produce(&database, partition, 1);
    }
    let names: Vec<_> = (0..600).map(|number| format!("group {number:03}")).collect();
    let all = (0..700).fold(Commit::new(), |commit, partition| commit.part(offset("all", partition)));
    let last = (0..256).fold(Commit::new(), |commit, partition| commit.part(offset("zz", partition)));
    let each = names.iter().fold(Commit::new(), |commit, name| commit.part(offset(name, 3)));
    for commit in [all, last, each] {
        database.commit(&commit).expect("durable").committed().expect("accepted");
    }
    let told = scene.gauge(&database);
    assert_eq!((scene.gauges().map(|told| told.count), told.len()), (Some(602), 95));
    assert_eq!(told[..3], named([("all", 700), ("zz", 256), ("group 000", 1)]));
}

#[test]
fn groups_with_unreadable_records_are_left_out_of_the_gauges_and_reported_as_failing() {
    let scene = Scene::new();
    let database = scene.open(Durability::Os);
    let old = "an old record ".repeat(200);
    database.topic("old").produce(Message::new(&old)).expect("produced");
    let commit_old = Commit::new().commit_offset("damaged", "old", 0, Sequence::new(0));
    database.commit(&commit_old).expect("durable").committed().expect("accepted");
    for _ in 0..40 {
        database.topic("t").produce(Message::new("x".repeat(4_000))).expect("produced");
    }
    commit(&database, "whole", 0, 10);
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    drop(database);
    let segment = files(&scene.place.shard(), ".log").remove(0);
    let mut bytes = fs::read(&segment).expect("readable");
    let at = bytes.windows(old.len()).position(|window| window == old.as_bytes()).expect("it stands there");
    bytes[at + 100] ^= 1;
    fs::write(&segment, bytes).expect("written");
    let database = scene.open(Durability::Os);
    scene.pass();
    assert_eq!(database.carry_out(Duty::Gauge).expect_err("damaged").kind(), ErrorKind::Damaged);
    assert_eq!(scene.lags(), named([("whole", 30)]));
    assert_eq!(database.failing().first().map(|failing| failing.duty), Some(Duty::Gauge));
    scene.pass();
    assert!(!database.carry_out(Duty::Gauge).expect("nothing was published"), "it is not read again and again");
}
