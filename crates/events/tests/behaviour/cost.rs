//! The reads of the log that a decision or a read makes, and their behaviour when the log fails.

use std::cell::{Cell, RefCell};

use quire_events::{Append, AppendResult, Command, Condition, NewEvent, ReadOptions, Refusal};
use quire_model::memory::MemoryLog;
use quire_model::{DecideError, Effects, Entry, History, Model, Place, ReadError, Sequence, Tag, Timestamp};

use crate::support::{STORE, School, append, at, query};

/// A log that counts its reads, and fails after a number of them.
struct WatchedLog<'l> {
    log: &'l MemoryLog,
    answers_max: usize,
    asked: RefCell<Vec<LogRead>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogRead {
    Entry,
    Next { from: Place },
    Previous,
    Seek(Sequence),
}

impl<'l> WatchedLog<'l> {
    fn new(log: &'l MemoryLog) -> Self {
        WatchedLog { log, answers_max: usize::MAX, asked: RefCell::default() }
    }

    fn note(&self, read: LogRead) -> Result<(), ReadError> {
        self.asked.borrow_mut().push(read);
        if self.asked.borrow().len() > self.answers_max { Err(broken()) } else { Ok(()) }
    }
}

fn broken() -> ReadError {
    ReadError::damaged(None, "the disk is gone")
}

impl History for WatchedLog<'_> {
    fn entry(&self, place: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.note(LogRead::Entry).and_then(|()| self.log.entry(place))
    }

    fn next(&self, tags: &[Tag<'_>], from: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.note(LogRead::Next { from }).and_then(|()| self.log.next(tags, from))
    }

    fn previous(&self, tags: &[Tag<'_>], before: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.note(LogRead::Previous).and_then(|()| self.log.previous(tags, before))
    }

    fn seek(&self, tag: Tag<'_>, sequence: Sequence) -> Result<Option<Entry<'_>>, ReadError> {
        self.note(LogRead::Seek(sequence)).and_then(|()| self.log.seek(tag, sequence))
    }
}

/// Decides on one append against a watched log.
fn decide(
    school: &School,
    history: &WatchedLog<'_>,
    events: Vec<NewEvent<'_>>,
    condition: Condition<'_>,
) -> Result<Vec<AppendResult>, DecideError<Refusal>> {
    let commands = [Command::Append(Append { store: STORE, events, conditions: vec![condition] })];
    let mut draft = school.world.log.draft(Timestamp::MAX);
    let mut replies = Vec::new();
    school.world.model.decide(history, draft.at(), &commands, &mut draft, &mut replies)?;
    Ok(replies)
}

/// A hundred events, of which every second has `tag`.
fn hundred() -> School {
    School::with(&"Noted tag\nOther\n".repeat(50))
}

#[test]
fn a_condition_after_the_head_reads_nothing_from_the_log() {
    let school = hundred();
    let log = WatchedLog::new(&school.world.log);
    let condition = Condition::fail_if_matches_after(query("tag | Other"), at(100));
    decide(&school, &log, vec![NewEvent::new("Noted")], condition).unwrap();
    assert_eq!(*log.asked.borrow(), []);
}

#[test]
fn a_condition_starts_each_walk_after_its_position_and_stops_at_the_first_match() {
    let school = hundred();
    let log = WatchedLog::new(&school.world.log);
    let condition = Condition::fail_if_matches_after(query("tag | Noted,Other absent"), at(90));
    let refusal = Refusal::ConditionFailed { condition: 0, position: Some(at(91)) };
    let answer = decide(&school, &log, vec![NewEvent::new("Noted")], condition);
    assert_eq!(answer, Err(DecideError::Refused { command: 0, refusal }));
    let from = school.world.model.event_at(&school.world.log, STORE, at(91)).unwrap().unwrap().place;
    let walk = LogRead::Next { from };
    assert_eq!(*log.asked.borrow(), [LogRead::Seek(Sequence::new(91)), walk, walk, walk]);
}

#[test]
fn a_read_requests_at_most_its_limit_of_events() {
    let school = hundred();
    let log = WatchedLog::new(&school.world.log);
    let selection = school.world.model.select(STORE, &query("tag")).unwrap();
    let options = ReadOptions { limit: Some(2), backwards: true, ..ReadOptions::default() };
    assert_eq!(selection.read(&log, options).unwrap().count(), 2);
    assert_eq!(*log.asked.borrow(), [LogRead::Previous; 3], "one for the head, and one an event");
}

/// A log that grows as soon as it has answered once.
struct GrowingLog<'l> {
    before: &'l MemoryLog,
    after: &'l MemoryLog,
    has_grown: Cell<bool>,
}

impl GrowingLog<'_> {
    fn log(&self) -> &MemoryLog {
        if self.has_grown.replace(true) { self.after } else { self.before }
    }
}

impl History for GrowingLog<'_> {
    fn entry(&self, place: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.log().entry(place)
    }

    fn next(&self, tags: &[Tag<'_>], from: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.log().next(tags, from)
    }

    fn previous(&self, tags: &[Tag<'_>], before: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.log().previous(tags, before)
    }

    fn seek(&self, tag: Tag<'_>, sequence: Sequence) -> Result<Option<Entry<'_>>, ReadError> {
        self.log().seek(tag, sequence)
    }
}

#[test]
fn a_reading_returns_nothing_after_its_head_while_the_log_grows() {
    let mut school = hundred();
    let before = school.world.log.clone();
    school.append("Noted tag", &[]).unwrap();
    let up_to = Some(at(101));
    for (asked, expected) in [("tag", 50), ("*", 100), ("tag last", 1), ("Other last | tag", 51)] {
        for (backwards, up_to) in [(false, None), (true, None), (false, up_to), (true, up_to)] {
            let log = GrowingLog { before: &before, after: &school.world.log, has_grown: Cell::new(false) };
            let selection = school.world.model.select(STORE, &query(asked)).unwrap();
            let options = ReadOptions { backwards, up_to, ..ReadOptions::default() };
            let reading = selection.read(&log, options).unwrap();
            assert_eq!(reading.head(), at(100));
            let positions: Vec<u64> = reading.map(|event| event.unwrap().position.get()).collect();
            assert_eq!(positions.len(), expected, "{asked} {options:?}");
            assert!(positions.iter().all(|position| *position <= 100), "{asked} {options:?}");
        }
    }
}

#[test]
fn a_log_that_cant_be_read_is_an_error_and_not_an_empty_store() {
    let school = hundred();
    let selection = school.world.model.select(STORE, &query("tag | Other last")).unwrap();
    let reads = |answers_max| {
        let log = WatchedLog { answers_max, ..WatchedLog::new(&school.world.log) };
        let mut events = 0;
        for event in selection.read(&log, ReadOptions::default())? {
            events += usize::from(event.is_ok());
            event?;
        }
        Ok(events)
    };
    assert_eq!(reads(usize::MAX), Ok(51));
    // One read for the head, one for each scan's first event, one for each further event, and one
    // for the end of a scan.
    let questions = 1 + 2 + 50;
    assert_eq!(reads(questions), Ok(51));
    for answers in 0..questions {
        assert_eq!(reads(answers), Err(broken()), "after {answers} answers");
    }
}

#[test]
fn a_reading_ends_with_its_error() {
    let school = hundred();
    let read = |asked, answers_max| -> Vec<bool> {
        let selection = school.world.model.select(STORE, &query(asked)).unwrap();
        let log = WatchedLog { answers_max, ..WatchedLog::new(&school.world.log) };
        selection.read(&log, ReadOptions::default()).unwrap().map(|event| event.is_ok()).collect()
    };
    assert_eq!(read("*", 3), [true, true, false]);
    assert_eq!(read("tag | Other", 1), [false], "also when other walks are still to be made");
}

#[test]
fn a_decision_on_an_unreadable_log_does_not_accept() {
    let school = hundred();
    let event = NewEvent::new("Noted").id(quire_events::EventId::from_bytes([1; 16]));
    let conditions = [
        Condition::fail_if_matches_after(query("absent"), at(50)),
        Condition::fail_if_matches(query("absent")),
        Condition::last_is(query("absent"), at(0)),
    ];
    for condition in conditions {
        for answers_max in 0.. {
            let log = WatchedLog { answers_max, ..WatchedLog::new(&school.world.log) };
            let answer = decide(&school, &log, vec![event.clone()], condition.clone());
            if log.asked.borrow().len() <= answers_max {
                assert_eq!(answer.map(|answers| answers[0].first), Ok(Some(at(101))));
                assert!(answers_max >= 2, "the id and the query are both looked up");
                break;
            }
            assert_eq!(answer, Err(DecideError::Unreadable(broken())), "after {answers_max} answers");
        }
    }
}

#[test]
fn a_decision_reads_nothing_from_the_log_that_was_looked_up_before_it() {
    let mut school = School::with("Defined course:1\nJoined course:1 student:1\nJoined course:1 student:2");
    let id = quire_events::EventId::from_bytes([9; 16]);
    let commands = [append(
        vec![NewEvent::new("Left").id(id)],
        vec![
            Condition::fail_if_matches(query("Left course:1 | Joined course:2")),
            Condition::last_is(query("Joined course:1"), at(3)),
        ],
    )];
    let decide = |school: &School, log_of: &School| {
        let prepared = school.world.model.prepare(&commands).look(&log_of.world.log).expect("memory can be read");
        let watched = WatchedLog::new(&school.world.log);
        let (mut draft, mut replies) = (school.world.log.draft(Timestamp::ZERO), Vec::new());
        let at = draft.at();
        let model = &school.world.model;
        let decided = model.decide_prepared(&watched, at, &commands, &prepared, &mut draft, &mut replies);
        (decided, watched.asked.into_inner().len())
    };
    assert_eq!(decide(&school, &school), (Ok(()), 0));
    let before = School { world: quire_model::memory::World { log: school.world.log.clone(), ..Default::default() } };
    school.append("Joined course:1 student:3", &[]).expect("accepted");
    let (decided, asked) = decide(&school, &before);
    let refusal = Refusal::ConditionFailed { condition: 1, position: Some(at(4)) };
    assert_eq!(decided, Err(DecideError::Refused { command: 0, refusal }), "what came since is looked at");
    assert!(asked > 0);
}
