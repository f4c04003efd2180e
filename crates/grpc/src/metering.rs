//! The memory of calls: claimed from the byte budget as messages arrive, and as responses are
//! written.
//!
//! ```text
//! HTTP/2 data ─▶ MeteredRequest: claims a message when its length arrives ─▶ decoder ─▶ handler
//! handler ─▶ encoder ─▶ MeteredResponse: each frame has a claim until it is written ─▶ HTTP/2 data
//! ```
//! * A handler claims the memory of a long message while it builds the message; see [`claimed`].
//! * Responses of `grpc-web-text` are encoded after that, into copies with claims of their own.
//! * The transport grants a client more of its window only for bytes that the decoder has taken, so
//!   a message without memory is refused before the client may send the rest of it.
//! * A message holds its memory until the call has ended, or in a stream of messages until the
//!   handler asks for the next one.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use quire_access::RunningRequest;
use quire_access::budget::{BudgetCaller, ByteClaim, handle_for};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{Request, Response};
use tower_layer::Layer;

use crate::connections::CallOrigin;
use crate::error::overloaded;
use crate::idempotency;

/// The memory of a call besides its messages: the buffers of its decoder and encoder.
const CALL_BYTES: usize = 16 << 10;

/// Smaller frames of a response are not claimed: the memory of the call covers them.
const FRAME_BYTES_MIN: usize = 1 << 10;

/// The length of the prefix of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The calls, with metering; see the module.
#[derive(Debug, Clone)]
pub(crate) struct MeteredCalls<S> {
    calls: S,
    /// Longer messages are refused by the decoder.
    message_bytes_max: usize,
}

impl<S> MeteredCalls<S> {
    pub(crate) fn new(calls: S, message_bytes_max: usize) -> Self {
        MeteredCalls { calls, message_bytes_max }
    }
}

impl<S> Service<Request<Body>> for MeteredCalls<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.calls.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let origin = request.extensions().get::<CallOrigin>().expect("every connection has its origin");
        // A refused call has arrived too.
        origin.first.arrived();
        let Some(running) = origin.activity.begin() else {
            // The connection is about to be closed.
            return Box::pin(async { match std::future::pending::<Infallible>().await {} });
        };
        if let Err(status) = idempotency::check(request.uri().path(), request.headers()) {
            return Box::pin(async move { Ok(status.into_http()) });
        }
        let caller = origin.caller.clone();
        let with_reserve = has_reserve(request.uri().path());
        let mut claim = if with_reserve { caller.claim_with_reserve() } else { caller.claim() };
        if let Err(refusal) = claim.grow(CALL_BYTES) {
            return Box::pin(async move { Ok(overloaded(refusal).into_http()) });
        }
        let (claim, is_answered) = (Mutex::new(claim), AtomicBool::new(false));
        let call = Arc::new(MeteredCall { claim, is_answered, _running: running });
        let message_bytes_max = self.message_bytes_max;
        let metered = |body| {
            let progress = MeteredMessages::new(message_bytes_max);
            Body::new(MeteredRequest { body, call: Arc::clone(&call), progress })
        };
        let handling = handle_for(caller.clone(), self.calls.call(request.map(metered)));
        Box::pin(async move {
            let mut response = handling.await?;
            call.is_answered.store(true, Ordering::Relaxed);
            let message = response.extensions_mut().remove().map(|MessageClaim(claim)| claim);
            Ok(response.map(|body| Body::new(MeteredResponse { body, caller, _message: message, _call: Some(call) })))
        })
    }
}

/// Whether a call is a fetch of jobs, a report on one, or administration: clients that read pages
/// slowly do not stop these.
fn has_reserve(path: &str) -> bool {
    let Some((service, method)) = path.trim_start_matches('/').split_once('/') else { return false };
    match service {
        "quire.v1.Jobs" => !matches!(method, "Subscribe" | "Search" | "Get"),
        "grpc.health.v1.Health" => true,
        _ => false,
    }
}

/// The memory of a call, held by its request, its handling and its response.
#[derive(Debug)]
struct MeteredCall {
    claim: Mutex<ByteClaim>,
    /// Whether the handler has begun its response: what it still reads is a stream of messages.
    is_answered: AtomicBool,
    /// The connection keeps its place until the call has ended.
    _running: RunningRequest,
}

impl MeteredCall {
    fn claim(&self) -> MutexGuard<'_, ByteClaim> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of a request.
#[derive(Debug)]
struct MeteredRequest {
    body: Body,
    call: Arc<MeteredCall>,
    progress: MeteredMessages,
}

/// The position in a stream of messages.
#[derive(Debug)]
struct MeteredMessages {
    message_bytes_max: usize,
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// The length of the incoming message, and how much of it has not arrived.
    message_bytes: usize,
    missing_bytes: usize,
    /// The claimed bytes of messages that have arrived.
    arrived_bytes: usize,
}

impl MeteredMessages {
    fn new(message_bytes_max: usize) -> Self {
        MeteredMessages {
            message_bytes_max,
            prefix: [0; PREFIX_BYTES],
            prefix_bytes: 0,
            message_bytes: 0,
            missing_bytes: 0,
            arrived_bytes: 0,
        }
    }

    /// Follows the messages through `data`, and calls `claim` with the length of each that begins.
    fn arrive<E>(&mut self, mut data: &[u8], mut claim: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
        while !data.is_empty() {
            if self.missing_bytes == 0 {
                let (prefix, rest) = data.split_at(data.len().min(PREFIX_BYTES - self.prefix_bytes));
                self.prefix[self.prefix_bytes..][..prefix.len()].copy_from_slice(prefix);
                self.prefix_bytes += prefix.len();
                data = rest;
                if self.prefix_bytes < PREFIX_BYTES {
                    break;
                }
                let [_, length @ ..] = self.prefix;
                let length = u32::from_be_bytes(length) as usize;
                self.message_bytes = if length <= self.message_bytes_max { length } else { 0 };
                claim(self.message_bytes)?;
                (self.prefix_bytes, self.missing_bytes) = (0, length);
            } else {
                let taken = data.len().min(self.missing_bytes);
                self.missing_bytes -= taken;
                data = &data[taken..];
            }
            if self.missing_bytes == 0 {
                self.arrived_bytes += std::mem::take(&mut self.message_bytes);
            }
        }
        Ok(())
    }
}

impl HttpBody for MeteredRequest {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let MeteredRequest { body, call, progress } = self.get_mut();
        // The decoder asks for more only without a whole message, so the handler has taken all that
        // have arrived. A handler that has not answered yet may still hold its only message.
        if progress.arrived_bytes > 0 && call.is_answered.load(Ordering::Relaxed) {
            let mut claim = call.claim();
            let bytes = claim.bytes() - std::mem::take(&mut progress.arrived_bytes);
            claim.shrink_to(bytes);
        }
        let frame = ready!(Pin::new(body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            let claim = |bytes: usize| if bytes == 0 { Ok(()) } else { call.claim().grow(bytes) };
            if let Err(refusal) = progress.arrive(data, claim) {
                return Poll::Ready(Some(Err(overloaded(refusal))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response.
#[derive(Debug)]
struct MeteredResponse {
    body: Body,
    caller: BudgetCaller,
    _message: Option<Arc<ByteClaim>>,
    _call: Option<Arc<MeteredCall>>,
}

/// The memory of a message until it is encoded, in the extensions of its response.
#[derive(Debug, Clone)]
struct MessageClaim(Arc<ByteClaim>);

/// The response with a message whose memory was claimed while it was built. The memory is released
/// when the response has ended.
pub(crate) fn claimed<T>((message, claim): (T, ByteClaim)) -> tonic::Response<T> {
    let mut response = tonic::Response::new(message);
    response.extensions_mut().insert(MessageClaim(Arc::new(claim)));
    response
}

/// Bytes of a response, and their memory until the transport has written them.
struct ClaimedFrame {
    bytes: Bytes,
    _claim: ByteClaim,
}

impl AsRef<[u8]> for ClaimedFrame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for MeteredResponse {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let MeteredResponse { body, caller, .. } = self.get_mut();
        let frame = ready!(Pin::new(body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            Ok(frame?.map_data(|bytes| {
                if bytes.len() < FRAME_BYTES_MIN {
                    return bytes;
                }
                let mut claim = caller.claim();
                claim.grow_anyway(bytes.len());
                Bytes::from_owner(ClaimedFrame { bytes, _claim: claim })
            }))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The type of the responses that are encoded as text.
const WEB_TEXT: &[u8] = b"application/grpc-web-text";

/// Adds [`MeteredText`] around the services that encode responses for browsers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeterText;

/// The services, with claims for responses that were encoded as text.
#[derive(Debug, Clone)]
pub(crate) struct MeteredText<S>(S);

impl<S> Layer<S> for MeterText {
    type Service = MeteredText<S>;

    fn layer(&self, services: S) -> MeteredText<S> {
        MeteredText(services)
    }
}

impl<S, B> Service<Request<B>> for MeteredText<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let origin = request.extensions().get::<CallOrigin>().expect("every connection has its origin");
        let caller = origin.caller.clone();
        let handling = self.0.call(request);
        Box::pin(async move {
            let response = handling.await?;
            let kind = response.headers().get(CONTENT_TYPE);
            if !kind.is_some_and(|kind| kind.as_bytes().starts_with(WEB_TEXT)) {
                return Ok(response);
            }
            Ok(response.map(|body| Body::new(MeteredResponse { body, caller, _message: None, _call: None })))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};

    use quire_access::Peer;
    use quire_access::budget::{BudgetRefusal, ByteBudget, FREE_BYTES, FrontEnd};
    use tonic_web::GrpcWebLayer;

    use super::*;
    use crate::app::DatabaseHold;
    use crate::connections::ConnectionIdentity;

    /// The length of the response of [`LargeResponse`].
    const RESPONSE_BYTES: usize = 300 << 10;

    /// A service with one large response.
    #[derive(Clone)]
    struct LargeResponse;

    impl Service<Request<Body>> for LargeResponse {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _request: Request<Body>) -> Self::Future {
            ready(Ok(Response::new(Body::new("a".repeat(RESPONSE_BYTES)))))
        }
    }

    #[tokio::test]
    async fn a_response_as_text_has_a_claim_of_its_own_until_it_is_written() {
        let budget = ByteBudget::new(64 << 20);
        let address = "127.0.0.1:1".parse().expect("an address");
        let origin = CallOrigin {
            first: Default::default(),
            peer: Peer::tcp(address, address),
            identity: Arc::new(ConnectionIdentity::new(&Peer::tcp(address, address), DatabaseHold::new().0)),
            caller: budget.caller(FrontEnd::Grpc, None),
            activity: quire_access::ConnectionActivity::default(),
            counters: Arc::default(),
        };
        let mut services = MeterText.layer(GrpcWebLayer::new().layer(LargeResponse));
        // The service claims nothing, so that all claims are those of the text.
        let of_text = RESPONSE_BYTES / 3 * 4 - FREE_BYTES;
        for (kind, claimed) in [("application/grpc-web-text", of_text), ("application/grpc-web", 0)] {
            let mut request = Request::post("/").header(CONTENT_TYPE, kind).header("accept", kind).body(Body::empty());
            request.as_mut().expect("a request").extensions_mut().insert(origin.clone());
            let mut body = services.call(request.expect("a request")).await.expect("served").into_body();
            let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            let data = frame.expect("a frame").expect("no error").into_data().expect("data");
            assert_eq!(budget.usage().bytes_used, claimed as u64, "{kind}");
            drop(data);
            assert_eq!(budget.usage().bytes_used, 0, "{kind}");
        }
    }

    /// Follows a stream in pieces of `piece` bytes; returns the claimed lengths.
    fn claimed(progress: &mut MeteredMessages, stream: &[u8], piece: usize) -> Vec<usize> {
        let mut lengths = Vec::new();
        for data in stream.chunks(piece) {
            let claim = |bytes| {
                lengths.push(bytes);
                Ok::<_, BudgetRefusal>(())
            };
            progress.arrive(data, claim).expect("nothing is refused");
        }
        lengths
    }

    #[test]
    fn each_message_is_claimed_when_its_length_has_arrived_however_it_is_cut() {
        let message = |bytes: u32| [&[0][..], &bytes.to_be_bytes(), &vec![7; bytes as usize]].concat();
        let stream = [message(3), message(0), message(300), message(100), message(5)].concat();
        for piece in 1..stream.len() {
            let mut progress = MeteredMessages::new(100);
            // A message beyond the limit is refused by the decoder.
            assert_eq!(claimed(&mut progress, &stream, piece), [3, 0, 0, 100, 5], "{piece}");
            assert_eq!(progress.arrived_bytes, 108);
            assert_eq!(claimed(&mut progress, &message(9)[..6], piece), [9]);
            assert_eq!(progress.arrived_bytes, 108, "it has not arrived as a whole");
        }
    }

    #[test]
    fn a_refusal_ends_the_stream_at_the_length() {
        let mut progress = MeteredMessages::new(100);
        let refused = progress.arrive(&[0, 0, 0, 0, 9, 1, 2], Err);
        assert_eq!(refused, Err(9));
    }
}
