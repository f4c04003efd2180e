//! The sign-in of the dashboard at an OpenID provider.
//!
//! ```text
//! GET /ui/login          ──▶ the page of the provider, where the person signs in
//! GET /ui/login/callback ──▶ a session of the browser, as `POST /ui/session` begins it; /ui
//! ```
//!
//! A cookie ties the answer of the provider to the browser that began the sign-in. It is
//! `SameSite=Lax`, because the browser comes back from another site. A failed sign-in leads to
//! `/ui?login=refused` or `/ui?login=unavailable`. Its reason is in the log of the server only.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use quire_access::{Credential, LOGIN, LoginAnswer, LoginError, Peer, PreparedLogin, ProviderLogin};

use super::session;
use crate::app::App;
use crate::error::Problem;
use crate::response::aside;

/// The cookie of a sign-in that has begun.
const NAME: &str = "__Host-quire-login";

/// `GET /ui/login`: begins a sign-in.
pub(super) async fn begin(State(app): State<Arc<App>>, extensions: Extensions) -> Result<Response, Problem> {
    let client = host_of(&extensions);
    let begun = ask(&app, move |login, app| login.begin(&client, app.owner().now())).await?;
    Ok(match begun {
        Ok(PreparedLogin { location, cookie }) => {
            redirect(&location, [login_cookie(&format!("{cookie}; Max-Age={}", LOGIN.as_secs()))])
        }
        Err(error) => failed(&error),
    })
}

/// `GET /ui/login/callback`: ends a sign-in with the answer of the provider.
pub(super) async fn finish(
    State(app): State<Arc<App>>,
    extensions: Extensions,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    // A provider may add parameters of its own.
    let Query(parameters) = Query::<Vec<(String, String)>>::try_from_uri(&uri).unwrap_or_default();
    let value = |name: &str| parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let answer = LoginAnswer {
        cookie: session::cookie_of(&headers, NAME).unwrap_or_default().to_owned(),
        state: value("state").unwrap_or_default(),
        code: value("code"),
        error: value("error"),
        issuer: value("iss"),
    };
    let finished = ask(&app, move |login, app| login.finish(&answer, app.owner().now())).await?;
    let host = host_of(&extensions);
    let principal = match finished {
        Ok(principal) => principal,
        Err(error) => {
            if matches!(error, LoginError::Refused(_)) {
                app.served().login_refused("token", &host);
            }
            return Ok(failed(&error));
        }
    };
    Ok(match app.served().session_from(&Credential::Authenticated(&principal), Some(&host)) {
        Ok(begun) => {
            let cookie = session::sign_in(&app, begun)?;
            redirect("/ui", [login_cookie("; Max-Age=0"), cookie])
        }
        // A user that is disabled here.
        Err(error) => failed(&LoginError::Refused(error.to_string())),
    })
}

/// Does work of a sign-in on a thread that may wait for the provider.
///
/// # Errors
/// When the server has no provider, or no access control.
async fn ask<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(ProviderLogin<'_>, &App) -> T + Send + 'static,
) -> Result<T, Problem> {
    let tokens = app.served().tokens().filter(|tokens| tokens.login().is_some());
    let tokens = Arc::clone(tokens.ok_or_else(Problem::unknown_route)?);
    if !app.served().is_access_enabled() {
        return Err(session::access_disabled());
    }
    let turn = app.logins.turn().await;
    let app = Arc::clone(app);
    let asked = move || tokens.login().map(|login| work(login, &app)).ok_or_else(Problem::unknown_route);
    aside(turn.hold(asked)).await
}

/// The address of the client.
fn host_of(extensions: &Extensions) -> String {
    extensions.get::<Peer>().map(Peer::host).unwrap_or_default()
}

fn login_cookie(value: &str) -> String {
    format!("{NAME}={value}; Path=/; Secure; HttpOnly; SameSite=Lax")
}

/// Sends the browser back to the dashboard, which says that the sign-in failed.
fn failed(error: &LoginError) -> Response {
    let message = "a sign-in at the OpenID provider failed";
    let page = match error {
        LoginError::Refused(_) => {
            tracing::warn!(target: "quire::server", %error, "{message}");
            "/ui?login=refused"
        }
        LoginError::Unavailable(_) => {
            tracing::error!(target: "quire::server", %error, "{message}");
            "/ui?login=unavailable"
        }
    };
    redirect(page, [])
}

/// The response, which no cache may store. No page learns the address that led to it.
fn redirect<const N: usize>(location: &str, cookies: [String; N]) -> Response {
    let value = |text: &str| HeaderValue::from_str(text).expect("it has printable characters");
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(LOCATION, value(location));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for cookie in &cookies {
        headers.append(SET_COOKIE, value(cookie));
    }
    response
}
