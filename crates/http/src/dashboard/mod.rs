//! The dashboard: a page in the browser, in the program itself.
//!
//! ```text
//! GET /, /ui, /ui/commits/17 … ──▶ index.html, which shows the page of the path
//! GET /ui/assets/NAME          ──▶ a file of the bundle; its name has the hash of its content
//! /ui/session                  ──▶ the sign-in with an API key
//! /ui/login                    ──▶ the sign-in at an OpenID provider
//! ```
//!
//! The page has no rights of its own: it uses the API, in the session of its user. So its files
//! need no session. The sources are in `dashboard/`, and their build writes [`assets`].

mod assets;
mod login;
mod session;

use std::io::Write;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::app::App;
use crate::error::Problem;
use crate::params::PathNames;
use crate::presentation::{ContentEncoding, Presentation};

pub(crate) use session::{is_of_own_page, token_of};

/// Who serves what: scripts, styles, images and data come from this server only, and no other page
/// may show this one in a frame.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
);

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// The name of the page that shows all others.
const INDEX: &str = "index.html";

/// A file of the bundle, and its compressed form.
struct DashboardFile {
    name: &'static str,
    plain: Bytes,
    gzip: Bytes,
}

static FILES: LazyLock<Vec<DashboardFile>> = LazyLock::new(|| assets::FILES.iter().map(DashboardFile::of).collect());

impl DashboardFile {
    fn of((name, content): &(&'static str, &'static [u8])) -> Self {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).expect("memory can be written");
        let gzip = encoder.finish().expect("memory can be written").into();
        DashboardFile { name, plain: Bytes::from_static(content), gzip }
    }

    fn response(&self) -> Response {
        let kind = match self.name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "application/octet-stream",
        };
        // The names of the other files change with their content.
        let cache = if self.name == INDEX { "no-cache" } else { "public, max-age=31536000, immutable" };
        let is_gzip = Presentation::current().encoding == Some(ContentEncoding::Gzip);
        let body = if is_gzip { &self.gzip } else { &self.plain };
        let mut response = body.clone().into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
        headers.insert(CONTENT_SECURITY_POLICY, POLICY);
        headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
        if is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// Whether a path is of the dashboard.
pub(crate) fn is_of_dashboard(path: &str) -> bool {
    path == "/" || path == "/ui" || path.starts_with("/ui/")
}

/// The routes of the dashboard. They are no part of the API.
pub(crate) fn routes() -> Router<Arc<App>> {
    let index = || async { file(INDEX) };
    Router::new()
        .route("/", get(index))
        .route("/ui", get(index))
        .route("/ui/session", get(session::current).post(session::begin).delete(session::end))
        .route("/ui/login", get(login::begin))
        .route("/ui/login/callback", get(login::finish))
        .route("/ui/{*path}", get(index))
        .route("/ui/assets/{name}", get(async |PathNames(name): PathNames<String>| file(&name)))
}

fn file(name: &str) -> Result<Response, Problem> {
    let file = FILES.iter().find(|file| file.name == name);
    file.map(DashboardFile::response).ok_or_else(|| Problem::not_found(format!("the dashboard has no file {name:?}")))
}
