//! Life-cycle events of jobs as server-sent events: past events if requested, then new ones, until
//! the client disconnects.
//!
//! Every event has a cursor as its id. A client that reconnects with `Last-Event-ID`, as browsers
//! do automatically, resumes where it was. A client that does not read blocks neither a thread nor
//! a writer.

use std::str::FromStr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use quire::LifeEvents;
use quire::jobs::{Cause, Cursor, JobEvent, LifeEvent, LifeFilter};
use quire_access::{BoundedRequest, Session};
use serde_json::json;

use crate::app::App;
use crate::bytes::value;
use crate::error::Problem;
use crate::params::{Params, parse};
use crate::presentation::Presentation;
use crate::response::{aside, text_of};
use crate::sse::{self, Outlet, SseMessage};
use quire_api::reply::JobEventReply;

/// How many events are read at a time.
const BATCH_EVENTS_MAX: usize = 256;

/// A batch ends with the event that reaches this size in bytes.
const BATCH_BYTES: usize = 256 << 10;

fn event_reply(event: LifeEvent) -> JobEventReply {
    let LifeEvent { after, number, queue, job, kind, step, data } = event;
    let note = |name: &str| (step.event.note_name() == name && !step.note.is_empty()).then(|| step.note.clone());
    let named = match step.event {
        JobEvent::Step(Cause::Completed) => Some("result"),
        JobEvent::Progress => Some("progress"),
        _ => (!data.is_empty()).then_some("payload"),
    };
    JobEventReply {
        after: after.to_string(),
        number: number.get(),
        queue: queue.to_string(),
        event: word(step.event),
        time_ms: step.time.as_millis(),
        job: job.map(|job| job.to_string()),
        kind,
        state: step.state.map(|state| state.name().into()),
        attempt: Some(step.attempt).filter(|attempt| *attempt > 0),
        until_ms: step.until.map(quire::Timestamp::as_millis),
        worker: note("worker"),
        error: note("error"),
        reason: note("reason"),
        data: named.map(|name| value(data).named(name).on_a_line()),
    }
}

/// The name of the event.
pub(crate) fn word(event: JobEvent) -> String {
    event.name().replace(' ', "_")
}

fn filter(params: &mut Params) -> Result<LifeFilter, Problem> {
    let event = |given: String| {
        let unknown = || Problem::invalid(format!("unknown event {given:?}"));
        JobEvent::from_name(&given.replace('_', " ")).ok_or_else(unknown)
    };
    Ok(LifeFilter {
        queues: params.all("queue"),
        jobs: params.all("job").iter().map(|job| parse("job id", job)).collect::<Result<_, _>>()?,
        kinds: params.all("kind"),
        tags: params.all("tag"),
        events: params.all("event").into_iter().map(event).collect::<Result<_, _>>()?,
    })
}

/// Where a client's subscription starts.
#[derive(Debug, Clone, Copy)]
enum Begin {
    Start,
    Cursor(Cursor),
}

impl FromStr for Begin {
    type Err = quire::jobs::ParseCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "start" { Ok(Begin::Start) } else { text.parse().map(Begin::Cursor) }
    }
}

/// `GET /v1/jobs/subscribe`: the events of jobs and queues.
pub(crate) async fn subscribe(
    State(app): State<Arc<App>>,
    mut params: Params,
    headers: HeaderMap,
) -> Result<sse::SseResponse, Problem> {
    let filter = filter(&mut params)?;
    let asked: Option<Begin> = params.one("after")?;
    params.end()?;
    let last: Option<Cursor> = match headers.get("last-event-id") {
        Some(id) => Some(parse("Last-Event-ID", &String::from_utf8_lossy(id.as_bytes()))?),
        None => None,
    };
    let after = match (last, asked) {
        (Some(cursor), _) | (None, Some(Begin::Cursor(cursor))) => cursor,
        (None, Some(Begin::Start)) => Cursor::START,
        (None, None) => Cursor::behind(app.database().published()),
    };
    // Without a bound in all: it waits for events. Its work ends when the client leaves.
    let watched = BoundedRequest::unbounded(&app.database());
    let events = watched.database().life_events(filter, after)?;
    let (outlet, answer) = sse::channel(app.memory.caller());
    tokio::spawn(Session::carried(Presentation::current().within(async move {
        let _watched = watched;
        tokio::select! {
            // A client that has disconnected needs no error. A client whose read fails gets the
            // error when it reconnects.
            _ = follow(&app, events, &outlet) => {}
            () = outlet.closed() => {}
            () = app.closing() => {}
        }
    })));
    Ok(answer)
}

/// Sends past events, then new ones. Ends when the client has disconnected.
async fn follow(app: &App, mut events: LifeEvents, outlet: &Outlet) -> Result<(), Problem> {
    let mut is_told = false;
    loop {
        let Some(claim) = outlet.claim(BATCH_BYTES).await else { return Ok(()) };
        let look = move || {
            let mut messages = Vec::new();
            let look = events.visit_next(BATCH_EVENTS_MAX, BATCH_BYTES, |event| {
                let (id, name) = (Some(event.after.to_string()), word(event.step.event));
                messages.push(SseMessage { id, name, data: text_of(&event_reply(event)) });
            });
            look.map(|progress| (events, messages, progress)).map_err(Problem::from)
        };
        let (next, messages, progress) = match aside(app.batches.turn().await.hold(look)).await {
            Ok(found) => found,
            Err(problem) => {
                outlet.send(SseMessage::passing("error", &problem)).await;
                return Err(problem);
            }
        };
        events = next;
        if !outlet.send_all(messages, claim).await {
            return Ok(());
        }
        if !progress.is_caught_up {
            continue;
        }
        if !is_told {
            is_told = true;
            if !outlet.send(SseMessage::passing("caught_up", &json!({ "after": events.after().to_string() }))).await {
                return Ok(());
            }
        }
        tokio::select! {
            arrived = events.next_publication() => arrived?,
            () = outlet.closed() => return Ok(()),
        }
    }
}
