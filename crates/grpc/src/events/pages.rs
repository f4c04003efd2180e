//! Reads and subscriptions, a page at a time, each from where the previous one ended.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prost::Message;
use quire::events::{EventPosition, EventView, Query, ReadOptions, Selection};
use quire::{Database, EventStore, Operation, ReadError, ReadView, Resource, ResourceKind, StepBudget, Subscription};
use quire_access::BoundedRequest;
use tonic::Status;

use super::request::query;
use crate::app::App;
use crate::error::{failed, select_refused, too_costly_so_far};
use crate::pages::{PAGE_BYTES, PAGE_ITEMS_MAX, PageStream, PagedResult, stream, stream_later};
use crate::proto::{
    Event, EventQuery, ReadEventsRequest, ReadEventsResponse, SubscribeEventsRequest, SubscribeEventsResponse,
};

/// An event that would bring a page beyond this size in bytes begins the next page. So a message is
/// well below 4 MiB, the default limit of clients, or it has one event.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// The most bytes of an event's other fields and of their framing in a message.
const FRAMING_BYTES: usize = 64;

/// After how many events without a match a subscription reports its position.
const TOLD_AFTER_EVENTS: u64 = 1_000;

/// The position of a read.
#[derive(Debug)]
struct StoreCursor {
    store: String,
    query: Query<'static>,
    options: ReadOptions,
}

/// A page, and facts about the store.
#[derive(Debug)]
struct StorePage {
    events: Vec<Event>,
    /// The store's last event when the page was read.
    head: EventPosition,
    /// Whether more events match after the page.
    more: bool,
}

impl StoreCursor {
    fn new(store: String, asked: Option<&EventQuery>, options: ReadOptions) -> Self {
        let query = asked.map_or_else(Query::all, |asked| query(asked).into_owned());
        StoreCursor { store, query, options }
    }

    /// Reads the next page, and advances past it.
    fn page(&mut self, database: &Database) -> Result<StorePage, Status> {
        let resource = Resource::new(ResourceKind::Store, &self.store);
        let look = |view: &ReadView<'_>| view.events.select(&self.store, &self.query);
        let selection = database.read_published_for(resource, Operation::Read, look);
        let selection = selection.map_err(failed)?.map_err(|refusal| select_refused(&refusal))?;
        let history = database.history();
        let unreadable = |error| failed(quire::Error::from(error));
        let mut reading = selection.read(&history, self.options).map_err(unreadable)?;
        let (mut messages, mut bytes, mut more) = (EventBuffer::default(), 0, false);
        let mut too_much = false;
        loop {
            let event = match reading.next().transpose() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                // The events before a damaged one are sent; the next page reports it.
                Err(_) if !messages.events.is_empty() => {
                    more = true;
                    break;
                }
                Err(error) => return Err(self.unread_page(database, &selection, error)),
            };
            let event_bytes = message_bytes(&event);
            let is_full = bytes >= PAGE_BYTES || bytes + event_bytes > PAGE_BYTES_MAX && bytes > 0;
            if is_full || messages.events.len() == PAGE_ITEMS_MAX || too_much {
                more = true;
                break;
            }
            bytes += event_bytes;
            messages.push(&event);
            // The data that is decompressed for this page is released with it.
            too_much = history.holds_too_much();
        }
        let page = StorePage { events: messages.events, head: reading.head(), more };
        if let Some(last) = page.events.last() {
            self.options.go_on(EventPosition::new(last.position), page.events.len() as u64);
        }
        Ok(page)
    }

    /// The status of a page without events. If the read exceeded its steps, the status names the
    /// position from which the next read continues.
    fn unread_page(&self, database: &Database, selection: &Selection, error: ReadError) -> Status {
        let (reached, mut options) = (error.reached_place(), self.options);
        let error = quire::Error::from(error);
        let history = database.within(StepBudget::unbounded()).history();
        let resumed = reached.map(|reached| selection.resume_at(&history, &mut options, reached));
        // With a smaller `up_to`, an item may have another last event.
        let has_last = self.query.items.iter().any(|item| item.only_last_event);
        match (resumed, options.before) {
            (Some(Ok(true)), Some(before)) if options.backwards && !has_last => {
                too_costly_so_far(&error, "up_to", before.get().saturating_sub(1))
            }
            (Some(Ok(true)), _) if !options.backwards => too_costly_so_far(&error, "after", options.after.get()),
            _ => failed(error),
        }
    }
}

/// The bytes of an event in a message, rounded up.
fn message_bytes(event: &EventView<'_>) -> usize {
    let tags: usize = event.tags().map(|tag| tag.len() + 4).sum();
    event.data.len() + event.metadata.len() + event.event_type.len() + tags + FRAMING_BYTES
}

/// The number of events from the first on that fit in one message; at least one, if there is any.
fn fitting(events: &[Event]) -> usize {
    let mut bytes = 0;
    let fits = |event: &&Event| {
        let before = bytes;
        bytes += event.encoded_len();
        before == 0 || bytes <= PAGE_BYTES_MAX
    };
    events.iter().take_while(fits).count()
}

/// The events of a page, copied out of the log. Their data is in a few long buffers: an allocation
/// for each tag would cost more than everything else.
#[derive(Debug, Default)]
struct EventBuffer {
    events: Vec<Event>,
    buffer: BytesMut,
}

/// The length of such a buffer.
const BUFFER_BYTES: usize = 16 << 10;

impl EventBuffer {
    fn push(&mut self, event: &EventView<'_>) {
        let message = Event {
            position: event.position.get(),
            id: self.copied(event.id().as_bytes()),
            r#type: event.event_type.to_owned(),
            tags: event.tags().map(|tag| self.copied(tag)).collect(),
            data: self.copied(event.data),
            metadata: self.copied(event.metadata),
            time_us: event.time.as_micros(),
        };
        self.events.push(message);
    }

    fn copied(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        if self.buffer.capacity() < bytes.len() {
            self.buffer = BytesMut::with_capacity(bytes.len().max(BUFFER_BYTES));
        }
        self.buffer.extend_from_slice(bytes);
        self.buffer.split().freeze()
    }
}

/// An event copied out of the log.
pub(crate) fn message_of(event: quire::Event) -> Event {
    Event {
        position: event.position.get(),
        id: Bytes::copy_from_slice(event.id.as_bytes()),
        r#type: event.event_type,
        tags: event.tags.into_iter().map(Bytes::from).collect(),
        data: Bytes::from(event.data),
        metadata: Bytes::from(event.metadata),
        time_us: event.time.as_micros(),
    }
}

/// The pages of a read, up to the current head of the store.
struct ReadPages {
    cursor: StoreCursor,
    /// The head of the store at the first page; `None` before it.
    head: Option<EventPosition>,
    is_over: bool,
}

impl PagedResult for ReadPages {
    type Page = ReadEventsResponse;

    fn next(&mut self, app: &App) -> Result<Option<ReadEventsResponse>, Status> {
        if self.is_over {
            return Ok(None);
        }
        let page = self.cursor.page(app.database())?;
        self.is_over = !page.more;
        let head = *self.head.get_or_insert(page.head);
        // Events appended from now on are not part of this read.
        self.cursor.options.up_to = Some(self.cursor.options.up_to.map_or(head, |up_to| up_to.min(head)));
        Ok(Some(ReadEventsResponse { events: page.events, head: head.get() }))
    }
}

/// Starts a read.
pub(super) async fn read(app: Arc<App>, request: ReadEventsRequest) -> Result<PageStream<ReadEventsResponse>, Status> {
    let options = ReadOptions {
        after: EventPosition::new(request.after),
        up_to: request.up_to.map(EventPosition::new),
        before: None,
        backwards: request.backwards,
        limit: request.limit,
    };
    let cursor = StoreCursor::new(request.store, request.query.as_ref(), options);
    stream(app, ReadPages { cursor, head: None, is_over: false }).await
}

/// The pages of a subscription, which does not end by itself.
struct SubscriptionPages {
    store: EventStore,
    query: Query<'static>,
    subscription: Subscription,
    /// The last reported position.
    told: Option<u64>,
    is_caught_up: bool,
}

impl PagedResult for SubscriptionPages {
    type Page = SubscribeEventsResponse;

    fn next(&mut self, _app: &App) -> Result<Option<SubscribeEventsResponse>, Status> {
        if self.is_caught_up {
            return Ok(None);
        }
        let mut messages = EventBuffer::default();
        let looked = self.subscription.visit_next(PAGE_ITEMS_MAX, PAGE_BYTES, |event| messages.push(&event));
        self.is_caught_up = looked.map_err(failed)?.is_caught_up;
        let mut events = messages.events;
        let fitting = fitting(&events);
        if fitting < events.len() {
            // The next page begins with the event that does not fit.
            events.truncate(fitting);
            let last = EventPosition::new(events[fitting - 1].position);
            self.subscription = self.store.subscribe(self.query.clone(), last).map_err(failed)?;
            self.is_caught_up = false;
        }
        let caught_up = self.is_caught_up.then(|| self.subscription.after().get());
        let is_far = |head: u64| self.told.is_none_or(|told| head >= told + TOLD_AFTER_EVENTS);
        if events.is_empty() && !caught_up.is_some_and(is_far) {
            return Ok(None);
        }
        self.told = caught_up.or(self.told);
        Ok(Some(SubscribeEventsResponse { events, caught_up }))
    }

    async fn more(&mut self, _app: &App) -> Result<bool, Status> {
        if self.is_caught_up {
            self.subscription.next_publication().await.map_err(failed)?;
            self.is_caught_up = false;
        }
        Ok(true)
    }
}

/// Starts a subscription.
pub(super) fn subscribe(
    app: Arc<App>,
    request: SubscribeEventsRequest,
) -> Result<PageStream<SubscribeEventsResponse>, Status> {
    let query = request.query.as_ref().map_or_else(Query::all, query).into_owned();
    // Without a bound in all: it waits for events.
    let watched = BoundedRequest::unbounded(app.database());
    let store = watched.database().events(&request.store);
    let subscription = store.subscribe(query.clone(), EventPosition::new(request.after)).map_err(failed)?;
    let pages = SubscriptionPages { store, query, subscription, told: None, is_caught_up: false };
    Ok(stream_later(app, watched, pages))
}
