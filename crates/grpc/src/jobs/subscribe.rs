//! Life-cycle events as a stream: in pages, each read only when the client has space for it.

use std::sync::Arc;

use bytes::Bytes;
use quire::LifeEvents;
use quire::jobs::{Cursor, JobEvent, LifeEvent, LifeFilter};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::change::job_id;
use super::read::{step, word};
use super::request::chosen;
use crate::app::App;
use crate::aside::aside;
use crate::error::{failed, invalid, stopping};
use crate::proto::subscribe_jobs_request::Begin;
use crate::proto::{self, SubscribeJobsRequest, SubscribeJobsResponse};

/// Maximum number of events in a page, and the size in bytes at which it ends.
const PAGE_EVENTS_MAX: usize = 1_024;
const PAGE_BYTES: usize = 256 << 10;

/// How many pages may wait for the client.
const PAGES_WAITING_MAX: usize = 2;

type PageSender = mpsc::Sender<Result<SubscribeJobsResponse, Status>>;

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
pub(super) fn begin(
    app: Arc<App>,
    request: SubscribeJobsRequest,
) -> Result<ReceiverStream<Result<SubscribeJobsResponse, Status>>, Status> {
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
        None => Cursor::behind(app.database.published()),
        Some(Begin::Start(said)) => {
            chosen("start", said)?;
            Cursor::START
        }
        Some(Begin::After(cursor)) => cursor.parse().map_err(|_| invalid(format!("invalid cursor {cursor:?}")))?,
    };
    let events = app.database.life_events(filter, after).map_err(failed)?;
    let (pages, stream) = mpsc::channel(PAGES_WAITING_MAX);
    tokio::spawn(async move {
        tokio::select! {
            followed = follow(events, &pages) => if let Err(status) = followed {
                // A client that has disconnected needs no error.
                let _ = pages.send(Err(status)).await;
            },
            () = app.closing() => {
                // A client that does not read is disconnected by the transport.
                let _ = pages.try_send(Err(stopping()));
            }
        }
    });
    Ok(ReceiverStream::new(stream))
}

/// Streams until the client has disconnected.
async fn follow(mut life: LifeEvents, pages: &PageSender) -> Result<(), Status> {
    let mut is_told = false;
    loop {
        let look = move || {
            let mut events = Vec::new();
            let looked = life.visit_next(PAGE_EVENTS_MAX, PAGE_BYTES, |event| events.push(message(event)));
            looked.map(|progress| (life, events, progress)).map_err(failed)
        };
        let (next, events, progress) = aside(look).await?;
        life = next;
        let caught_up = if progress.is_caught_up { life.after().to_string() } else { String::new() };
        if !events.is_empty() || (progress.is_caught_up && !is_told) {
            is_told |= progress.is_caught_up;
            if pages.send(Ok(SubscribeJobsResponse { events, caught_up })).await.is_err() {
                return Ok(());
            }
        }
        if progress.is_caught_up {
            tokio::select! {
                arrived = life.next_publication() => arrived.map_err(failed)?,
                () = pages.closed() => return Ok(()),
            }
        }
    }
}
