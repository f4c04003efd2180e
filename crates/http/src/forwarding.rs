//! Requests of a node that does not lead: the leader answers them.
//!
//! ```text
//! request ─▶ gate, session ─▶ this node leads? ─▶ route
//!                                 └ no ─▶ the leader's gate, session and route ─▶ response
//! ```
//! The client needs not know the leader. The leader gets the credential of the request, or the
//! principal that this node has authenticated by a certificate, a Unix socket or a cookie, and
//! checks its rights.
//!
//! This node sends a request once. If the connection ends before the response begins, or another
//! node leads, a commit may have happened, and its client learns that.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, COOKIE, EXPECT, ORIGIN, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use quire::{Error, ErrorKind};
use quire_access::budget::FrontEnd;
use quire_access::{
    AuthenticationError, BoxedFuture, ForwardOrigin, ForwardRefusal, ForwardedRequest, Forwarder, LeaderConnection,
    Peer, PeerStream, Session,
};

use crate::app::App;
use crate::error::{self, Problem};
use crate::local_read;
use crate::route_kinds::{is_of_each_node, is_read};

/// Headers about one connection, and those by which this node has checked the client already. This
/// node compresses the response itself.
const OF_THIS_NODE: [HeaderName; 11] = [
    ACCEPT_ENCODING,
    CONNECTION,
    COOKIE,
    EXPECT,
    ORIGIN,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("sec-fetch-site"),
];

/// Answers a request by its route, or by the leader where another node leads.
pub(crate) async fn forward(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let extensions = request.extensions();
    let route = extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let local_read = match local_read::of_request(request.method(), route, request.headers()) {
        Ok(local_read) => local_read,
        Err(problem) => return problem.into_response(),
    };
    let is_of_this_node = is_of_each_node(request.method(), route) || local_read.is_some();
    let is_local = is_of_this_node || extensions.get::<ForwardedRequest>().is_some();
    let forwarding = app.served().forwarding().filter(|_| !is_local);
    match (forwarding, extensions.get::<Peer>()) {
        (Some(forwarding), Some(peer)) => {
            let is_read = is_read(request.method(), route);
            let peer = peer.clone();
            match ask_leader(&app, forwarding, peer, is_read, request).await {
                Ok(response) => response,
                Err(problem) => problem.into_response(),
            }
        }
        _ => match extensions.get::<AuthenticationError>() {
            // The gate left the credential to the leader, and this node leads by now. It may know
            // the credential meanwhile.
            Some(_) if !is_local => not_leader(&app).into_response(),
            Some(error) => error::unauthenticated(*error),
            None => match local_read {
                Some(local_read) => local_read::answer(local_read, &app, request, next).await,
                None => next.run(request).await,
            },
        },
    }
}

async fn ask_leader(
    app: &App,
    forwarding: &Forwarder,
    peer: Peer,
    is_read: bool,
    request: Request,
) -> Result<Response, Problem> {
    // A credential of the request goes with it.
    let principal = match request.headers().contains_key(AUTHORIZATION) {
        true => None,
        false => Session::current().and_then(|session| session.principal().cloned()),
    };
    let origin = ForwardOrigin { front_end: FrontEnd::Http, peer, principal };
    match forwarding.connect(origin).await {
        Ok(LeaderConnection { stream, deposed }) => exchange(stream, is_read, request, ended(app, deposed)).await,
        Err(ForwardRefusal::NoLeader) => Err(not_leader(app)),
        Err(ForwardRefusal::Busy(busy)) => Err(error::busy(&busy, busy.retry_after())),
    }
}

/// The error of a node that does not lead, and knows no leader that it reaches.
fn not_leader(app: &App) -> Problem {
    match app.owner().read(|_| ()) {
        Err(error) => error.into(),
        Ok(_) => Error::new(ErrorKind::NotLeader, "this node has begun to lead; repeat the request").into(),
    }
}

/// Waits until the session of the running request has ended, or the leader is `deposed`.
fn ended(app: &App, deposed: BoxedFuture<()>) -> BoxedFuture<()> {
    let served = app.served().clone();
    Box::pin(Session::carried(async move {
        tokio::select! {
            () = served.current_ended() => {}
            () = deposed => {}
        }
    }))
}

async fn exchange(
    leader: PeerStream,
    is_read: bool,
    request: Request,
    mut ended: BoxedFuture<()>,
) -> Result<Response, Problem> {
    let broken = |why: String| {
        let (kind, effect) = match is_read {
            true => (ErrorKind::NotLeader, "repeat the request"),
            false => (ErrorKind::Unsettled, "the commit may have happened"),
        };
        Problem::from(Error::new(kind, format!("the leader gave no response: {why}; {effect}")))
    };
    let (mut sender, connection) =
        http1::handshake::<_, Body>(TokioIo::new(leader)).await.map_err(|error| broken(error.to_string()))?;
    let (mut parts, body) = request.into_parts();
    OF_THIS_NODE.iter().for_each(|name| drop_all(&mut parts.headers, name));
    (parts.version, parts.extensions) = (Version::HTTP_11, Default::default());
    // Ends with the response, or when this node drops the response because its client has left.
    tokio::spawn(connection);
    let response = tokio::select! {
        response = sender.send_request(Request::from_parts(parts, body)) => {
            response.map_err(|error| broken(error.to_string()))?
        }
        () = &mut ended => return Err(broken("it leads no longer".to_owned())),
    };
    let (mut parts, body) = response.into_parts();
    [&CONNECTION, &TRANSFER_ENCODING].into_iter().for_each(|name| drop_all(&mut parts.headers, name));
    Ok(Response::from_parts(parts, Body::new(ForwardedBody { body, ended })))
}

/// The body of the leader's response. It ends when the session of the client ends on this node,
/// which alone knows sessions of browsers, and when the leader leads no longer.
struct ForwardedBody {
    body: Incoming,
    ended: BoxedFuture<()>,
}

impl HttpBody for ForwardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new))),
            Poll::Pending => {
                ready!(self.ended.as_mut().poll(context));
                Poll::Ready(Some(Err(axum::Error::new("the session of the client has ended, or another node leads"))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn drop_all(headers: &mut HeaderMap, name: &HeaderName) {
    while headers.remove(name).is_some() {}
}
