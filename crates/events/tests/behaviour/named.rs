//! State under a name: subscriptions, which move after delivered events, and projections.

use quire_events::{
    Attempts, Command, Events, MoveSubscription, PROJECTIONS_MAX, PutSubscription, Refusal, SUBSCRIPTIONS_MAX,
    SaveProjection, SavedProjection,
};
use quire_model::{History, Model, Position, Timestamp};

use crate::support::{STORE, School, at, query};

fn put<'c>(store: &'c str, name: &'c str, asked: &'c str, after: Option<u64>) -> Command<'c> {
    let (query, after) = (query(asked), after.map(at));
    Command::PutSubscription(PutSubscription { store, name, query, after, attempts: Attempts::default() })
}

fn moved(name: &str, from: u64, to: u64) -> Command<'_> {
    Command::MoveSubscription(MoveSubscription { name, from: at(from), to: at(to) })
}

fn save(name: &str, version: u32, base: u64, position: u64) -> Command<'_> {
    save_state(name, version, base, position, b"")
}

fn save_state<'c>(name: &'c str, version: u32, base: u64, position: u64, state: &'c [u8]) -> Command<'c> {
    let (base, position) = (at(base), at(position));
    Command::SaveProjection(SaveProjection { store: STORE, name, version, base, position, state })
}

fn refused(school: &mut School, command: Command<'_>) -> Refusal {
    school.commit(&[command]).expect_err("refused").1
}

fn position(school: &School, name: &str) -> u64 {
    school.world.model.subscription(name).expect("there").position.get()
}

#[test]
fn one_of_two_equal_deliveries_moves_the_subscription() {
    let mut school = School::with("Joined student:1\nJoined student:2\nLeft student:1");
    school.commit(&[put(STORE, "mailer", "Joined", None)]).expect("accepted");
    assert_eq!(position(&school, "mailer"), 0);
    school.commit(&[moved("mailer", 0, 2)]).expect("accepted");
    assert_eq!(refused(&mut school, moved("mailer", 0, 2)), Refusal::SubscriptionMoved { position: at(2) });
    let ahead = Refusal::AheadOfStore { position: at(4), head: at(3) };
    assert_eq!(refused(&mut school, moved("mailer", 2, 4)), ahead);
    assert_eq!(refused(&mut school, moved("other", 0, 1)), Refusal::UnknownSubscription);
    school.commit(&[moved("mailer", 2, 3)]).expect("accepted");
    let twice = school.commit(&[moved("mailer", 3, 2), moved("mailer", 3, 2)]).expect_err("refused");
    assert_eq!(twice, (1, Refusal::SubscriptionMoved { position: at(2) }), "a later command sees the earlier");
}

#[test]
fn a_subscription_that_is_put_again_continues_or_begins_at_the_given_position() {
    let mut school = School::with("Joined student:1\nJoined student:2");
    school.commit(&[put(STORE, "mailer", "Joined", Some(1)), moved("mailer", 1, 2)]).expect("accepted");
    school.commit(&[put(STORE, "mailer", "Left", None)]).expect("accepted");
    assert_eq!(position(&school, "mailer"), 2);
    assert_eq!(school.world.model.subscription("mailer").expect("there").query, query("Left"));
    school.commit(&[put(STORE, "mailer", "Left", Some(0))]).expect("accepted");
    assert_eq!(position(&school, "mailer"), 0);
    let ahead = Refusal::AheadOfStore { position: at(9), head: at(2) };
    assert_eq!(refused(&mut school, put(STORE, "late", "*", Some(9))), ahead);
    assert_eq!(refused(&mut school, put("other", "mailer", "*", None)), Refusal::SubscriptionOfAnotherStore);
    school.commit(&[Command::DropSubscription { name: "mailer" }]).expect("accepted");
    assert_eq!(refused(&mut school, Command::DropSubscription { name: "mailer" }), Refusal::UnknownSubscription);
    school.commit(&[put("other", "mailer", "*", None)]).expect("the name is free, and the store is created");
    assert_eq!(school.world.model.subscription("mailer").map(|found| found.store), school.world.model.store("other"));
}

#[test]
fn subscriptions_have_limits() {
    let mut school = School::default();
    for (name, asked, expected) in [("a//b", "*", "name"), ("", "*", "name"), ("s", "", "query"), ("s", "|", "query")] {
        let refusal = refused(&mut school, put(STORE, name, asked, None));
        let found = match refusal {
            Refusal::InvalidSubscriptionName(_) => "name",
            Refusal::InvalidSubscriptionQuery(_) => "query",
            other => panic!("{other}"),
        };
        assert_eq!(found, expected, "{name:?} {asked:?}");
    }
    let with = |attempts| {
        Command::PutSubscription(PutSubscription { store: STORE, name: "s", query: query("*"), after: None, attempts })
    };
    let none = Attempts { attempts_max: 0, ..Attempts::default() };
    assert_eq!(refused(&mut school, with(none)), Refusal::NoAttempts);
    let long = Attempts { group_by: "x".repeat(256).into(), ..Attempts::default() };
    assert!(matches!(refused(&mut school, with(long)), Refusal::InvalidGroupBy(_)));

    let names: Vec<_> = (0..SUBSCRIPTIONS_MAX).map(|number| format!("s/{number}")).collect();
    school.commit(&names.iter().map(|name| put(STORE, name, "*", None)).collect::<Vec<_>>()).expect("accepted");
    assert_eq!(refused(&mut school, put(STORE, "one-more", "*", None)), Refusal::TooManySubscriptions);
    school.commit(&[put(STORE, "s/0", "A", None)]).expect("one that is there can be changed");
    let replaced = [Command::DropSubscription { name: "s/1" }, put(STORE, "another", "*", None)];
    school.commit(&replaced).expect("one that goes makes room");
}

#[test]
fn saving_a_projection_with_fewer_events_than_the_saved_one_is_refused() {
    let mut school = School::with("A\nA\nA");
    school.commit(&[save("count", 1, 0, 2)]).expect("accepted");
    assert_eq!(refused(&mut school, save("count", 1, 0, 3)), Refusal::ProjectionMoved { position: at(2) });
    school.commit(&[save("count", 1, 2, 3)]).expect("accepted");
    school.commit(&[save("count", 2, 0, 1)]).expect("another version begins anew");
    let saved = school.world.model.projection(STORE, "count").expect("there");
    assert_eq!((saved.version, saved.position), (2, at(1)));
    let ahead = Refusal::AheadOfStore { position: at(4), head: at(3) };
    assert_eq!(refused(&mut school, save("count", 2, 1, 4)), ahead);
    let drop = || Command::DropProjection { store: STORE, name: "count" };
    school.commit(&[drop(), save("count", 2, 0, 3)]).expect("dropped, and saved anew");
    school.commit(&[drop()]).expect("accepted");
    assert_eq!(refused(&mut school, drop()), Refusal::UnknownProjection);
    assert!(matches!(refused(&mut school, save("", 1, 0, 1)), Refusal::InvalidProjectionName(_)));
    assert!(matches!(refused(&mut school, save(&"x".repeat(256), 1, 0, 1)), Refusal::InvalidProjectionName(_)));
}

#[test]
fn a_store_keeps_a_bounded_number_of_projections() {
    let mut school = School::with("A");
    let names: Vec<_> = (0..PROJECTIONS_MAX).map(|number| number.to_string()).collect();
    school.commit(&names.iter().map(|name| save(name, 0, 0, 1)).collect::<Vec<_>>()).expect("accepted");
    assert_eq!(refused(&mut school, save("one more", 0, 0, 1)), Refusal::TooManyProjections);
    school.commit(&[save("0", 0, 1, 1)]).expect("one that is there can be saved anew");
}

#[test]
fn stored_state_survives_a_restart_and_the_last_state_of_a_projection_a_compaction() {
    let mut school = School::with("A x:1\nA x:2");
    let attempts = Attempts { attempts_max: 3, backoff_micros: 7, backoff_max_micros: 9, group_by: "x:".into() };
    let all = query("A,B x:1 | last");
    let subscription = PutSubscription { store: STORE, name: "s", query: all, after: Some(at(1)), attempts };
    school.commit(&[Command::PutSubscription(subscription), put(STORE, "t", "*", None)]).expect("accepted");
    school.commit(&[moved("s", 1, 2), save_state("p", 1, 0, 1, b"one"), save("q", 1, 0, 1)]).expect("accepted");
    school.commit(&[save_state("p", 1, 1, 2, b"two")]).expect("accepted");
    school.commit(&[Command::DropSubscription { name: "t" }]).expect("accepted");
    school.commit(&[Command::DropProjection { store: STORE, name: "q" }]).expect("accepted");
    let live: &Events = &school.world.model;
    for position in 0..=school.world.log.tail().get() {
        assert_eq!(&school.world.restarted(Position::new(position)), live, "from {position}");
    }
    let saved = live.projection(STORE, "p").expect("there");
    let entry = school.world.log.entry(saved.place).expect("readable").expect("there");
    assert_eq!(SavedProjection::state(&entry), Some(&b"two"[..]));
    let survivors = school.world.log.entries().filter(|entry| live.survives(entry, Timestamp::ZERO));
    // The store, its two events, and the state of `p`.
    assert_eq!(survivors.map(|entry| entry.place).collect::<Vec<_>>().len(), 4);
    assert!(live.survives(&entry, Timestamp::ZERO));
}
