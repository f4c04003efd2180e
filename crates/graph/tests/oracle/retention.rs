//! Histories that are trimmed and compacted, against the naive graph and against a twin that is
//! never compacted: no answer differs.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use quire_graph::{GraphChange, Neighbour, Reply, Retention, SetRetention, TrimHistory};
use quire_model::{History, Place, ReadErrorKind};

use super::*;

/// An action between two commits.
#[derive(Debug, Clone)]
enum Act {
    /// A graph's history begins this many records before the end.
    Trim {
        graph: usize,
        back: u64,
    },
    /// Compaction removes entries in a part of the log, with its beginning and end in percent: only
    /// those segments are worth compacting.
    Compact(RangeInclusive<u64>),
    Nothing,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (0..GRAPHS.len(), 0u64..5).prop_map(|(graph, back)| Act::Trim { graph, back }),
        3 => (0u64..=100, 0u64..=100).prop_map(|(a, b)| Act::Compact(a.min(b)..=a.max(b))),
        2 => Just(Act::Nothing),
    ]
}

/// Removes entries that no longer count from these records; returns their number.
fn compact(world: &mut World<Graphs>, records: RangeInclusive<u64>) -> usize {
    let is_gone = |entry: &quire_model::Entry<'_>| {
        let superseded = world.model.superseded(entry);
        superseded.is_some_and(|superseded| !superseded.is_needed(&world.log, entry).expect("readable"))
    };
    let within = world.log.entries().filter(|entry| records.contains(&entry.place.position.get()));
    let gone: BTreeSet<Place> = within.filter(is_gone).map(|entry| entry.place).collect();
    world.log.compact(Position::MAX, |entry| !gone.contains(&entry.place));
    gone.len()
}

fn set(world: &mut World<Graphs>, command: Command<'_>) -> Reply {
    let replies = world.commit(Timestamp::from_millis(7), &[command]).expect("accepted");
    replies[0]
}

/// Everything that can be read of graphs, with their whole history.
fn told(world: &World<Graphs>) -> String {
    let mut told = String::new();
    for (name, graph) in world.model.iter() {
        let from = graph.history_from();
        told += &format!("{name} from {from}\n");
        for id in (0..BLOCKS).map(id) {
            let page = |before: Place, count_max: usize| {
                let mut page = Vec::new();
                let mut show = |change: &GraphChange<'_>| {
                    page.push((change.place, format!("{change:?}")));
                    if page.len() == count_max { Wants::Break(()) } else { Wants::Continue(()) }
                };
                graph.versions(&world.log, id, before, &mut show).unwrap();
                page
            };
            let versions = page(Place::END, usize::MAX);
            told += &format!("{id}: {versions:?}\n");
            // Pages of one each give the same result.
            let (mut before, mut pages) = (Place::END, Vec::new());
            while let Some(change) = page(before, 1).pop() {
                before = change.0;
                pages.push(change);
            }
            assert_eq!(pages, versions);
        }
        let next = Place::new(from, 0);
        let mut show = |change: &GraphChange<'_>| {
            told.push_str(&format!("{change:?}\n"));
            Wants::Continue(())
        };
        graph.changes(&world.log, world.log.tail(), next, &mut show).unwrap();
    }
    told
}

/// That no read of a graph answers as of a position.
pub(super) fn check_refused(world: &World<Graphs>, name: &str, at: Position) {
    let (graph, log) = (world.model.graph(name).expect("it is there"), &world.log);
    let from = graph.history_from();
    let is_refused = |error: quire_model::ReadError| {
        assert_eq!(error.kind, ReadErrorKind::Gone);
        let expected = format!("the graph can't be read as of {at}: its history before {from} is gone");
        assert_eq!(error.to_string(), expected);
    };
    is_refused(graph.block_at(log, id(0), at).expect_err("gone"));
    is_refused(graph.edge_at(log, id(0), TYPES[0], id(1), at).expect_err("gone"));
    is_refused(graph.neighbours_at(log, id(0), Direction::Both, &[], None::<Neighbour<'_>>, at).expect_err("gone"));
    let mut show = |_: &Block<'_>| panic!("a block is shown");
    is_refused(graph.list(log, at, &ListPlan::default(), ListCursor::START, 9, &mut show).expect_err("gone"));
    is_refused(Walker::new(&[id(0)], WalkPlan::default(), at).advance(graph, log, 9).expect_err("gone"));
    let mut show = |_: &GraphChange<'_>| panic!("a change is shown");
    let changes = graph.changes(log, log.tail(), Place::new(at, 0), &mut show).expect_err("gone");
    assert_eq!(changes.kind, ReadErrorKind::Gone);
}

proptest! {
    #[test]
    fn a_history_that_is_trimmed_is_exact_or_refused_whatever_was_compacted(
        commits in vec((vec(step(), 1..6), act()), 1..24),
        versions in 0u64..4,
    ) {
        let (mut world, mut naive) = (World::new(), Naive::new());
        let mut whole: World<Graphs> = World::new();
        for graph in GRAPHS {
            let retention = Retention { history_ms: None, versions };
            for world in [&mut world, &mut whole] {
                set(world, Command::SetRetention(SetRetention { graph, retention }));
            }
            naive.insert(graph, NaiveGraph::default());
        }
        let mut before = Vec::new();
        for (steps, act) in &commits {
            let mut same = naive.clone();
            commit(&mut world, &mut naive, steps);
            commit(&mut whole, &mut same, steps);
            before.push((world.log.tail(), naive.clone()));
            match act {
                Act::Trim { graph, back } => {
                    let from = Position::new(world.log.tail().get().saturating_sub(*back));
                    let trim = Command::TrimHistory(TrimHistory { graph: GRAPHS[*graph], from });
                    assert_eq!(set(&mut world, trim), set(&mut whole, trim));
                }
                Act::Compact(part) => {
                    let tail = world.log.tail().get();
                    compact(&mut world, tail * part.start() / 100..=tail * part.end() / 100);
                }
                Act::Nothing => {}
            }
            prop_assert_eq!(told(&world), told(&whole));
        }
        compare(&world, &naive);
        for (at, naive) in &before {
            compare_past(&world, naive, *at);
            let readable = |name: &str| *at >= world.model.graph(name).unwrap().history_from();
            let naive: Naive = naive.iter().filter(|(name, _)| readable(name)).map(|(name, of)| (*name, of.clone())).collect();
            for mut begun in begin(&naive, *at) {
                while !begun.advance(&world, 3) {}
                begun.check(&world);
            }
        }
        prop_assert_eq!(World::saved(&world.model), World::saved(&whole.restarted(whole.log.tail())));
    }

    #[test]
    fn a_trimmed_history_leaves_nothing_in_the_log(commits in vec(vec(step(), 1..6), 1..24)) {
        let (mut world, mut naive) = (World::new(), Naive::new());
        for steps in &commits {
            commit(&mut world, &mut naive, steps);
        }
        for graph in GRAPHS {
            let from = world.log.tail().next();
            set(&mut world, Command::TrimHistory(TrimHistory { graph, from }));
        }
        while compact(&mut world, 0..=u64::MAX) > 0 {}
        compare(&world, &naive);
        let there: usize = naive.values().map(|graph| graph.blocks.len() + graph.edges.len()).sum();
        let of_graphs = world.log.entries().filter(|entry| (4..8).contains(&entry.kind.kind));
        prop_assert_eq!(of_graphs.count(), there);
    }
}

#[test]
fn a_history_follows_the_time_that_is_set() {
    let mut world: World<Graphs> = World::new();
    let retention = Retention { history_ms: Some(100), versions: 1 };
    set(&mut world, Command::SetRetention(SetRetention { graph: "g", retention }));
    let plan = |world: &World<Graphs>, now: u64| {
        let retained = world.model.retained(Timestamp::from_millis(now)).next().expect("it is kept for a time");
        assert_eq!(retained.name, "g");
        retained.plan(&world.log).expect("readable")
    };
    assert_eq!(plan(&world, 10_000), None);
    for time in (1_000..1_050).step_by(10) {
        // Changes of another graph do not move the beginning of a graph's history.
        for graph in ["g", "other"] {
            let put = Command::PutBlock(PutBlock::new(graph, "block", "kind"));
            world.commit(Timestamp::from_millis(time), &[put]).expect("accepted");
        }
    }
    let put_at = |index: u64| Some(Position::new(2 + 2 * index));
    for (now, expected) in
        [(1_100, None), (1_101, put_at(0)), (1_120, put_at(1)), (1_121, put_at(2)), (9_999, put_at(4))]
    {
        assert_eq!(plan(&world, now), expected, "at {now}");
    }
    let from = put_at(1).unwrap();
    set(&mut world, Command::TrimHistory(TrimHistory { graph: "g", from }));
    assert_eq!(plan(&world, 1_120), None);
    assert_eq!(plan(&world, 1_121), put_at(2));
    compact(&mut world, 0..=u64::MAX);
    assert_eq!(plan(&world, 1_131), put_at(3), "what is left tells it, too");
    let ahead = TrimHistory { graph: "g", from: world.log.tail().next().next() };
    let refused = world.commit(Timestamp::from_millis(7), &[Command::TrimHistory(ahead)]);
    let at = world.log.tail().next();
    assert_eq!(
        refused,
        Err(DecideError::Refused { command: 0, refusal: Refusal::AheadOfLog { from: ahead.from, at } })
    );
    let nowhere = Command::TrimHistory(TrimHistory { graph: "nowhere", from: Position::new(1) });
    assert_eq!(set(&mut world, nowhere), Reply::HistoryTrimmed { from: Position::ZERO });
    let set_off = Command::SetRetention(SetRetention { graph: "g", retention: Retention::ALL });
    assert_eq!(set(&mut world, set_off), Reply::RetentionSet);
    assert_eq!(world.model.retained(Timestamp::MAX).count(), 0);
}

#[test]
fn the_requested_number_of_versions_of_a_block_is_kept_and_none_of_a_deleted_one() {
    for (versions, kept) in [(0, vec![5]), (1, vec![5]), (3, vec![5, 4, 3]), (9, vec![5, 4, 3, 2, 1])] {
        let mut world: World<Graphs> = World::new();
        let retention = Retention { history_ms: Some(0), versions };
        set(&mut world, Command::SetRetention(SetRetention { graph: "g", retention }));
        for _ in 0..5 {
            set(&mut world, Command::PutBlock(PutBlock::new("g", "block", "kind")));
        }
        let from = world.log.tail();
        set(&mut world, Command::TrimHistory(TrimHistory { graph: "g", from }));
        let found = |world: &World<Graphs>| -> Vec<u64> {
            let graph = world.model.graph("g").unwrap();
            let mut versions = Vec::new();
            let mut show = |change: &GraphChange<'_>| {
                if let quire_graph::GraphChangeKind::BlockPut(block) = change.what {
                    versions.push(block.version.get());
                }
                Wants::Continue(())
            };
            graph.versions(&world.log, BlockId::of_name("block"), Place::END, &mut show).unwrap();
            versions
        };
        assert_eq!(found(&world), kept);
        compact(&mut world, 0..=u64::MAX);
        assert_eq!(found(&world), kept);
        let block: BlockRef<'_> = "block".into();
        set(&mut world, Command::DeleteBlock(DeleteBlock { graph: "g", block }));
        let from = world.log.tail().next();
        set(&mut world, Command::TrimHistory(TrimHistory { graph: "g", from }));
        assert_eq!(found(&world), []);
        while compact(&mut world, 0..=u64::MAX) > 0 {}
        assert_eq!(found(&world), []);
        assert_eq!(world.log.next(&[], Place::START).unwrap().map(|entry| entry.kind.kind), Some(1));
        assert!(world.log.entries().all(|entry| !(4..8).contains(&entry.kind.kind)), "names alone are left");
    }
}
