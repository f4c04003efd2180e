//! Server-sent events on their way to a client: read ahead of what it takes by a bounded number of bytes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::adapters::Map;
use tokio_stream::wrappers::ReceiverStream;

use crate::answer::text_of;

/// So many bytes of events wait for a client at most, and an event that is larger waits alone ...
const WAITING_BYTES_MAX: usize = 256 << 10;

/// ... and at most so many events.
const WAITING_EVENTS_MAX: usize = 256;

/// After how much silence a comment says that the connection is alive, in seconds.
const KEEPALIVE_S: u64 = 15;

/// The answer to who asks for events.
pub(crate) type Answer = Sse<KeepAliveStream<Map<ReceiverStream<Waiting>, fn(Waiting) -> Result<Event, Infallible>>>>;

/// An event to be sent.
#[derive(Debug)]
pub(crate) struct Message {
    /// What a client that comes back names as the last one it has.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// Without line breaks.
    pub(crate) data: String,
}

/// Where events go to.
#[derive(Debug)]
pub(crate) struct Outlet {
    events: mpsc::Sender<Waiting>,
    room: Arc<Semaphore>,
}

/// An event that waits, and its bytes of the room.
#[derive(Debug)]
pub(crate) struct Waiting {
    event: Event,
    _room: OwnedSemaphorePermit,
}

impl Message {
    /// One that no client goes on behind.
    pub(crate) fn passing(name: &str, data: &impl Serialize) -> Self {
        Message { id: None, name: name.to_owned(), data: text_of(data) }
    }
}

/// An answer, and where its events are put in.
pub(crate) fn channel() -> (Outlet, Answer) {
    let (events, waiting) = mpsc::channel(WAITING_EVENTS_MAX);
    // An event leaves the room when it is taken to be written.
    let taken: fn(Waiting) -> Result<Event, Infallible> = |waiting| Ok(waiting.event);
    let stream = ReceiverStream::new(waiting).map(taken);
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(KEEPALIVE_S));
    (Outlet { events, room: Arc::new(Semaphore::new(WAITING_BYTES_MAX)) }, Sse::new(stream).keep_alive(keep_alive))
}

impl Outlet {
    /// Sends an event, when there is room for it. `false` when the client has left.
    pub(crate) async fn send(&self, Message { id, name, data }: Message) -> bool {
        let bytes = u32::try_from(data.len().clamp(1, WAITING_BYTES_MAX)).expect("few");
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(bytes) => room.expect("the semaphore is never closed"),
            () = self.closed() => return false,
        };
        let event = id.into_iter().fold(Event::default(), Event::id).event(name).data(data);
        self.events.send(Waiting { event, _room: room }).await.is_ok()
    }

    /// Ready when the client has left.
    pub(crate) async fn closed(&self) {
        self.events.closed().await;
    }
}
