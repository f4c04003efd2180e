//! An event store, by name.

use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;

use quire_model::{Operation, Resource, ResourceKind, Timestamp};
use quire_shard::Commands;

use crate::ReadView;
use crate::database::Database;
use crate::events::{
    Append, AppendResult, Attempts, Command, Condition, EventId, EventPosition, EventView, NewEvent, PutSubscription,
    Query, ReadOptions, Subscription as NamedSubscription,
};
use crate::handles::commit_one;
use crate::handles::projection::{Project, ProjectedState};
use crate::handles::saved_projection::SavedProjection;
use crate::handles::subscription::Subscription;
use crate::ticket::Ticket;
use crate::{Error, ErrorKind, Result};

/// An event store. See [`Database::events`].
///
/// ```
/// use quire::events::{NewEvent, Query, QueryItem, ReadOptions};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let (store, wanted) = (db.events("orders"), 17);
/// for order in [17, 18] {
///     store.append([NewEvent::new("OrderPlaced").tag(format!("order:{order}"))])?;
/// }
/// let query = Query::from(QueryItem::new().tag(format!("order:{wanted}")));
/// let read = store.read(&query, ReadOptions::default())?;
/// assert_eq!((read.events.len(), read.head.get()), (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct EventStore {
    database: Database,
    name: Arc<str>,
}

/// An event, copied out of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The event's position in its store.
    pub position: EventPosition,
    /// The event's id, given by the client or derived.
    pub id: EventId,
    /// When the event was recorded.
    pub time: Timestamp,
    /// The event's type.
    pub event_type: String,
    /// The event's tags.
    pub tags: Vec<Vec<u8>>,
    /// The event's metadata.
    pub metadata: Vec<u8>,
    /// The event's data.
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

/// The result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// The events, in the requested order.
    pub events: Vec<Event>,
    /// The last position of the store at the time of the read. A condition on this read checks for
    /// events `after` it.
    pub head: EventPosition,
}

impl EventStore {
    pub(crate) fn new(database: &Database, name: &str) -> Self {
        EventStore { database: database.clone(), name: name.into() }
    }

    /// Appends events, and waits until they are durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] and the errors of [`Database::commit`].
    pub fn append<'c>(&self, events: impl IntoIterator<Item = NewEvent<'c>>) -> Result<AppendResult> {
        self.append_if(events, [])
    }

    /// Appends events if every condition holds, and waits until they are durable.
    ///
    /// ```
    /// use quire::ErrorKind;
    /// use quire::events::{Condition, NewEvent, QueryItem};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (store, name) = (db.events("accounts"), "ada");
    /// let tag = format!("username:{name}");
    /// let register = || {
    ///     let taken = QueryItem::new().event_type("Registered").tag(tag.as_str());
    ///     store.append_if([NewEvent::new("Registered").tag(tag.as_str())], [Condition::fail_if_matches(taken)])
    /// };
    /// register()?;
    /// assert_eq!(register().unwrap_err().kind(), ErrorKind::Refused);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when a condition does not hold, and the errors of
    /// [`Database::commit`].
    pub fn append_if<'c>(
        &self,
        events: impl IntoIterator<Item = NewEvent<'c>>,
        conditions: impl IntoIterator<Item = Condition<'c>>,
    ) -> Result<AppendResult> {
        let command = Command::Append(Append {
            store: &self.name,
            events: events.into_iter().collect(),
            conditions: conditions.into_iter().collect(),
        });
        let commands = Commands { events: slice::from_ref(&command), ..Commands::default() };
        commit_one(&self.database, &commands, |replies| &mut replies.events)
    }

    /// Appends events if every condition holds, without waiting.
    pub(super) fn submit_if<'c>(
        &self,
        events: impl IntoIterator<Item = NewEvent<'c>>,
        conditions: impl IntoIterator<Item = Condition<'c>>,
    ) -> Result<Ticket<std::result::Result<Vec<AppendResult>, crate::CommitRefusal>>> {
        let commands = [Command::Append(Append {
            store: &self.name,
            events: events.into_iter().collect(),
            conditions: conditions.into_iter().collect(),
        })];
        let ticket = self.database.decide(Commands { events: &commands, ..Commands::default() })?;
        Ok(ticket.map(|verdict| verdict.map(|(_, replies)| replies.events)))
    }

    /// Reads events, copied.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid query, [`ErrorKind::Damaged`], [`ErrorKind::Io`].
    pub fn read(&self, query: &Query<'_>, options: ReadOptions) -> Result<Events> {
        let mut events = Vec::new();
        let head = self.visit(query, options, |event| events.push(event.into()))?;
        Ok(Events { events, head })
    }

    /// Passes events to `visit` in place, one after the other, while writers continue. Returns the
    /// last position of the store at the time of the read.
    ///
    /// ```
    /// use quire::events::{NewEvent, Query, ReadOptions};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let store = db.events("orders");
    /// store.append((1..=3).map(|order| NewEvent::new("OrderPlaced").data(format!("{order}"))))?;
    /// let mut bytes = 0;
    /// store.visit(&Query::all(), ReadOptions { backwards: true, ..ReadOptions::default() }, |event| {
    ///     bytes += event.data.len();
    /// })?;
    /// assert_eq!(bytes, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`EventStore::read`].
    pub fn visit(
        &self,
        query: &Query<'_>,
        options: ReadOptions,
        mut visit: impl FnMut(EventView<'_>),
    ) -> Result<EventPosition> {
        let look = |view: &ReadView<'_>| view.events.select(&self.name, query);
        let selection = self.database.read_published_for(self.resource(), Operation::Read, look)?;
        let selection = selection.map_err(|refusal| Error::new(ErrorKind::Invalid, refusal.to_string()))?;
        let (mut options, mut head) = (options, None);
        loop {
            let history = self.database.history();
            let reading = selection.read(&history, options)?;
            let head = *head.get_or_insert(reading.head());
            let (mut given, mut last) = (0, None);
            reading.visit(&mut |event| {
                let position = event.position;
                visit(event);
                given += 1;
                if !history.holds_too_much() {
                    return ControlFlow::Continue(());
                }
                last = Some(position);
                ControlFlow::Break(())
            })?;
            // This reader releases its unpacked records. Another reader continues after it, to the
            // same end.
            let Some(last) = last else { return Ok(head) };
            options.go_on(last, given);
            options.up_to = options.up_to.or(Some(head));
        }
    }

    /// Folds events into states in one pass. Returns the states and an append condition for
    /// decisions based on them.
    ///
    /// ```
    /// use quire::Projection;
    /// use quire::events::{NewEvent, QueryItem};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (store, number) = (db.events("courses"), 101);
    /// let course = format!("course:{number}");
    /// let seats = QueryItem::new().event_type("Subscribed").tag(course.clone());
    /// let taken = store.project(Projection::new(seats, 0, |taken, _| *taken += 1))?;
    /// if taken.state < 10 {
    ///     // Refused when another writer subscribed since the read.
    ///     store.append_if([NewEvent::new("Subscribed").tag(course)], [taken.condition])?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`EventStore::read`].
    pub fn project<P: Project>(&self, mut projection: P) -> Result<ProjectedState<P::State>> {
        let mut query = Query::default();
        projection.ask(&mut query);
        let head = self.visit(&query, ReadOptions::default(), |event| projection.see(&event))?;
        let condition = Condition::fail_if_matches_after(query.every_match(), head);
        Ok(ProjectedState { state: projection.end(), condition, head })
    }

    /// Subscribes to the events that match, after a position: past events first, then new events.
    ///
    /// An item with `only_last_event` returns, each time, the last of its new events.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid query. [`ErrorKind::Invalid`] for a position beyond
    /// the end of the store, which belongs to another store. The errors of [`EventStore::head`].
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
    pub fn subscribe<'q>(&self, query: impl Into<Query<'q>>, after: EventPosition) -> Result<Subscription> {
        Subscription::new(&self.database, &self.name, query.into().into_owned(), after)
    }

    /// Creates or changes a named subscription. Matching events become jobs of the queue of the
    /// same name, one job for each event.
    ///
    /// Delivery starts after position `after`. For [`None`], a new subscription starts at the first
    /// event, and an existing subscription keeps its position. Workers of the queue compete for the
    /// jobs. Leases, attempts, dead letters, limits and pauses are those of the queue.
    ///
    /// The payload of such a job is an [`EventRef`](crate::EventRef), and its kind is the event's
    /// type. [`Queue::fetch_events`](crate::Queue::fetch_events) returns the events themselves.
    /// Delivery pauses while the queue is long, and no writer waits for it.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] for an invalid name, query or number of attempts. The errors of
    /// [`Database::commit`].
    ///
    /// # Example
    /// ```
    /// use quire::events::{Attempts, NewEvent, Query};
    /// use quire::{Database, Durability};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// db.events("school").put_subscription("mailer", Query::all(), None, Attempts::default())?;
    /// db.events("school").append([NewEvent::new("Joined").tag("student:1")])?;
    ///
    /// let queue = db.queue("mailer");
    /// let delivered = loop {
    ///     let seen = db.published();
    ///     match queue.fetch_events("worker-1", 10)?.pop() {
    ///         Some(delivered) => break delivered,
    ///         None => drop(db.wait_after(seen, std::time::Duration::from_secs(1))?),
    ///     }
    /// };
    /// assert_eq!(delivered.event.expect("it is there").event_type, "Joined");
    /// queue.ack(delivered.job.job, delivered.job.token, b"")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_subscription<'q>(
        &self,
        name: &str,
        query: impl Into<Query<'q>>,
        after: Option<EventPosition>,
        attempts: Attempts<'q>,
    ) -> Result<()> {
        let put = PutSubscription { store: &self.name, name, query: query.into(), after, attempts };
        self.change(Command::PutSubscription(put))
    }

    /// Deletes all events up to a position. Later reads and conditions no longer see them. A
    /// compaction frees their disk space.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the store does not exist, or its last position is before
    /// `up_to`. The errors of [`Database::commit`].
    pub fn trim(&self, up_to: EventPosition) -> Result<()> {
        self.change(Command::Trim { store: &self.name, up_to })
    }

    /// Erases all events with a tag that were appended before this call. Reads, conditions and ids
    /// treat them at once as if they had never existed.
    ///
    /// The compaction of a segment erases them from disk. [`Database::compact`] does so now, except
    /// in the last segment. Older backups still contain these events. Saved projections, messages
    /// and jobs made from them stay.
    ///
    /// ```
    /// use quire::events::{NewEvent, Query, ReadOptions};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (store, customer) = (db.events("accounts"), 17);
    /// let tag = format!("customer:{customer}");
    /// store.append([NewEvent::new("Registered").tag(tag.as_str()).data("ada")])?;
    /// store.forget(&tag)?;
    /// assert!(store.read(&Query::all(), ReadOptions::default())?.events.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the store does not exist, the tag is invalid, or the store has
    /// forgotten too many tags. The errors of [`Database::commit`].
    pub fn forget(&self, tag: impl AsRef<[u8]>) -> Result<()> {
        self.change(Command::Forget { store: &self.name, tag: tag.as_ref() })
    }

    /// Sets how long the store keeps events, by their times. `None`, the default, keeps them
    /// forever. Older events are deleted within a minute.
    ///
    /// # Errors
    /// The errors of [`Database::commit`].
    pub fn set_retention(&self, kept: Option<std::time::Duration>) -> Result<()> {
        let retention_ms = kept.map(|kept| u64::try_from(kept.as_millis()).unwrap_or(u64::MAX - 1));
        self.change(Command::SetRetention { store: &self.name, retention_ms })
    }

    /// Removes a named subscription. Jobs that it delivered stay in the queue.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the subscription does not exist, and the errors of
    /// [`Database::commit`].
    pub fn drop_subscription(&self, name: &str) -> Result<()> {
        self.change(Command::DropSubscription { name })
    }

    /// Returns the named subscriptions of the store, by name.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn subscriptions(&self) -> Result<Vec<(String, NamedSubscription)>> {
        let look = |view: &ReadView<'_>| {
            let of_store = view.events.store(&self.name);
            let own = view.events.subscriptions().filter(|(_, found)| Some(found.store) == of_store);
            own.map(|(name, found)| (name.to_owned(), found.clone())).collect()
        };
        self.database.read_for(self.resource(), Operation::Describe, look)?.wait()
    }

    /// Returns the projection saved under `name`, which can be updated and read.
    pub fn projection(&self, name: &str) -> SavedProjection {
        SavedProjection::new(self.clone(), name)
    }

    /// Returns the saved projections of the store, by name: the version of each, and its last
    /// event.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn projections(&self) -> Result<Vec<(String, crate::events::SavedProjection)>> {
        let look = |view: &ReadView<'_>| {
            let store = view.events.store(&self.name);
            let saved = store.into_iter().flat_map(|store| view.events.projections(store));
            saved.map(|(name, saved)| (name.to_owned(), saved)).collect()
        };
        self.database.read_for(self.resource(), Operation::Describe, look)?.wait()
    }

    /// Returns the event at a position. `None` when the position has no event, or no longer has
    /// one.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`].
    pub fn event_at(&self, position: EventPosition) -> Result<Option<Event>> {
        let look = |view: &ReadView<'_>| {
            let found = view.events.event_at(view.history, &self.name, position);
            found.map(|event| event.map(Event::from))
        };
        Ok(self.database.read_published_for(self.resource(), Operation::Read, look)??)
    }

    /// Commits a command to the store whose reply has no content.
    pub(super) fn change(&self, command: Command<'_>) -> Result<()> {
        let commands = Commands { events: slice::from_ref(&command), ..Commands::default() };
        commit_one(&self.database, &commands, |replies| &mut replies.events).map(|_| ())
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    pub(super) fn resource(&self) -> Resource<'_> {
        Resource::new(ResourceKind::Store, &self.name)
    }

    /// Returns the name of the store.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how far the store has read a source. `None` when it has never read the source. See
    /// [`Commit::upstream`](crate::Commit::upstream).
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn upstream(&self, source: &str) -> Result<Option<u64>> {
        let look = |view: &ReadView<'_>| view.events.upstream(&self.name, source);
        self.database.read_for(self.resource(), Operation::Describe, look)?.wait()
    }

    /// Returns the last position of the store. Zero when the store is empty or does not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`].
    pub fn head(&self) -> Result<EventPosition> {
        let look = |view: &ReadView<'_>| view.events.head(view.history, &self.name);
        Ok(self.database.read_published_for(self.resource(), Operation::Describe, look)??)
    }
}
