//! Calls of a node that does not lead: the leader answers them.
//!
//! ```text
//! call ─▶ session, metering ─▶ this node leads? ─▶ service
//!                                 └ no ─▶ the leader's session and service ─▶ response
//! ```
//! As over HTTP: this node sends a call once, and a commit whose connection ends before the
//! response begins may have happened.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use quire::{Error, ErrorKind};
use quire_access::budget::FrontEnd;
use quire_access::{BoxedFuture, ForwardOrigin, ForwardRefusal, Forwarder, LeaderConnection, PeerStream, Session};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use tonic::codegen::http::{HeaderMap, HeaderName, Request, Response, Uri, Version};

use crate::app::ServiceComponents;
use crate::connections::CallOrigin;
use crate::error::{self, failed, not_leader};
use crate::linearizable::is_read;
use crate::local_read::QUIRE_READ;
use crate::sessions::trailers;

/// The calls that a leader answers. A node answers others, such as reflection, for itself.
const OF_LEADER: &str = "/quire.v1.";

/// Headers by which this node has checked the client already, and the name of this node.
const OF_THIS_NODE: [HeaderName; 4] = [COOKIE, HOST, ORIGIN, HeaderName::from_static("sec-fetch-site")];

/// Returns what forwards a call, if the leader answers it and another node leads now.
pub(crate) fn forwarding_of<'c>(
    components: &'c ServiceComponents,
    path: &str,
    metadata: &HeaderMap,
    origin: &CallOrigin,
) -> Option<&'c Forwarder> {
    let is_of_leader = path.starts_with(OF_LEADER) && !metadata.contains_key(QUIRE_READ);
    components.served().forwarding().filter(|_| is_of_leader && !origin.identity.is_forwarded)
}

/// Answers a call by the leader.
pub(crate) async fn ask_leader(
    components: &ServiceComponents,
    forwarding: Forwarder,
    origin: CallOrigin,
    request: Request<Body>,
) -> Response<Body> {
    // A credential of the call goes with it.
    let principal = match request.headers().contains_key(AUTHORIZATION) {
        true => None,
        false => Session::current().and_then(|session| session.principal().cloned()),
    };
    let origin = ForwardOrigin { front_end: FrontEnd::Grpc, peer: origin.peer, principal };
    let answered = match forwarding.connect(origin).await {
        Ok(LeaderConnection { stream, deposed }) => exchange(stream, deposed, request).await,
        Err(ForwardRefusal::NoLeader) => Err(not_leader(components.served().owner())),
        Err(ForwardRefusal::Busy(busy)) => Err(error::busy(&busy, busy.retry_after())),
    };
    answered.unwrap_or_else(Status::into_http)
}

async fn exchange(
    leader: PeerStream,
    mut deposed: BoxedFuture<()>,
    request: Request<Body>,
) -> Result<Response<Body>, Status> {
    let path = request.uri().path();
    let is_read = is_read(path);
    let broken = |why: String| {
        let (kind, effect) = match is_read {
            true => (ErrorKind::NotLeader, "repeat the call"),
            false => (ErrorKind::Unsettled, "the commit may have happened"),
        };
        failed(Error::new(kind, format!("the leader gave no response: {why}; {effect}")))
    };
    let uri = Uri::builder().scheme("http").authority("leader").path_and_query(path).build();
    let uri = uri.expect("the path of a call is valid");
    let handshake = http2::handshake::<_, _, Body>(TokioExecutor::new(), TokioIo::new(leader));
    let (mut sender, connection) = handshake.await.map_err(|error| broken(error.to_string()))?;
    let (mut parts, body) = request.into_parts();
    OF_THIS_NODE.iter().for_each(|name| while parts.headers.remove(name).is_some() {});
    (parts.uri, parts.version, parts.extensions) = (uri, Version::HTTP_2, Default::default());
    // Ends with the response, or when this node drops the response because its client has left.
    tokio::spawn(connection);
    let response = tokio::select! {
        response = sender.send_request(Request::from_parts(parts, body)) => {
            response.map_err(|error| broken(error.to_string()))?
        }
        () = &mut deposed => return Err(broken("it leads no longer".to_owned())),
    };
    Ok(response.map(|body| Body::new(ForwardedResponse { body, deposed, is_over: false })))
}

/// The body of the leader's response. It ends when the leader leads no longer.
struct ForwardedResponse {
    body: Incoming,
    deposed: BoxedFuture<()>,
    is_over: bool,
}

impl HttpBody for ForwardedResponse {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let why = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Err(error))) => format!("the connection to the leader ended: {error}; repeat the call"),
            Poll::Ready(Some(Ok(frame))) => return Poll::Ready(Some(Ok(frame))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {
                ready!(self.deposed.as_mut().poll(context));
                "the node that led leads no longer; repeat the call".to_owned()
            }
        };
        self.is_over = true;
        let status = failed(Error::new(ErrorKind::NotLeader, why));
        Poll::Ready(Some(Ok(Frame::trailers(trailers(&status)))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_over { SizeHint::with_exact(0) } else { self.body.size_hint() }
    }
}
