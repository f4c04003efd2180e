//! Exceeded limits and malformed input, and the text of each refusal.

use crate::support::{School, event};
use quire_events::{
    Append, CONDITIONS_MAX, Command, Condition, EVENTS_MAX, EventProblem, LabelProblem, NAME_BYTES_MAX, NameProblem,
    NewEvent, QUERY_WALKS_MAX, Query, QueryItem, QueryProblem, Refusal, TAG_BYTES_MAX, TAGS_MAX, TYPE_BYTES_MAX,
};

/// An append of this event to a new store is accepted, or refused for this.
fn check_event(event: NewEvent<'_>, expected: Result<(), EventProblem>) {
    let answer = School::default().append_events(vec![event], &[]);
    assert_eq!(answer.map(|_| ()), expected.map_err(|problem| Refusal::InvalidEvent { event: 0, problem }));
}

/// A condition with this query is accepted, or refused for this.
fn check_query(query: Query<'_>, expected: Result<(), QueryProblem>) {
    let answer = School::default().append("", &[Condition::fail_if_matches(query)]);
    assert_eq!(answer.map(|_| ()), expected.map_err(|problem| Refusal::InvalidQuery { condition: 0, problem }));
}

/// A store may have this name, or not for this reason.
fn check_name(name: &str, expected: Result<(), NameProblem>) {
    let append = Append { store: name, events: vec![event("Noted")], conditions: vec![] };
    let answer = School::default().commit(&[Command::Append(append)]);
    assert_eq!(answer.map(|_| ()), expected.map_err(|problem| (0, Refusal::InvalidName(problem))), "{name}");
}

#[test]
fn names_are_paths_of_plain_segments() {
    for name in ["a", "air/flights", "A.b_c-1/2", &"n".repeat(NAME_BYTES_MAX)] {
        check_name(name, Ok(()));
    }
    check_name("", Err(NameProblem::Empty));
    check_name(&"n".repeat(NAME_BYTES_MAX + 1), Err(NameProblem::TooLong { bytes: NAME_BYTES_MAX + 1 }));
    check_name("air flights", Err(NameProblem::Character { at: 3 }));
    check_name("größe", Err(NameProblem::Character { at: 2 }));
    for name in ["/a", "a/", "a//b", "/"] {
        check_name(name, Err(NameProblem::EmptySegment));
    }
}

#[test]
fn types_have_1_to_255_bytes() {
    check_event(NewEvent::new("T".repeat(TYPE_BYTES_MAX)), Ok(()));
    check_event(NewEvent::new(""), Err(EventProblem::Type(LabelProblem::Empty)));
    let problem = LabelProblem::TooLong { bytes: TYPE_BYTES_MAX + 1, bytes_max: TYPE_BYTES_MAX };
    check_event(NewEvent::new("T".repeat(TYPE_BYTES_MAX + 1)), Err(EventProblem::Type(problem)));
}

#[test]
fn tags_have_1_to_255_bytes_and_no_nul() {
    let longest = "t".repeat(TAG_BYTES_MAX);
    let too_long = "t".repeat(TAG_BYTES_MAX + 1);
    check_event(NewEvent::new("T").tag(&longest), Ok(()));
    let refused = |problem| Err(EventProblem::Tag { tag: 1, problem });
    check_event(NewEvent::new("T").tag("a").tag(""), refused(LabelProblem::Empty));
    check_event(NewEvent::new("T").tag("a").tag("b\0"), refused(LabelProblem::Nul { at: 1 }));
    let problem = LabelProblem::TooLong { bytes: TAG_BYTES_MAX + 1, bytes_max: TAG_BYTES_MAX };
    check_event(NewEvent::new("T").tag("a").tag(&too_long), refused(problem));
}

#[test]
fn an_event_has_at_most_64_tags() {
    let tags: Vec<String> = (0..=TAGS_MAX).map(|tag| tag.to_string()).collect();
    let with = |count| tags.iter().take(count).fold(NewEvent::new("T"), |event, tag| event.tag(tag));
    check_event(with(TAGS_MAX), Ok(()));
    check_event(with(TAGS_MAX + 1), Err(EventProblem::TooManyTags { tags: TAGS_MAX + 1 }));
}

#[test]
fn an_append_has_a_bounded_number_of_events_and_conditions() {
    let mut school = School::default();
    let refused = Refusal::TooManyEvents { events: EVENTS_MAX + 1 };
    assert_eq!(school.append_events(vec![NewEvent::new("T"); EVENTS_MAX + 1], &[]), Err(refused));
    let free = Condition::fail_if_matches(Query::all());
    assert!(school.append("", &vec![free.clone(); CONDITIONS_MAX]).is_ok());
    let refused = Refusal::TooManyConditions { conditions: CONDITIONS_MAX + 1 };
    assert_eq!(school.append("", &vec![free; CONDITIONS_MAX + 1]), Err(refused));
}

#[test]
fn the_malformed_event_of_several_is_named() {
    let answer = School::default().append_events(vec![event("A"), NewEvent::new("")], &[]);
    let problem = EventProblem::Type(LabelProblem::Empty);
    assert_eq!(answer, Err(Refusal::InvalidEvent { event: 1, problem }));
}

#[test]
fn a_query_names_only_what_an_event_could_have() {
    let either = |item| Query::from(QueryItem::new().event_type("A")).or(item);
    let problem = LabelProblem::Empty;
    check_query(either(QueryItem::new().event_type("")), Err(QueryProblem::Type { item: 1, index: 0, problem }));
    check_query(either(QueryItem::new().tag("a").tag("")), Err(QueryProblem::Tag { item: 1, index: 1, problem }));
    let tags: Vec<String> = (0..=TAGS_MAX).map(|tag| tag.to_string()).collect();
    let item = tags.iter().fold(QueryItem::new(), |item, tag| item.tag(tag));
    check_query(either(item), Err(QueryProblem::TooManyTags { item: 1, tags: TAGS_MAX + 1 }));
}

#[test]
fn a_query_needs_a_bounded_number_of_walks() {
    let items = |count| Query { items: vec![QueryItem::new().event_type("A").event_type("B"); count] };
    check_query(items(QUERY_WALKS_MAX / 2), Ok(()));
    let walks = QUERY_WALKS_MAX + 2;
    check_query(items(QUERY_WALKS_MAX / 2 + 1), Err(QueryProblem::TooManyWalks { walks }));
}
