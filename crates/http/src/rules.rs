//! The rules for browsers: no page of another site reads or writes here.
//!
//! A browser sends requests for every page that a person visits, also to this machine. So:
//!
//! * `Host` names this server, as [`browser`] checks.
//! * `Origin` is this server, or an allowed one. A request without it must not come from a page of
//!   another site.
//! * A body has a type that a page of another site can not send without asking first.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE, HOST, ORIGIN,
    VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use hyper::body::Body;
use quire_access::Peer;
use quire_access::browser::{self, HostProblem};

use crate::Settings;
use crate::error::Problem;
use crate::presentation::ContentEncoding;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The types of a file to import, besides JSON.
const IMPORT_TYPES: [&str; 5] =
    ["application/x-ndjson", "text/csv", "application/graphml+xml", "application/xml", "text/xml"];

/// Checks `Host`, which names the server.
///
/// # Errors
/// When there is not exactly one, or it is not a name of this server.
pub(crate) fn check_host<'r>(
    settings: &Settings,
    peer: &Peer,
    uri: &Uri,
    headers: &'r HeaderMap,
) -> Result<&'r str, Problem> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        let count = headers.get_all(HOST).iter().count();
        return Err(Problem::invalid_host(format!("the request has {count} Host headers: send exactly one")));
    };
    let invalid = || Problem::invalid_host("the Host header is not HOST or HOST:PORT".to_owned());
    let host = host.to_str().map_err(|_| invalid())?;
    let checked = browser::check_host(&settings.hosts, peer, host);
    if checked != Err(HostProblem::Invalid)
        && uri.authority().is_some_and(|authority| !authority.as_str().eq_ignore_ascii_case(host))
    {
        return Err(Problem::invalid_host("the request's target and its Host header differ".to_owned()));
    }
    match checked {
        Ok(()) => Ok(host),
        Err(HostProblem::Invalid) => Err(invalid()),
        Err(HostProblem::Unknown) => Err(Problem::unknown_host(host)),
    }
}

/// Checks where a request comes from. Returns the `Origin` when it is another one that is allowed.
///
/// # Errors
/// When it comes from a page of another site.
pub(crate) fn check_origin<'r>(
    settings: &Settings,
    host: &str,
    method: &Method,
    headers: &'r HeaderMap,
) -> Result<Option<&'r HeaderValue>, Problem> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else {
        return if is_from_another_site(method, headers) {
            Err(Problem::foreign_origin("a page of another site may not use this server"))
        } else {
            Ok(None)
        };
    };
    let text = origin.to_str().unwrap_or_default();
    if origins.next().is_some() {
        Err(Problem::foreign_origin("the request has several Origin headers: send one, or none"))
    } else if browser::is_own_origin(text, host) {
        Ok(None)
    } else if browser::is_allowed_origin(&settings.allowed_origins, text) {
        Ok(Some(origin))
    } else {
        let message = format!(
            "a page of {text:?} may not use this server: allow it with `quire serve --http-allow-origin ORIGIN`"
        );
        Err(Problem::foreign_origin(message))
    }
}

/// Whether a browser says that the request is part of a page of another site. A link that a person
/// follows to a read is fine: the page that it was on learns nothing.
fn is_from_another_site(method: &Method, headers: &HeaderMap) -> bool {
    let is = |name: &HeaderName, value: &str| headers.get(name).is_some_and(|given| given == value);
    let is_other = is(&SEC_FETCH_SITE, "cross-site") || is(&SEC_FETCH_SITE, "same-site");
    is_other && !(method == Method::GET && is(&SEC_FETCH_MODE, "navigate"))
}

/// Checks the type and the encoding of a body.
///
/// # Errors
/// When a page of another site could send it without asking first, or its encoding is unknown.
pub(crate) fn check_body(uri: &Uri, headers: &HeaderMap, body: &impl Body) -> Result<(), Problem> {
    ContentEncoding::of_body(headers)?;
    if body.is_end_stream() {
        return Ok(());
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let kind = types.next().map_or(&b""[..], HeaderValue::as_bytes);
    let essence = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is = |known: &str| essence.eq_ignore_ascii_case(known.as_bytes());
    let is_accepted = is("application/json") || is_import(uri) && IMPORT_TYPES.into_iter().any(is);
    if is_accepted && types.next().is_none() {
        return Ok(());
    }
    Err(Problem::media_type(&String::from_utf8_lossy(kind)))
}

fn is_import(uri: &Uri) -> bool {
    uri.path().starts_with("/v1/graphs/") && uri.path().ends_with("/import")
}

/// The answer to a browser that asks whether a page of an allowed origin may send a request.
pub(crate) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response> {
    if method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let allowed = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, idempotency-key, last-event-id, quire-read, x-request-id",
        ),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    Some((StatusCode::NO_CONTENT, allowed).into_response())
}

/// Lets a page of an allowed origin read the response.
pub(crate) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("idempotent-replay, quire-position, retry-after, x-request-id"),
    );
    headers.append(VARY, HeaderValue::from_static("origin"));
}

#[cfg(test)]
mod tests {
    use axum::body::Body as WholeBody;

    use super::*;

    fn settings() -> Settings {
        Settings {
            hosts: vec!["quire.example".to_owned(), "other.example:81".to_owned()],
            allowed_origins: vec!["https://app.example".to_owned()],
            ..Settings::default()
        }
    }

    fn headers(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        headers.iter().map(pair).collect()
    }

    fn host(hosts: &[&'static str]) -> Result<(), &'static str> {
        let local = "192.0.2.7:7070".parse().expect("an address");
        let peer = Peer::tcp(local, local);
        let given: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        let checked = check_host(&settings(), &peer, &Uri::from_static("/v1/stats"), &headers(&given)).map(drop);
        checked.map_err(|problem| problem.code())
    }

    #[test]
    fn a_host_is_one_name_of_this_server_with_its_port() {
        for known in [
            "localhost:7070",
            "LocalHost:7070",
            "127.0.0.1:7070",
            "127.1.2.3:7070",
            "[::1]:7070",
            "192.0.2.7:7070",
            "quire.example",
            "quire.example:443",
            "other.example:81",
        ] {
            assert_eq!(host(&[known]), Ok(()), "{known}");
        }
        for foreign in [
            "evil.example",
            "evil.example:7070",
            "localhost",
            "localhost:7071",
            "localhost.evil.example:7070",
            "127.0.0.1.evil.example:7070",
            "192.0.2.8:7070",
            "other.example",
            "[::2]:7070",
        ] {
            assert_eq!(host(&[foreign]), Err("unknown_host"), "{foreign}");
        }
        for invalid in
            ["", ":7070", "localhost:", "localhost:70700", "a b:7070", "user@localhost:7070", "localhost:7070/"]
        {
            assert_eq!(host(&[invalid]), Err("invalid_host"), "{invalid}");
        }
        assert_eq!(host(&[]), Err("invalid_host"));
        assert_eq!(host(&["localhost:7070", "localhost:7070"]), Err("invalid_host"));
    }

    fn origin(method: &Method, given: &[(&'static str, &'static str)]) -> Result<bool, &'static str> {
        let headers = headers(given);
        let checked = check_origin(&settings(), "localhost:7070", method, &headers).map(|allowed| allowed.is_some());
        checked.map_err(|problem| problem.code())
    }

    #[test]
    fn an_origin_is_this_server_or_allowed() {
        assert_eq!(origin(&Method::POST, &[]), Ok(false));
        assert_eq!(origin(&Method::POST, &[("origin", "http://localhost:7070")]), Ok(false));
        assert_eq!(origin(&Method::POST, &[("origin", "https://app.example")]), Ok(true));
        for foreign in [
            "https://evil.example",
            "null",
            "http://localhost:3000",
            "http://localhost",
            "https://app.example.evil",
            "",
        ] {
            assert_eq!(origin(&Method::GET, &[("origin", foreign)]), Err("foreign_origin"), "{foreign}");
        }
        let two = [("origin", "https://app.example"), ("origin", "https://app.example")];
        assert_eq!(origin(&Method::GET, &two), Err("foreign_origin"));
    }

    #[test]
    fn a_request_of_another_sites_page_is_refused_without_an_origin_too() {
        for (method, site, mode, is_fine) in [
            (Method::GET, "cross-site", "no-cors", false),
            (Method::GET, "same-site", "no-cors", false),
            (Method::POST, "cross-site", "navigate", false),
            (Method::GET, "cross-site", "navigate", true),
            (Method::GET, "same-origin", "cors", true),
            (Method::GET, "none", "navigate", true),
        ] {
            let checked = origin(&method, &[("sec-fetch-site", site), ("sec-fetch-mode", mode)]);
            assert_eq!(checked.is_ok(), is_fine, "{method} {site} {mode}");
        }
    }

    fn body(path: &'static str, types: &[&'static str], body: &'static str) -> Result<(), &'static str> {
        let given: Vec<_> = types.iter().map(|kind| ("content-type", *kind)).collect();
        let checked = check_body(&Uri::from_static(path), &headers(&given), &WholeBody::from(body));
        checked.map_err(|problem| problem.code())
    }

    #[test]
    fn a_body_is_json_or_a_file_to_import() {
        const COMMIT: &str = "/v1/commit";
        for kind in ["application/json", "Application/JSON ; charset=utf-8"] {
            assert_eq!(body(COMMIT, &[kind], "{}"), Ok(()), "{kind}");
        }
        for kind in
            ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", "text/csv", ""]
        {
            assert_eq!(body(COMMIT, &[kind], "{}"), Err("unsupported_media_type"), "{kind}");
        }
        assert_eq!(body(COMMIT, &[], "{}"), Err("unsupported_media_type"));
        assert_eq!(body(COMMIT, &["application/json", "text/plain"], "{}"), Err("unsupported_media_type"));
        assert_eq!(body(COMMIT, &[], ""), Ok(()));
        for kind in ["application/json", "application/x-ndjson", "text/csv", "application/graphml+xml"] {
            assert_eq!(body("/v1/graphs/g/import", &[kind], "a"), Ok(()), "{kind}");
        }
        assert_eq!(body("/v1/graphs/g/import", &["text/plain"], "a"), Err("unsupported_media_type"));
    }

    #[test]
    fn configured_hosts_and_origins_are_whole_and_nothing_else() {
        for host in ["quire.example", "quire.example:443", "[::1]:80"] {
            assert_eq!(browser::problem_of_host(host), None);
            assert_eq!(browser::problem_of_origin(&format!("https://{host}")), None);
        }
        for host in ["", "http://quire.example", "*", "quire.example/"] {
            assert!(browser::problem_of_host(host).is_some(), "{host}");
        }
        for origin in ["*", "null", "quire.example", "https://quire.example/", "ftp://quire.example"] {
            assert!(browser::problem_of_origin(origin).is_some(), "{origin}");
        }
    }
}
