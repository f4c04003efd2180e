//! The body of a request: read whole within limits of size and time, unpacked, and parsed as JSON.
//!
//! A body in an encoding is unpacked on another thread. The unpacked bytes have the same limit as
//! the body, and are claimed as they grow. So a few bytes that unpack to many are refused early.

use std::cell::RefCell;
use std::error::Error;
use std::io::{self, Read};
use std::rc::Rc;

use axum::RequestExt;
use axum::body::{Body as IncomingBody, Bytes, HttpBody};
use axum::extract::{FromRef, FromRequest, Request};
use flate2::read::MultiGzDecoder;
use http_body_util::LengthLimitError;
use quire::Database;
use quire_access::BoundedRequest;
use quire_api::metered;
use serde::Deserialize;
use tokio_stream::StreamExt;

use crate::arriving::LateBody;
use crate::commit::CommitPace;
use crate::error::Problem;
use crate::given::GivenField;
use crate::json::{self, Misread};
use crate::memory::{Claim, PIECE_BYTES, ResponseMemory};
use crate::presentation::ContentEncoding;
use crate::response::{aside, bounded};

/// The largest window of an encoded body, as its power of two: the one that RFC 9659 allows.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// The limit of the bodies of a route, in bytes. It is an extension of each request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

/// A body with more bytes is parsed on another thread, so that the threads that serve connections
/// stay free.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// A whole body, and its memory. It does not parse itself: a long body is parsed on another thread.
#[derive(Debug)]
pub(crate) struct Body(BodyText);

/// The text of a whole body, on a thread that may parse it.
#[derive(Debug)]
pub(crate) struct BodyText {
    bytes: Bytes,
    /// The memory of the body, and of its lists once they are parsed.
    claim: RefCell<Option<Claim>>,
    /// The claimed bytes without the lists.
    claimed: usize,
}

/// The memory of the lists of a body while they are parsed.
struct ListMemory {
    claim: Claim,
    refused: Option<Problem>,
}

impl Body {
    /// Passes a short body to `begin` on this thread. A long body, and a commit that `begin` puts
    /// off, use another thread.
    ///
    /// # Errors
    /// Those of `begin`.
    pub(crate) async fn commit<T: Send + 'static>(
        self,
        begin: impl Fn(&BodyText, CommitPace) -> Result<Option<T>, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Body(text) = self;
        if text.bytes.len() <= INLINE_BYTES_MAX
            && let Some(begun) = begin(&text, CommitPace::Brief)?
        {
            return Ok(begun);
        }
        let begun = aside(move || begin(&text, CommitPace::Any)).await?;
        Ok(begun.expect("an unlimited commit is never put off"))
    }

    /// Passes the body to `work`: a short body on this thread, and a long one on another thread.
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) async fn read<T: Send + 'static>(
        self,
        work: impl FnOnce(&BodyText) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Body(text) = self;
        match text.bytes.len() <= INLINE_BYTES_MAX {
            true => work(&text),
            false => aside(move || work(&text)).await,
        }
    }

    /// Runs the work of a request with its body on another thread; see [`bounded`].
    ///
    /// # Errors
    /// Those of the work.
    pub(crate) async fn bounded<T: Send + 'static>(
        self,
        request: BoundedRequest,
        work: impl FnOnce(&Database, BodyText) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Body(text) = self;
        bounded(request, move |database| work(database, text)).await
    }

    /// The bytes of the body, and their memory, which grows with the values that are made of them.
    pub(crate) fn into_parts(self) -> (Bytes, Claim) {
        self.0.into_parts()
    }
}

impl BodyText {
    /// A body of these bytes, whose memory `claim` has.
    fn new(bytes: Bytes, mut claim: Claim) -> Self {
        let claimed = claim.bytes_mut().bytes();
        BodyText { bytes, claim: RefCell::new(Some(claim)), claimed }
    }

    fn into_parts(self) -> (Bytes, Claim) {
        (self.bytes, self.claim.into_inner().expect("the body is not being parsed"))
    }

    /// The size of the body in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Claims memory for values that are made of the body.
    ///
    /// # Errors
    /// When there is too little.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.claimed += bytes;
        self.claim.get_mut().as_mut().expect("the body is not being parsed").grow(bytes)
    }

    /// Parses the JSON.
    ///
    /// # Errors
    /// With line, column and field, when it is not JSON or has the wrong fields.
    pub(crate) fn parse<'r, T: Deserialize<'r>>(&'r self) -> Result<T, Problem> {
        self.check_object()?;
        self.metered(|bytes| json::read(bytes))
    }

    /// Parses the JSON, completed by fields that the path gives.
    ///
    /// # Errors
    /// Like [`BodyText::parse`], and when the body has one of the fields, too.
    pub(crate) fn parse_with<'r, T: Deserialize<'r>>(&'r self, fields: &[GivenField<'r>]) -> Result<T, Problem> {
        self.check_object()?;
        self.metered(|bytes| json::read_with(bytes, fields))
    }

    /// Parses the body, and claims the memory of its lists. It is claimed until the body is dropped
    /// or parsed again.
    fn metered<'r, T>(&'r self, parse: impl FnOnce(&'r [u8]) -> Result<T, Misread>) -> Result<T, Problem> {
        let mut claim = self.claim.take().expect("a body is parsed once at a time");
        claim.bytes_mut().shrink_to(self.claimed);
        let memory = Rc::new(RefCell::new(ListMemory { claim, refused: None }));
        let taken = Rc::clone(&memory);
        let take = move |bytes: usize| {
            let ListMemory { claim, refused } = &mut *taken.borrow_mut();
            *refused = claim.grow(bytes).err();
            refused.is_none()
        };
        let parsed = metered(take, || parse(&self.bytes));
        let memory = Rc::into_inner(memory).expect("the meter was dropped").into_inner();
        self.claim.replace(Some(memory.claim));
        match memory.refused {
            Some(refused) => Err(refused),
            None => parsed.map_err(|misread| Problem::json(&misread)),
        }
    }

    /// The derived implementations would also accept an array of the fields in their order, which
    /// is always a mistake.
    fn check_object(&self) -> Result<(), Problem> {
        match self.bytes.trim_ascii_start().starts_with(b"[") {
            true => Err(Problem::invalid("the body must be an object, got an array")),
            false => Ok(()),
        }
    }
}

impl<S: Send + Sync> FromRequest<S> for Body
where
    ResponseMemory: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let memory = ResponseMemory::from_ref(state);
        Body::receive(request, &memory, "the body exceeds the limit of the server: split the commit").await
    }
}

impl Body {
    /// Reads the body of a request, within the limit of its route.
    ///
    /// # Errors
    /// When the body exceeds the limit, with the message `too_long`; when there is too little
    /// memory for it; and when it does not arrive in time.
    pub(crate) async fn receive(
        request: Request,
        memory: &ResponseMemory,
        too_long: &'static str,
    ) -> Result<Self, Problem> {
        let encoding = ContentEncoding::of_body(request.headers())?;
        let BodyLimit(bytes_max) = *request.extensions().get().expect("each route has a limit");
        let body = receive(request.with_limited_body().into_body(), memory.claim(), too_long).await?;
        match encoding.filter(|_| body.len() > 0) {
            Some(encoding) => aside(move || unpacked(body, encoding, bytes_max, too_long)).await.map(Body),
            None => Ok(Body(body)),
        }
    }
}

/// Reads a body, and claims the memory for it as it arrives.
async fn receive(body: IncomingBody, mut claim: Claim, too_long: &str) -> Result<BodyText, Problem> {
    let announced = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
    let mut chunks = body.into_data_stream().map(|chunk| chunk.map_err(|error| unread(&error, too_long)));
    let first = chunks.try_next().await?.unwrap_or_default();
    claim.grow(first.len())?;
    let Some(mut chunk) = chunks.try_next().await? else { return Ok(BodyText::new(first, claim)) };
    // The memory of the first chunk is claimed already.
    let mut bytes = Vec::from(first);
    claim.grow(bytes.capacity() - bytes.len())?;
    loop {
        let needed = bytes.len() + chunk.len();
        if needed > bytes.capacity() {
            let capacity = needed.max((2 * bytes.capacity()).min(announced));
            claim.grow(capacity - bytes.capacity())?;
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(&chunk);
        match chunks.try_next().await? {
            Some(next) => chunk = next,
            None => return Ok(BodyText::new(bytes.into(), claim)),
        }
    }
}

/// Unpacks a body to at most `bytes_max` bytes.
fn unpacked(body: BodyText, encoding: ContentEncoding, bytes_max: usize, too_long: &str) -> Result<BodyText, Problem> {
    let (packed, mut claim) = body.into_parts();
    let bytes = match encoding {
        ContentEncoding::Gzip => unpack(MultiGzDecoder::new(&*packed), &mut claim, bytes_max, too_long)?,
        ContentEncoding::Zstd => {
            let mut decoder = zstd::Decoder::with_buffer(&*packed).map_err(|error| not_encoded(&error))?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(|error| not_encoded(&error))?;
            let window = claim.apart(1 << ZSTD_WINDOW_LOG_MAX)?;
            let bytes = unpack(decoder, &mut claim, bytes_max, too_long)?;
            drop(window);
            bytes
        }
    };
    claim.release(packed.len());
    Ok(BodyText::new(bytes.into(), claim))
}

/// Reads all bytes of a decoder, and claims the memory for them as they grow.
fn unpack(mut decoder: impl Read, claim: &mut Claim, bytes_max: usize, too_long: &str) -> Result<Vec<u8>, Problem> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        let count = decoder.read(&mut piece).map_err(|error| not_encoded(&error))?;
        let needed = bytes.len() + count;
        if count == 0 {
            return Ok(bytes);
        }
        if needed > bytes_max {
            return Err(Problem::too_large(too_long));
        }
        if needed > bytes.capacity() {
            let capacity = needed.max((2 * bytes.capacity()).min(bytes_max));
            claim.grow(capacity - bytes.capacity())?;
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(&piece[..count]);
    }
}

fn not_encoded(error: &io::Error) -> Problem {
    Problem::invalid(format!("the body is not in its Content-Encoding: {error}"))
}

fn unread(error: &axum::Error, too_long: &str) -> Problem {
    let is_too_long = error.source().is_some_and(|source| source.is::<LengthLimitError>());
    if is_too_long {
        Problem::too_large(too_long)
    } else if LateBody::caused(error) {
        Problem::timeout("the body did not arrive in time: send it again")
    } else {
        Problem::invalid(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::pin::pin;
    use std::sync::{Arc, mpsc};
    use std::task::Poll;

    use axum::Router;
    use axum::response::Response;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use quire::Durability;
    use quire_access::budget::ByteBudget;
    use quire_access::{Credential, Peer, ServedDatabase};
    use quire_api::request::CommitRequest;
    use tokio::runtime;
    use tokio::sync::watch;
    use tokio::task::{spawn_blocking, yield_now};

    use super::*;
    use crate::app::App;
    use crate::openapi::operations::operations;
    use crate::openapi::row::OperationRow;
    use crate::routes::router;

    #[test]
    fn the_lists_of_a_body_claim_memory_until_it_is_dropped() {
        let budget = ByteBudget::new(16 << 20);
        let memory = ResponseMemory::new(&budget);
        let body = |parts: usize| {
            let bytes = format!(r#"{{"parts": [{}]}}"#, vec![r#"{"tick": {}}"#; parts].join(",")).into();
            BodyText::new(bytes, memory.claim())
        };
        let parts = |body: &BodyText| body.parse::<CommitRequest<'_>>().map(|commit| commit.parts.len());
        // 13 MB of bodies would not exceed the memory.
        let refused = parts(&body(1_000_000)).map_err(|problem| problem.code());
        assert!(matches!(refused, Err("too_large" | "overloaded")), "{refused:?}");
        assert_eq!(budget.usage().bytes_used, 0);
        let whole = body(2_000);
        for _ in 0..2 {
            assert_eq!(parts(&whole).ok(), Some(2_000));
            assert!((256 << 10..8 << 20).contains(&budget.usage().bytes_used), "{}", budget.usage().bytes_used);
        }
        drop(whole);
        assert_eq!(budget.usage().bytes_used, 0);
    }

    async fn post(routes: &TowerToHyperService<Router>, path: &str, body: String) -> Response {
        let mut request = Request::post(path).body(IncomingBody::from(body)).expect("a request");
        // Passwords are taken from a client on this machine, or over TLS.
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        request.extensions_mut().insert(Peer::tcp(address(7_070), address(50_000)));
        routes.call(request).await.expect("a response")
    }

    async fn check_routes(served: ServedDatabase) {
        let (_closing, closed) = watch::channel(false);
        let app = App::new(served, ByteBudget::new(16 << 20), Arc::default(), closed);
        let routes = TowerToHyperService::new(router(app));
        let subscription = r#"{"query": {"items": [{"types": ["placed"]}]}}"#.to_owned();
        let put = post(&routes, "/v1/events/x/subscriptions/x", subscription).await;
        assert!(put.status().is_success(), "{put:?}");
        for path in operations().iter().filter_map(OperationRow::path_with_json_body) {
            if path == "/v1/access/init" {
                // It is refused before its body is read: there is an administrator.
                continue;
            }
            let path = path.replace("{job}", "1-0");
            let is_name = |segment: &&str| segment.starts_with('{');
            let path = path.split('/').map(|segment| if is_name(&segment) { "x" } else { segment });
            let path = path.collect::<Vec<_>>().join("/");
            // The only other thread is busy.
            let (release, released) = mpsc::channel::<()>();
            let busy = spawn_blocking(move || released.recv());
            let invalid = format!(r#"{{"no_field": "{}"}}"#, "x".repeat(INLINE_BYTES_MAX));
            let mut answer = pin!(post(&routes, &path, invalid));
            for _ in 0..100 {
                let polled = std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await;
                assert!(polled.is_pending(), "{path} was parsed on the thread of connections: {polled:?}");
                yield_now().await;
            }
            drop(release);
            assert!(busy.await.expect("it did not panic").is_err());
            let status = answer.await.status();
            assert!(status.is_client_error() && status != 404, "{path}: {status}");
        }
    }

    #[test]
    fn no_route_parses_a_long_body_on_a_thread_of_connections() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a new database");
        let runtime = runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build();
        let served = ServedDatabase::new(database);
        // The administration of access reads bodies of administrators only.
        let key = served.owner().access().init("root").expect("initialised");
        let session = served.session(&Credential::Key(key.reveal())).expect("the key is valid");
        runtime.expect("a runtime").block_on(session.scope(check_routes(served)));
    }
}
