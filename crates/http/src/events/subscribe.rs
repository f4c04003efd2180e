//! Subscriptions to event stores as server-sent events: those of the past, then those to come, until the client leaves.
//!
//! Every event has its position as its id, so a client that comes back with `Last-Event-ID`, as browsers do by themselves,
//! goes on where it was. A client that takes nothing holds neither a thread nor a writer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use quire::Subscription;
use quire::events::{EventPosition, Query};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{query_of, shown};
use crate::answer::{aside, text_of};
use crate::app::App;
use crate::commit::request::QueryRequest;
use crate::error::Problem;
use crate::params::{Named, Params, parse};

/// How many events are read at a time, and how many may wait for the client.
const BATCH_EVENTS_MAX: usize = 256;

/// A batch ends with the event that takes it to so many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// After how much silence a comment says that the connection is alive, in seconds.
const KEEPALIVE_S: u64 = 15;

type Sent = Result<Event, Infallible>;

/// `GET /v1/events/{store}/subscribe`: events of any of the types that carry all of the tags, or of a whole query as JSON.
pub(crate) async fn subscribe(
    State(app): State<Arc<App>>,
    Named(store): Named<String>,
    mut params: Params,
    headers: HeaderMap,
) -> Result<Sse<KeepAliveStream<ReceiverStream<Sent>>>, Problem> {
    let whole: Option<String> = params.one("query")?;
    let simple = query_of(&mut params);
    let query = match &whole {
        None => simple,
        Some(_) if simple != Query::all() => {
            return Err(Problem::invalid("query already says which types and tags: give it, or type and tag"));
        }
        Some(text) => {
            let asked: QueryRequest<'_> = serde_json::from_str(text).map_err(|error| Problem::json(&error))?;
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
    let subscription = app.database.events(&store).subscribe(query, after)?;
    let (sender, stream) = mpsc::channel(BATCH_EVENTS_MAX);
    tokio::spawn(async move {
        tokio::select! {
            // A client that has left needs no reason, and one whose read fails learns it when it comes back.
            _ = follow(subscription, &sender) => {}
            () = app.closing() => {}
        }
    });
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(KEEPALIVE_S));
    Ok(Sse::new(ReceiverStream::new(stream)).keep_alive(keep_alive))
}

/// Sends what there is, and then what comes. Ends when the client has left.
async fn follow(mut subscription: Subscription, sender: &mpsc::Sender<Sent>) -> Result<(), Problem> {
    let mut is_told = false;
    loop {
        let look = move || {
            let mut events = Vec::new();
            let look = subscription.visit_next(BATCH_EVENTS_MAX, BATCH_BYTES, |event| {
                let data = text_of(&shown(&event).on_a_line());
                events.push(Event::default().id(event.position.to_string()).event("event").data(data));
            });
            look.map(|progress| (subscription, events, progress)).map_err(Problem::from)
        };
        let (next, events, progress) = match aside(look).await {
            Ok(found) => found,
            Err(problem) => {
                let data = text_of(&problem);
                let _ = sender.send(Ok(Event::default().event("error").data(data))).await;
                return Err(problem);
            }
        };
        subscription = next;
        for event in events {
            if sender.send(Ok(event)).await.is_err() {
                return Ok(());
            }
        }
        if !progress.is_caught_up {
            continue;
        }
        if !is_told {
            let head = subscription.after();
            is_told = true;
            let caught_up = Event::default().event("caught_up").data(json!({ "after": head.get() }).to_string());
            if sender.send(Ok(caught_up)).await.is_err() {
                return Ok(());
            }
        }
        tokio::select! {
            arrived = subscription.arrival() => arrived?,
            () = sender.closed() => return Ok(()),
        }
    }
}
