//! Appends that are sent again: by the ids of their events they are answered as the first time.

use crate::support::{STORE, School, append, at, event};
use quire_events::{Condition, EventId, EventProblem, NewEvent, Query, ReadOptions, Refusal};

fn id(number: u8) -> EventId {
    EventId::from_bytes([number; 16])
}

fn with_id(number: u8) -> NewEvent<'static> {
    event("Noted about:this").id(id(number))
}

fn once() -> Vec<Condition<'static>> {
    vec![Condition::fail_if_matches(Query::all())]
}

#[test]
fn a_repeated_append_is_answered_with_its_first_positions_and_appends_nothing() {
    let mut school = School::default();
    let first = school.append_events(vec![with_id(1), with_id(2)], &once()).unwrap();
    school.append("Noted", &[]).unwrap();
    // By now its own events conflict with its condition. A repetition is detected before conditions
    // are checked.
    let again = school.append_events(vec![with_id(1), with_id(2)], &once()).unwrap();
    assert!(!first.duplicate && again.duplicate);
    assert_eq!((again.first, again.last), (first.first, first.last));
    assert_eq!(school.positions("*", ReadOptions::default()), "1 2 3");
}

#[test]
fn an_append_that_is_there_in_part_is_refused() {
    let mut school = School::default();
    school.append("Noted", &[]).unwrap();
    school.append_events(vec![with_id(1), with_id(2)], &[]).unwrap();
    let refused =
        |event, number, position| Err(Refusal::DuplicateEvent { event, id: id(number), position: at(position) });
    assert_eq!(school.append_events(vec![with_id(1), with_id(3)], &[]), refused(0, 1, 2));
    assert_eq!(school.append_events(vec![with_id(3), with_id(2)], &[]), refused(1, 2, 3));
    assert_eq!(school.append_events(vec![with_id(2), with_id(1)], &[]), refused(0, 2, 3));
    assert_eq!(school.append_events(vec![with_id(1), with_id(2), with_id(3)], &[]), refused(0, 1, 2));
    assert_eq!(school.append_events(vec![event("Noted"), event("A"), event("A"), with_id(1)], &[]), refused(3, 1, 2));
    assert_eq!(school.positions("*", ReadOptions::default()), "1 2 3");
}

#[test]
fn events_without_ids_are_part_of_the_run_only_if_the_same_commit_wrote_them() {
    let mut school = School::default();
    school.append_events(vec![with_id(1), event("A")], &[]).unwrap();
    assert!(school.append_events(vec![with_id(1), event("A")], &[]).unwrap().duplicate);

    school.append_events(vec![with_id(2)], &[]).unwrap();
    school.append("A", &[]).unwrap();
    let refused = Refusal::DuplicateEvent { event: 0, id: id(2), position: at(3) };
    assert_eq!(school.append_events(vec![with_id(2), event("A")], &[]), Err(refused));
}

#[test]
fn a_new_event_without_an_id_next_to_a_repeated_one_is_not_taken_for_a_repetition() {
    let mut school = School::default();
    let noted = || event("Noted about:this").data(b"one").metadata(b"by one");
    school.append_events(vec![noted(), with_id(1)], &[]).unwrap();
    assert!(school.append_events(vec![noted().tag("about:this"), with_id(1)], &[]).unwrap().duplicate);
    let refused = Refusal::DuplicateEvent { event: 1, id: id(1), position: at(2) };
    let others = [
        event("Other about:this").data(b"one").metadata(b"by one"),
        event("Noted about:that").data(b"one").metadata(b"by one"),
        noted().data(b"two"),
        noted().metadata(b"by two"),
    ];
    for other in others {
        assert_eq!(school.append_events(vec![other.clone(), with_id(1)], &[]), Err(refused.clone()));
        let first = append(vec![noted(), with_id(2)], vec![]);
        let refused = Refusal::DuplicateEvent { event: 1, id: id(2), position: at(4) };
        assert_eq!(school.commit(&[first, append(vec![other, with_id(2)], vec![])]), Err((1, refused)));
    }
}

#[test]
fn another_event_under_a_known_id_is_refused_and_not_passed_off_as_there() {
    let mut school = School::default();
    let noted = || with_id(1).data(b"one").metadata(b"first try");
    school.append_events(vec![noted()], &[]).unwrap();
    assert!(school.append_events(vec![noted().metadata(b"second try").tag("about:this")], &[]).unwrap().duplicate);
    let others = [noted().data(b"two"), noted().tag("about:that"), event("Other about:this").data(b"one").id(id(1))];
    for other in others {
        let refused = Refusal::DuplicateEvent { event: 0, id: id(1), position: at(1) };
        assert_eq!(school.append_events(vec![other.clone()], &[]), Err(refused));
        let refused = Refusal::DuplicateEvent { event: 0, id: id(2), position: at(2) };
        let (first, other) = (append(vec![noted().id(id(2))], vec![]), append(vec![other.id(id(2))], vec![]));
        assert_eq!(school.commit(&[first, other]), Err((1, refused)));
    }
    assert_eq!(school.positions("*", ReadOptions::default()), "1");
}

#[test]
fn events_without_ids_are_never_taken_for_repetitions() {
    let school = School::with("Noted\nNoted");
    assert_eq!(school.positions("*", ReadOptions::default()), "1 2");
}

#[test]
fn an_id_twice_in_an_append_is_refused() {
    let refused = School::default().append_events(vec![with_id(1), event("A"), with_id(1)], &[]);
    assert_eq!(refused, Err(Refusal::RepeatedId(id(1))));
}

#[test]
fn a_repetition_within_one_commit_is_noticed() {
    let mut school = School::default();
    let run = || append(vec![with_id(1), with_id(2)], once());
    let answers = school.commit(&[run(), run()]).unwrap();
    assert_eq!((answers[0].duplicate, answers[1].duplicate), (false, true));
    assert_eq!((answers[1].first, answers[1].last), (Some(at(1)), Some(at(2))));
    assert_eq!(school.positions("*", ReadOptions::default()), "1 2");

    let part = append(vec![with_id(4), with_id(5)], vec![]);
    let without = append(vec![with_id(4), event("Noted about:this")], vec![]);
    let refused = Refusal::DuplicateEvent { event: 0, id: id(4), position: at(3) };
    assert_eq!(school.commit(&[part.clone(), without]), Err((1, refused)));
    let refused = Refusal::DuplicateEvent { event: 1, id: id(4), position: at(3) };
    assert_eq!(school.commit(&[part, append(vec![with_id(6), with_id(4)], vec![])]), Err((1, refused)));
}

#[test]
fn an_id_belongs_to_its_store() {
    let mut school = School::default();
    school.append_events(vec![with_id(1)], &[]).unwrap();
    let other = quire_events::Append { store: "other", events: vec![with_id(1)], conditions: vec![] };
    assert!(!school.commit(&[quire_events::Command::Append(other)]).unwrap()[0].duplicate);
}

#[test]
fn an_event_read_and_sent_again_under_its_derived_id_is_a_repetition() {
    let mut school = School::with("Noted a\nNoted b");
    let mut derived = Vec::new();
    school.read(&Query::all(), ReadOptions::default(), |event| derived.push(event.id()));
    let again = school.append_events(vec![event("Noted b").id(derived[1])], &[]).unwrap();
    assert_eq!((again.first, again.duplicate), (Some(at(2)), true));
    assert_eq!(school.positions("*", ReadOptions::default()), "1 2");
}

#[test]
fn an_event_is_found_by_the_id_that_was_given() {
    let mut school = School::with("Noted");
    school.append_events(vec![with_id(1)], &[]).unwrap();
    let found = school.world.model.event_by_id(&school.world.log, STORE, id(1)).unwrap().unwrap();
    assert_eq!((found.position, found.id(), found.given_id), (at(2), id(1), Some(id(1))));
    assert_eq!(found.tags().collect::<Vec<_>>(), [b"about:this"], "the id is no tag of the user's");
    assert!(school.world.model.event_by_id(&school.world.log, STORE, id(2)).unwrap().is_none());
}

#[test]
fn the_nil_uuid_is_refused_by_name() {
    let mut school = School::with("Noted");
    let nil = || event("Clicked user:1").id(EventId::NIL);
    let refused = Refusal::InvalidEvent { event: 1, problem: EventProblem::NilId };
    assert!(refused.to_string().contains("00000000-0000-0000-0000-000000000000"), "{refused}");
    assert_eq!(school.append_events(vec![event("Clicked user:1"), nil()], &[]), Err(refused));
}
