//! The files of the dashboard.

use quire_http::{DashboardMode, Settings};

use crate::served::{Answer, Served};

/// Asks for a file, which is not described in the API.
fn file(server: &Served, path: &str) -> Answer {
    server.send(server.head("GET", path, 0, "Connection: close\r\n").as_bytes())
}

#[test]
fn every_path_of_the_dashboard_is_the_same_page_under_a_strict_policy() {
    let server = Served::new();
    for path in ["/", "/ui", "/ui/commits/17", "/ui/queues/shop%2Forders/jobs?state=dead"] {
        let answer = file(&server, path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(answer.head.contains("content-type: text/html"), "{answer:?}");
        assert!(answer.head.contains("content-security-policy: default-src 'self'; "), "{answer:?}");
        assert!(answer.head.contains("x-content-type-options: nosniff"), "{answer:?}");
        assert!(!answer.text.contains("<script>"), "an inline script: {}", answer.text);
    }
}

#[test]
fn the_page_names_files_that_are_there_and_may_be_cached() {
    let server = Served::new();
    let page = file(&server, "/").text;
    let files: Vec<&str> = page.split("\"/ui/assets/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(files.len() >= 2, "{page}");
    for name in files {
        let answer = file(&server, &format!("/ui/assets/{name}"));
        assert_eq!(answer.status, 200, "{name}");
        assert!(answer.head.contains("immutable"), "{answer:?}");
    }
    assert_eq!(file(&server, "/ui/assets/none.js").status, 404);
}

#[test]
fn the_dashboard_needs_no_session_and_its_data_does() {
    let server = Served::new();
    server.database.as_ref().expect("it is open").access().init("root").expect("initialised");
    assert_eq!(file(&server, "/ui/commits").status, 200);
    assert_eq!(server.get("/v1/commits").status, 401);
}

#[test]
fn a_server_without_the_dashboard_does_not_know_its_paths() {
    let settings = Settings { dashboard: DashboardMode::Off, ..Settings::default() };
    let server = Served::with_settings(settings, |builder| builder);
    for path in ["/", "/ui", "/ui/commits", "/ui/assets/index.html"] {
        let answer = file(&server, path);
        assert_eq!((answer.status, &answer.json()["code"]), (404, &"unknown_route".into()), "{path}");
    }
    assert_eq!(server.get("/v1/commits").status, 200);
}
