//! Subscriptions to event stores as server-sent events: past events, then new ones, until the
//! client disconnects.
//!
//! Every event has its position as its id. A client that reconnects with `Last-Event-ID`, as
//! browsers do automatically, resumes where it was. A client that does not read blocks neither a
//! thread nor a writer.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use quire::Subscription;
use quire::events::{EventPosition, Query};
use quire_access::{BoundedRequest, Session};
use serde_json::json;

use super::{query_of, shown};
use crate::app::App;
use crate::error::Problem;
use crate::json;
use crate::params::{Params, PathNames, parse};
use crate::presentation::Presentation;
use crate::response::{aside, text_of};
use crate::sse::{self, Outlet, SseMessage};
use quire_api::request::QueryRequest;

/// How many events are read at a time.
const BATCH_EVENTS_MAX: usize = 256;

/// A batch ends with the event that reaches this size in bytes.
const BATCH_BYTES: usize = 256 << 10;

/// `GET /v1/events/{store}/subscribe`: events of any of the types that have all of the tags, or of
/// a full query as JSON.
pub(crate) async fn subscribe(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    mut params: Params,
    headers: HeaderMap,
) -> Result<sse::SseResponse, Problem> {
    let whole: Option<String> = params.one("query")?;
    let simple = query_of(&mut params);
    let query = match &whole {
        None => simple,
        Some(_) if simple != Query::all() => {
            return Err(Problem::invalid("give query, or type and tag, not both"));
        }
        Some(text) => {
            let asked: QueryRequest<'_> = json::read(text.as_bytes()).map_err(|misread| Problem::json(&misread))?;
            asked.query().into_owned()
        }
    };
    let asked: Option<u64> = params.one("after")?;
    params.end()?;
    let last: Option<u64> = match headers.get("last-event-id") {
        Some(id) => Some(parse("Last-Event-ID", &String::from_utf8_lossy(id.as_bytes()))?),
        None => None,
    };
    let after = EventPosition::new(last.or(asked).unwrap_or_default());
    // Without a bound in all: it waits for events. Its work ends when the client leaves.
    let watched = BoundedRequest::unbounded(&app.database());
    let subscription = watched.database().events(&store).subscribe(query, after)?;
    let (outlet, answer) = sse::channel(app.memory.caller());
    tokio::spawn(Session::carried(Presentation::current().within(async move {
        let _watched = watched;
        tokio::select! {
            // A client that has disconnected needs no error. A client whose read fails gets the
            // error when it reconnects.
            _ = follow(&app, subscription, &outlet) => {}
            () = outlet.closed() => {}
            () = app.closing() => {}
        }
    })));
    Ok(answer)
}

/// Sends past events, then new ones. Ends when the client has disconnected.
async fn follow(app: &App, mut subscription: Subscription, outlet: &Outlet) -> Result<(), Problem> {
    let mut is_told = false;
    loop {
        let Some(claim) = outlet.claim(BATCH_BYTES).await else { return Ok(()) };
        let look = move || {
            let mut events = Vec::new();
            let look = subscription.visit_next(BATCH_EVENTS_MAX, BATCH_BYTES, |event| {
                let data = text_of(&shown(&event).on_a_line());
                events.push(SseMessage { id: Some(event.position.to_string()), name: "event".to_owned(), data });
            });
            look.map(|progress| (subscription, events, progress)).map_err(Problem::from)
        };
        let (next, events, progress) = match aside(app.batches.turn().await.hold(look)).await {
            Ok(found) => found,
            Err(problem) => {
                outlet.send(SseMessage::passing("error", &problem)).await;
                return Err(problem);
            }
        };
        subscription = next;
        if !outlet.send_all(events, claim).await {
            return Ok(());
        }
        if !progress.is_caught_up {
            continue;
        }
        if !is_told {
            let head = subscription.after();
            is_told = true;
            if !outlet.send(SseMessage::passing("caught_up", &json!({ "after": head.get() }))).await {
                return Ok(());
            }
        }
        tokio::select! {
            arrived = subscription.next_publication() => arrived?,
            () = outlet.closed() => return Ok(()),
        }
    }
}
