//! Server-sent events: a bounded number of bytes is buffered ahead of the client.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::adapters::Map;
use tokio_stream::wrappers::ReceiverStream;

use crate::response::text_of;

/// Maximum bytes of buffered events; a larger event is buffered alone.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Maximum number of buffered events.
const WAITING_EVENTS_MAX: usize = 256;

/// After how many seconds of silence a comment keeps the connection alive.
const KEEPALIVE_S: u64 = 15;

/// The response to a subscription.
pub(crate) type SseResponse =
    Sse<KeepAliveStream<Map<ReceiverStream<BufferedMessage>, fn(BufferedMessage) -> Result<Event, Infallible>>>>;

/// An event to be sent.
#[derive(Debug)]
pub(crate) struct SseMessage {
    /// The `Last-Event-ID` of a client that reconnects.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// Contains no line breaks.
    pub(crate) data: String,
}

/// Where events are sent to.
#[derive(Debug)]
pub(crate) struct Outlet {
    events: mpsc::Sender<BufferedMessage>,
    room: Arc<Semaphore>,
}

/// A buffered event, and its share of the buffer.
#[derive(Debug)]
pub(crate) struct BufferedMessage {
    event: Event,
    _room: OwnedSemaphorePermit,
}

impl SseMessage {
    /// An event without an id: no client resumes after it.
    pub(crate) fn passing(name: &str, data: &impl Serialize) -> Self {
        SseMessage { id: None, name: name.to_owned(), data: text_of(data) }
    }
}

/// Creates a response, and the sender of its events.
pub(crate) fn channel() -> (Outlet, SseResponse) {
    let (events, waiting) = mpsc::channel(WAITING_EVENTS_MAX);
    // An event leaves the buffer when it is taken for writing.
    let taken: fn(BufferedMessage) -> Result<Event, Infallible> = |waiting| Ok(waiting.event);
    let stream = ReceiverStream::new(waiting).map(taken);
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(KEEPALIVE_S));
    (Outlet { events, room: Arc::new(Semaphore::new(WAITING_BYTES_MAX)) }, Sse::new(stream).keep_alive(keep_alive))
}

impl Outlet {
    /// Sends an event, when the buffer has space. `false` when the client has disconnected.
    pub(crate) async fn send(&self, SseMessage { id, name, data }: SseMessage) -> bool {
        let bytes = u32::try_from(data.len().clamp(1, WAITING_BYTES_MAX)).expect("few");
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(bytes) => room.expect("the semaphore is never closed"),
            () = self.closed() => return false,
        };
        let event = id.into_iter().fold(Event::default(), Event::id).event(name).data(data);
        self.events.send(BufferedMessage { event, _room: room }).await.is_ok()
    }

    /// Ready when the client has disconnected.
    pub(crate) async fn closed(&self) {
        self.events.closed().await;
    }
}
