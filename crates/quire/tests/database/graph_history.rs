//! A graph with a retention by time or by versions. Older history is deleted in time, and its disk
//! space is freed. The rest reads as before.

use std::sync::Arc;

use quire::graph::{BlockId, Direction, GraphChangeKind, PutBlock, PutEdge, Reply, Retention, Wants};
use quire::{
    Background, Builder, Commit, Database, Durability, Duty, ErrorKind, GraphSnapshot, ManualClock, NewEdge, Outcome,
    Place as LogPlace, Position, Timestamp,
};

use crate::support::{Place, files};

const HOUR_MS: u64 = 3_600_000;

fn builder(place: &Place, durability: Durability, clock: &Arc<ManualClock>) -> Builder {
    place.builder(durability).clock(clock.clone()).background(Background::Caller)
}

fn bytes(place: &Place) -> u64 {
    files(&place.shard(), ".log").iter().map(|path| path.metadata().expect("there").len()).sum()
}

/// Puts a block of `bytes` bytes, each equal to `byte`.
fn put(database: &Database, name: &str, byte: u8, bytes: usize) {
    let content = vec![byte; bytes];
    let block = PutBlock { content: &content, ..PutBlock::new("g", name, "kind") };
    database.graph("g").put_block(block).expect("accepted");
}

fn content(snapshot: &GraphSnapshot, name: &str) -> Option<u8> {
    snapshot.block(BlockId::of_name(name), |block| block.content[0]).expect("readable")
}

fn versions(database: &Database, name: &str) -> Vec<u64> {
    let versions = database.graph("g").read(|graph, view| {
        let mut versions = Vec::new();
        let mut show = |change: &quire::graph::GraphChange<'_>| {
            versions.push(match change.what {
                GraphChangeKind::BlockPut(block) => block.version.get(),
                _ => 0,
            });
            Wants::Continue(())
        };
        graph.versions(view.history, BlockId::of_name(name), LogPlace::END, &mut show).expect("readable");
        versions
    });
    versions.expect("readable").expect("it is there")
}

fn snapshot(database: &Database, at: u64) -> Result<GraphSnapshot, ErrorKind> {
    let found = database.graph("g").snapshot_at(Position::new(at));
    found.map(|found| found.expect("there is a graph")).map_err(|error| error.kind())
}

#[test]
fn a_graph_keeps_its_history_for_its_retention_and_refuses_older_reads() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(HOUR_MS)));
    let database = builder(&place, Durability::Sync, &clock).open().expect("opened");
    for version in 1..=4u8 {
        clock.set(Timestamp::from_millis(HOUR_MS * u64::from(version)));
        put(&database, "block", version, 9);
    }
    assert!(!database.carry_out(Duty::Retain).expect("no error"), "a graph that was told nothing keeps everything");
    let began = snapshot(&database, 2).expect("readable");
    let retention = Retention { history_ms: Some(HOUR_MS), versions: 2 };
    database.graph("g").set_retention(retention).expect("accepted");
    assert!(database.carry_out(Duty::Retain).expect("no error"), "a graph that keeps less is looked at at once");
    let check = |database: &Database| {
        // An hour before the last put, the version before it was current. That version began at 2.
        assert_eq!(snapshot(database, 1).expect_err("it is gone"), ErrorKind::Gone);
        for (at, expected) in [(2, 2), (3, 3), (4, 4), (5, 4)] {
            assert_eq!(content(&snapshot(database, at).expect("readable"), "block"), Some(expected), "as of {at}");
        }
        assert_eq!(versions(database, "block"), [4, 3, 2]);
        let mut feed = database.graph("g").changes(LogPlace::new(Position::new(1), 1));
        let refused = feed.visit_next(|_| panic!("it is not all there")).expect_err("gone");
        assert_eq!(refused.kind(), ErrorKind::Gone);
        assert!(refused.to_string().contains("after 3-0"), "{refused}");
        for (from, count) in [(LogPlace::new(Position::new(3), 0), 2), (LogPlace::START, 3)] {
            let (mut feed, mut shown) = (database.graph("g").changes(from), 0);
            let is_all = feed.visit_next(|_| {
                shown += 1;
                quire::graph::Wants::Continue(())
            });
            assert!(is_all.expect("readable") && shown == count, "{shown} from {from}");
        }
        let mut ahead = database.graph("g").changes(LogPlace::new(Position::new(99), 0));
        assert_eq!(ahead.visit_next(|_| panic!("nothing")).expect_err("ahead").kind(), ErrorKind::NotFound);
    };
    check(&database);
    assert_eq!(content(&began, "block"), Some(2));
    clock.set(Timestamp::from_millis(5 * HOUR_MS - 1));
    database.graph("g").trim_history(Position::new(1)).expect("accepted");
    check(&database);
    drop(began);
    drop(database);
    let database = builder(&place, Durability::Sync, &clock).open().expect("opened");
    check(&database);
    let began = snapshot(&database, 2).expect("readable");
    clock.set(Timestamp::from_millis(5 * HOUR_MS + 1));
    assert!(database.carry_out(Duty::Retain).expect("no error"), "an opened database looks, too");
    let late = began.block(BlockId::of_name("block"), |_| ()).expect_err("its position is gone by now");
    assert_eq!(late.kind(), ErrorKind::Gone);
    assert!(late.to_string().contains("as of 2: its history before 4 is gone"), "{late}");
    assert_eq!(versions(&database, "block"), [4, 3], "two are kept, however old");
    database.graph("g").set_retention(Retention::ALL).expect("accepted");
    clock.set(Timestamp::from_millis(50 * HOUR_MS));
    put(&database, "block", 5, 9);
    clock.set(Timestamp::from_millis(90 * HOUR_MS));
    assert!(!database.carry_out(Duty::Retain).expect("no error"), "it keeps everything again");
    assert_eq!(content(&snapshot(&database, 4).expect("readable"), "block"), Some(4));
    assert_eq!(snapshot(&database, 2).expect_err("what is gone stays gone"), ErrorKind::Gone);
}

#[test]
fn the_disk_space_of_what_was_replaced_and_deleted_comes_back_and_all_else_stays() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(HOUR_MS)));
    let database = builder(&place, Durability::Os, &clock).open().expect("opened");
    let graph = database.graph("g");
    put(&database, "old", 7, 500);
    for round in 0..150u8 {
        put(&database, "hot", round, 500);
        let name = format!("passing {round}");
        put(&database, &name, round, 500);
        graph
            .put_edge(PutEdge {
                properties: format!("{round:300}").as_bytes(),
                ..PutEdge::new("g", "old", "to", "hot")
            })
            .expect("accepted");
        graph.put_edge(NewEdge::new("hot", "to", &*name)).expect("accepted");
        if round >= 10 {
            graph.delete_block(&*format!("passing {}", round - 10)).expect("accepted");
        }
    }
    let middle = database.published();
    put(&database, "hot", 200, 500);
    graph.delete_block("passing 149").expect("accepted");
    database.sync().expect("synced");
    while database.carry_out(Duty::Seal).expect("sealed") {}
    let before = bytes(&place);
    assert_eq!(database.compact().expect("compacted").entries_dropped, 0, "everything is kept");
    graph.trim_history(middle).expect("accepted");
    // Compaction first removes the entries that a deletion hides, and then the deletion.
    let dropped: Vec<u64> = (0..4).map(|_| database.compact().expect("compacted").entries_dropped).collect();
    assert!(dropped[0] > 500 && dropped[1] > 100 && dropped[3] == 0, "{dropped:?}");
    assert!(bytes(&place) < before / 4, "{} of {before}", bytes(&place));
    let check = |database: &Database| {
        let passing = |from: u8, to: u8| (from..to).map(|round| format!("passing {round}"));
        for (at, hot, last) in [(middle.get(), 149, 150), (database.published().get(), 200, 149)] {
            let snapshot = snapshot(database, at).expect("readable");
            assert_eq!((content(&snapshot, "old"), content(&snapshot, "hot")), (Some(7), Some(hot)));
            assert!(passing(140, last).all(|name| content(&snapshot, &name).is_some()));
            assert!(passing(0, 140).chain(passing(last, 150)).all(|name| content(&snapshot, &name).is_none()));
            let hot = BlockId::of_name("hot");
            let of =
                |direction| snapshot.neighbours(hot, direction, &[], None, 999, |found| found.block).expect("readable");
            assert_eq!(of(Direction::Incoming), [BlockId::of_name("old")]);
            assert_eq!(of(Direction::Outgoing).len(), usize::from(last - 140));
            assert!(passing(140, last).all(|name| snapshot.contains(BlockId::of_name(&name)).expect("readable")));
            assert!(!snapshot.contains(BlockId::of_name("passing 0")).expect("readable"));
        }
        let edge = database.graph("g").read(|graph, view| {
            let (old, hot) = (BlockId::of_name("old"), BlockId::of_name("hot"));
            graph.edge(view.history, old, "to", hot).expect("readable").map(|edge| edge.properties.to_vec())
        });
        assert_eq!(edge.expect("readable").flatten(), Some(format!("{:300}", 149).into_bytes()));
        assert_eq!(snapshot(database, middle.get() - 1).expect_err("gone"), ErrorKind::Gone);
    };
    check(&database);
    drop((graph, database));
    check(&builder(&place, Durability::Os, &clock).open().expect("opened"));
}

#[test]
fn a_history_trimmed_by_one_process_is_refused_by_both_and_compacted_by_the_other() {
    let place = Place::new();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(HOUR_MS)));
    let open = || builder(&place, Durability::Os, &clock).open().expect("opened beside the other");
    let (first, second) = (open(), open());
    for round in 0..150u8 {
        put(&first, "hot", round, 500);
        let name = format!("passing {round}");
        put(&second, &name, round, 500);
        second.graph("g").put_edge(NewEdge::new("hot", "to", &*name)).expect("accepted");
        if round >= 10 {
            first.graph("g").delete_block(&*format!("passing {}", round - 10)).expect("accepted");
        }
    }
    first.sync().expect("synced");
    let middle = first.published();
    let (began, late) = (snapshot(&first, middle.get()).expect("readable"), snapshot(&first, 9).expect("readable"));
    put(&second, "hot", 200, 500);
    second.graph("g").trim_history(middle).expect("accepted");
    for database in [&first, &second] {
        assert_eq!(snapshot(database, middle.get() - 1).expect_err("gone"), ErrorKind::Gone);
    }
    assert_eq!(late.block(BlockId::of_name("hot"), |_| ()).expect_err("gone").kind(), ErrorKind::Gone);
    second.sync().expect("synced");
    first.checkpoint().expect("saved");
    while first.carry_out(Duty::Seal).expect("sealed") {}
    let before = bytes(&place);
    let mut dropped = 0;
    // Each compaction first asks the other process, which answers. Deletions are dropped after the
    // entries that they hide.
    for _ in 0..12 {
        dropped += first.compact().expect("compacted").entries_dropped;
        second.carry_out(Duty::Compact).expect("answered");
    }
    assert!(dropped > 400 && bytes(&place) < before / 3, "{dropped}, {} of {before}", bytes(&place));
    let check = |database: &Database| {
        for (at, hot) in [(middle.get(), 149), (database.published().get(), 200)] {
            let snapshot = snapshot(database, at).expect("readable");
            assert_eq!(content(&snapshot, "hot"), Some(hot), "as of {at}");
            let is_there = |round: u8| content(&snapshot, &format!("passing {round}")).is_some();
            assert!((140..150).all(is_there) && !(0..140).any(is_there));
            let hot = BlockId::of_name("hot");
            let found = snapshot.neighbours(hot, Direction::Outgoing, &[], None, 999, |found| found.block);
            assert_eq!(found.expect("readable").len(), 10);
        }
        assert_eq!(snapshot(database, middle.get() - 1).expect_err("gone"), ErrorKind::Gone);
    };
    check(&first);
    check(&second);
    assert_eq!(content(&began, "hot"), Some(149));
    drop((began, late));
    drop((first, second));
    check(&open());
}

#[test]
fn a_star_is_deleted_in_parts_and_stays_deleted() {
    const RAYS: u64 = 100_001;
    let place = Place::new();
    // Segments long enough for the largest commit.
    let open = || place.builder(Durability::Os).segment_bytes(32 << 20).open().expect("opened");
    let database = open();
    let ray = |number: u64| BlockId::new(u128::from(number).to_be_bytes());
    put(&database, "hub", 1, 9);
    for first in (0..RAYS).step_by(10_000) {
        let edges = (first..RAYS.min(first + 10_000)).fold(Commit::new(), |commit, number| {
            commit.put_edge("g", NewEdge::new("hub", "ray", ray(number)).allow_missing(true))
        });
        assert!(matches!(database.commit(&edges).expect("committed"), Outcome::Committed(_)));
    }
    let graph = database.graph("g");
    let refused = graph.delete_block("hub").expect_err("too many");
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(refused.to_string().contains("delete edges of the block in several commits"), "{refused}");
    // The largest part fits into one record.
    let part = graph.delete_edges("hub", 100_000).expect("accepted");
    assert_eq!(part, Reply::EdgesDeleted { count: 100_000, is_more: true });
    assert!(matches!(graph.delete_block("hub").expect("accepted"), Reply::BlockDeleted { .. }));
    let check = |database: &Database| {
        let counts = database.graph("g").read(|graph, _| (graph.block_count(), graph.edge_count()));
        assert_eq!(counts.expect("readable"), Some((0, 0)));
    };
    check(&database);
    drop((graph, database));
    place.remove_checkpoints();
    check(&open());
}
