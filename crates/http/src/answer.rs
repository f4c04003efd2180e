//! A JSON answer, and the thread on which long ones are made.
//!
//! An answer is written piece by piece, each with the memory that it takes, which comes back as the client reads on: so the next answer has
//! room before a slow client is at the end of this one.

use std::convert::Infallible;
use std::io::{self, Write};

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::Problem;
use crate::memory::{Claim, Memory, SMALL_BYTES};

/// How many bytes a piece of an answer has.
const PIECE_BYTES: usize = SMALL_BYTES;

/// A JSON answer, written out already.
#[derive(Debug)]
pub(crate) struct Answer {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl Answer {
    /// Writes it out, in the room that there is.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn of(memory: &Memory, value: &impl Serialize) -> Result<Self, Problem> {
        Answer::within(memory.claim(), value)
    }

    /// Writes the answer to what was done, which is given in any case.
    pub(crate) fn of_done(memory: &Memory, value: &impl Serialize) -> Self {
        Answer::within(memory.claim_of_done(), value).expect("who is lenient is not refused")
    }

    /// Writes out what was put together with this claim, which ends with it.
    ///
    /// # Errors
    /// As [`Answer::of`].
    pub(crate) fn within(claim: Claim, value: &impl Serialize) -> Result<Self, Problem> {
        let mut out = Out { pieces: Vec::new(), bytes: 0, last: Vec::new(), last_held: None, claim, problem: None };
        match serde_json::to_writer(&mut out, value) {
            Ok(()) => Ok(out.end()),
            Err(error) => Err(out.problem.unwrap_or_else(|| {
                unreachable!("an answer has strings for keys and no failing parts, and yet: {error}")
            })),
        }
    }
}

/// JSON as text, which has no line breaks.
pub(crate) fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it has strings for keys and no failing parts")
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let Answer { mut pieces, bytes } = self;
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

/// A piece, with the memory that it takes. The first takes what is not counted.
struct Piece {
    bytes: Vec<u8>,
    _held: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer being written.
struct Out {
    pieces: Vec<Bytes>,
    bytes: usize,
    last: Vec<u8>,
    last_held: Option<OwnedSemaphorePermit>,
    claim: Claim,
    /// Why it can't be written on.
    problem: Option<Problem>,
}

impl Out {
    fn seal(&mut self) {
        let piece = Piece { bytes: std::mem::take(&mut self.last), _held: self.last_held.take() };
        self.bytes += piece.bytes.len();
        self.pieces.push(Bytes::from_owner(piece));
    }

    fn next_piece(&mut self) -> io::Result<()> {
        match self.claim.apart(PIECE_BYTES) {
            Ok(held) => {
                self.seal();
                (self.last, self.last_held) = (Vec::with_capacity(PIECE_BYTES), held);
                Ok(())
            }
            Err(problem) => {
                self.problem = Some(problem);
                Err(io::ErrorKind::OutOfMemory.into())
            }
        }
    }

    fn end(mut self) -> Answer {
        self.seal();
        Answer { pieces: self.pieces, bytes: self.bytes }
    }
}

impl Write for Out {
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

/// Makes an answer that takes many steps over the log apart from the threads that serve connections.
pub(crate) async fn aside<T: Send + 'static>(
    make: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(make).await {
        Ok(made) => made,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Problem::stopping()),
        },
    }
}
