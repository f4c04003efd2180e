//! Server-sent events: a bounded number of bytes is buffered ahead of the client.
//!
//! A subscription claims the memory of a batch before it reads the batch, and waits for that memory
//! while it holds none. An event releases its part when it is taken for writing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use quire_access::budget::{BudgetCaller, ByteClaim};
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
    caller: BudgetCaller,
}

/// A buffered event, and its share of the buffer.
#[derive(Debug)]
pub(crate) struct BufferedMessage {
    event: Event,
    _room: OwnedSemaphorePermit,
    _claim: ByteClaim,
}

impl SseMessage {
    /// An event without an id: no client resumes after it.
    pub(crate) fn passing(name: &str, data: &impl Serialize) -> Self {
        SseMessage { id: None, name: name.to_owned(), data: text_of(data) }
    }
}

/// Creates the response to a client, and the sender of its events.
pub(crate) fn channel(caller: BudgetCaller) -> (Outlet, SseResponse) {
    let (events, waiting) = mpsc::channel(WAITING_EVENTS_MAX);
    // An event leaves the buffer when it is taken for writing.
    let taken: fn(BufferedMessage) -> Result<Event, Infallible> = |waiting| Ok(waiting.event);
    let stream = ReceiverStream::new(waiting).map(taken);
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(KEEPALIVE_S));
    let outlet = Outlet { events, room: Arc::new(Semaphore::new(WAITING_BYTES_MAX)), caller };
    (outlet, Sse::new(stream).keep_alive(keep_alive))
}

impl Outlet {
    /// Waits for the memory of a batch of up to `bytes`. `None` when the client has disconnected.
    pub(crate) async fn claim(&self, bytes: usize) -> Option<ByteClaim> {
        let mut claim = self.caller.claim();
        tokio::select! {
            () = claim.grow_patiently(bytes) => {}
            () = self.closed() => return None,
        }
        Some(claim)
    }

    /// Sends the events of a batch, whose memory is `claim`, as the buffer has space. `false` when
    /// the client has disconnected.
    pub(crate) async fn send_all(&self, batch: Vec<SseMessage>, mut claim: ByteClaim) -> bool {
        // A batch ends with the event that exceeds its limit, and text is longer than data.
        let bytes: usize = batch.iter().map(|message| message.data.len()).sum();
        claim.grow_anyway(bytes.saturating_sub(claim.bytes()));
        claim.shrink_to(bytes);
        for message in batch {
            let claim = claim.split(message.data.len());
            if !self.send_claimed(message, claim).await {
                return false;
            }
        }
        true
    }

    /// Sends a small event, when the buffer has space. `false` when the client has disconnected.
    pub(crate) async fn send(&self, message: SseMessage) -> bool {
        self.send_claimed(message, self.caller.claim()).await
    }

    async fn send_claimed(&self, SseMessage { id, name, data }: SseMessage, claim: ByteClaim) -> bool {
        let bytes = u32::try_from(data.len().clamp(1, WAITING_BYTES_MAX)).expect("few");
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(bytes) => room.expect("the semaphore is never closed"),
            () = self.closed() => return false,
        };
        let event = id.into_iter().fold(Event::default(), Event::id).event(name).data(data);
        self.events.send(BufferedMessage { event, _room: room, _claim: claim }).await.is_ok()
    }

    /// Ready when the client has disconnected.
    pub(crate) async fn closed(&self) {
        self.events.closed().await;
    }
}
