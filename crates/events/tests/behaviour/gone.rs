//! Deleted events: by position, by tag, by time; for every read, every condition and every id,
//! before and after a compaction.

use quire_events::{Append, Command, Condition, EventId, FORGOTTEN_MAX, NewEvent, ReadOptions, Refusal, Selection};
use quire_model::memory::World;
use quire_model::{Effects, Model, Position, Timestamp};

use crate::support::{STORE, School, append, at, event, query};

fn trim(up_to: u64) -> Command<'static> {
    Command::Trim { store: STORE, up_to: at(up_to) }
}

fn forget(tag: &str) -> Command<'_> {
    Command::Forget { store: STORE, tag: tag.as_bytes() }
}

fn all(school: &School) -> String {
    school.positions("*", ReadOptions::default())
}

fn backwards(school: &School, asked: &str) -> String {
    school.positions(asked, ReadOptions { backwards: true, ..ReadOptions::default() })
}

/// The same log with only the surviving entries, and the unchanged state: the result of a
/// compaction.
fn compacted(mut school: School) -> School {
    let world = &mut school.world;
    world.log.compact(Position::new(u64::MAX), |entry| world.model.survives(entry, Timestamp::ZERO));
    school
}

/// Earlier deletions show live, from every checkpoint, and after compaction.
fn check(make: impl Fn() -> School, expect: impl Fn(&mut School)) {
    let mut live = make();
    for position in 0..=live.world.log.tail().get() {
        assert_eq!(live.world.restarted(Position::new(position)), live.world.model, "from {position}");
    }
    expect(&mut live);
    expect(&mut compacted(make()));
}

#[test]
fn trimmed_events_are_missing_from_reads_in_both_directions_and_for_conditions() {
    let make = || {
        let mut school = School::with("A x:1\nB x:1\nA x:2\nB x:2");
        school.commit(&[trim(2)]).expect("accepted");
        school
    };
    check(make, |school| {
        assert_eq!((all(school), backwards(school, "*")), ("3 4".to_owned(), "4 3".to_owned()));
        assert_eq!(
            (backwards(school, "x:1"), school.positions("A last", ReadOptions::default())),
            (String::new(), "3".into())
        );
        assert_eq!(school.world.model.event_at(&school.world.log, STORE, at(2)).expect("readable").map(|_| ()), None);
        let unless = |asked| Condition::fail_if_matches(query(asked));
        school.append("C", &[unless("x:1")]).expect("nothing has it any more");
        let met = Refusal::ConditionFailed { condition: 0, position: Some(at(3)) };
        assert_eq!(school.append("C", &[unless("A")]), Err(met));
        assert_eq!(
            school.append("C", &[Condition::last_is(query("x:1"), at(2))]).map(|_| ()),
            Err(Refusal::ConditionFailed { condition: 0, position: None })
        );
        school.append("C", &[Condition::last_is(query("x:1"), at(0))]).expect("it has no last");
        assert_eq!(
            school.commit(&[trim(99)]).map(|_| ()),
            Err((0, Refusal::AheadOfStore { position: at(99), head: at(6) }))
        );
        school.commit(&[trim(1)]).expect("what is gone stays gone");
        assert_eq!(all(school), "3 4 5 6");
    });
}

#[test]
fn forgotten_events_are_deleted_and_later_ones_with_the_tag_stay() {
    let make = || {
        let mut school = School::with("A x:1 y:1\nA x:2\nB x:1\nA x:2 x:1\nC x:3");
        school.commit(&[forget("x:1")]).expect("accepted");
        school.append("D x:1", &[]).expect("accepted");
        school
    };
    check(make, |school| {
        assert_eq!((all(school), backwards(school, "*")), ("2 5 6".to_owned(), "6 5 2".to_owned()));
        assert_eq!(
            (school.positions("x:1", ReadOptions::default()), backwards(school, "y:1")),
            ("6".into(), String::new())
        );
        assert_eq!(school.positions("A last", ReadOptions::default()), "2");
        let unless = |asked| Condition::fail_if_matches(query(asked));
        school.append("E", &[unless("y:1"), unless("B")]).expect("they are forgotten");
        assert!(school.append("E", &[unless("x:1")]).is_err());
        assert_eq!(all(school), "2 5 6 7");
    });
}

#[test]
fn the_id_of_a_deleted_event_is_free() {
    let id = EventId::from_bytes([7; 16]);
    let make = || {
        let mut school = School::default();
        school.append_events(vec![NewEvent::new("A").tag("x:1").id(id)], &[]).expect("accepted");
        school.append("B", &[]).expect("accepted");
        school.commit(&[forget("x:1")]).expect("accepted");
        school
    };
    check(make, |school| {
        let find = |school: &School| {
            let found = school.world.model.event_by_id(&school.world.log, STORE, id).expect("readable");
            found.map(|event| event.position)
        };
        assert_eq!(find(school), None);
        let again = school.append_events(vec![NewEvent::new("A").tag("x:1").id(id)], &[]).expect("accepted");
        assert_eq!((again.first, again.duplicate), (Some(at(3)), false));
        assert_eq!(find(school), Some(at(3)));
    });
}

#[test]
fn a_later_command_of_the_commit_sees_the_deletion_and_its_own_events_stay() {
    let mut school = School::with("A x:1");
    let unless = Condition::fail_if_matches(query("x:1"));
    let replaced = append(vec![event("B x:1")], vec![unless.clone()]);
    school.commit(&[forget("x:1"), replaced.clone()]).expect("forgotten first");
    assert_eq!(all(&school), "2");
    assert!(school.commit(std::slice::from_ref(&replaced)).is_err());
    school.commit(&[append(vec![event("C x:1")], vec![]), forget("x:1")]).expect("accepted");
    assert_eq!(all(&school), "3", "what comes in the same commit is not forgotten");
    assert!(school.commit(&[trim(3), replaced.clone(), replaced]).is_err(), "the second meets the first");
    assert_eq!(all(&school), "3");
}

#[test]
fn an_earlier_lookup_of_a_deleted_event_does_not_count() {
    let mut school = School::with("A x:1\nA x:2");
    let unless =
        Append { store: STORE, events: vec![event("B")], conditions: vec![Condition::fail_if_matches(query("x:1"))] };
    let commands = [Command::Append(unless)];
    let prepared = school.world.model.prepare(&commands).look(&school.world.log).expect("readable");
    school.commit(&[forget("x:1")]).expect("accepted");
    let mut draft = school.world.log.draft(Timestamp::from_millis(9_000));
    let (at, mut replies) = (draft.at(), Vec::new());
    let model = &school.world.model;
    let decided = model.decide_prepared(&school.world.log, at, &commands, &prepared, &mut draft, &mut replies);
    assert_eq!(decided, Ok(()), "nothing has the tag any more");
}

#[test]
fn a_store_with_a_retention_deletes_older_events() {
    // A second passes before each commit.
    let mut school = School::with(&"A\n".repeat(9));
    let plan = |school: &School, now_ms: u64| {
        let mut retained = school.world.model.retained(Timestamp::from_millis(now_ms));
        retained.next().and_then(|retained| retained.plan(&school.world.log).expect("readable"))
    };
    assert_eq!(plan(&school, 100_000), None, "it keeps everything");
    school.commit(&[Command::SetRetention { store: STORE, retention_ms: Some(2_500) }]).expect("accepted");
    for (now_ms, expected) in [(0, None), (3_000, None), (3_501, Some(1)), (5_500, Some(2)), (99_000, Some(9))] {
        assert_eq!(plan(&school, now_ms), expected.map(at), "at {now_ms} ms");
    }
    school.commit(&[trim(4), forget("none")]).expect("accepted");
    assert_eq!((plan(&school, 5_500), plan(&school, 8_501)), (None, Some(at(6))));
    assert_eq!(school.world.restarted(Position::new(3)), school.world.model);
    school.commit(&[Command::SetRetention { store: STORE, retention_ms: None }]).expect("accepted");
    assert_eq!(plan(&school, 100_000), None);
}

#[test]
fn a_store_forgets_a_bounded_number_of_tags() {
    let mut school = School::with("A");
    let tags: Vec<_> = (0..FORGOTTEN_MAX).map(|tag| format!("x:{tag}")).collect();
    school.commit(&tags.iter().map(|tag| forget(tag)).collect::<Vec<_>>()).expect("accepted");
    assert_eq!(school.commit(&[forget("one more")]).map(|_| ()), Err((0, Refusal::TooManyForgotten)));
    school.commit(&[forget("x:0")]).expect("one that is known can be forgotten again");
    assert!(matches!(school.commit(&[forget("")]), Err((0, Refusal::InvalidTag(_)))));
    for command in [Command::Forget { store: "other", tag: b"x" }, Command::Trim { store: "other", up_to: at(0) }] {
        assert_eq!(school.commit(&[command]).map(|_| ()), Err((0, Refusal::UnknownStore)));
    }
}

#[test]
fn the_head_of_a_store_stays_though_its_last_events_are_out_of_the_log() {
    let make = || {
        let mut school = School::with("A x:1\nB x:1\nA x:2\nB x:2");
        school.commit(&[forget("x:2")]).expect("accepted");
        school
    };
    check(make, |school| {
        assert_eq!(all(school), "1 2");
        assert_eq!(school.read(&query("*"), ReadOptions::default(), |_| {}), at(4));
        assert_eq!(school.world.model.head(&school.world.log, STORE), Ok(at(4)));
        school.commit(&[trim(4)]).expect("accepted");
        let World { log, model } = &mut school.world;
        log.compact(Position::new(u64::MAX), |entry| model.survives(entry, Timestamp::ZERO));
        assert_eq!(school.read(&query("A"), ReadOptions::default(), |_| {}), at(4));
        assert_eq!(
            school.append("C", &[Condition::fail_if_matches_after(query("*"), at(4))]).map(|it| it.first),
            Ok(Some(at(5)))
        );
    });
}

#[test]
fn a_repeated_append_with_deleted_events_is_refused_before_and_after_the_compaction() {
    let run = || [event("A x:1").id(EventId::from_bytes([1; 16])), event("B x:2").id(EventId::from_bytes([2; 16]))];
    let make = || {
        let mut school = School::default();
        school.commit(&[append(run().to_vec(), vec![])]).expect("accepted");
        school.commit(&[trim(1)]).expect("accepted");
        school
    };
    check(make, |school| {
        let known = Refusal::DuplicateEvent { event: 1, id: EventId::from_bytes([2; 16]), position: at(2) };
        assert_eq!(school.append_events(run().to_vec(), &[]), Err(known));
    });
}

#[test]
fn a_copy_of_the_forgotten_tags_shares_memory_until_it_changes() {
    let mut school = School::with("A x:1\nB x:2");
    school.commit(&[forget("x:1")]).expect("accepted");
    let before = school.world.model.select(STORE, &query("*")).expect("it can be asked");
    school.commit(&[forget("x:2")]).expect("accepted");
    let read =
        |selection: &Selection| selection.read(&school.world.log, ReadOptions::default()).expect("readable").count();
    let now = school.world.model.select(STORE, &query("*")).expect("it can be asked");
    assert_eq!((read(&before), read(&now)), (1, 0), "who began to read before goes on as it was");
}
