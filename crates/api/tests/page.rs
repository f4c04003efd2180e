//! `docs/errors.md` against the table: one line for each code.

use std::collections::{BTreeMap, BTreeSet};

use quire::ErrorKind;
use quire_api::{Code, Failure, KafkaCode, TimeUnit, of_error, of_reason, samples};

const PAGE: &str = include_str!("../../../docs/errors.md");

/// The lines of the table of codes.
fn lines() -> Vec<String> {
    let mut kafka: BTreeMap<Code, BTreeSet<KafkaCode>> = BTreeMap::new();
    let mut facts: BTreeMap<Code, Vec<&str>> = BTreeMap::new();
    for row in samples::rows() {
        kafka.entry(row.code).or_default().extend(row.kafka);
    }
    for reason in samples::reasons() {
        let facts = facts.entry(of_reason(&reason).code).or_default();
        for fact in Failure::of_reason(&reason, TimeUnit::Millis).facts {
            if !facts.contains(&fact.name) {
                facts.push(fact.name);
            }
        }
    }
    // Those of an error, which no refusal has.
    facts.insert(Code::NotLeader, vec!["leader", "leader_http", "leader_grpc"]);
    let quoted = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let line = |code: &Code| {
        let facts = quoted(facts.get(code).cloned().unwrap_or_default());
        let kafka = kafka.get(code).map(|codes| codes.iter().map(|code| code.name()).collect()).unwrap_or_default();
        format!(
            "| `{}` | {} | `{}` | {} | {} | {} | {} |",
            code.name(),
            code.http(),
            code.grpc().name(),
            quoted(kafka),
            facts,
            code.title(),
            code.action(),
        )
        .replace("|  |", "| |")
        .replace("|  |", "| |")
    };
    Code::ALL.iter().map(line).collect()
}

#[test]
fn the_page_has_the_table_of_codes() {
    let lines = lines();
    let shown: Vec<_> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(shown, lines, "docs/errors.md must have these lines:\n{}\n", lines.join("\n"));
}

#[test]
fn each_code_is_of_a_failure_of_the_database_or_of_a_front_end() {
    let of_front_ends = [
        Code::MalformedJson,
        Code::InvalidHost,
        Code::Unauthenticated,
        Code::ForeignOrigin,
        Code::UnknownRoute,
        Code::OffsetOutOfRange,
        Code::MemberReplaced,
        Code::MethodNotAllowed,
        Code::Timeout,
        Code::UnsupportedEncoding,
        Code::UnsupportedMediaType,
        Code::UnknownHost,
        Code::Stalled,
        Code::Stopping,
        Code::TooManyConnections,
        Code::NoSegment,
    ];
    let of_database: BTreeSet<_> = samples::rows().iter().map(|row| row.code).collect();
    for code in Code::ALL {
        assert_ne!(of_database.contains(code), of_front_ends.contains(code), "{code:?}");
    }
}

#[test]
fn each_kind_of_error_has_a_code_for_kafka_clients() {
    for kind in ErrorKind::ALL {
        assert!(of_error(kind).kafka.is_some(), "{kind:?}");
    }
}
