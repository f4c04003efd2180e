//! The worker: each job is acknowledged in the same commit as the event that says it was done.
//!
//! Were the worker to die between two commits, the job would come back when its lease runs out; there is no moment at which
//! the passengers are notified and the job is not done, or the other way round.

use quire::events::NewEvent;
use quire::jobs::FetchedJob;
use quire::{Commit, Database};
use serde_json::{Value, json};

use super::names::{DELAYS, FLIGHTS, NOTIFIED};
use super::tally::Tally;
use crate::failure::Result;
use crate::stopwatch::Stopwatch;

/// How many jobs the worker leases at a time.
const JOBS_LEASED: u32 = 32;

/// Leases some jobs and does them; says how many there were. None: the queue is worked off.
///
/// # Errors
/// When the database fails.
pub(super) fn work(database: &Database, tally: &mut Tally) -> Result<u64> {
    let jobs = database.queue(DELAYS).fetch("demo-worker", JOBS_LEASED)?;
    for job in &jobs {
        notify(database, job, tally)?;
    }
    Ok(jobs.len() as u64)
}

fn notify(database: &Database, job: &FetchedJob, tally: &mut Tally) -> Result {
    let departure: Value = serde_json::from_slice(&job.payload).unwrap_or_default();
    let tag = |name: &str| departure[name].as_str().map(|value| format!("{name}:{value}"));
    let tags: Vec<String> = ["plane", "flight"].into_iter().filter_map(tag).collect();
    let data = json!({ "flight": departure["flight"], "delay_minutes": departure["delay_minutes"], "job": job.job.to_string() });
    let data = data.to_string();
    let event = tags.iter().fold(NewEvent::new(NOTIFIED).data(&data), |event, tag| event.tag(tag));
    let commit = Commit::new().ack(job.job, job.token, b"notified").append(FLIGHTS, [event]);
    let watch = Stopwatch::start();
    database.commit(&commit)?.committed()?;
    tally.latencies.record(watch.elapsed());
    tally.jobs_done += 1;
    Ok(())
}
