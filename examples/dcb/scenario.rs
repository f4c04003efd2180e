//! The shared parts of the examples: fields in an event's data, and the form of the scenarios.
//!
//! An event is a line: its type, its tags, and, after `|`, its data, as `name=value` words. In a
//! scenario it may begin with its age, such as `61m`.

use quire::events::{AppendResult, EventView};

/// The result of a decision: the events' positions, or the reason of a rejection.
pub(crate) type Answer = quire::Result<Result<AppendResult, String>>;

/// The value of a field in an event's data; empty when it has none.
pub(crate) fn field<'e>(event: &EventView<'e>, name: &str) -> &'e str {
    let data = std::str::from_utf8(event.data).unwrap_or_default();
    let named = |word: &'e str| word.split_once('=').filter(|(found, _)| *found == name).map(|(_, value)| value);
    data.split(' ').find_map(named).unwrap_or_default()
}

/// The value of a field that is a number; 0 when it has none.
pub(crate) fn number(event: &EventView<'_>, name: &str) -> u64 {
    field(event, name).parse().unwrap_or_default()
}

#[cfg(test)]
pub(crate) use tests::{check, with_store};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quire::events::{NewEvent, Query, ReadOptions};
    use quire::{Clock, Database, Durability, EventStore, ManualClock, Timestamp};

    use super::Answer;

    /// The current time of every scenario.
    const NOW_MICROS: u64 = 1_790_000_000_000_000;
    const MINUTE_MICROS: u64 = 60_000_000;

    /// Runs a decision in a store of its own that holds these events.
    pub(crate) fn with_store(given: &str, play: impl FnOnce(&Database, &EventStore)) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let lines: Vec<_> = given.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let ago = |line: &str| {
            let first = line.split(' ').next().and_then(|word| word.strip_suffix('m'));
            first.and_then(|minutes| minutes.parse::<u64>().ok())
        };
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(NOW_MICROS - 1_000_000 * MINUTE_MICROS)));
        let theirs: Arc<dyn Clock> = clock.clone();
        let database =
            Database::builder(folder.path()).durability(Durability::Os).clock(theirs).open().expect("opened");
        let store = database.events("store");
        for line in lines {
            let minutes = ago(line);
            clock.set(Timestamp::from_micros(NOW_MICROS - minutes.unwrap_or(0) * MINUTE_MICROS));
            let line = if minutes.is_some() { line.split_once(' ').expect("an event").1 } else { line };
            let (head, data) = line.split_once(" |").unwrap_or((line, ""));
            let mut words = head.split(' ');
            let event = NewEvent::new(words.next().expect("a type")).data(data.trim());
            store.append([words.fold(event, |event, tag| event.tag(tag))]).expect("it has happened");
        }
        clock.set(Timestamp::from_micros(NOW_MICROS));
        play(&database, &store);
    }

    /// Checks a scenario: given these events, the decision appends those events, or is rejected for
    /// this reason.
    #[track_caller]
    pub(crate) fn check(given: &str, when: impl Fn(&EventStore, Timestamp) -> Answer, then: Result<&str, &str>) {
        with_store(given, |database, store| {
            let before = store.head().expect("readable");
            let answer = when(store, database.now()).expect("no error");
            let options = ReadOptions { after: before, ..ReadOptions::default() };
            let mut appended = Vec::new();
            let line = |event: quire::events::EventView<'_>| {
                let words = event.tags().map(|tag| format!(" {}", String::from_utf8_lossy(tag)));
                let head: String = std::iter::once(event.event_type.to_owned()).chain(words).collect();
                let data = String::from_utf8_lossy(event.data);
                appended.push(if data.is_empty() { head } else { format!("{head} | {data}") });
            };
            store.visit(&Query::all(), options, line).expect("readable");
            let found = answer.map(|_| appended.join("\n"));
            assert_eq!(found.as_deref().map_err(String::as_str), then, "given\n{given}");
        });
    }
}
