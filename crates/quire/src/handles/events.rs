//! An event store, by name.

use quire_model::Timestamp;

use crate::database::Database;
use crate::decide::Commands;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{
    Append, Appended, Command, Condition, EventId, EventPosition, EventView, NewEvent, Query, ReadOptions,
};
use crate::handles::only;
use crate::handles::projection::{Project, Projected};
use crate::handles::subscription::Subscription;
use crate::ticket::Ticket;

/// An event store. See [`Database::events`].
#[derive(Debug, Clone, Copy)]
pub struct EventStore<'a> {
    database: &'a Database,
    name: &'a str,
}

/// An event, copied out of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its position in its store.
    pub position: EventPosition,
    /// Its id, the client's own or derived.
    pub id: EventId,
    /// When it was recorded.
    pub time: Timestamp,
    /// Its type.
    pub event_type: String,
    /// Its tags.
    pub tags: Vec<Vec<u8>>,
    /// Its metadata.
    pub metadata: Vec<u8>,
    /// Its data.
    pub data: Vec<u8>,
}

impl From<EventView<'_>> for Event {
    fn from(event: EventView<'_>) -> Self {
        Event {
            position: event.position,
            id: event.id(),
            time: event.time,
            event_type: event.event_type.to_owned(),
            tags: event.tags().map(<[u8]>::to_vec).collect(),
            metadata: event.metadata.to_vec(),
            data: event.data.to_vec(),
        }
    }
}

/// What a read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// The events, in the order asked for.
    pub events: Vec<Event>,
    /// The last position of the store when it was read: what a condition on this read goes `after`.
    pub head: EventPosition,
}

impl<'a> EventStore<'a> {
    pub(crate) fn new(database: &'a Database, name: &'a str) -> Self {
        EventStore { database, name }
    }

    /// Appends events, and waits until they are durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn append<'c>(&self, events: impl IntoIterator<Item = NewEvent<'c>>) -> Result<Appended> {
        self.append_if(events, [])
    }

    /// Appends events if every condition holds, and waits until they are durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when one does not, and the errors of [`Database::commit`].
    pub fn append_if<'c>(
        &self,
        events: impl IntoIterator<Item = NewEvent<'c>>,
        conditions: impl IntoIterator<Item = Condition<'c>>,
    ) -> Result<Appended> {
        only(self.submit_if(events, conditions)?.wait()?)
    }

    /// Appends events if every condition holds, without waiting.
    pub(super) fn submit_if<'c>(
        &self,
        events: impl IntoIterator<Item = NewEvent<'c>>,
        conditions: impl IntoIterator<Item = Condition<'c>>,
    ) -> Result<Ticket<std::result::Result<Vec<Appended>, crate::Refused>>> {
        let append = Append {
            store: self.name,
            events: events.into_iter().collect(),
            conditions: conditions.into_iter().collect(),
        };
        let commands = [Command::Append(append)];
        let ticket = self.database.decide(Commands { events: &commands, ..Commands::default() })?;
        Ok(ticket.map(|verdict| verdict.map(|(_, replies)| replies.events)))
    }

    /// Reads events, copied.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a query that can't be asked, [`ErrorKind::Damaged`], [`ErrorKind::Io`].
    pub fn read(&self, query: &Query<'_>, options: ReadOptions) -> Result<Events> {
        let mut events = Vec::new();
        let head = self.visit(query, options, |event| events.push(event.into()))?;
        Ok(Events { events, head })
    }

    /// Reads events in place, one after the other, while writers go on; returns the last position of the store when it
    /// was read.
    ///
    /// # Errors
    /// As [`EventStore::read`].
    pub fn visit(
        &self,
        query: &Query<'_>,
        options: ReadOptions,
        mut visit: impl FnMut(EventView<'_>),
    ) -> Result<EventPosition> {
        let selection = self.database.read_published(|view| view.events.select(self.name, query))?;
        let selection = selection.map_err(|refusal| Error::new(ErrorKind::Invalid, refusal.to_string()))?;
        let history = self.database.history();
        let mut reading = selection.read(&history, options)?;
        while let Some(event) = reading.next().transpose()? {
            visit(event);
        }
        Ok(reading.head())
    }

    /// Folds events into states in one pass, and gives the condition under which a decision on them may be appended.
    ///
    /// # Errors
    /// As [`EventStore::read`].
    pub fn project<P: Project>(&self, mut projection: P) -> Result<Projected<P::State>> {
        let mut query = Query::default();
        projection.ask(&mut query);
        let head = self.visit(&query, ReadOptions::default(), |event| projection.see(&event))?;
        let condition = Condition::fail_if_matches_after(query, head);
        Ok(Projected { state: projection.end(), condition, head })
    }

    /// The events that match, behind a position: those that are there, and then those to come.
    ///
    /// An item with `only_last_event` gives, each time, the last of those that came since.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a query that can't be asked.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    ///
    /// use quire::events::{EventPosition, NewEvent, Query};
    /// use quire::{Database, Durability};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// let store = db.events("school/courses");
    /// let mut courses = store.subscribe(Query::all(), EventPosition::ZERO)?;
    /// store.append([NewEvent::new("CourseDefined").tag("course:c1")])?;
    /// let events = courses.next(Duration::from_secs(10))?;
    /// assert_eq!((events.len(), courses.after()), (1, EventPosition::new(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subscribe(&self, query: Query<'_>, after: EventPosition) -> Result<Subscription> {
        Subscription::new(self.database, self.name, query.into_owned(), after)
    }

    /// How far the store has read a source; `None` when it never has. See [`Commit::upstream`](crate::Commit::upstream).
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn upstream(&self, source: &str) -> Result<Option<u64>> {
        self.database.read(|view| view.events.upstream(self.name, source))?.wait()
    }

    /// The last position of the store; zero when it is empty or not there.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`].
    pub fn head(&self) -> Result<EventPosition> {
        Ok(self.database.read_published(|view| view.events.head(view.history, self.name))??)
    }
}
