//! A subscription that resumes: past items, then new ones, over connections that break.
//!
//! ```text
//! connect, after the last cursor ─▶ message ─▶ item, and its cursor is the last one
//!       ▲                              │
//!       └── pause ◀── connection broken, server restarted
//! ```
//!
//! Invariants:
//! * The cursor moves with the item that the caller gets, and the server resumes exactly after it.
//!   So no item is lost or repeated.
//! * An outage ends with an item or the end of the past ones. A server that only sends errors does
//!   not end it. The time with a connection does not count.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::time::Instant;

use quire::Stopper;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::pause::RetryPauses;
use crate::sse::{StreamFault, StreamMessage, next_message};
use crate::{Call, Client, ClientError, FailureKind};

/// Iterates over the items of a subscription; see [`Client::subscribe`]. It ends after an error
/// that a retry does not change, and after the `timeout` of the client without a connection.
pub struct SubscriptionFeed<T> {
    client: Client,
    call: Call,
    stream: Option<OpenStream>,
    outage: Option<Outage>,
    ends_when_caught_up: bool,
    is_over: bool,
    stop: Stopper,
    item: PhantomData<fn() -> T>,
}

/// An answer that arrives.
struct OpenStream {
    reader: Box<dyn BufRead + Send>,
    begin: Instant,
}

/// The time without a connection.
#[derive(Debug)]
struct Outage {
    /// Moves on by the time of connections that brought nothing.
    begin: Instant,
    pauses: RetryPauses,
}

impl<T: DeserializeOwned> SubscriptionFeed<T> {
    pub(crate) fn new(client: Client, call: Call) -> Self {
        let (stream, outage) = (None, None);
        let (ends_when_caught_up, is_over, stop) = (false, false, Stopper::default());
        SubscriptionFeed { client, call, stream, outage, ends_when_caught_up, is_over, stop, item: PhantomData }
    }

    /// Begins after this cursor: the position of an event, or the text that [`cursor`] returned.
    ///
    /// [`cursor`]: SubscriptionFeed::cursor
    #[must_use]
    pub fn after(mut self, cursor: impl ToString) -> Self {
        self.call.last_event_id = Some(cursor.to_string());
        self
    }

    /// Ends after the past items, instead of waiting for new ones.
    #[must_use]
    pub fn until_caught_up(mut self) -> Self {
        self.ends_when_caught_up = true;
        self
    }

    /// Returns the handle that ends the subscription from another thread: at the next message, or
    /// the comment that a server without news sends every 15 seconds.
    pub fn stopper(&self) -> Stopper {
        self.stop.clone()
    }

    /// The cursor after the last item, where another subscription can resume.
    pub fn cursor(&self) -> Option<&str> {
        self.call.last_event_id.as_deref()
    }

    /// Waits for the next message. `None` when the connection is lost, and another is to be tried.
    #[expect(clippy::disallowed_methods, reason = "the outages of a client are real time")]
    fn next_message(&mut self) -> Result<Option<StreamMessage>, ClientError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = self.client.stream(&self.call)?;
                let stream = StoppableStream { stream, stop: self.stop.clone() };
                self.stream.insert(OpenStream { reader: Box::new(BufReader::new(stream)), begin: Instant::now() })
            }
        };
        let found = match next_message(&mut stream.reader, self.client.parts.settings.answer_bytes_max) {
            Ok(found) => found,
            Err(StreamFault::Lost) => None,
            Err(StreamFault::Foreign(reason)) => return Err(ClientError::foreign(self.client.address(), reason)),
        };
        if found.is_none() {
            // The server has stopped, or the connection is broken.
            self.disconnect();
        }
        Ok(found)
    }

    /// Ends the connection.
    fn disconnect(&mut self) {
        if let (Some(stream), Some(outage)) = (self.stream.take(), &mut self.outage) {
            outage.begin += stream.begin.elapsed();
        }
    }

    /// Pauses before the next attempt to connect.
    ///
    /// # Errors
    /// With `error`, or another, when there has been no connection for too long.
    #[expect(clippy::disallowed_methods, reason = "the deadline and the pauses of a client are real time")]
    fn pause(&mut self, error: Option<ClientError>) -> Result<(), ClientError> {
        let pauses = || self.client.pauses();
        let outage = self.outage.get_or_insert_with(|| Outage { begin: Instant::now(), pauses: pauses() });
        let wait = outage.pauses.after(error.as_ref());
        let settings = &self.client.parts.settings;
        if !settings.is_repeating || outage.begin.elapsed().saturating_add(wait) >= settings.timeout {
            let ended = || {
                let message = format!("the server at {} has ended the response", self.client.address());
                ClientError::new(FailureKind::Unanswered, message)
            };
            return Err(error.unwrap_or_else(ended));
        }
        std::thread::sleep(wait);
        Ok(())
    }

    /// Waits for the next item. `None` at the end of the past items, if the feed ends there, and
    /// after a stop.
    fn wait(&mut self) -> Result<Option<T>, ClientError> {
        while !self.stop.is_requested() {
            let StreamMessage { id, name, data } = match self.next_message() {
                Ok(Some(message)) => message,
                Ok(None) if self.stop.is_requested() => return Ok(None),
                Ok(None) => {
                    self.pause(None)?;
                    continue;
                }
                Err(error) if error.is_passing() => {
                    self.pause(Some(error))?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let foreign = |error: serde_json::Error| {
                ClientError::foreign(self.client.address(), format_args!("message {name:?}: {error}"))
            };
            match &*name {
                "caught_up" => {
                    let fields: Value = serde_json::from_str(&data).map_err(foreign)?;
                    // Without it, a subscription to new items would skip those during a loss.
                    self.call.last_event_id = match &fields["after"] {
                        Value::String(after) => Some(after.clone()),
                        Value::Number(after) => Some(after.to_string()),
                        _ => self.call.last_event_id.take(),
                    };
                    self.outage = None;
                    if self.ends_when_caught_up {
                        return Ok(None);
                    }
                }
                "error" => {
                    let error = ClientError::of_message(self.client.address(), data.as_bytes());
                    if !error.is_passing() {
                        return Err(error);
                    }
                    self.disconnect();
                    self.pause(Some(error))?;
                }
                _ => {
                    let item = serde_json::from_str(&data).map_err(foreign)?;
                    self.call.last_event_id = id.or_else(|| self.call.last_event_id.take());
                    self.outage = None;
                    return Ok(Some(item));
                }
            }
        }
        Ok(None)
    }
}

/// A stream that ends when its subscription is stopped.
struct StoppableStream<S> {
    stream: S,
    stop: Stopper,
}

impl<S: Read> Read for StoppableStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_requested() { Ok(0) } else { self.stream.read(buffer) }
    }
}

impl<T: DeserializeOwned> Iterator for SubscriptionFeed<T> {
    type Item = Result<T, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let item = self.wait().transpose();
        if !matches!(item, Some(Ok(_))) {
            self.is_over = true;
            self.stream = None;
        }
        item
    }
}

impl<T> fmt::Debug for SubscriptionFeed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionFeed")
            .field("client", &self.client)
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}
