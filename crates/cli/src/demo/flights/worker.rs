//! The worker: it acknowledges each job in the same commit as the event for it.
//!
//! A crash between two commits returns the job when its lease expires. At no moment are the
//! passengers notified and the job unfinished, or the other way round.

use quire::events::NewEvent;
use quire::jobs::FetchedJob;
use quire::{Commit, Database};
use serde_json::{Value, json};

use super::names::{DELAYS, FLIGHTS, NOTIFIED};
use super::tally::Tally;
use crate::failure::Result;
use crate::stopwatch::Stopwatch;

/// Jobs per fetch.
const JOBS_LEASED: u32 = 32;

/// Leases some jobs and completes them. Returns their number, which is 0 when the queue is empty.
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
