//! Rule `graph`: the allowed dependencies between crates.
//!
//! The tables below are the architecture. A new edge is a change here, in its own commit, with the
//! reason. Dev-dependencies are not restricted.

use serde_json::Value;

use super::Violation;

/// Each workspace crate and its allowed dependencies in the workspace.
const MAY_USE: &[(&str, &[&str])] = &[
    ("quire-threads", &[]),
    ("quire-mapped", &["quire-threads"]),
    ("quire-model", &[]),
    ("quire-log", &["quire-mapped", "quire-model", "quire-threads"]),
    ("quire-streams", &["quire-model"]),
    ("quire-events", &["quire-model"]),
    ("quire-jobs", &["quire-model"]),
    ("quire-graph", &["quire-model"]),
    ("quire-system", &["quire-model"]),
    (
        "quire-shard",
        &[
            "quire-mapped",
            "quire-log",
            "quire-model",
            "quire-threads",
            "quire-streams",
            "quire-events",
            "quire-jobs",
            "quire-graph",
            "quire-system",
        ],
    ),
    (
        "quire",
        &[
            "quire-shard",
            "quire-log",
            "quire-model",
            "quire-streams",
            "quire-events",
            "quire-jobs",
            "quire-graph",
            "quire-system",
        ],
    ),
    // The shapes and the table of failures are those of the database.
    ("quire-api", &["quire"]),
    ("quire-access", &["quire"]),
    ("quire-kafka", &["quire", "quire-api", "quire-access"]),
    // A client shares the shapes of requests and replies with the server, and the ids and the
    // worker's types with the embedded API.
    ("quire-client", &["quire", "quire-api"]),
    // It replicates a shard, whose records it knows by their positions and terms, and those of the
    // model `system` that set members.
    // Its connections are accepted like all others.
    ("quire-cluster", &["quire-log", "quire-model", "quire-shard", "quire-system", "quire-access"]),
    // It knows SQLite and no database.
    ("quire-vtab", &[]),
    // SQL reads what the permitted reads of the database show.
    ("quire-sql", &["quire", "quire-vtab"]),
    ("quire-http", &["quire", "quire-api", "quire-access", "quire-sql"]),
    ("quire-grpc", &["quire", "quire-api", "quire-access", "quire-sql"]),
    (
        "quire-cli",
        &[
            "quire",
            "quire-mapped",
            "quire-log",
            "quire-model",
            "quire-streams",
            "quire-events",
            "quire-jobs",
            "quire-graph",
            "quire-access",
            "quire-cluster",
            "quire-client",
            "quire-kafka",
            "quire-http",
            "quire-grpc",
        ],
    ),
    (
        "quire-bench",
        &[
            "quire",
            "quire-mapped",
            "quire-log",
            "quire-model",
            "quire-client",
            "quire-kafka",
            "quire-http",
            "quire-grpc",
            "quire-cli",
        ],
    ),
    ("quire-sim", &["quire", "quire-mapped", "quire-log", "quire-cluster"]),
    ("quire-chaos", &["quire", "quire-client"]),
    ("xtask", &[]),
];

/// External dependencies that only these crates may have, with the reason.
const ONLY_IN: &[(&str, &[&str], &str)] = &[
    (
        "tokio",
        &[
            "quire",
            "quire-access",
            "quire-cluster",
            "quire-kafka",
            "quire-http",
            "quire-grpc",
            "quire-cli",
            "quire-bench",
        ],
        "the core knows no async runtime",
    ),
    ("axum", &["quire-http"], "the database knows no wire format"),
    ("hyper", &["quire-http", "quire-grpc"], "the database knows no wire format; `grpc` forwards calls"),
    ("hyper-util", &["quire-http", "quire-grpc"], "the database knows no wire format; `grpc` forwards calls"),
    ("tonic", &["quire-grpc", "quire-cli"], "the database knows no wire format; `cli` connects to a collector"),
    ("opentelemetry", &["quire-access", "quire-cli"], "traces leave where they come in, in builds with `otlp`"),
    ("opentelemetry_sdk", &["quire-access", "quire-cli"], "traces leave where they come in, in builds with `otlp`"),
    ("opentelemetry-otlp", &["quire-cli"], "traces and metrics are sent in one place"),
    ("opentelemetry-proto", &["quire-cli"], "traces and metrics are sent in one place"),
    ("tracing-opentelemetry", &["quire-access", "quire-cli"], "traces leave where they come in, in builds with `otlp`"),
    ("raft", &["quire-cluster"], "the database knows a term and a published position, and not how nodes agree on them"),
    ("slog", &["quire-cluster"], "`raft` asks for its logger, which is silent"),
    ("rustls", &["quire-access", "quire-client"], "connections get TLS where they are accepted, and where they begin"),
    ("tokio-rustls", &["quire-access"], "connections get TLS where they are accepted"),
    ("x509-parser", &["quire-access"], "certificates are read where they come in"),
    ("prost", &["quire-grpc"], "the database knows no wire format"),
    (
        "base64",
        &["quire-api", "quire-access", "quire-http", "quire-cli"],
        "bytes are written as text only where a protocol needs it; SASL in `access` is one",
    ),
    ("csv", &["quire-http", "quire-cli"], "files are read where they come in"),
    ("quick-xml", &["quire-http"], "files are read where they come in"),
    ("kafka-protocol", &["quire-kafka"], "the database knows no wire format"),
    ("schemars", &["quire-api", "quire-http"], "only requests and responses in JSON have a description"),
    (
        "serde",
        &["quire", "quire-api", "quire-client", "quire-http", "quire-cli", "quire-bench"],
        "stored formats are written by hand; `quire` has it for the types of its users, `api` for those of clients",
    ),
    (
        "serde_json",
        &[
            "quire",
            "quire-access",
            "quire-api",
            "quire-client",
            "quire-http",
            "quire-cli",
            "quire-bench",
            "quire-chaos",
            "xtask",
        ],
        "stored formats are written by hand; `access` reads tokens of others",
    ),
    (
        "flate2",
        &["quire-shard", "quire-http"],
        "the batches of topics are compressed in one place, responses in another",
    ),
    ("lz4_flex", &["quire-shard"], "the batches of topics are compressed and opened in one place"),
    ("snap", &["quire-shard"], "the batches of topics are compressed and opened in one place"),
    ("clap", &["quire-cli", "quire-bench", "quire-sim", "quire-chaos"], "flags are read in one place"),
    ("toml", &["quire-cli"], "files of settings are read in one place"),
    (
        "tracing",
        &["quire", "quire-access", "quire-kafka", "quire-http", "quire-grpc", "quire-cli"],
        "the core reports its state as values; `quire` reports administrative acts",
    ),
    ("tracing-subscriber", &["quire-cli"], "lines are written in one place"),
    ("parquet", &["quire-cli"], "files of other formats are written where results leave"),
    ("rustyline", &["quire-cli"], "lines are read in one place"),
    ("rusqlite", &["quire-vtab", "quire-sql"], "SQLite is used in one place, and stores nothing"),
    ("memmap2", &["quire-mapped"], "mappings are made in one place"),
];

/// Crates without any dependency.
const ALONE: &[&str] = &["quire-model"];

/// A crate of the workspace and its dependencies, without dev-dependencies.
#[derive(Debug)]
pub(super) struct Package {
    name: String,
    uses: Vec<String>,
}

/// The crates of the workspace in the output of `cargo metadata --no-deps`.
pub(super) fn packages(metadata: &Value) -> Result<Vec<Package>, String> {
    let packages = metadata["packages"].as_array().ok_or("`cargo metadata` has no packages")?;
    let package = |package: &Value| {
        let name = package["name"].as_str()?.to_owned();
        let dependencies = package["dependencies"].as_array()?.iter();
        let lasting = dependencies.filter(|dependency| dependency["kind"].as_str() != Some("dev"));
        let uses = lasting.map(|dependency| dependency["name"].as_str().map(str::to_owned)).collect::<Option<_>>()?;
        Some(Package { name, uses })
    };
    packages.iter().map(|value| package(value).ok_or("`cargo metadata` has an odd package".to_owned())).collect()
}

pub(super) fn check(packages: &[Package]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut complain = |name: &str, message: String| violations.push(Violation::new("graph", name, message));
    let is_member = |name: &str| packages.iter().any(|package| package.name == name);

    for package in packages {
        let name = &package.name;
        let Some((_, allowed)) = MAY_USE.iter().find(|(row, _)| row == name) else {
            complain(name, "this crate has no row in the table of xtask/src/tidy/graph.rs".to_owned());
            continue;
        };
        for used in &package.uses {
            if is_member(used) && !allowed.contains(&used.as_str()) {
                complain(name, format!("it may not use `{used}`; it may use: {}", list(allowed)));
            }
            let only_in = ONLY_IN.iter().find(|(outside, ..)| outside == used);
            if let Some((_, homes, reason)) = only_in
                && !homes.contains(&name.as_str())
            {
                complain(name, format!("it may not use `{used}`, only {} may: {reason}", list(homes)));
            }
            if ALONE.contains(&name.as_str()) {
                complain(name, format!("it uses `{used}`, but must depend on nothing"));
            }
        }
    }
    for (row, _) in MAY_USE {
        if !is_member(row) {
            complain(
                row,
                "the table of xtask/src/tidy/graph.rs has a row for it, but there is no such crate".to_owned(),
            );
        }
    }
    violations
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every crate of the table with every allowed edge.
    fn full() -> Vec<Package> {
        let package = |(name, uses): &(&str, &[&str])| Package {
            name: (*name).to_owned(),
            uses: uses.iter().map(|used| (*used).to_owned()).collect(),
        };
        MAY_USE.iter().map(package).collect()
    }

    #[track_caller]
    fn check_with(name: &str, extra: &str, expect: &str) {
        let mut packages = full();
        packages.iter_mut().find(|package| package.name == name).expect("a row").uses.push(extra.to_owned());
        let violations = check(&packages);
        assert_eq!(violations.len(), usize::from(!expect.is_empty()), "{violations:?}");
        assert!(violations.iter().all(|violation| violation.place == name && violation.message.contains(expect)));
    }

    #[test]
    fn every_allowed_edge_passes() {
        assert_eq!(check(&full()), []);
        check_with("quire-log", "crc-fast", "");
        check_with("quire-http", "tokio", "");
    }

    #[test]
    fn an_edge_that_the_table_does_not_have_is_named() {
        check_with(
            "quire-http",
            "quire-log",
            "may not use `quire-log`; it may use: quire, quire-api, quire-access, quire-sql",
        );
        check_with("quire-events", "quire-jobs", "may not use `quire-jobs`");
        check_with("quire-threads", "quire-mapped", "it may use: nothing");
        check_with("quire-log", "quire", "may not use `quire`");
    }

    #[test]
    fn an_outside_dependency_stays_in_its_home() {
        check_with("quire-shard", "tokio", "the core knows no async runtime");
        check_with("quire-shard", "serde", "written by hand");
        check_with("quire-shard", "quire", "may not use `quire`");
        check_with("quire-kafka", "serde_json", "written by hand");
        check_with("quire-model", "hashbrown", "depend on nothing");
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_named() {
        let mut packages = full();
        packages[0].name = "quire-utils".to_owned();
        let places: Vec<_> = check(&packages).into_iter().map(|violation| violation.place).collect();
        assert_eq!(places, ["quire-utils", "quire-threads"]);
    }

    #[test]
    fn dev_dependencies_are_free_and_build_dependencies_are_not() {
        let metadata = serde_json::json!({ "packages": [{ "name": "quire-model", "dependencies": [
            { "name": "proptest", "kind": "dev" }, { "name": "cc", "kind": "build" }, { "name": "core", "kind": null },
        ] }] });
        assert_eq!(packages(&metadata).expect("packages")[0].uses, ["cc", "core"]);
    }
}
