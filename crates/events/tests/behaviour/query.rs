//! The meaning of a query, and the result of a read.

use crate::support::{STORE, School, at, query};
use quire_events::{EventView, Events, NewEvent, Query, QueryProblem, ReadOptions, SelectRefusal};
use quire_model::memory::World;

const COURSES: &str = "
    Defined course:1
    Defined course:2
    Joined course:1 student:1
    Joined course:2 student:1
    Left course:1 student:1
    Joined course:1 student:2
    Closed
";

/// The query selects the events of [`COURSES`] at these positions, forwards, and the same ones
/// backwards.
fn check(asked: &str, expected: &str) {
    let school = School::with(COURSES);
    assert_eq!(school.positions(asked, ReadOptions::default()), expected, "{asked}");
    let backwards = school.positions(asked, ReadOptions { backwards: true, ..ReadOptions::default() });
    let mut reversed: Vec<&str> = expected.split_whitespace().collect();
    reversed.reverse();
    assert_eq!(backwards, reversed.join(" "), "{asked} backwards");
}

/// Of [`COURSES`], these options select these events of the query.
fn check_options(asked: &str, options: ReadOptions, expected: &str) {
    assert_eq!(School::with(COURSES).positions(asked, options), expected, "{asked} {options:?}");
}

#[test]
fn an_item_without_types_and_tags_is_every_event() {
    check("*", "1 2 3 4 5 6 7");
}

#[test]
fn types_of_an_item_are_joined_by_or() {
    check("Joined", "3 4 6");
    check("Joined,Left", "3 4 5 6");
    check("Joined,Joined", "3 4 6");
}

#[test]
fn tags_of_an_item_are_joined_by_and() {
    check("course:1", "1 3 5 6");
    check("course:1 student:1", "3 5");
    check("course:1 course:2", "");
}

#[test]
fn an_item_is_its_types_and_its_tags() {
    check("Joined course:1", "3 6");
    check("Joined,Left course:1 student:1", "3 5");
    check("Closed course:1", "");
    check("Unheard course:1", "");
}

#[test]
fn items_are_joined_by_or_and_not_flattened() {
    check("Defined course:1 | Joined student:2", "1 6");
    check("Defined course:2 | Left | student:2", "2 5 6");
}

#[test]
fn an_event_that_several_items_select_comes_once() {
    check("course:1 | Joined | student:1", "1 3 4 5 6");
}

#[test]
fn an_item_without_constraint_next_to_others_is_still_every_event() {
    check("* | Closed", "1 2 3 4 5 6 7");
    check("Closed | *", "1 2 3 4 5 6 7");
}

#[test]
fn an_item_without_types_next_to_one_with_types_still_sees_every_type() {
    check("course:1 | Joined course:1", "1 3 5 6");
}

#[test]
fn an_event_with_two_tags_of_one_key_is_found_under_both() {
    let school = School::with("Moved account:a account:b");
    assert_eq!(school.positions("account:a", ReadOptions::default()), "1");
    assert_eq!(school.positions("account:b", ReadOptions::default()), "1");
    assert_eq!(school.positions("account:a account:b", ReadOptions::default()), "1");
}

#[test]
fn only_the_last_event_of_an_item_is_read_if_that_is_asked() {
    check("course:1 last", "6");
    check("Defined,Left last", "5");
    check("Defined last | student:1 last", "2 5");
    check("Defined last | student:1", "2 3 4 5");
    check("* last", "7");
    check("Unheard last", "");
    check("* last | Left", "5 7");
}

#[test]
fn after_excludes_and_up_to_includes_its_position() {
    check_options("*", ReadOptions { after: at(5), ..ReadOptions::default() }, "6 7");
    check_options("course:1", ReadOptions { after: at(1), up_to: Some(at(5)), ..ReadOptions::default() }, "3 5");
    check_options("*", ReadOptions { up_to: Some(at(0)), ..ReadOptions::default() }, "");
    check_options("*", ReadOptions { after: at(7), ..ReadOptions::default() }, "");
    check_options("*", ReadOptions { after: at(u64::MAX), up_to: Some(at(u64::MAX)), ..ReadOptions::default() }, "");
    check_options("*", ReadOptions { after: at(6), up_to: Some(at(u64::MAX)), ..ReadOptions::default() }, "7");
    check_options("*", ReadOptions { after: at(5), up_to: Some(at(3)), ..ReadOptions::default() }, "");
}

#[test]
fn before_excludes_its_position_and_leaves_the_last_of_an_item_as_it_is() {
    let before = |number| ReadOptions { before: Some(at(number)), backwards: true, ..ReadOptions::default() };
    check_options("course:1", before(6), "5 3 1");
    check_options("*", before(1), "");
    check_options("*", before(0), "");
    check_options("* | course:1 last", ReadOptions { limit: Some(2), ..before(u64::MAX) }, "7 6");
    check_options("course:1 last", before(6), "");
    check_options("course:1 last", before(7), "6");
    check_options("course:1", ReadOptions { backwards: false, ..before(6) }, "1 3 5");
}

#[test]
fn a_limit_counts_from_where_the_reading_begins() {
    check_options("course:1", ReadOptions { limit: Some(2), ..ReadOptions::default() }, "1 3");
    check_options("course:1", ReadOptions { limit: Some(2), backwards: true, ..ReadOptions::default() }, "6 5");
    check_options("course:1", ReadOptions { limit: Some(0), ..ReadOptions::default() }, "");
}

#[test]
fn backwards_reads_the_same_window_from_its_end() {
    let options = ReadOptions { after: at(1), up_to: Some(at(5)), backwards: true, ..ReadOptions::default() };
    check_options("course:1 | Joined", options, "5 4 3");
}

#[test]
fn the_last_event_of_an_item_is_the_last_of_the_window() {
    check_options("course:1 last", ReadOptions { up_to: Some(at(4)), ..ReadOptions::default() }, "3");
    check_options("course:1 last", ReadOptions { after: at(6), ..ReadOptions::default() }, "");
}

#[test]
fn every_read_returns_the_head_whatever_it_selects() {
    let school = School::with(COURSES);
    for asked in ["*", "Unheard", "course:1 last"] {
        let options = ReadOptions { up_to: Some(at(2)), limit: Some(1), ..ReadOptions::default() };
        assert_eq!(school.read(&query(asked), options, |_| ()), at(7), "{asked}");
    }
    assert_eq!(school.world.model.head(&school.world.log, STORE), Ok(at(7)));
}

#[test]
fn a_store_without_events_reads_as_empty_with_head_zero() {
    let school = School::default();
    assert_eq!(school.read(&Query::all(), ReadOptions::default(), |_| panic!("an event")), at(0));
    assert_eq!(school.world.model.head(&school.world.log, STORE), Ok(at(0)));
}

#[test]
fn a_query_without_items_is_refused_and_not_taken_for_all() {
    let model = Events::default();
    let refused = SelectRefusal::InvalidQuery(QueryProblem::NoItems);
    assert_eq!(model.select(STORE, &Query::default()), Err(refused));
}

#[test]
fn events_are_read_back_to_the_byte() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let json = br#"{"b": 2e2, "a": 1, "a": "again"}"#;
    let events = vec![
        NewEvent::new("Größe").data(&all_bytes).metadata(json),
        NewEvent::new("Empty"),
        NewEvent::new("Json").data(json).metadata(&all_bytes),
    ];
    let mut school = School::default();
    school.append_events(events.clone(), &[]).unwrap();
    let mut read = Vec::new();
    school.read(&Query::all(), ReadOptions::default(), |event| {
        read.push((event.event_type.to_string(), event.data.to_vec(), event.metadata.to_vec()));
    });
    let given = events.iter().map(|event| ((*event.event_type).into(), (*event.data).into(), (*event.metadata).into()));
    assert_eq!(read, given.collect::<Vec<_>>());
}

#[test]
fn a_tag_is_any_bytes_but_nul_and_is_found_by_exactly_them() {
    let tags: [&[u8]; 7] = [b"say \"hi\"", b"back\\slash", b"\xff\xfe", b"a:b", b"a:b:c", b" ", "naïve".as_bytes()];
    let mut school = School::default();
    for tag in tags {
        school.append_events(vec![NewEvent::new("Tagged").tag(tag)], &[]).unwrap();
    }
    for (index, tag) in tags.into_iter().enumerate() {
        let mut found = Vec::new();
        let asked = Query::from(quire_events::QueryItem::new().tag(tag));
        school.read(&asked, ReadOptions::default(), |event| {
            assert_eq!(event.tags().collect::<Vec<_>>(), [tag]);
            found.push(event.position);
        });
        assert_eq!(found, [at(index as u64 + 1)], "{}", tag.escape_ascii());
    }
}

#[test]
fn a_type_and_a_tag_of_the_same_text_are_not_confused() {
    let school = School::with("Course\nOther Course");
    let asked = Query::from(quire_events::QueryItem::new().tag("Course"));
    let mut found = Vec::new();
    school.read(&asked, ReadOptions::default(), |event| found.push(event.position));
    assert_eq!(found, [at(2)]);
    assert_eq!(school.positions("Course", ReadOptions::default()), "1");
}

#[test]
fn a_tag_given_twice_is_kept_once_in_its_first_place() {
    let school = School::with("Moved b a b c a");
    let mut tags = Vec::new();
    school.read(&Query::all(), ReadOptions::default(), |event| {
        tags.extend(event.tags().map(|tag| tag.escape_ascii().to_string()));
    });
    assert_eq!(tags, ["b", "a", "c"]);
}

#[test]
fn stores_number_their_events_on_their_own_and_do_not_see_each_other() {
    let mut school = School::with("Joined course:1");
    let other = |events| quire_events::Append { store: "other", events, conditions: Vec::new() };
    let command = quire_events::Command::Append(other(vec![crate::support::event("Joined course:1"); 2]));
    let appended = school.commit(&[command]).unwrap()[0];
    assert_eq!((appended.first, appended.last), (Some(at(1)), Some(at(2))));
    assert_eq!(school.positions("course:1", ReadOptions::default()), "1");
    assert_eq!(school.world.model.head(&school.world.log, "other"), Ok(at(2)));
    let names: Vec<&str> = school.world.model.stores().map(|(name, _)| name).collect();
    assert_eq!(names, ["other", STORE]);
}

#[test]
fn an_event_is_found_by_its_position_and_knows_its_time() {
    let school = School::with(COURSES);
    let World { log, model } = &school.world;
    let event = model.event_at(log, STORE, at(3)).unwrap().unwrap();
    assert_eq!((event.position, event.event_type, event.time.as_millis()), (at(3), "Joined", 3_000));
    assert!(model.event_at(log, STORE, at(0)).unwrap().is_none());
    assert!(model.event_at(log, STORE, at(8)).unwrap().is_none());
    assert!(model.event_at(log, "other", at(1)).unwrap().is_none());
}

#[test]
fn a_derived_id_is_the_same_on_every_read_and_finds_its_event() {
    let school = School::with(COURSES);
    let World { log, model } = &school.world;
    let mut ids = Vec::new();
    school.read(&Query::all(), ReadOptions::default(), |event| ids.push(event.id()));
    for (index, id) in ids.iter().enumerate() {
        let event = model.event_by_id(log, STORE, *id).unwrap().unwrap();
        assert_eq!((event.position, event.id(), event.given_id), (at(index as u64 + 1), *id, None));
    }
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 7);
    let mut elsewhere = *ids[0].as_bytes();
    elsewhere[0] ^= 1;
    assert!(model.event_by_id(log, STORE, quire_events::EventId::from_bytes(elsewhere)).unwrap().is_none());
}

#[test]
fn a_walk_of_the_log_distinguishes_events_from_other_entries() {
    let school = School::with(COURSES);
    let log = &school.world.log;
    let events: Vec<_> = log.entries().filter_map(|entry| EventView::of(&entry)).collect();
    assert_eq!(log.entries().count(), 8, "the store's creation, and seven events");
    assert_eq!(events.iter().map(|event| event.position.get()).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    assert!(events.iter().all(|event| school.world.model.store(STORE) == Some(event.store)));
}
