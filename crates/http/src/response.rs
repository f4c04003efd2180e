//! A JSON response, and the thread that builds long ones.
//!
//! A response is serialized in pieces. Each piece holds memory, which is released as the client
//! reads. So the next response gets memory before a slow client has read all of this one.

use std::convert::Infallible;
use std::io::{self, Write};

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use quire::Database;
use quire_access::BoundedRequest;
use quire_access::budget::{ByteClaim, carried};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::error::Problem;
use crate::memory::{Claim, PIECE_BYTES, ResponseMemory};

/// A JSON response, already serialized.
#[derive(Debug)]
pub(crate) struct JsonResponse {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl JsonResponse {
    /// Serializes a response, within the free memory.
    ///
    /// # Errors
    /// When there is too little memory.
    pub(crate) fn of(memory: &ResponseMemory, value: &impl Serialize) -> Result<Self, Problem> {
        JsonResponse::within(memory.claim(), value)
    }

    /// Serializes the response to a completed request, even without free memory.
    pub(crate) fn of_done(memory: &ResponseMemory, value: &impl Serialize) -> Self {
        JsonResponse::within(memory.claim_of_done(), value).expect("a lenient claim never fails")
    }

    /// Serializes the response with the memory of this claim, and ends the claim.
    ///
    /// # Errors
    /// Like [`JsonResponse::of`].
    pub(crate) fn within(claim: Claim, value: &impl Serialize) -> Result<Self, Problem> {
        let mut out =
            ResponseBuffer { pieces: Vec::new(), bytes: 0, last: Vec::new(), last_held: None, claim, problem: None };
        match serde_json::to_writer(&mut out, value) {
            Ok(()) => Ok(out.end()),
            Err(error) => Err(out.problem.unwrap_or_else(|| unreachable!("a response must be serializable: {error}"))),
        }
    }
}

/// Serializes a value as JSON text, without line breaks.
pub(crate) fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the value is serializable")
}

impl IntoResponse for JsonResponse {
    fn into_response(self) -> Response {
        let JsonResponse { mut pieces, bytes } = self;
        let kind = (CONTENT_TYPE, "application/json");
        match pieces.pop() {
            Some(only) if pieces.is_empty() => ([kind], only).into_response(),
            last => {
                let pieces = pieces.into_iter().chain(last).map(Ok::<_, Infallible>);
                let body = Body::from_stream(tokio_stream::iter(pieces));
                ([kind], [(CONTENT_LENGTH, bytes)], body).into_response()
            }
        }
    }
}

/// A piece, with its memory. The first piece of a response has none, because most responses have
/// only one, and a connection has at most one response.
struct JsonPiece {
    bytes: Vec<u8>,
    _held: Option<ByteClaim>,
}

impl AsRef<[u8]> for JsonPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A response being serialized.
struct ResponseBuffer {
    pieces: Vec<Bytes>,
    bytes: usize,
    last: Vec<u8>,
    last_held: Option<ByteClaim>,
    claim: Claim,
    /// Why serialization stopped.
    problem: Option<Problem>,
}

impl ResponseBuffer {
    fn seal(&mut self) {
        let piece = JsonPiece { bytes: std::mem::take(&mut self.last), _held: self.last_held.take() };
        self.bytes += piece.bytes.len();
        self.pieces.push(Bytes::from_owner(piece));
    }

    fn next_piece(&mut self) -> io::Result<()> {
        match self.claim.apart(PIECE_BYTES) {
            Ok(held) => {
                self.seal();
                (self.last, self.last_held) = (Vec::with_capacity(PIECE_BYTES), Some(held));
                Ok(())
            }
            Err(problem) => {
                self.problem = Some(problem);
                Err(io::ErrorKind::OutOfMemory.into())
            }
        }
    }

    fn end(mut self) -> JsonResponse {
        self.seal();
        JsonResponse { pieces: self.pieces, bytes: self.bytes }
    }
}

impl Write for ResponseBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while self.last.len() + bytes.len() > PIECE_BYTES {
            let (now, later) = bytes.split_at(PIECE_BYTES - self.last.len());
            self.last.extend_from_slice(now);
            self.next_piece()?;
            bytes = later;
        }
        self.last.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the work of a request on another thread. The work ends soon after the client left, which
/// drops this future and the request.
pub(crate) async fn bounded<T: Send + 'static>(
    request: BoundedRequest,
    make: impl FnOnce(&Database) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let database = request.database().clone();
    aside(move || make(&database)).await
}

/// Builds a response with many log reads on a thread of its own, so that the threads that serve
/// connections stay free.
pub(crate) async fn aside<T: Send + 'static>(
    make: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let (sender, receiver) = oneshot::channel();
    run_aside(Box::new(carried(move || drop(sender.send(make()))))).await?;
    receiver.await.expect("the work ended without a panic, so it sent its result")
}

/// Runs the work on a thread of its own. Not generic: the compiler builds one task, not one for
/// each route.
async fn run_aside(work: Box<dyn FnOnce() + Send>) -> Result<(), Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(()) => Ok(()),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Problem::stopping()),
        },
    }
}
