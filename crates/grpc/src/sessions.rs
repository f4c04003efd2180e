//! The sessions of calls: every call gets one before it reaches a service, or ends here.
//!
//! ```text
//! call ─▶ key, certificate or Unix peer ─▶ session ─▶ services
//!           └─ UNAUTHENTICATED                └─ ended ─▶ its streams end with UNAUTHENTICATED
//! ```
//!
//! `Health/Check` needs no session.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use quire_access::{AuthenticationError, BoxedFuture, Session};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::AUTHORIZATION;
use tonic::codegen::http::{HeaderMap, HeaderValue, Request, Response};
use tonic::{Code, Status};

use crate::app::ServiceComponents;
use crate::connections::CallOrigin;
use crate::error::{session_ended, unauthenticated};
use crate::forwarding::forwarding_of;

/// The method that answers without a session.
const PUBLIC: &str = "/grpc.health.v1.Health/Check";

/// The status in the headers or the trailers of a response.
const STATUS: &str = "grpc-status";

/// The calls, each in its session; see the module.
#[derive(Debug, Clone)]
pub(crate) struct SessionCalls<S> {
    calls: S,
    // Dropped after the calls.
    components: Arc<ServiceComponents>,
}

impl<S> SessionCalls<S> {
    pub(crate) fn new(calls: S, components: Arc<ServiceComponents>) -> Self {
        SessionCalls { calls, components }
    }

    /// Returns the session of a call.
    fn session<B>(&self, request: &Request<B>, origin: &CallOrigin) -> Result<Session, AuthenticationError> {
        let fields = request.headers().get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
        let identity = &origin.identity;
        self.components.served().request_session(&identity.sessions, fields, identity.verified.as_ref(), &identity.host)
    }

    /// Whether the leader answers the call, and this node forwards it.
    fn is_for_leader<B>(&self, request: &Request<B>, origin: &CallOrigin) -> bool {
        forwarding_of(&self.components, request.uri().path(), request.headers(), origin).is_some()
    }
}

impl<S> Service<Request<Body>> for SessionCalls<S>
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if request.uri().path() == PUBLIC {
            return Box::pin(self.calls.call(request));
        }
        let origin = request.extensions().get::<CallOrigin>().expect("every connection has its origin");
        let session = match self.session(&request, origin) {
            Ok(session) => session,
            // The leader judges the credential, by the newest rules, and records its refusal.
            Err(error) if self.is_for_leader(&request, origin) => {
                request.extensions_mut().insert(error);
                return Box::pin(self.calls.call(request));
            }
            Err(error) => {
                // A refused call has arrived too.
                origin.first.arrived();
                origin.counters.request_refused();
                origin.counters.unauthenticated(error);
                return Box::pin(async move { Ok(unauthenticated(error).into_http()) });
            }
        };
        let components = Arc::clone(&self.components);
        let handling = session.clone().scope(self.calls.call(request));
        Box::pin(async move {
            let response = handling.await?;
            if is_not_permitted(response.headers()) && !session.is_live() {
                return Ok(session_ended().into_http());
            }
            if response.body().is_end_stream() {
                return Ok(response);
            }
            let body = |body| Body::new(SessionBody { body, ended: None, is_over: false, session, components });
            Ok(response.map(body))
        })
    }
}

/// Whether headers or trailers refuse a call for a missing permission.
fn is_not_permitted(headers: &HeaderMap) -> bool {
    headers.get(STATUS).is_some_and(|status| Code::from_bytes(status.as_bytes()) == Code::PermissionDenied)
}

/// The trailers of a status.
pub(crate) fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // The server's own messages are valid in headers.
    status.add_header(&mut trailers).expect("the status can be sent");
    trailers
}

/// The body of a response, which ends with its session while it waits for data.
struct SessionBody {
    body: Body,
    /// Waits until the session has ended. `None` until the body has waited for data.
    ended: Option<BoxedFuture<()>>,
    is_over: bool,
    session: Session,
    // Dropped last.
    components: Arc<ServiceComponents>,
}

impl SessionBody {
    /// Waits until the session has ended.
    fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let SessionBody { ended, session, components, .. } = self;
        let ended = ended.get_or_insert_with(|| {
            let (session, components) = (session.clone(), Arc::clone(components));
            Box::pin(async move { components.served().ended(&session).await })
        });
        ended.as_mut().poll(context)
    }
}

impl HttpBody for SessionBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if this.is_over {
            return Poll::Ready(None);
        }
        let frame = match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                ready!(this.poll_ended(context));
                // The work for the response ends.
                (this.is_over, this.body, this.ended) = (true, Body::empty(), None);
                return Poll::Ready(Some(Ok(Frame::trailers(trailers(&session_ended())))));
            }
        };
        let refused = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.trailers_ref());
        if refused.is_some_and(is_not_permitted) && !this.session.is_live() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers(&session_ended())))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_over { SizeHint::with_exact(0) } else { self.body.size_hint() }
    }
}
