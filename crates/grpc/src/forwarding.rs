//! Calls of a node that does not lead: the leader answers them.
//!
//! ```text
//! call ─▶ session, metering ─▶ this node leads? ─▶ service
//!                                 └ no ─▶ the leader's session and service ─▶ response
//! ```
//! As over HTTP: this node sends a call once, and a commit whose connection ends before the
//! response begins may have happened.

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use quire::{Error, ErrorKind};
use quire_access::budget::FrontEnd;
use quire_access::{ForwardOrigin, Forwarder, PeerStream, Session};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use tonic::codegen::http::{HeaderName, Request, Response, Uri, Version};

use crate::app::ServiceComponents;
use crate::connections::CallOrigin;
use crate::error::{failed, not_leader};
use crate::linearizable::is_read;

/// The calls that a leader answers. A node answers others, such as reflection, for itself.
const OF_LEADER: &str = "/quire.v1.";

/// Headers by which this node has checked the client already, and the name of this node.
const OF_THIS_NODE: [HeaderName; 4] = [COOKIE, HOST, ORIGIN, HeaderName::from_static("sec-fetch-site")];

/// Returns what forwards a call, if the leader answers it and another node leads now.
pub(crate) fn forwarding_of<'c>(
    components: &'c ServiceComponents,
    path: &str,
    origin: &CallOrigin,
) -> Option<&'c Forwarder> {
    let is_of_leader = path.starts_with(OF_LEADER) && !origin.identity.is_forwarded;
    components.served().forwarding().filter(|_| is_of_leader)
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
        Some(Ok(leader)) => exchange(leader, request).await,
        // Nothing was sent.
        _ => Err(not_leader(components.served().owner())),
    };
    answered.unwrap_or_else(Status::into_http)
}

async fn exchange(leader: PeerStream, request: Request<Body>) -> Result<Response<Body>, Status> {
    let path = request.uri().path();
    let is_read = is_read(path);
    let ended = |error: hyper::Error| {
        let (kind, effect) = match is_read {
            true => (ErrorKind::NotLeader, "repeat the call"),
            false => (ErrorKind::Unsettled, "the commit may have happened"),
        };
        let why = format!("the connection to the leader ended before its response: {error}; {effect}");
        failed(Error::new(kind, why))
    };
    let uri = Uri::builder().scheme("http").authority("leader").path_and_query(path).build();
    let uri = uri.expect("the path of a call is valid");
    let handshake = http2::handshake::<_, _, Body>(TokioExecutor::new(), TokioIo::new(leader));
    let (mut sender, connection) = handshake.await.map_err(ended)?;
    let (mut parts, body) = request.into_parts();
    OF_THIS_NODE.iter().for_each(|name| while parts.headers.remove(name).is_some() {});
    (parts.uri, parts.version, parts.extensions) = (uri, Version::HTTP_2, Default::default());
    // Ends with the response, or when this node drops the response because its client has left.
    tokio::spawn(connection);
    let response = sender.send_request(Request::from_parts(parts, body)).await.map_err(ended)?;
    Ok(response.map(Body::new))
}
