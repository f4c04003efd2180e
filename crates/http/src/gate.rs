//! The gate of a connection: every request passes it before the routes, and every response after
//! them.
//!
//! It names the request, gives its body a deadline, and refuses what no route may see. The layers
//! below find the name in the header `X-Request-Id` of the request.

use std::convert::Infallible;
use std::future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{AUTHORIZATION, CONNECTION, EXPECT};
use axum::http::{HeaderMap, HeaderValue, Request};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use quire::system::Principal;
use quire_access::{
    BrowserSessions, ConnectionActivity, ConnectionCounters, ConnectionPlace, FirstRequest, ForwardedRequest,
    LiveSettings, Peer, RunningRequest, ServedDatabase, Session, SessionCache,
};

use crate::arriving::ArrivingBody;
use crate::error::{Problem, unauthenticated};
use crate::request_id::X_REQUEST_ID;
use crate::route_kinds::is_of_each_node;
use crate::settings::{DashboardMode, Settings};
use crate::{dashboard, request_id, rules, slashes};

/// The routes that answer on a connection beyond the limits.
const HEALTH_ROUTES: [&str; 4] = ["/healthz", "/livez", "/metrics", "/readyz"];

/// Whether a route answers clients without a session: health checks, which are brief then, and the
/// pages of errors and the files of the dashboard, which are the same on every server.
fn is_public(path: &str) -> bool {
    let is_health = matches!(path, "/healthz" | "/livez" | "/readyz");
    is_health || path.starts_with("/errors/") || dashboard::is_of_dashboard(path)
}

/// When to retry after a refused connection, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// The gate of a connection; see the module.
#[derive(Debug)]
pub(crate) struct ConnectionGate {
    routes: TowerToHyperService<Router>,
    settings: Arc<LiveSettings<Settings>>,
    counters: Arc<ConnectionCounters>,
    activity: ConnectionActivity,
    first: FirstRequest,
    peer: Peer,
    /// The principal that the connection has verified.
    verified: Option<Principal>,
    /// The address of the client, as the audit has it.
    host: String,
    served: ServedDatabase,
    sessions: SessionCache,
    browser_sessions: Arc<BrowserSessions>,
    is_reserved: bool,
    /// Whether another node forwards the connection. It has checked where the requests come from.
    is_forwarded: bool,
}

impl ConnectionGate {
    pub(crate) fn new(
        routes: Router,
        settings: Arc<LiveSettings<Settings>>,
        place: &ConnectionPlace,
        peer: Peer,
        first: FirstRequest,
        (served, browser_sessions): (ServedDatabase, Arc<BrowserSessions>),
    ) -> Self {
        ConnectionGate {
            routes: TowerToHyperService::new(routes),
            settings,
            counters: Arc::clone(place.counters()),
            activity: place.activity().clone(),
            first,
            verified: place.verified(&peer),
            is_forwarded: place.is_forwarded(),
            host: peer.host(),
            peer,
            served,
            sessions: SessionCache::default(),
            browser_sessions,
            is_reserved: place.is_reserved(),
        }
    }

    /// The settings at this moment.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.current()
    }

    pub(crate) fn counters(&self) -> &ConnectionCounters {
        &self.counters
    }

    /// Answers a request.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response, Infallible> {
        let Some(running) = self.activity.begin() else {
            // A new connection has the place of this one, which is about to be closed.
            return future::pending().await;
        };
        self.first.arrived();
        let id = request_id::of(request.headers());
        // A client that waits for a sign before it sends the body may also send its next request.
        let drains = !request.headers().contains_key(EXPECT);
        let mut request = request.map(|body| ArrivingBody::new(body, &self, drains));
        let (mut response, allowed) = match self.check(&request) {
            Ok(allowed) => {
                let allowed = allowed.cloned();
                let preflight = allowed.as_ref().and_then(|_| rules::preflight(request.method(), request.headers()));
                let response = match (preflight, slashes::encode(request.uri_mut())) {
                    (Some(response), _) => response,
                    (None, Ok(())) => {
                        request.headers_mut().insert(X_REQUEST_ID, id.clone());
                        request.extensions_mut().insert(self.peer.clone());
                        if self.is_forwarded {
                            request.extensions_mut().insert(ForwardedRequest);
                        }
                        request_id::within(id.clone(), self.routed(request)).await?
                    }
                    (None, Err(problem)) => {
                        self.counters.request_refused();
                        request_id::within(id.clone(), async { problem.into_response() }).await
                    }
                };
                (response, allowed)
            }
            Err((problem, allowed)) => {
                self.counters.request_refused();
                (request_id::within(id.clone(), async { problem.into_response() }).await, allowed)
            }
        };
        if let Some(origin) = allowed {
            rules::allow(response.headers_mut(), origin);
        }
        // A client that still waits for the sign gets none. It may send its next request, or the
        // body.
        let is_unclear = !drains && !response.status().is_success();
        if self.is_reserved || is_unclear {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.headers_mut().insert(X_REQUEST_ID, id);
        Ok(response.map(|body| Body::new(RunningBody { body, _running: running })))
    }

    /// Answers a request by its route, in the session of its client.
    async fn routed(&self, mut request: Request<ArrivingBody>) -> Result<Response, Infallible> {
        let begun = match self.browser_session(request.headers()) {
            Some(session) => Ok(session),
            None => {
                let fields = request.headers().get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
                self.served.request_session(&self.sessions, fields, self.verified.as_ref(), &self.host)
            }
        };
        match begun {
            Ok(session) => session.scope(self.routes.call(request)).await,
            // The leader judges the credential, by the newest rules, and records its refusal.
            Err(error) if self.is_for_leader(&request) => {
                request.extensions_mut().insert(error);
                self.routes.call(request).await
            }
            // These routes show no data, and everything else is refused without a session.
            Err(_) if is_public(request.uri().path()) => self.routes.call(request).await,
            Err(error) => {
                self.counters.request_refused();
                self.counters.unauthenticated(error);
                Ok(unauthenticated(error))
            }
        }
    }

    /// Whether the leader answers the request, and this node forwards it.
    fn is_for_leader(&self, request: &Request<ArrivingBody>) -> bool {
        let is_local = is_of_each_node(request.method(), request.uri().path());
        !is_local && !self.is_forwarded && self.served.forwarding().is_some()
    }

    /// The session of a browser that signed in, for a request of a page of this server. A
    /// credential of the request itself wins.
    fn browser_session(&self, headers: &HeaderMap) -> Option<Session> {
        let token = dashboard::token_of(headers).filter(|_| !headers.contains_key(AUTHORIZATION))?;
        let is_own = dashboard::is_of_own_page(headers);
        is_own.then(|| self.browser_sessions.find(token, self.served.owner().now())).flatten()
    }

    /// Returns the foreign `Origin` of a request, if it has one that is allowed.
    ///
    /// # Errors
    /// For a request that no route may see: the problem, and the allowed `Origin`, whose page may
    /// read the problem.
    fn check<'r>(
        &self,
        request: &'r Request<ArrivingBody>,
    ) -> Result<Option<&'r HeaderValue>, (Problem, Option<HeaderValue>)> {
        let (uri, headers) = (request.uri(), request.headers());
        let settings = self.settings();
        let origin = match self.is_forwarded {
            true => None,
            false => rules::check_host(&settings, &self.peer, uri, headers)
                .and_then(|host| rules::check_origin(&settings, host, request.method(), headers))
                .map_err(|problem| (problem, None))?,
        };
        let checked = if self.is_reserved && !HEALTH_ROUTES.contains(&uri.path()) {
            Err(Problem::too_many_connections().fact("retry_after_ms", RETRY_MS))
        } else if settings.dashboard == DashboardMode::Off && dashboard::is_of_dashboard(uri.path()) {
            Err(Problem::unknown_route())
        } else {
            rules::check_body(uri, headers, request.body())
        };
        checked.map(|()| origin).map_err(|problem| (problem, origin.cloned()))
    }
}

/// The body of a response. Until it is written, its request runs.
#[derive(Debug)]
struct RunningBody {
    body: Body,
    _running: RunningRequest,
}

impl HttpBody for RunningBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
