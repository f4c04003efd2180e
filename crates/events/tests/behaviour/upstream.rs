//! The position up to which a source was read: committed with the events made from it, and only
//! growing.

use quire_events::{Append, Command, Condition, Refusal, SOURCE_BYTES_MAX, SOURCES_MAX, Upstream};
use quire_model::{Model, Position, Timestamp};

use crate::support::{School, event, query};

fn upstream<'c>(store: &'c str, source: &'c str, position: u64) -> Command<'c> {
    Command::Upstream(Upstream { store, source, position })
}

fn noted(store: &str) -> Command<'_> {
    Command::Append(Append { store, events: vec![event("Noted")], conditions: Vec::new() })
}

fn behind(position: u64, known: u64) -> Refusal {
    Refusal::UpstreamBehind { position, known }
}

#[test]
fn a_position_that_is_not_after_the_last_one_refuses_the_commit() {
    let mut school = School::default();
    let answers = school.commit(&[noted("s"), upstream("s", "orders/0", 7)]).expect("accepted");
    assert_eq!((answers[0].first.is_some(), answers[1].first, answers[1].duplicate), (true, None, false));
    for position in [0, 6, 7] {
        assert_eq!(school.commit(&[noted("s"), upstream("s", "orders/0", position)]), Err((1, behind(position, 7))));
    }
    assert_eq!(school.world.model.upstream("s", "orders/0"), Some(7));
    school.commit(&[upstream("s", "orders/0", 8), noted("s")]).expect("accepted");
    let store = school.world.model.store("s").expect("there");
    assert_eq!(school.world.model.sources(store).collect::<Vec<_>>(), [("orders/0", 8)]);
    assert_eq!(school.world.model.upstream("s", "orders/1"), None);
    assert_eq!(school.world.model.upstream("t", "orders/0"), None);
}

#[test]
fn sources_and_stores_have_positions_of_their_own_and_a_store_is_created_by_the_first() {
    let mut school = School::default();
    school.commit(&[upstream("a", "x", 0), upstream("b", "x", 9), upstream("a", "y", 3)]).expect("accepted");
    let of = |store, source| school.world.model.upstream(store, source);
    assert_eq!([of("a", "x"), of("b", "x"), of("a", "y"), of("b", "y")], [Some(0), Some(9), Some(3), None]);
}

#[test]
fn a_later_command_of_a_commit_sees_what_an_earlier_one_notes() {
    let mut school = School::default();
    assert_eq!(school.commit(&[upstream("s", "x", 5), upstream("s", "x", 5)]), Err((1, behind(5, 5))));
    assert_eq!(school.world.model.upstream("s", "x"), None);
    school.commit(&[upstream("s", "x", 5), upstream("s", "x", 6)]).expect("accepted");
    assert_eq!(school.world.model.upstream("s", "x"), Some(6));
}

#[test]
fn it_shares_the_fate_of_a_condition() {
    let mut school = School::default();
    school.commit(&[noted("s")]).expect("accepted");
    let unless = Condition::fail_if_matches(query("Noted"));
    let guarded = Command::Append(Append { store: "s", events: vec![event("Noted")], conditions: vec![unless] });
    let (command, _) = school.commit(&[upstream("s", "x", 1), guarded]).expect_err("refused");
    assert_eq!(command, 1);
    assert_eq!(school.world.model.upstream("s", "x"), None);
}

#[test]
fn names_and_numbers_have_limits() {
    let mut school = School::default();
    let long = "x".repeat(SOURCE_BYTES_MAX + 1);
    assert!(matches!(school.commit(&[upstream("s", "", 1)]), Err((0, Refusal::InvalidSource(_)))));
    assert!(matches!(school.commit(&[upstream("s", &long, 1)]), Err((0, Refusal::InvalidSource(_)))));
    assert!(matches!(school.commit(&[upstream("/", "x", 1)]), Err((0, Refusal::InvalidName(_)))));
    school.commit(&[upstream("s", &long[1..], u64::MAX)]).expect("accepted");
    let names: Vec<_> = (1..SOURCES_MAX).map(|number| format!("source {number}")).collect();
    let commands: Vec<_> = names.iter().map(|source| upstream("s", source, 1)).collect();
    school.commit(&commands).expect("accepted");
    assert_eq!(school.commit(&[upstream("s", "one more", 1)]), Err((0, Refusal::TooManySources)));
    school.commit(&[upstream("s", "source 1", 2)]).expect("one that is there goes on");
    school.commit(&[upstream("t", "one more", 1)]).expect("another store has its own");
}

#[test]
fn it_survives_a_restart_and_of_its_entries_the_last_survives_a_compaction() {
    let mut school = School::default();
    school.commit(&[upstream("s", "x", 1), upstream("s", "y", 1)]).expect("accepted");
    school.commit(&[upstream("s", "x", 2), noted("s")]).expect("accepted");
    let live = &school.world.model;
    for at in [0, 1, 2] {
        assert_eq!(&school.world.restarted(Position::new(at)), live);
    }
    let survives: Vec<bool> = school.world.log.entries().map(|entry| live.survives(&entry, Timestamp::ZERO)).collect();
    // The store's creation, x at 1 and y, x at 2, and the event.
    assert_eq!(survives, [true, false, true, true, true]);
}
