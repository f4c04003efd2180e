//! `docs/http.md` against the server: its examples are run in their order, and it names every
//! route.

use serde_json::Value;

use crate::described;
use crate::served::Served;

const PAGE: &str = include_str!("../../../../docs/http.md");
const ROUTES: &str = include_str!("../../src/routes.rs");

/// Counts that say how the log is written, not what a client did, and the ids of requests.
const UNSTABLE: [&str; 6] = ["entries", "log_bytes", "syncs", "segments", "checkpoints", "request_id"];

/// A call of the page, and the answer it shows, if it shows one.
struct Example {
    command: &'static str,
    status: u16,
    answer: Option<Value>,
}

/// The `sh` blocks, each with the status and the `json` block behind it.
fn examples() -> Vec<Example> {
    let mut blocks = PAGE.split("```");
    let mut examples: Vec<Example> = Vec::new();
    blocks.next();
    while let (Some(block), Some(prose)) = (blocks.next(), blocks.next()) {
        match block.split_once('\n').expect("a block has lines") {
            ("sh", command) => {
                let status = prose.trim().parse().unwrap_or(200);
                examples.push(Example { command, status, answer: None });
            }
            ("json", answer) => {
                let example = examples.last_mut().expect("an answer stands behind its call");
                example.answer = Some(serde_json::from_str(answer).unwrap_or_else(|error| panic!("{error}: {answer}")));
            }
            (kind, _) => panic!("a block of kind {kind:?}"),
        }
    }
    examples
}

/// The path and body of a curl command.
fn request(command: &str) -> (&str, Option<&str>) {
    let command = command.trim().strip_prefix("curl -s ").unwrap_or_else(|| panic!("{command}"));
    let (url, body) = match command.split_once(" --json '") {
        Some((url, body)) => (url, Some(body.strip_suffix('\'').expect("the body is quoted"))),
        None => (command, None),
    };
    let path = url.trim_matches('\'').strip_prefix("http://127.0.0.1:7070").unwrap_or_else(|| panic!("{command}"));
    (path, body)
}

/// What the page shows, made like what came where it need not be: times, the ids of events, and how
/// the log is written.
fn agree(shown: &mut Value, came: &Value) {
    match (shown, came) {
        (Value::Object(shown), Value::Object(came)) => {
            for (name, shown) in shown {
                let Some(came) = came.get(name) else { continue };
                let is_time = name.ends_with("_ms") && name != "timestamp_ms" && came.is_number();
                let is_uuid = name == "id" && came.as_str().is_some_and(|id| id.len() == 36);
                if is_time || is_uuid || UNSTABLE.contains(&&**name) {
                    *shown = came.clone();
                } else {
                    agree(shown, came);
                }
            }
        }
        (Value::Array(shown), Value::Array(came)) => {
            shown.iter_mut().zip(came).for_each(|(shown, came)| agree(shown, came));
        }
        _ => {}
    }
}

#[test]
fn every_example_of_the_page_gives_what_it_shows() {
    // The default settings: a commit has up to 16 MiB.
    let served = Served::with(|builder| builder.segment_bytes(64 << 20));
    let examples = examples();
    assert!(examples.len() > 20, "the page has examples");
    for Example { command, status, answer } in examples {
        let (path, body) = request(command);
        let came = match body {
            Some(body) => served.post(path, body),
            None => served.get(path),
        };
        assert!(described::operation(if body.is_some() { "POST" } else { "GET" }, path).is_some(), "{command}");
        assert_eq!(came.status, status, "{command}{came:?}");
        if let Some(mut shown) = answer {
            let came = came.json();
            agree(&mut shown, &came);
            assert_eq!(shown, came, "{command}");
        }
    }
}

#[test]
fn the_page_has_every_route() {
    let routes = ROUTES.split(".route(\"").skip(1);
    let mut count = 0;
    for route in routes {
        let (path, rest) = route.split_once('"').expect("a path");
        let rest = rest.lines().next().expect("a line");
        for (call, method) in [("get(", "GET"), ("post(", "POST"), ("delete(", "DELETE")] {
            if rest.contains(&format!(" {call}")) || rest.contains(&format!(".{call}")) {
                assert!(PAGE.contains(&format!("### `{method} {path}`\n")), "{method} {path} is not on the page");
                count += 1;
            }
        }
    }
    assert_eq!(count, PAGE.matches("\n### `").count(), "the page has routes that are not there");
}
