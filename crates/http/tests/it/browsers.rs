//! The rules for browsers, over a real socket: every route, and what a page of an allowed origin
//! gets.

use quire_http::Settings;

use crate::served::{Answer, Served};

const ROUTES: &str = include_str!("../../src/routes.rs");

const COMMIT: &str = r#"{"parts": [{"append": {"store": "s", "events": [{"type": "Forged"}]}}]}"#;

/// Sends a request with exactly these headers.
fn send(served: &Served, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let request =
        format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
    served.send(request.as_bytes())
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.json()["code"].as_str()), (status, Some(code)), "{answer:?}");
    assert!(!answer.head.contains("access-control-"), "no page may read it: {answer:?}");
}

/// Every route with every method that it has.
fn routes() -> Vec<(&'static str, &'static str)> {
    let mut routes = Vec::new();
    for route in ROUTES.split(".route(\"").skip(1) {
        let (path, rest) = route.split_once('"').expect("a path");
        let rest = rest.lines().next().expect("a line");
        for (call, method) in [("get(", "GET"), ("post(", "POST"), ("delete(", "DELETE")] {
            if rest.contains(&format!(" {call}")) || rest.contains(&format!(".{call}")) {
                routes.push((method, path));
            }
        }
    }
    assert!(routes.len() > 60, "the routes are found: {}", routes.len());
    routes
}

#[test]
fn no_route_answers_to_a_foreign_name_or_to_a_page_of_another_site() {
    let served = Served::new();
    let port = served.address.port();
    let own = format!("Host: {}", served.address);
    for (method, path) in routes() {
        let path = &path.replace(['{', '}'], "");
        let foreign = format!("Host: evil.example:{port}");
        refused(&send(&served, method, path, &[&foreign], ""), 421, "unknown_host");
        refused(&send(&served, method, path, &[], ""), 400, "invalid_host");
        refused(&send(&served, method, path, &[&own, &own], ""), 400, "invalid_host");
        let origin = "Origin: https://evil.example";
        refused(&send(&served, method, path, &[&own, origin], ""), 403, "foreign_origin");
        let untyped = send(&served, method, path, &[&own, "Content-Type: text/plain"], COMMIT);
        refused(&untyped, 415, "unsupported_media_type");
        assert!(untyped.head.contains("accept: application/json"), "{untyped:?}");
    }
    assert_eq!(served.read("/v1/stats")["commits"], 0);
    let counts = served.connections.statistics();
    assert_eq!(counts.requests_refused, 5 * routes().len() as u64);
}

#[test]
fn a_target_and_a_host_that_differ_are_refused() {
    let served = Served::new();
    let own = format!("Host: {}", served.address);
    let target = format!("http://evil.example:{}/v1/stats", served.address.port());
    refused(&send(&served, "GET", &target, &[&own], ""), 400, "invalid_host");
    let target = format!("http://{}/v1/stats", served.address);
    assert_eq!(send(&served, "GET", &target, &[&own], "").status, 200);
}

#[test]
fn a_configured_name_is_this_server() {
    let settings = Settings { hosts: vec!["quire.example".to_owned()], ..Settings::default() };
    let served = Served::with_settings(settings, |builder| builder);
    for host in ["quire.example", "Quire.Example:8443", &format!("localhost:{}", served.address.port())] {
        assert_eq!(send(&served, "GET", "/healthz", &[&format!("Host: {host}")], "").status, 200, "{host}");
    }
    let proxied = ["Host: quire.example", "Origin: https://quire.example"];
    assert_eq!(send(&served, "GET", "/healthz", &proxied, "").status, 200);
    refused(&send(&served, "GET", "/healthz", &["Host: other.example"], ""), 421, "unknown_host");
}

#[test]
fn a_page_of_an_allowed_origin_asks_first_and_may_read_the_answer() {
    let allowed_origins = vec!["https://app.example".to_owned()];
    let served = Served::with_settings(Settings { allowed_origins, ..Settings::default() }, |builder| builder);
    let own = format!("Host: {}", served.address);
    let (app, other) = ("Origin: https://app.example", "Origin: https://other.example");
    let asks = "Access-Control-Request-Method: POST";
    let asked = send(&served, "OPTIONS", "/v1/commit", &[&own, app, asks], "");
    assert_eq!(asked.status, 204, "{asked:?}");
    for header in [
        "access-control-allow-origin: https://app.example",
        "access-control-allow-methods: get, post, delete",
        "access-control-allow-headers: authorization, content-type, idempotency-key, last-event-id, quire-read, x-request-id",
        "vary: origin",
    ] {
        assert!(asked.head.contains(header), "{header}: {asked:?}");
    }
    refused(&send(&served, "OPTIONS", "/v1/commit", &[&own, other, asks], ""), 403, "foreign_origin");
    let json = "Content-Type: application/json";
    for (headers, status) in [(&[&*own, app, json][..], 200), (&[&own, app, "Content-Type: text/plain"], 415)] {
        let answer = send(&served, "POST", "/v1/commit", headers, COMMIT);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.head.contains("access-control-allow-origin: https://app.example"), "{answer:?}");
    }
    refused(&send(&served, "POST", "/v1/commit", &[&own, other, json], COMMIT), 403, "foreign_origin");
    assert_eq!(served.read("/v1/stats")["commits"], 1);
}

#[test]
fn hosts_and_origins_that_can_not_be_are_refused() {
    let settings = Settings {
        hosts: vec!["http://quire.example".to_owned()],
        allowed_origins: vec!["*".to_owned(), "https://app.example/".to_owned()],
        ..Settings::default()
    };
    assert_eq!(settings.problems().len(), 3, "{:?}", settings.problems());
}
