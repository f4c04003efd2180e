//! The filter of jobs, as options.

use clap::Args;
use serde_json::{Map, Value, json};

use super::{JobStateArg, given};
use crate::failure::Result;
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::names;

/// Conditions. A job must meet all of them.
#[derive(Debug, Args)]
pub(crate) struct JobConditions {
    /// Only jobs in this state; given several times, in any of them
    #[arg(long = "state", value_name = "STATE", value_enum)]
    pub(super) states: Vec<JobStateArg>,
    /// Only the job with this id, like 4711-2; given several times, any of them
    #[arg(long = "job", value_name = "ID")]
    jobs: Vec<String>,
    /// Only jobs for this handler
    #[arg(long)]
    kind: Option<String>,
    /// Only jobs with this tag; given several times, with all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only jobs with this text in their last error
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only jobs with at least this many attempts
    #[arg(long, value_name = "N")]
    attempts_min: Option<u16>,
    /// Only jobs enqueued at this time or later, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    enqueued_from_ms: Option<u64>,
    /// Only jobs enqueued before this time
    #[arg(long, value_name = "MS")]
    enqueued_before_ms: Option<u64>,
    /// Only jobs finished at this time or later, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    finished_from_ms: Option<u64>,
    /// Only jobs finished before this time
    #[arg(long, value_name = "MS")]
    finished_before_ms: Option<u64>,
}

impl JobConditions {
    /// Checks that the queue and the jobs of these conditions exist: no job would match otherwise.
    ///
    /// # Errors
    /// When one does not exist.
    pub(super) fn check_names(&self, client: &HttpClient, queue: Option<&str>) -> Result {
        if let Some(queue) = queue {
            client.get(&Path::new(&["queues", queue]))?;
        }
        names::check_jobs(client, &self.jobs)
    }

    /// The given conditions as the filter of a bulk change. Empty lists are left out.
    pub(super) fn filter(&self, queue: Option<&str>) -> Map<String, Value> {
        let JobConditions {
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
        let states: Vec<&str> = states.iter().copied().map(JobStateArg::name).collect();
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
