//! A subscription: the events that match a query, from a position. It returns past events first and
//! then new events.
//!
//! A subscription reads by position alone. No event is omitted or repeated where past events end
//! and new events begin. The subscription also remembers how far it has searched without a match. A
//! slow subscriber delays no other client.

use std::time::Duration;

use quire_model::{Operation, Position, Resource, ResourceKind};

use crate::database::{Database, NextPublication};
use crate::events::{EventPosition, EventView, Query, ReadOptions};
use crate::handles::events::Event;
use crate::{Error, ErrorKind, ReadView, Result};

/// Most events that [`Subscription::next`] returns.
const BATCH_EVENTS_MAX: usize = 1_024;

/// Bytes of data and metadata that end a batch of [`Subscription::next`]. The event that reaches
/// this size is the last of the batch.
const BATCH_BYTES: usize = 1 << 20;

/// See [`EventStore::subscribe`](crate::EventStore::subscribe).
///
/// ```
/// use quire::events::{NewEvent, QueryItem};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let store = db.events("orders");
/// store.append((1..=3).map(|order| NewEvent::new("OrderPlaced").tag(format!("order:{order}"))))?;
/// let placed = QueryItem::new().event_type("OrderPlaced");
/// let mut orders = store.subscribe(placed, Default::default())?;
/// let mut tags = Vec::new();
/// let progress = orders.visit_next(100, 1 << 20, |event| tags.extend(event.tags().map(<[u8]>::to_vec)))?;
/// assert!(progress.is_caught_up);
/// assert_eq!(tags[2], b"order:3");
/// let resume_from = orders.after(); // keep it, and subscribe after it the next time
/// assert_eq!(resume_from.get(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Subscription {
    database: Database,
    store: String,
    query: Query<'static>,
    after: EventPosition,
    /// The last published position at the last read.
    seen: Position,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of events returned.
    pub events: usize,
    /// Whether the subscription returned all matching events so far.
    pub is_caught_up: bool,
}

impl Subscription {
    pub(crate) fn new(database: &Database, store: &str, query: Query<'static>, after: EventPosition) -> Result<Self> {
        let own = Resource::new(ResourceKind::Store, store);
        let look = |view: &ReadView<'_>| view.events.select(store, &query).map(|_| ());
        let selected = database.read_published_for(own, Operation::Read, look)?;
        selected.map_err(|refusal| Error::new(ErrorKind::Invalid, refusal.to_string()))?;
        let head = database.events(store).head()?;
        if after > head {
            let message = format!(
                "event {after} is ahead of the store {store}, which ends at {head}: does the position belong to another database?"
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(Subscription { database: database.clone(), store: store.to_owned(), query, after, seen: Position::ZERO })
    }

    /// Returns the position to resume from. The subscription has returned every match up to this
    /// position.
    pub fn after(&self) -> EventPosition {
        self.after
    }

    /// Passes the next available events to `visit`, in order, up to `events_max`. The event
    /// whose data and metadata bring the total to `bytes` is the last one.
    ///
    /// Returns fewer events when more of them would unpack more bytes of packed segments than the
    /// memory limit ([`Builder::unpacked_bytes_max`](crate::Builder::unpacked_bytes_max)).
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`]; no event was returned.
    /// When readable events precede an unreadable record, the next call reports the error.
    pub fn visit_next(
        &mut self,
        events_max: usize,
        bytes: usize,
        mut visit: impl FnMut(EventView<'_>),
    ) -> Result<Progress> {
        // Read before the look, so that later publications end the wait.
        self.seen = self.database.published();
        let own = Resource::new(ResourceKind::Store, &self.store);
        let look = |view: &ReadView<'_>| view.events.select(&self.store, &self.query);
        let selection = self.database.read_published_for(own, Operation::Read, look)?;
        let selection = selection.map_err(|refusal| Error::new(ErrorKind::Invalid, refusal.to_string()))?;
        let history = self.database.history();
        let options = ReadOptions { after: self.after, ..ReadOptions::default() };
        let mut reading = selection.read(&history, options)?;
        let (mut given, mut given_bytes) = (0, 0);
        while given < events_max && given_bytes < bytes {
            let event = match reading.next().transpose() {
                Ok(Some(event)) => event,
                Ok(None) => {
                    self.after = self.after.max(reading.head());
                    return Ok(Progress { events: given, is_caught_up: true });
                }
                Err(_) if given > 0 => break,
                Err(error) => return Err(error.into()),
            };
            given += 1;
            given_bytes += event.data.len() + event.metadata.len();
            self.after = event.position;
            visit(event);
            // This read releases the records that it unpacked.
            if history.holds_too_much() {
                break;
            }
        }
        Ok(Progress { events: given, is_caught_up: false })
    }

    /// Returns a future that is ready when there may be more events than at the last read.
    pub fn next_publication(&self) -> NextPublication {
        self.database.publication_after(self.seen)
    }

    /// Returns the next events, copied. Waits for events up to `at_most`; the result is empty after
    /// that time.
    ///
    /// # Errors
    /// As [`Subscription::visit_next`].
    pub fn next(&mut self, at_most: Duration) -> Result<Vec<Event>> {
        let mut left = at_most;
        loop {
            let mut events = Vec::new();
            self.visit_next(BATCH_EVENTS_MAX, BATCH_BYTES, |event| events.push(event.into()))?;
            if !events.is_empty() || left.is_zero() {
                return Ok(events);
            }
            let waited_from = self.database.now();
            if !self.database.wait_after(self.seen, left)? {
                // The time is over, whatever the database's clock says: read one last time.
                left = Duration::ZERO;
                continue;
            }
            let waited = self.database.now().as_micros().saturating_sub(waited_from.as_micros());
            left = left.saturating_sub(Duration::from_micros(waited));
        }
    }
}

/// The events of a subscription as a stream. It never ends by itself. See
/// [`Subscription::into_stream`].
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub struct EventStream {
    subscription: Subscription,
    read: std::collections::VecDeque<Event>,
    publication: Option<NextPublication>,
}

#[cfg(feature = "tokio")]
impl Subscription {
    /// Returns the subscription as a stream of events.
    ///
    /// ```
    /// use quire::events::{EventPosition, NewEvent, Query};
    /// use quire::{Database, Durability};
    /// use tokio_stream::StreamExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// let store = db.events("orders");
    /// let mut events = store.subscribe(Query::all(), EventPosition::ZERO)?.into_stream();
    /// store.append([NewEvent::new("OrderPlaced")])?;
    /// assert_eq!(events.next().await.expect("a stream without end")?.event_type, "OrderPlaced");
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_stream(self) -> EventStream {
        EventStream { subscription: self, read: std::collections::VecDeque::new(), publication: None }
    }
}

#[cfg(feature = "tokio")]
impl tokio_stream::Stream for EventStream {
    type Item = Result<Event>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Event>>> {
        use std::task::Poll;

        let EventStream { subscription, read, publication } = self.get_mut();
        loop {
            if let Some(event) = read.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(waiting) = publication {
                match std::pin::Pin::new(waiting).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(arrived) => {
                        *publication = None;
                        if let Err(error) = arrived {
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                }
            }
            let progress = subscription.visit_next(BATCH_EVENTS_MAX, BATCH_BYTES, |event| read.push_back(event.into()));
            match progress {
                Err(error) => return Poll::Ready(Some(Err(error))),
                Ok(progress) if read.is_empty() && progress.is_caught_up => {
                    *publication = Some(subscription.next_publication())
                }
                Ok(_) => {}
            }
        }
    }
}
