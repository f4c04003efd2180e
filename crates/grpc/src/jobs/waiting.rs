//! Waiting for jobs. A fetch takes the writer's turn, a look does not: only when a job may be had is a fetch worth it.

use std::time::Duration;

use quire::Position;
use tonic::Status;

use super::request::Fetch;
use crate::app::App;
use crate::error::failed;

/// How long to wait at most before looking again: a clock that was set is noticed after it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Waits until a fetch may give a job: because of a commit behind `seen`, or because a time has come.
pub(super) async fn until_fetchable(app: &App, fetch: &Fetch, mut seen: Position) -> Result<(), Status> {
    let queues: Vec<&str> = fetch.queues.iter().map(String::as_str).collect();
    loop {
        let now = app.database.now();
        let worth = app.database.read_published(|view| view.jobs.fetchable_at(&queues, now)).map_err(failed)?;
        let rest = match worth {
            Some(at) if at <= now => return Ok(()),
            Some(at) => Duration::from_micros(at.as_micros() - now.as_micros()),
            None => LOOK_AGAIN,
        };
        tokio::select! {
            published = app.database.arrival_after(seen) => published.map_err(failed)?,
            () = tokio::time::sleep(rest.min(LOOK_AGAIN)) => {}
        }
        seen = app.database.published();
    }
}
