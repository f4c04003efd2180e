//! Life-cycle events as a stream, in pages.

use std::sync::Arc;

use bytes::Bytes;
use quire::LifeEvents;
use quire::jobs::{Cursor, JobEvent, LifeEvent, LifeFilter};
use quire_access::BoundedRequest;
use tonic::Status;

use super::change::job_id;
use super::read::{step, word};
use super::request::chosen;
use crate::app::App;
use crate::error::{failed, invalid};
use crate::pages::{PAGE_BYTES, PAGE_ITEMS_MAX, PageStream, PagedResult, stream_later};
use crate::proto::subscribe_jobs_request::Begin;
use crate::proto::{self, SubscribeJobsRequest, SubscribeJobsResponse};

fn message(event: LifeEvent) -> proto::JobEvent {
    proto::JobEvent {
        after: event.after.to_string(),
        number: event.number.get(),
        queue: event.queue.to_string(),
        job: event.job.map(|job| job.to_string()).unwrap_or_default(),
        kind: event.kind,
        step: Some(step(event.step)),
        data: Bytes::from(event.data),
    }
}

/// Starts a subscription.
pub(super) fn begin(app: Arc<App>, request: SubscribeJobsRequest) -> Result<PageStream<SubscribeJobsResponse>, Status> {
    let SubscribeJobsRequest { queues, jobs, kinds, tags, events, begin } = request;
    let event = |name: &String| {
        let known = JobEvent::all().find(|event| word(*event) == *name);
        known.ok_or_else(|| invalid(format!("unknown event {name:?}")))
    };
    let filter = LifeFilter {
        queues,
        jobs: jobs.iter().map(|job| job_id(job)).collect::<Result<_, _>>()?,
        kinds,
        tags,
        events: events.iter().map(event).collect::<Result<_, _>>()?,
    };
    let after = match begin {
        None => Cursor::behind(app.database().published()),
        Some(Begin::Start(said)) => {
            chosen("start", said)?;
            Cursor::START
        }
        Some(Begin::After(cursor)) => cursor.parse().map_err(|_| invalid(format!("invalid cursor {cursor:?}")))?,
    };
    // Without a bound in all: it waits for events.
    let watched = BoundedRequest::unbounded(app.database());
    let life = watched.database().life_events(filter, after).map_err(failed)?;
    Ok(stream_later(app, watched, LifePages { life, is_told: false, is_caught_up: false }))
}

/// The pages of a subscription, which does not end by itself.
struct LifePages {
    life: LifeEvents,
    /// Whether the client knows that it has caught up once.
    is_told: bool,
    is_caught_up: bool,
}

impl PagedResult for LifePages {
    type Page = SubscribeJobsResponse;

    fn next(&mut self, _app: &App) -> Result<Option<SubscribeJobsResponse>, Status> {
        if self.is_caught_up {
            return Ok(None);
        }
        let mut events = Vec::new();
        let looked = self.life.visit_next(PAGE_ITEMS_MAX, PAGE_BYTES, |event| events.push(message(event)));
        self.is_caught_up = looked.map_err(failed)?.is_caught_up;
        let caught_up = if self.is_caught_up { self.life.after().to_string() } else { String::new() };
        if events.is_empty() && (!self.is_caught_up || self.is_told) {
            return Ok(None);
        }
        self.is_told |= self.is_caught_up;
        Ok(Some(SubscribeJobsResponse { events, caught_up }))
    }

    async fn more(&mut self, _app: &App) -> Result<bool, Status> {
        if self.is_caught_up {
            self.life.next_publication().await.map_err(failed)?;
            self.is_caught_up = false;
        }
        Ok(true)
    }
}
