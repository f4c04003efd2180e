//! A JSON response, and the thread that builds long ones.
//!
//! A response is serialized in pieces. Each piece holds memory, which is released as the client
//! reads. So the next response gets memory before a slow client has read all of this one.
//!
//! The thread that builds a response compresses it, too. Its pieces then hold the compressed bytes.
//! A long response that a thread of connections built is compressed on another thread.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use flate2::write::GzEncoder;
use quire::Database;
use quire_access::budget::ByteClaim;
use quire_access::{BoundedRequest, RunningWork, WorkResult};
use serde::Serialize;

use crate::error::Problem;
use crate::idempotency::IDEMPOTENT_REPLAY;
use crate::memory::{Claim, PIECE_BYTES, ResponseMemory};
use crate::presentation::{ContentEncoding, Presentation};

/// A JSON response, already serialized.
#[derive(Debug)]
pub(crate) struct JsonResponse {
    pieces: Vec<Bytes>,
    bytes: usize,
    encoding: Option<ContentEncoding>,
    /// The compression that is left to another thread, with its memory.
    deferred: Option<(ContentEncoding, Claim)>,
    /// Whether it is the first answer to an earlier copy of the request.
    is_replay: bool,
}

/// The size in bytes from which a response is compressed.
const COMPRESSED_BYTES_MIN: usize = 1 << 10;

/// A thread that serves connections compresses no response with more bytes.
const COMPRESSED_INLINE_BYTES_MAX: usize = 64 << 10;

/// The level of compression: fast.
const ZSTD_LEVEL: i32 = 1;

impl JsonResponse {
    /// Marks the response as the first answer to an earlier copy of the request.
    pub(crate) fn replay(mut self, is_replay: bool) -> Self {
        self.is_replay = is_replay;
        self
    }

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
        let mut out = ResponseBuffer::new(claim);
        match serde_json::to_writer(&mut out, value) {
            Ok(()) => {
                let (plain, claim) = out.end();
                let Presentation { encoding, is_aside, .. } = Presentation::current();
                let Some(encoding) = encoding.filter(|_| plain.bytes >= COMPRESSED_BYTES_MIN) else { return Ok(plain) };
                if !is_aside && plain.bytes > COMPRESSED_INLINE_BYTES_MAX {
                    return Ok(JsonResponse { deferred: Some((encoding, claim)), ..plain });
                }
                Ok(plain.compressed(encoding, claim))
            }
            Err(error) => Err(out.problem.unwrap_or_else(|| unreachable!("a response must be serializable: {error}"))),
        }
    }
}

impl JsonResponse {
    /// The same response in an encoding that the client accepts. A response without memory for both
    /// stays as it is.
    fn compressed(self, encoding: ContentEncoding, claim: Claim) -> Self {
        let mut out = ResponseBuffer::new(claim);
        let written = match encoding {
            ContentEncoding::Gzip => {
                let mut encoder = GzEncoder::new(&mut out, flate2::Compression::fast());
                self.pieces.iter().try_for_each(|piece| encoder.write_all(piece)).and_then(|()| encoder.try_finish())
            }
            ContentEncoding::Zstd => zstd::Encoder::new(&mut out, ZSTD_LEVEL).and_then(|mut encoder| {
                self.pieces.iter().try_for_each(|piece| encoder.write_all(piece))?;
                encoder.finish().map(drop)
            }),
        };
        match written {
            Ok(()) => JsonResponse { encoding: Some(encoding), is_replay: self.is_replay, ..out.end().0 },
            Err(_) => self,
        }
    }
}

/// A response whose compression is left to another thread, in the extensions of its placeholder.
#[derive(Debug, Clone)]
struct DeferredResponse(Arc<Mutex<Option<JsonResponse>>>);

/// Compresses the response of a route, if it left that to another thread.
pub(crate) async fn compressed(mut response: Response) -> Response {
    let Some(DeferredResponse(left)) = response.extensions_mut().remove() else { return response };
    let whole = left.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut whole) = whole else { return response };
    let Some((encoding, claim)) = whole.deferred.take() else { return whole.into_response() };
    aside(move || Ok(whole.compressed(encoding, claim))).await.into_response()
}

/// Serializes a value as JSON text, without line breaks.
pub(crate) fn text_of(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the value is serializable")
}

impl IntoResponse for JsonResponse {
    fn into_response(self) -> Response {
        if self.deferred.is_some() {
            // The layer around the routes makes the response.
            let mut response = Response::default();
            response.extensions_mut().insert(DeferredResponse(Arc::new(Mutex::new(Some(self)))));
            return response;
        }
        let JsonResponse { mut pieces, bytes, encoding, deferred: _, is_replay } = self;
        let kind = (CONTENT_TYPE, "application/json");
        let mut response = match pieces.pop() {
            Some(only) if pieces.is_empty() => ([kind], only).into_response(),
            last => {
                let pieces = pieces.into_iter().chain(last).map(Ok::<_, Infallible>);
                let body = Body::from_stream(tokio_stream::iter(pieces));
                ([kind], [(CONTENT_LENGTH, bytes)], body).into_response()
            }
        };
        if let Some(encoding) = encoding {
            response.headers_mut().insert(CONTENT_ENCODING, encoding.header());
            response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
        }
        if is_replay {
            response.headers_mut().insert(IDEMPOTENT_REPLAY, HeaderValue::from_static("true"));
        }
        response
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
    fn new(claim: Claim) -> Self {
        ResponseBuffer { pieces: Vec::new(), bytes: 0, last: Vec::new(), last_held: None, claim, problem: None }
    }

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

    /// The response, and the claim that it was made with.
    fn end(mut self) -> (JsonResponse, Claim) {
        self.seal();
        (
            JsonResponse { pieces: self.pieces, bytes: self.bytes, encoding: None, deferred: None, is_replay: false },
            self.claim,
        )
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
    let (work, result) = WorkResult::of(make);
    let presentation = Presentation::current();
    let running = RunningWork::begin(Box::new(move || presentation.aside(work)));
    running.ended().await.and_then(|()| result.take()).map_err(|_| Problem::stopping())?
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use quire_access::budget::ByteBudget;

    use super::*;

    #[tokio::test]
    async fn only_a_short_response_is_compressed_on_a_thread_of_connections() {
        let memory = ResponseMemory::new(&ByteBudget::new(16 << 20));
        let gzip = Presentation { encoding: Some(ContentEncoding::Gzip), ..Presentation::current() };
        let make = |bytes: usize| JsonResponse::of_done(&memory, &"x".repeat(bytes)).replay(true);
        for bytes in [100, 10 << 10, 100 << 10] {
            let inline = gzip.within(async { make(bytes) }).await;
            assert_eq!(inline.deferred.is_some(), bytes > COMPRESSED_INLINE_BYTES_MAX, "{bytes}");
            let aside = gzip.aside(|| make(bytes));
            assert!(aside.deferred.is_none());
            for made in [inline, aside] {
                let response = gzip.within(compressed(made.into_response())).await;
                let encoding = response.headers().get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
                assert_eq!(encoding, Some(&b"gzip"[..]).filter(|_| bytes >= COMPRESSED_BYTES_MIN), "{bytes}");
                assert!(response.headers().contains_key(IDEMPOTENT_REPLAY));
                let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
                let mut text = String::new();
                if bytes >= COMPRESSED_BYTES_MIN {
                    GzDecoder::new(&*body).read_to_string(&mut text).expect("gzip");
                } else {
                    text = String::from_utf8(body.into()).expect("text");
                }
                assert_eq!(text, text_of(&"x".repeat(bytes)));
            }
        }
    }
}
