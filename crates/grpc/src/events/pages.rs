//! Reads and subscriptions, a page at a time.
//!
//! A page is read on another thread, from where the previous one ended, and only when the client
//! has space for it. So a slow client blocks neither a thread nor a writer, and its buffered data
//! is bounded.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use quire::events::{EventPosition, EventView, Query, ReadOptions};
use quire_access::BoundedRequest;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::request::query;
use crate::app::App;
use crate::aside::aside;
use crate::error::{failed, select_refused, stopping};
use crate::proto::{
    Event, EventQuery, ReadEventsRequest, ReadEventsResponse, SubscribeEventsRequest, SubscribeEventsResponse,
};

/// A page ends with the event whose data and metadata reach this size in bytes.
const PAGE_BYTES: usize = 256 << 10;

/// Maximum number of events in a page.
const PAGE_EVENTS_MAX: usize = 1_024;

/// How many pages may wait for the client.
const PAGES_WAITING_MAX: usize = 2;

/// After how many events without a match a subscription reports its position.
const TOLD_AFTER_EVENTS: u64 = 1_000;

type StorePages<T> = mpsc::Sender<Result<T, Status>>;

/// The position of a read.
#[derive(Debug)]
struct StoreCursor {
    app: Arc<App>,
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
    fn new(app: Arc<App>, store: String, asked: Option<&EventQuery>, options: ReadOptions) -> Self {
        let query = asked.map_or_else(Query::all, |asked| query(asked).into_owned());
        StoreCursor { app, store, query, options }
    }

    /// Reads the next page, and advances past it.
    fn page(&mut self) -> Result<StorePage, Status> {
        let database = &self.app.database;
        let selection = database.read_published(|view| view.events.select(&self.store, &self.query));
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
                Err(error) => return Err(unreadable(error)),
            };
            if bytes >= PAGE_BYTES || messages.events.len() == PAGE_EVENTS_MAX || too_much {
                more = true;
                break;
            }
            bytes += event.data.len() + event.metadata.len();
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

    /// Reads the next page on another thread, within the steps of a request. The work ends when the
    /// client leaves, which drops this future.
    async fn next(mut self) -> Result<(Self, StorePage), Status> {
        let request = BoundedRequest::begin(&self.app.database);
        self.app = self.app.within(&request);
        aside(move || self.page().map(|page| (self, page))).await
    }
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
pub(super) async fn read(
    app: Arc<App>,
    request: ReadEventsRequest,
) -> Result<ReceiverStream<Result<ReadEventsResponse, Status>>, Status> {
    let options = ReadOptions {
        after: EventPosition::new(request.after),
        up_to: request.up_to.map(EventPosition::new),
        before: None,
        backwards: request.backwards,
        limit: request.limit,
    };
    let cursor = StoreCursor::new(Arc::clone(&app), request.store, request.query.as_ref(), options);
    let (mut cursor, mut page) = cursor.next().await?;
    let (pages, stream) = mpsc::channel(PAGES_WAITING_MAX);
    let head = page.head;
    // Events appended from now on are not part of this read.
    cursor.options.up_to = Some(cursor.options.up_to.map_or(head, |up_to| up_to.min(head)));
    let response = move |events| ReadEventsResponse { events, head: head.get() };
    if !page.more {
        pages.try_send(Ok(response(page.events))).expect("a new channel has room");
        return Ok(ReceiverStream::new(stream));
    }
    tokio::spawn(async move {
        let sending = async {
            loop {
                let more = page.more;
                if pages.send(Ok(response(std::mem::take(&mut page.events)))).await.is_err() || !more {
                    return;
                }
                match cursor.next().await {
                    Ok(next) => (cursor, page) = next,
                    Err(status) => return end(&pages, status).await,
                }
            }
        };
        until_closing(&app, &pages, sending).await;
    });
    Ok(ReceiverStream::new(stream))
}

/// The pages of a subscription, which does not end by itself.
pub(super) async fn subscribe(
    app: Arc<App>,
    request: SubscribeEventsRequest,
) -> Result<ReceiverStream<Result<SubscribeEventsResponse, Status>>, Status> {
    let query = request.query.as_ref().map_or_else(Query::all, query);
    // Without a bound in all: it waits for events. The work ends when the client leaves.
    let watched = BoundedRequest::unbounded(&app.database);
    let store = watched.database().events(&request.store);
    let mut subscription = store.subscribe(query, EventPosition::new(request.after)).map_err(failed)?;
    let (pages, stream) = mpsc::channel(PAGES_WAITING_MAX);
    tokio::spawn(async move {
        let _watched = watched;
        let following = async {
            let mut told = None;
            loop {
                let look = move || {
                    let mut messages = EventBuffer::default();
                    let looked = subscription.visit_next(PAGE_EVENTS_MAX, PAGE_BYTES, |event| messages.push(&event));
                    looked.map(|progress| (subscription, messages.events, progress)).map_err(failed)
                };
                let (events, progress);
                match aside(look).await {
                    Ok(found) => (subscription, events, progress) = found,
                    Err(status) => return end(&pages, status).await,
                }
                let caught_up = progress.is_caught_up.then(|| subscription.after().get());
                let is_far = |head: u64| told.is_none_or(|told| head >= told + TOLD_AFTER_EVENTS);
                if !events.is_empty() || caught_up.is_some_and(is_far) {
                    told = caught_up.or(told);
                    if pages.send(Ok(SubscribeEventsResponse { events, caught_up })).await.is_err() {
                        return;
                    }
                }
                if progress.is_caught_up {
                    tokio::select! {
                        arrived = subscription.next_publication() => if let Err(error) = arrived {
                            return end(&pages, failed(error)).await;
                        },
                        () = pages.closed() => return,
                    }
                }
            }
        };
        until_closing(&app, &pages, following).await;
    });
    Ok(ReceiverStream::new(stream))
}

/// Sends the client the reason for the end of the stream.
async fn end<T>(pages: &StorePages<T>, status: Status) {
    // A client that has disconnected needs no error.
    let _ = pages.send(Err(status)).await;
}

/// Awaits the work, or ends the stream when the server is stopping.
async fn until_closing<T>(app: &App, pages: &StorePages<T>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        // The client has left: the work of a page ends with this future.
        () = pages.closed() => {}
        () = app.closing() => {
            // A client that does not read is disconnected by the transport.
            let _ = pages.try_send(Err(stopping()));
        }
    }
}
