//! Events of a server: pages of reads, and subscriptions.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quire::events::{EventPosition, Query};
use quire::{Event, Events, Timestamp};
use quire_api::ListPage;
use quire_client::reply::{EventReply, EventsRead, StoreReply};
use quire_client::request::{ParsedText, ReadRequest};
use quire_client::{Call, Client, ClientError, Stopper};

use crate::errors::CallError;

/// The most events of a page.
const PAGE_EVENTS_MAX: u64 = 10_000;

/// The most events that a subscription reads ahead.
const AHEAD_MAX: usize = 1_024;

/// What a read selects.
pub(crate) struct EventRange {
    pub(crate) after: u64,
    pub(crate) before: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) backwards: bool,
}

/// Reads events, page by page.
pub(crate) fn read(client: &Client, store: &str, query: &Query<'_>, range: &EventRange) -> Result<Events, CallError> {
    let (mut events, mut head, mut cursor) = (Vec::new(), None, None);
    loop {
        let left = range.limit.map(|limit| limit.saturating_sub(events.len() as u64));
        let limit = left.unwrap_or(PAGE_EVENTS_MAX).min(PAGE_EVENTS_MAX);
        if limit == 0 {
            break;
        }
        // A cursor replaces the position that the read moves.
        let is_moved = |moves_backwards: bool| cursor.is_some() && range.backwards == moves_backwards;
        let request = ReadRequest {
            query: Some(super::query(query)),
            after: Some(range.after).filter(|_| !is_moved(false)),
            before: range.before.filter(|_| !is_moved(true)),
            cursor: cursor.map(ParsedText),
            limit: Some(limit as usize),
            backwards: range.backwards,
            ..ReadRequest::default()
        };
        let call = Call::post(&["events", store, "read"]).json(&request)?.reading();
        let page: ListPage<EventReply<'static>, EventsRead> = client.read(call)?;
        for reply in page.data {
            events.push(event(reply)?);
        }
        // A read backwards saw the events up to the head of its first page.
        if head.is_none() || !range.backwards {
            head = Some(page.facts.head);
        }
        cursor = page.next_cursor.and_then(|cursor| cursor.parse().ok());
        if cursor.is_none() {
            break;
        }
    }
    let head = match head {
        Some(head) => head,
        None => self::head(client, store)?,
    };
    Ok(Events { events, head: EventPosition::new(head) })
}

/// The last position of a store; 0 for one that has no events.
pub(crate) fn head(client: &Client, store: &str) -> Result<u64, CallError> {
    match client.get::<StoreReply>(&["events", store, "head"], &[]) {
        Ok(reply) => Ok(reply.head),
        Err(error) if super::is_not_found(&error) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn event(reply: EventReply<'static>) -> Result<Event, CallError> {
    Ok(Event {
        position: EventPosition::new(reply.position),
        id: super::parsed(&reply.id)?,
        time: Timestamp::from_millis(reply.time_ms),
        event_type: reply.event_type.into_owned(),
        tags: reply.tags.into_iter().map(|tag| tag.0.into_owned()).collect(),
        metadata: reply.metadata.bytes().to_vec(),
        data: reply.data.bytes().to_vec(),
    })
}

/// A subscription to a store of a server. A thread reads ahead while a caller waits; it ends with
/// the subscription.
///
/// ```text
/// thread: feed of the client, which resumes ─▶ events, at most AHEAD_MAX ─▶ next, or a task
/// ```
pub(crate) struct ServedFeed {
    client: Client,
    store: String,
    query: String,
    ahead: Arc<EventsAhead>,
}

/// The events that the thread has read and no caller has taken.
struct EventsAhead {
    state: Mutex<AheadState>,
    changed: Condvar,
}

#[derive(Default)]
struct AheadState {
    events: VecDeque<Event>,
    /// The position of the last event that was read.
    after: u64,
    error: Option<CallError>,
    wakers: Vec<Waker>,
    /// Present while the thread runs.
    thread: Option<Stopper>,
    is_over: bool,
}

impl ServedFeed {
    /// Subscribes to the events after a position.
    ///
    /// # Errors
    /// When the position is beyond the last event.
    pub(crate) fn new(client: Client, store: String, query: &Query<'_>, after: u64) -> Result<Self, CallError> {
        // A new store has no events, and no subscription fails on it.
        if after > 0 {
            let head = head(&client, &store)?;
            if after > head {
                let message = format!("can't subscribe after event {after}: the last event of {store:?} is {head}");
                return Err(CallError::Invalid(message));
            }
        }
        let query = serde_json::to_string(&super::query(query)).expect("a query has a JSON form");
        let state = Mutex::new(AheadState { after, ..AheadState::default() });
        let ahead = Arc::new(EventsAhead { state, changed: Condvar::new() });
        Ok(ServedFeed { client, store, query, ahead })
    }

    /// Starts the thread unless it runs.
    fn begin(&self, state: &mut AheadState) {
        if state.thread.is_some() || state.is_over {
            return;
        }
        let feed = self.client.subscribe::<EventReply<'static>>(&["events", &self.store], &[("query", &self.query)]);
        let feed = feed.after(state.after);
        state.thread = Some(feed.stopper());
        let ahead = Arc::clone(&self.ahead);
        let thread = std::thread::Builder::new().name("quire-subscription".to_owned());
        thread.spawn(move || ahead.fill(feed)).expect("the system starts a thread");
    }

    /// Waits up to `at_most` for the next event.
    pub(crate) fn next(&self, at_most: Duration) -> Result<Option<Event>, CallError> {
        let mut state = self.ahead.lock();
        self.begin(&mut state);
        let is_waiting = |state: &mut AheadState| state.events.is_empty() && state.error.is_none();
        let waited = self.ahead.changed.wait_timeout_while(state, at_most, is_waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.ahead.take(&mut state)
    }

    /// The next event, for a task.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Event, CallError>> {
        let mut state = self.ahead.lock();
        self.begin(&mut state);
        match self.ahead.take(&mut state) {
            Ok(Some(event)) => Poll::Ready(Ok(event)),
            Err(error) => Poll::Ready(Err(error)),
            Ok(None) => {
                state.wakers.push(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl EventsAhead {
    fn lock(&self) -> MutexGuard<'_, AheadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next event, or the error that the thread has ended with.
    fn take(&self, state: &mut AheadState) -> Result<Option<Event>, CallError> {
        if let Some(event) = state.events.pop_front() {
            self.changed.notify_all();
            return Ok(Some(event));
        }
        state.error.take().map_or(Ok(None), Err)
    }

    /// Reads ahead until the subscription ends or fails.
    fn fill(&self, feed: impl Iterator<Item = Result<EventReply<'static>, ClientError>>) {
        for read in feed {
            let mut state = self.lock();
            match read.map_err(CallError::from).and_then(event) {
                Ok(event) => {
                    state.after = event.position.get();
                    state.events.push_back(event);
                }
                // The next call begins again after the last event.
                Err(error) => (state.error, state.thread) = (Some(error), None),
            }
            let wakers = std::mem::take(&mut state.wakers);
            self.changed.notify_all();
            let is_full = |state: &mut AheadState| state.events.len() >= AHEAD_MAX && !state.is_over;
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            let state = self.changed.wait_while(self.lock(), is_full).unwrap_or_else(PoisonError::into_inner);
            if state.is_over || state.error.is_some() {
                return;
            }
        }
    }
}

impl Drop for ServedFeed {
    fn drop(&mut self) {
        let mut state = self.ahead.lock();
        state.is_over = true;
        if let Some(thread) = &state.thread {
            thread.stop();
        }
        self.ahead.changed.notify_all();
    }
}
