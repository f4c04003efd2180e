//! Which jobs a verb is about: the conditions of a search, as options.

use clap::Args;
use serde_json::{Map, Value, json};

use super::{State, given};

/// Conditions, all of which must hold.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// In this state; may be given several times: in any of them
    #[arg(long = "state", value_name = "STATE", value_enum)]
    pub(super) states: Vec<State>,
    /// With this id, like 4711-2; may be given several times: any of them
    #[arg(long = "job", value_name = "ID")]
    jobs: Vec<String>,
    /// For this handler
    #[arg(long)]
    kind: Option<String>,
    /// With this tag; may be given several times: all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// With this text in its last error
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// With so many attempts begun, or more
    #[arg(long, value_name = "N")]
    attempts_min: Option<u16>,
    /// Enqueued at this time or later, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    enqueued_from_ms: Option<u64>,
    /// Enqueued before this time
    #[arg(long, value_name = "MS")]
    enqueued_before_ms: Option<u64>,
    /// Completed, cancelled or dead since this time, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    finished_from_ms: Option<u64>,
    /// Completed, cancelled or dead before this time
    #[arg(long, value_name = "MS")]
    finished_before_ms: Option<u64>,
}

impl Which {
    /// The conditions that are given, as the filter of a bulk change has them; lists are left out when they are empty.
    pub(super) fn filter(self, queue: Option<String>) -> Map<String, Value> {
        let Which {
            states,
            jobs,
            kind,
            tags,
            error,
            attempts_min,
            enqueued_from_ms,
            enqueued_before_ms,
            finished_from_ms,
            finished_before_ms,
        } = self;
        let states: Vec<&str> = states.into_iter().map(State::name).collect();
        let list = |values: Value| if values == json!([]) { Value::Null } else { values };
        given([
            ("queue", json!(queue)),
            ("states", list(json!(states))),
            ("jobs", list(json!(jobs))),
            ("kind", json!(kind)),
            ("tags", list(json!(tags))),
            ("error", json!(error)),
            ("attempts_min", json!(attempts_min)),
            ("enqueued_from_ms", json!(enqueued_from_ms)),
            ("enqueued_before_ms", json!(enqueued_before_ms)),
            ("finished_from_ms", json!(finished_from_ms)),
            ("finished_before_ms", json!(finished_before_ms)),
        ])
    }
}
