//! `quire jobs`: queues and jobs.

mod change;
mod conditions;
mod enqueue;
mod queues;
mod tail;
mod work;

use std::io::Write;

use clap::{Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use self::change::{JobCommand, ManyJobs, OneJob};
use self::conditions::JobConditions;
use self::enqueue::Enqueue;
use self::queues::Queues;
use self::tail::TailJobs;
use self::work::Work;
use super::client::{HttpClient, Path};
use super::place::DatabaseArgs;
use super::print::{OutputForm, bytes, list, time, word, words};
use crate::failure::{Result, aside};
use crate::text::grouped;

/// Most jobs per request.
const PAGE: u64 = 1_000;

/// The commands of `quire jobs`.
#[derive(Debug, Subcommand)]
pub(crate) enum Jobs {
    /// List queues with their job counts; or pause, resume, drain, limit, clear, destroy one
    Queues(Queues),
    /// List jobs, oldest first. Without a condition, lists unfinished jobs and counts the others
    List {
        /// Only jobs of this queue, like air/delays [default: all queues]
        queue: Option<String>,
        #[command(flatten)]
        which: JobConditions,
        /// Stop after this many jobs [default: list all]
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// Show a job and its history
    Show {
        /// Id of the job, like 4711-2
        job: String,
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// Enqueue a job, and print its id
    Enqueue(Enqueue),
    #[command(flatten)]
    Change(JobCommand<OneJob>),
    /// Change many jobs at once, and wait for the result
    #[command(subcommand)]
    Bulk(JobCommand<ManyJobs>),
    /// Print the life-cycle events of jobs as they happen
    Tail(TailJobs),
    /// Run a command for each job of a queue, until Ctrl-C
    Work(Work),
}

/// The state of a job.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum JobStateArg {
    /// Waiting for its time to run
    Scheduled,
    /// Ready to be fetched
    Pending,
    /// Leased to a worker
    Active,
    /// Waiting for the next attempt after a failure
    Retrying,
    /// On hold
    Held,
    /// Completed
    Completed,
    /// Cancelled
    Cancelled,
    /// Out of attempts, or expired
    Dead,
}

/// The states of the jobs that are listed without a condition.
const UNFINISHED: [JobStateArg; 5] =
    [JobStateArg::Scheduled, JobStateArg::Pending, JobStateArg::Active, JobStateArg::Retrying, JobStateArg::Held];

/// The other states.
const FINISHED: [JobStateArg; 3] = [JobStateArg::Completed, JobStateArg::Cancelled, JobStateArg::Dead];

impl JobStateArg {
    fn name(self) -> &'static str {
        match self {
            JobStateArg::Scheduled => "scheduled",
            JobStateArg::Pending => "pending",
            JobStateArg::Active => "active",
            JobStateArg::Retrying => "retrying",
            JobStateArg::Held => "held",
            JobStateArg::Completed => "completed",
            JobStateArg::Cancelled => "cancelled",
            JobStateArg::Dead => "dead",
        }
    }
}

impl Jobs {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            Jobs::Queues(queues) => queues.run(out),
            Jobs::List { queue, which, limit, place, form } => place.visit(|client| {
                which.check_names(client, queue.as_deref())?;
                let mut filter = which.filter(queue.as_deref());
                let is_default = filter.keys().all(|condition| condition == "queue");
                if is_default {
                    filter.insert("states".to_owned(), json!(UNFINISHED.map(JobStateArg::name)));
                }
                read(client, &searched(filter), limit.unwrap_or(u64::MAX), |jobs| form.print(out, jobs, job_line))?;
                if is_default {
                    out.flush()?;
                    report_finished(client, queue.as_deref())?;
                }
                Ok(())
            }),
            Jobs::Show { job, place, form } => place.visit(|client| {
                let job = client.get(&Path::new(&["jobs", &job]))?;
                form.print(out, std::slice::from_ref(&job), whole_job)
            }),
            Jobs::Enqueue(enqueue) => enqueue.run(out),
            Jobs::Change(change) => change.run(out),
            Jobs::Bulk(change) => change.run(out),
            Jobs::Tail(tail) => tail.run(out),
            Jobs::Work(work) => work.run(out),
        }
    }
}

/// Reports the number of finished jobs, which a list leaves out, and how to list them.
fn report_finished(client: &HttpClient, queue: Option<&str>) -> Result {
    let counted = match queue {
        Some(queue) => vec![client.get(&Path::new(&["queues", queue]))?],
        None => list(&client.get(&Path::new(&["queues"]))?, "data").to_vec(),
    };
    let count = |state: JobStateArg| -> u64 { counted.iter().filter_map(|queue| queue[state.name()].as_u64()).sum() };
    let finished = FINISHED.map(|state| (state, count(state)));
    let finished: Vec<_> = finished.into_iter().filter(|(_, count)| *count > 0).collect();
    if finished.is_empty() {
        return Ok(());
    }
    let counts: Vec<_> =
        finished.iter().map(|(state, count)| format!("{} {}", grouped(*count), state.name())).collect();
    let flags: Vec<_> = finished.iter().map(|(state, _)| format!("--state {}", state.name())).collect();
    aside(format_args!("not listed: {}; add {}", counts.join(", "), flags.join(" ")));
    Ok(())
}

/// The path of a search.
fn searched(filter: Map<String, Value>) -> Path {
    let mut path = Path::new(&["jobs"]);
    for (condition, wanted) in filter {
        path = match wanted {
            // A list in the body of a bulk change is a repeated parameter here.
            Value::Array(wanted) => wanted
                .iter()
                .filter_map(Value::as_str)
                .fold(path, |path, one| path.with(condition.trim_end_matches('s'), one)),
            Value::String(wanted) => path.with(&condition, wanted),
            wanted => path.with(&condition, wanted),
        };
    }
    path
}

/// The fields that have a value.
fn given<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Parses a number. Any other text is a name that the server accepts or refuses.
fn number_or_name(text: &str) -> std::result::Result<Value, std::convert::Infallible> {
    Ok(text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number)))
}

/// Reads page after page.
fn read(client: &HttpClient, path: &Path, limit: u64, mut print: impl FnMut(&[Value]) -> Result) -> Result {
    let mut path_of_page = path.clone();
    let mut left = limit;
    while left > 0 {
        let answer = client.get(&path_of_page.with("limit", left.min(PAGE)))?;
        let jobs = list(&answer, "data");
        print(jobs)?;
        left -= jobs.len() as u64;
        match answer["next_cursor"].as_str() {
            Some(next) => path_of_page = path.clone().with("cursor", next),
            None => break,
        }
    }
    Ok(())
}

fn job_line(job: &Value) -> String {
    let (id, enqueued) = (word(job, "job"), time(job, "enqueued_at_ms"));
    let (state, kind, attempt) = (word(job, "state"), word(job, "kind"), word(job, "attempt"));
    format!(
        "{id:<10} {enqueued}  {state}  {kind}  attempt {attempt}  [{}]  {}",
        words(job, "tags"),
        bytes(job, "payload")
    )
}

fn whole_job(job: &Value) -> String {
    let mut lines = vec![job_line(job), format!("  queue     {}", word(job, "queue"))];
    lines.push(format!("  priority  {}", word(job, "priority")));
    lines.push(format!("  attempts  {} of {}", word(job, "attempt"), word(job, "attempts_max")));
    if job["last_error"].is_string() {
        lines.push(format!("  error     {}", word(job, "last_error")));
    }
    if job["state"] == "completed" {
        lines.push(format!("  result    {}", bytes(job, "result")));
    }
    for step in list(job, "history") {
        lines.push(format!("  {}  {:<13} {}", time(step, "time_ms"), word(step, "what"), details(step)));
    }
    lines.join("\n")
}

/// The facts of a step in a job's history.
pub(super) fn details(step: &Value) -> String {
    let mut details = Vec::new();
    for name in ["attempt", "worker", "error", "reason"] {
        if !step[name].is_null() {
            details.push(format!("{name} {}", word(step, name)));
        }
    }
    for (name, shown) in [("until_ms", "until")] {
        if !step[name].is_null() {
            details.push(format!("{shown} {}", time(step, name)));
        }
    }
    details.join(", ")
}
