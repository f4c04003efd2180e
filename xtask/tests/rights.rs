//! `docs/rights.md` names each part of a commit, HTTP route, gRPC method and Kafka API once, as the
//! sources have them. A new one fails here until the page says which right it needs.

use std::fs;
use std::path::Path;

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first cells of the table below a heading, without their quotes. No row has an empty need.
fn rows(page: &str, heading: &str) -> Vec<String> {
    let (_, below) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = below.split("\n## ").next().expect("a section");
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert!(cells.len() >= 2 && cells[1..].iter().any(|cell| !cell.is_empty()), "{line}");
        cells[0].trim_matches('`').to_owned()
    };
    section.lines().filter(|line| line.starts_with("| `")).map(row).collect()
}

#[track_caller]
fn check(heading: &str, mut expected: Vec<String>) {
    assert!(!expected.is_empty());
    let mut shown = rows(&source("docs/rights.md"), heading);
    shown.sort_unstable();
    expected.sort_unstable();
    assert_eq!(shown, expected, "{heading}");
}

#[test]
fn each_part_of_a_commit_has_its_row() {
    let description: serde_json::Value = serde_json::from_str(&source("docs/openapi.json")).expect("JSON");
    let parts = description["components"]["schemas"]["PartRequest"]["oneOf"].as_array().expect("the parts");
    let name = |part: &serde_json::Value| {
        let fields = part["properties"].as_object().expect("fields");
        fields.keys().next().expect("a name").clone()
    };
    check("Parts of a commit", parts.iter().map(name).collect());
}

#[test]
fn each_http_route_has_its_row() {
    let routes = source("crates/http/src/routes.rs");
    let of_route = |route: &str| {
        let (path, rest) = route.split_once('"').expect("a path");
        let handlers = rest.lines().next().expect("a line").to_owned();
        let path = path.to_owned();
        [("get(", "GET"), ("post(", "POST"), ("delete(", "DELETE")].into_iter().filter_map(move |(call, method)| {
            let is_there = handlers.contains(&format!(" {call}")) || handlers.contains(&format!(".{call}"));
            is_there.then(|| format!("{method} {path}"))
        })
    };
    check("HTTP routes", routes.split(".route(\"").skip(1).flat_map(of_route).collect());
}

#[test]
fn each_grpc_method_has_its_row() {
    let mut methods = Vec::new();
    for file in ["quire", "events", "streams", "jobs", "graph", "sql"] {
        let text = source(&format!("proto/quire/v1/{file}.proto"));
        let mut service = "";
        for line in text.lines().map(str::trim) {
            if let Some(named) = line.strip_prefix("service ") {
                service = named.trim_end_matches([' ', '{']);
            } else if let Some((method, _)) = line.strip_prefix("rpc ").and_then(|rest| rest.split_once('(')) {
                methods.push(format!("{service}.{method}"));
            }
        }
    }
    check("gRPC methods", methods);
}

#[test]
fn each_kafka_api_has_its_row() {
    let apis = source("crates/kafka/src/api/mod.rs");
    let (_, offered) = apis.split_once("const OFFERED: &[OfferedApi] = &[").expect("the offered APIs");
    let (offered, _) = offered.split_once("\n];").expect("an end");
    let name = |rest: &str| rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    check("Kafka APIs", offered.split("ApiKey::").skip(1).map(name).collect());
}
