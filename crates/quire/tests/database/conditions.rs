//! A condition is checked atomically with its commit, also while others write.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions, Refusal};
use quire::{Commit, Database, Durability, Outcome, Reason, Reply};

use crate::support::Place;

const RACERS: usize = 8;

/// Races for a tag. In each round all racers claim the same tag at once, if it is free. One racer
/// gets the tag.
fn race(durability: Durability, rounds: usize) {
    let place = Place::new();
    let database = place.builder(durability).segment_bytes(1 << 20).open().expect("the database opens");
    let start = Barrier::new(RACERS);
    // By round: the event that won, and the event that each loser conflicted with.
    let won: Vec<AtomicU32> = (0..rounds).map(|_| AtomicU32::new(0)).collect();
    let met: Vec<AtomicU32> = (0..rounds * RACERS).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for racer in 0..RACERS {
            let (database, start, won, met) = (&database, &start, &won, &met);
            scope.spawn(move || {
                for round in 0..rounds {
                    start.wait();
                    match claim(database, round, racer) {
                        Ok(position) => {
                            assert_eq!(won[round].swap(position, Ordering::Relaxed), 0, "round {round} was won twice");
                        }
                        Err(position) => met[round * RACERS + racer].store(position, Ordering::Relaxed),
                    }
                }
            });
        }
    });
    let check = |database: &Database| {
        let read = database.events("store").read(&Query::all(), ReadOptions::default()).expect("readable");
        assert_eq!(read.events.len(), rounds, "one event a round");
        assert_eq!(read.head, EventPosition::new(rounds as u64));
        let mut tags: Vec<_> = read.events.iter().map(|event| event.tags[0].clone()).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), rounds, "one event a tag");
        for (round, won) in won.iter().enumerate() {
            let won = won.load(Ordering::Relaxed);
            let event = &read.events[won as usize - 1];
            assert_eq!(event.tags[0], tag(round).as_bytes(), "the winner of round {round} is where it was told");
            let met = &met[round * RACERS..(round + 1) * RACERS];
            let losers: Vec<_> = met.iter().map(|met| met.load(Ordering::Relaxed)).filter(|met| *met > 0).collect();
            assert_eq!(losers, [won; RACERS - 1], "each loser of round {round} met its winner");
        }
    };
    check(&database);
    drop(database);
    check(&place.builder(durability).segment_bytes(1 << 20).open().expect("the database opens again"));
}

#[test]
fn submit_briefly_declines_a_condition_over_much_history() {
    let place = Place::new();
    let database = place.builder(Durability::Os).open().expect("the database opens");
    for _ in 0..10 {
        let events = (0..1_000).map(|n| NewEvent::new("T").tag(["a", "b"][n % 2]));
        database.events("s").append(events).expect("appended");
    }
    let both = Query::from(QueryItem::new().tag("a").tag("b"));
    let append = |condition| Commit::new().append_if("s", [NewEvent::new("T").tag("a").tag("b")], [condition]);
    let briefly = |condition| database.submit_briefly(&append(condition)).expect("no error");
    let everywhere = Condition::fail_if_matches(both.clone());
    assert!(briefly(everywhere.clone()).is_none());
    assert!(briefly(Condition::last_is(both.clone(), EventPosition::ZERO)).is_none());
    assert_eq!(database.events("s").head().expect("readable").get(), 10_000, "nothing was done");
    let one = Condition::fail_if_matches(Query::from(QueryItem::new().tag("c")));
    let accepted = |outcome| matches!(outcome, Outcome::Committed(_));
    assert!(accepted(briefly(one).expect("one list").wait().expect("no error")));
    let recent = Condition::fail_if_matches_after(both, EventPosition::new(10_001));
    assert!(accepted(briefly(recent).expect("nothing behind it").wait().expect("no error")));
    assert!(!accepted(database.commit(&append(everywhere)).expect("no error")), "the one before matches");
}

/// Claims the tag of a round. Returns the position of the racer's own event, or of the existing
/// event.
fn claim(database: &Database, round: usize, racer: usize) -> Result<u32, u32> {
    let tag = tag(round);
    let data = racer.to_string();
    let query = Query::from(QueryItem::new().event_type("Claimed").tag(&tag));
    // Two forms of the same condition; racers with both kinds run against each other.
    let condition = match racer % 2 {
        0 => Condition::fail_if_matches(query),
        _ => Condition::last_is(query, EventPosition::ZERO),
    };
    let commit = Commit::new().append_if("store", [NewEvent::new("Claimed").tag(&tag).data(&data)], [condition]);
    let narrow = |position: EventPosition| u32::try_from(position.get()).expect("few events");
    match database.commit(&commit).expect("durable") {
        Outcome::Committed(committed) => match committed.replies[..] {
            [Reply::Events(appended)] => Ok(narrow(appended.first.expect("one event"))),
            ref other => panic!("an append is answered by its positions, not by {other:?}"),
        },
        Outcome::Refused(refused) => match refused.reason {
            Reason::Events(Refusal::ConditionFailed { condition: 0, position: Some(position) }) => {
                Err(narrow(position))
            }
            other => panic!("the condition is what can fail, not {other:?}"),
        },
    }
}

fn tag(round: usize) -> String {
    format!("round:{round}")
}

#[test]
fn one_of_eight_threads_that_race_for_a_tag_wins_in_each_of_10000_rounds() {
    race(Durability::Os, 10_000);
}

#[test]
fn one_of_eight_threads_that_race_for_a_tag_wins_also_when_commits_wait_for_the_disk() {
    race(Durability::Sync, 300);
}
