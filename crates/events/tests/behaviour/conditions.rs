//! When a condition holds, and the text of its refusals.

use crate::support::{STORE, School, append, at, event, query};
use quire_events::{Append, Command, Condition, Query, QueryProblem, ReadOptions, Refusal};

const COURSES: &str = "
    Defined course:1
    Joined course:1 student:1
    Defined course:2
    Joined course:1 student:2
    Joined course:2 student:1
";

fn fail_if(asked: &str, after: u64) -> Condition<'_> {
    Condition::fail_if_matches_after(query(asked), at(after))
}

fn last_is(asked: &str, position: u64) -> Condition<'_> {
    Condition::last_is(query(asked), at(position))
}

fn failed(condition: usize, position: u64) -> Refusal {
    Refusal::ConditionFailed { condition, position: Some(at(position)).filter(|position| position.get() > 0) }
}

/// Over [`COURSES`], a condition holds, or meets the event at this position.
fn check(condition: Condition<'_>, met: Option<u64>) {
    let mut school = School::with(COURSES);
    let expected = met.map_or(Ok(at(6)), |position| Err(failed(0, position)));
    let answer = school.append("Noted", std::slice::from_ref(&condition));
    assert_eq!(answer.map(|appended| appended.last.unwrap()), expected, "{condition:?}");
    let head = school.world.model.head(&school.world.log, STORE);
    assert_eq!(head, Ok(if met.is_some() { at(5) } else { at(6) }), "a refusal appends nothing");
}

#[test]
fn any_match_is_a_conflict_and_the_first_is_named() {
    check(fail_if("course:3", 0), None);
    check(fail_if("Joined", 0), Some(2));
    check(fail_if("Joined student:1 | Defined", 0), Some(1));
}

#[test]
fn events_up_to_the_position_after_do_not_conflict() {
    check(fail_if("Defined course:2", 2), Some(3));
    check(fail_if("Defined course:2", 3), None);
    check(fail_if("course:1", 2), Some(4));
    check(fail_if("Joined", 5), None);
}

#[test]
fn a_condition_on_every_event_conflicts_with_any() {
    check(fail_if("*", 0), Some(1));
    check(fail_if("*", 4), Some(5));
    check(fail_if("* | Unheard", 4), Some(5));
    check(fail_if("*", 5), None);
}

#[test]
fn items_of_a_condition_are_not_flattened() {
    check(fail_if("Defined course:1 | Joined student:9", 0), Some(1));
    check(fail_if("Defined student:1 | Joined course:9", 0), None);
}

#[test]
fn only_last_event_in_a_condition_is_refused() {
    let mut school = School::with(COURSES);
    for condition in [fail_if("Left | Joined last", 0), last_is("Left | Joined last", 5)] {
        let refused = Refusal::InvalidQuery { condition: 0, problem: QueryProblem::OnlyLastEvent { item: 1 } };
        assert!(refused.to_string().contains("only_last_event"));
        assert_eq!(school.append("Noted", &[condition]), Err(refused));
    }
}

#[test]
fn the_last_match_is_exactly_the_one_that_was_seen() {
    check(last_is("course:1", 4), None);
    check(last_is("course:1", 2), Some(4));
    check(last_is("course:1", 5), Some(4));
    check(last_is("course:3", 0), None);
    check(last_is("course:3", 1), Some(0));
    check(last_is("course:1", 0), Some(4));
    check(last_is("Defined | student:2", 4), None);
}

#[test]
fn a_query_without_items_is_refused_and_not_taken_for_no_condition() {
    let mut school = School::with(COURSES);
    for condition in [fail_if("", 0), last_is("", 0)] {
        let refused = Refusal::InvalidQuery { condition: 1, problem: QueryProblem::NoItems };
        assert_eq!(school.append("Noted", &[fail_if("course:3", 0), condition]), Err(refused));
    }
}

#[test]
fn an_after_that_the_store_has_not_reached_is_refused() {
    let mut school = School::with(COURSES);
    let refused = Refusal::AfterAhead { condition: 0, after: at(6), head: at(5) };
    assert_eq!(school.append("Noted", &[fail_if("course:3", 6)]), Err(refused));
    let refused = Refusal::AfterAhead { condition: 0, after: at(1), head: at(0) };
    assert_eq!(School::default().append("Noted", &[fail_if("course:3", 1)]), Err(refused));
}

#[test]
fn every_condition_must_hold_and_the_first_that_does_not_is_named() {
    let mut school = School::with(COURSES);
    let conditions = [fail_if("course:3", 0), last_is("course:1", 4), fail_if("course:1", 1), fail_if("*", 0)];
    assert_eq!(school.append("Noted", &conditions), Err(failed(2, 2)));
    assert!(school.append("Noted", &conditions[..2]).is_ok());
}

#[test]
fn conditions_hold_of_a_store_that_does_not_exist_yet() {
    let mut school = School::default();
    let conditions = [fail_if("*", 0), last_is("*", 0)];
    assert_eq!(school.append("Defined", &conditions).unwrap().first, Some(at(1)));
    assert_eq!(school.append("Defined", &conditions), Err(failed(0, 1)));
    assert_eq!(School::default().append("Defined", &[last_is("*", 1)]), Err(failed(0, 0)));
}

#[test]
fn a_decision_appends_under_the_head_of_its_read() {
    let mut school = School::with(COURSES);
    let asked = "course:9 | student:9";
    for _ in 0..3 {
        let head = school.read(&query(asked), ReadOptions::default(), |_| ());
        assert!(school.append("Noted", &[Condition::fail_if_matches_after(query(asked), head)]).is_ok());
    }
}

#[test]
fn a_course_and_a_student_are_guarded_by_one_condition() {
    let mut school = School::with(COURSES);
    let decision = "course:1 | student:3";
    let head = school.read(&query(decision), ReadOptions::default(), |_| ());
    school.append("Joined course:1 student:4", &[]).unwrap();
    let refused = school.append("Joined course:1 student:3", &[fail_if(decision, head.get())]);
    assert_eq!(refused, Err(failed(0, 6)));
    let unrelated = school.append("Joined course:2 student:3", &[fail_if("course:2 | student:3", head.get())]);
    assert!(unrelated.is_ok());
}

#[test]
fn one_of_ten_claims_to_a_name_succeeds() {
    let mut school = School::default();
    for name in 0..100 {
        let claimed = format!("Claimed name:{name}");
        let free = Condition::fail_if_matches(query(&claimed));
        let accepted = (0..10).filter(|_| school.append(&claimed, std::slice::from_ref(&free)).is_ok()).count();
        assert_eq!(accepted, 1, "{name}");
    }
    assert_eq!(school.world.model.head(&school.world.log, STORE), Ok(at(100)));
}

#[test]
fn a_later_command_of_a_commit_sees_what_an_earlier_one_appends() {
    let claim = || append(vec![event("Claimed name:a")], vec![fail_if("name:a", 0)]);
    let mut school = School::default();
    assert_eq!(school.commit(&[claim(), claim()]), Err((1, failed(0, 1))));
    assert_eq!(school.world.model.stores().count(), 0, "a refused commit leaves nothing");

    let mut school = School::with(COURSES);
    let first = append(vec![event("Joined course:3"), event("Left course:3")], vec![fail_if("course:3", 0)]);
    let second = |condition| append(vec![event("Noted")], vec![condition]);
    assert_eq!(school.commit(&[first.clone(), second(fail_if("course:3", 6))]), Err((1, failed(0, 7))));
    assert_eq!(school.commit(&[first.clone(), second(last_is("course:3", 6))]), Err((1, failed(0, 7))));
    assert_eq!(school.commit(&[first.clone(), second(fail_if("course:1 | course:3", 3))]), Err((1, failed(0, 4))));
    let answers = school.commit(&[first, second(fail_if("course:3", 7)), second(last_is("*", 8))]).unwrap();
    let runs: Vec<_> = answers.iter().map(|appended| (appended.first, appended.last)).collect();
    assert_eq!(runs, [(Some(at(6)), Some(at(7))), (Some(at(8)), Some(at(8))), (Some(at(9)), Some(at(9)))]);
}

#[test]
fn a_commit_may_append_to_several_stores_and_create_them() {
    let to =
        |store, condition| Command::Append(Append { store, events: vec![event("Noted")], conditions: vec![condition] });
    let mut school = School::default();
    let commands =
        [to("a", last_is("*", 0)), to("b", last_is("*", 0)), to("a", last_is("*", 1)), to("b", fail_if("*", 1))];
    let answers = school.commit(&commands).unwrap();
    let firsts: Vec<u64> = answers.iter().map(|appended| appended.first.unwrap().get()).collect();
    assert_eq!(firsts, [1, 1, 2, 2]);
    assert_eq!(school.world.model.stores().count(), 2);
}

#[test]
fn an_append_without_events_checks_its_conditions_and_writes_nothing() {
    let mut school = School::with(COURSES);
    let tail = school.world.log.entries().count();
    let answer = school.append("", &[fail_if("course:3", 0)]).unwrap();
    assert_eq!((answer.first, answer.last, answer.duplicate), (None, None, false));
    assert_eq!(school.append("", &[fail_if("course:1", 0)]), Err(failed(0, 1)));
    assert_eq!(school.world.log.entries().count(), tail);
    assert!(School::default().append("", &[Condition::fail_if_matches(Query::all())]).is_ok());
}

#[test]
fn an_append_with_neither_events_nor_conditions_is_refused() {
    assert_eq!(School::default().append("", &[]), Err(Refusal::NothingAsked));
}
