//! Small texts for events and queries, and one store to try them on.
//!
//! An event is its type and its tags: `Joined student:1 course:2`. A query's items are joined by
//! `|`; an item is types (in capitals), tags, `*` for no constraint, and `last` for only its last
//! event: `Joined,Left course:2 | * last`.

use quire_events::{
    Append, AppendResult, Command, Condition, EventPosition, EventView, Events, NewEvent, Query, QueryItem,
    ReadOptions, Refusal,
};
use quire_model::memory::World;
use quire_model::{DecideError, Timestamp};

/// The store that texts are about.
pub(crate) const STORE: &str = "school/courses";

/// An event from its text.
pub(crate) fn event(text: &str) -> NewEvent<'_> {
    let mut words = text.split_whitespace();
    let event = NewEvent::new(words.next().expect("a type"));
    words.fold(event, |event, tag| event.tag(tag))
}

/// A query from its text; no text is a query without items.
pub(crate) fn query(text: &str) -> Query<'_> {
    let items = text.split('|').filter(|item| !item.trim().is_empty());
    items.fold(Query::default(), |query, item| query.or(self::item(item)))
}

fn item(text: &str) -> QueryItem<'_> {
    let mut item = QueryItem::new();
    for word in text.split_whitespace() {
        item = match word {
            "*" => item,
            "last" => item.only_last_event(),
            word if word.starts_with(char::is_uppercase) => {
                word.split(',').fold(item, |item, event_type| item.event_type(event_type))
            }
            tag => item.tag(tag),
        };
    }
    item
}

/// A position.
pub(crate) fn at(number: u64) -> EventPosition {
    EventPosition::new(number)
}

/// One append to [`STORE`].
pub(crate) fn append<'c>(events: Vec<NewEvent<'c>>, conditions: Vec<Condition<'c>>) -> Command<'c> {
    Command::Append(Append { store: STORE, events, conditions })
}

/// Event stores over a log in memory.
#[derive(Default)]
pub(crate) struct School {
    /// The log and the model.
    pub(crate) world: World<Events>,
}

impl School {
    /// A store with these events: one line is one event in its own commit.
    pub(crate) fn with(events: &str) -> School {
        let mut school = School::default();
        for line in events.lines().filter(|line| !line.trim().is_empty()) {
            school.append(line, &[]).expect("an event without conditions is accepted");
        }
        school
    }

    /// Commits these commands together. A second passes before each commit.
    pub(crate) fn commit(&mut self, commands: &[Command<'_>]) -> Result<Vec<AppendResult>, (usize, Refusal)> {
        let time = Timestamp::from_millis((self.world.log.tail().get() + 1) * 1_000);
        self.world.commit(time, commands).map_err(|denied| match denied {
            DecideError::Refused { command, refusal } => (command, refusal),
            DecideError::Unreadable(error) => panic!("{error}"),
        })
    }

    /// Appends the events of these lines in one commit.
    pub(crate) fn append(&mut self, lines: &str, conditions: &[Condition<'_>]) -> Result<AppendResult, Refusal> {
        let events = lines.lines().filter(|line| !line.trim().is_empty()).map(event).collect();
        self.append_events(events, conditions)
    }

    /// Appends these events in one commit.
    pub(crate) fn append_events(
        &mut self,
        events: Vec<NewEvent<'_>>,
        conditions: &[Condition<'_>],
    ) -> Result<AppendResult, Refusal> {
        let replies = self.commit(&[append(events, conditions.to_vec())]).map_err(|(_, refusal)| refusal)?;
        Ok(replies[0])
    }

    /// Reads [`STORE`], passes the events to `visit`, and returns the head.
    pub(crate) fn read(
        &self,
        asked: &Query<'_>,
        options: ReadOptions,
        mut visit: impl FnMut(EventView<'_>),
    ) -> EventPosition {
        let selection = self.world.model.select(STORE, asked).expect("the query can be asked");
        let mut reading = selection.read(&self.world.log, options).expect("memory can be read");
        for event in &mut reading {
            visit(event.expect("memory can be read"));
        }
        reading.head()
    }

    /// The positions that a read gives, as a text: `1 2 3`.
    pub(crate) fn positions(&self, asked: &str, options: ReadOptions) -> String {
        let mut positions = Vec::new();
        self.read(&query(asked), options, |event| positions.push(event.position.to_string()));
        positions.join(" ")
    }
}
