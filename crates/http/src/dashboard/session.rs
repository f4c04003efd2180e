//! The sign-in of the dashboard: a cookie in place of an API key.
//!
//! ```text
//! POST /ui/session {"key": "qk_…"} ──▶ a session of the browser; its token in a cookie
//! GET /ui/session                  ──▶ who is signed in
//! DELETE /ui/session               ──▶ the session ends
//! ```
//!
//! The cookie counts for pages of this server only: a browser says with each request which page
//! sends it (`Sec-Fetch-Site`, else `Origin`). No script can read the cookie, no other host can set
//! it, and no browser sends it without TLS, except to this machine.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, COOKIE, HOST, ORIGIN, SET_COOKIE};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use quire::{Error, ErrorKind};
use quire_access::{BROWSER_SESSION, BoundedRequest, Credential, Peer, Session, browser};
use quire_api::Code;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::body::Body;
use crate::error::Problem;
use crate::response::JsonResponse;

/// The cookie. A browser takes this prefix with `Secure`, without `Domain` and with `Path=/` only.
const NAME: &str = "__Host-quire-session";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A key to sign in with. It has no `Debug`, which would show it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn<'r> {
    #[serde(borrow)]
    key: Cow<'r, str>,
}

/// Who is signed in.
#[derive(Debug, Serialize)]
struct SignedIn {
    principal: Option<String>,
    /// The host of the OpenID provider at which a person can sign in.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
}

impl SignedIn {
    fn of(app: &App, session: Option<&Session>) -> Self {
        let principal = session.and_then(Session::principal).map(|principal| principal.name.to_string());
        let login = app.served().tokens().and_then(|tokens| tokens.login());
        SignedIn { principal, provider: login.map(|login| login.host().to_owned()) }
    }
}

/// The token in the cookie of a request.
pub(crate) fn token_of(headers: &HeaderMap) -> Option<&str> {
    cookie_of(headers, NAME)
}

/// The value of a cookie of a request.
pub(super) fn cookie_of<'r>(headers: &'r HeaderMap, name: &str) -> Option<&'r str> {
    let fields = headers.get_all(COOKIE).iter().filter_map(|field| field.to_str().ok());
    let mut pairs = fields.flat_map(|field| field.split(';'));
    pairs.find_map(|pair| pair.trim_ascii().strip_prefix(name)?.strip_prefix('='))
}

/// Whether a page of this server sent the request.
pub(crate) fn is_of_own_page(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site == "same-origin";
    }
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    text(ORIGIN).zip(text(HOST)).is_some_and(|(origin, host)| browser::is_own_origin(origin, host))
}

/// `POST /ui/session`: signs in with an API key.
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    extensions: Extensions,
    body: Body,
) -> Result<Response, Problem> {
    let request = BoundedRequest::begin(&app.database());
    let key = body.bounded(request, |_, text| Ok(text.parse::<SignIn<'_>>()?.key.to_string())).await?;
    let host = extensions.get::<Peer>().map(Peer::host);
    let session = app.served().session_from(&Credential::Key(&key), host.as_deref());
    let session = session.map_err(|error| Problem::new(Code::Unauthenticated, error.to_string()))?;
    let reply = SignedIn::of(&app, Some(&session));
    let cookie = sign_in(&app, session)?;
    Ok(answer(&app, &reply, Some(cookie)))
}

/// Begins a session of the browser with the rights of `session`. Returns its cookie.
///
/// # Errors
/// When access control is not enabled, or the system has no random numbers.
pub(super) fn sign_in(app: &App, session: Session) -> Result<String, Problem> {
    if session.principal().is_none() {
        return Err(access_disabled());
    }
    let token = app.browser_sessions.begin(session, app.owner().now());
    let token = token.map_err(|error| {
        Error::new(ErrorKind::Io, format!("the system has no random numbers for a session: {error}"))
    })?;
    Ok(cookie(&format!("{token}; Max-Age={}", BROWSER_SESSION.as_secs())))
}

/// The answer to a sign-in where no one is checked.
pub(super) fn access_disabled() -> Problem {
    Problem::new(Code::AccessDisabled, "access control is not enabled: no one signs in")
}

/// `GET /ui/session`: who is signed in.
pub(super) async fn current(State(app): State<Arc<App>>) -> Response {
    answer(&app, &SignedIn::of(&app, Session::current().as_ref()), None)
}

/// `DELETE /ui/session`: signs out. Like every request, it counts for pages of this server only.
pub(super) async fn end(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if let Some(token) = token_of(&headers).filter(|_| is_of_own_page(&headers)) {
        app.browser_sessions.end(token);
    }
    answer(&app, &SignedIn::of(&app, None), Some(cookie("; Max-Age=0")))
}

/// The response, which no cache may store, with a new value of the cookie.
fn answer(app: &App, reply: &SignedIn, cookie: Option<String>) -> Response {
    let mut response = JsonResponse::of_done(&app.memory, reply).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie {
        let cookie = HeaderValue::from_str(&cookie).expect("it has printable characters");
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The field of the cookie with this value and its lifetime.
fn cookie(value: &str) -> String {
    format!("{NAME}={value}; Path=/; Secure; HttpOnly; SameSite=Strict")
}
