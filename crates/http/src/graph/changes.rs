//! The feed of a graph's changes: in pages, or as server-sent events.
//!
//! The id of a change is the place after it. A client that reconnects with `Last-Event-ID`, as
//! browsers do automatically, resumes where it was. A client that does not read blocks neither a
//! thread nor a writer.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use quire::graph::{GraphChange, GraphChangeKind, Wants};
use quire::{Database, ErrorKind, GraphChanges, Place, Position};
use quire_access::budget::ByteClaim;
use quire_access::{BoundedRequest, Session};
use quire_api::ListPage;
use serde_json::json;

use super::blocks::block_reply;
use crate::app::App;
use crate::bytes::value;
use crate::error::Problem;
use crate::memory::Claim;
use crate::params::{Params, PathNames, within};
use crate::presentation::Presentation;
use crate::response::{JsonResponse, aside, bounded, text_of};
use crate::sse::{self, Outlet, SseMessage};
use quire_api::reply::{ChangeKind, ChangeReply, ChangesRead};

/// How long a request may wait for a change, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;

/// How many changes are read at a time.
const BATCH_MAX: usize = 256;

/// A batch ends with the change that reaches this size in bytes.
const BATCH_BYTES: usize = 256 << 10;

/// A page ends with the change whose metadata and content reach this size in bytes.
const PAGE_BYTES: usize = 16 << 20;

/// `GET /v1/graphs/{graph}/changes`: puts and deletions, in order. With `wait_ms` it waits for a
/// change when there is none.
pub(crate) async fn changes(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let after: Option<String> = params.cursor("after")?;
    let from = after.as_deref().map(place).transpose()?;
    let wait_ms = within("wait_ms", params.one("wait_ms")?.unwrap_or(0), 0..=WAIT_MS_MAX)?;
    let limit = params.limit()?;
    params.end()?;
    let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms);
    loop {
        let seen = app.database().published();
        // Each look has the steps of a request: a client may wait for many commits.
        let request = BoundedRequest::begin(&app.database());
        let (app_aside, graph) = (Arc::clone(&app), graph.clone());
        let (page, claim) = bounded(request, move |database| page(&app_aside, database, &graph, from, limit)).await?;
        let arrival = app.database().publication_after(seen);
        if !page.data.is_empty() || wait_ms == 0 {
            return JsonResponse::within(claim, &page);
        }
        tokio::select! {
            arrived = arrival => arrived?,
            () = tokio::time::sleep_until(deadline) => return JsonResponse::within(claim, &page),
            () = app.closing() => return JsonResponse::within(claim, &page),
        }
    }
}

/// `GET /v1/graphs/{graph}/subscribe`: past changes, then new ones, until the client disconnects.
pub(crate) async fn subscribe(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
    headers: HeaderMap,
) -> Result<sse::SseResponse, Problem> {
    let asked: Option<String> = params.one("after")?;
    params.end()?;
    let last = headers.get("last-event-id").map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    let from = last.or(asked).as_deref().map(place).transpose()?;
    // Without a bound in all: it waits for changes. Its work ends when the client leaves.
    let watched = BoundedRequest::unbounded(&app.database());
    let changes = changes_from(watched.database(), &graph, from);
    // An unknown graph is reported at once.
    let mut claim = app.memory.caller().claim();
    claim.grow(BATCH_BYTES)?;
    let (changes, first) = look(&app, changes).await?;
    let (outlet, answer) = sse::channel(app.memory.caller());
    tokio::spawn(Session::carried(Presentation::current().within(async move {
        let _watched = watched;
        tokio::select! {
            // A client that has disconnected needs no error. A client whose read fails gets the
            // error when it reconnects.
            _ = follow(&app, changes, (first, claim), &outlet) => {}
            () = outlet.closed() => {}
            () = app.closing() => {}
        }
    })));
    Ok(answer)
}

/// A batch of changes: events to send, and whether the feed is at its end.
type ChangeBatch = (Vec<SseMessage>, bool);

async fn look(app: &App, mut changes: GraphChanges) -> Result<(GraphChanges, ChangeBatch), Problem> {
    let look = move || {
        let (mut events, mut bytes) = (Vec::new(), 0);
        let is_all = changes.visit_next(|change| {
            let (id, data) = (Some(told(change.place.after())), text_of(&shown(change).on_a_line()));
            bytes += data.len();
            events.push(SseMessage { id, name: "change".to_owned(), data });
            if events.len() == BATCH_MAX || bytes >= BATCH_BYTES { Wants::Break(()) } else { Wants::Continue(()) }
        })?;
        Ok((changes, (events, is_all)))
    };
    aside(app.batches.turn().await.hold(look)).await
}

/// Sends past changes, then new ones. Ends when the client has disconnected.
async fn follow(
    app: &App,
    changes: GraphChanges,
    first: (ChangeBatch, ByteClaim),
    outlet: &Outlet,
) -> Result<(), Problem> {
    let (mut changes, ((mut events, mut is_all), mut claim)) = (changes, first);
    let mut is_told = false;
    loop {
        if !outlet.send_all(events, claim).await {
            return Ok(());
        }
        if is_all {
            if !is_told {
                is_told = true;
                if !outlet.send(SseMessage::passing("caught_up", &json!({ "after": told(changes.next()) }))).await {
                    return Ok(());
                }
            }
            tokio::select! {
                arrived = changes.next_publication() => arrived?,
                () = outlet.closed() => return Ok(()),
            }
        }
        match outlet.claim(BATCH_BYTES).await {
            Some(next) => claim = next,
            None => return Ok(()),
        }
        match look(app, changes).await {
            Ok(found) => (changes, (events, is_all)) = found,
            Err(problem) => {
                outlet.send(SseMessage::passing("error", &problem)).await;
                return Err(problem);
            }
        }
    }
}

/// The changes from a place on, or from the start of the graph's history.
fn changes_from(database: &Database, graph: &str, from: Option<Place>) -> GraphChanges {
    let graph = database.graph(graph);
    from.map_or_else(|| graph.changes(Place::START), |from| graph.changes(from).exactly())
}

/// A page, and the memory of its copies. It ends where the steps of the request are used up.
fn page(
    app: &App,
    database: &Database,
    graph: &str,
    from: Option<Place>,
    limit: usize,
) -> Result<(ListPage<ChangeReply, ChangesRead>, Claim), Problem> {
    let mut feed = changes_from(database, graph, from);
    let (mut changes, mut bytes, mut last) = (Vec::new(), 0, Place::START);
    let (mut claim, mut refused) = (app.memory.claim(), None);
    let visited = feed.visit_next(|change| {
        if changes.len() == limit || bytes >= PAGE_BYTES {
            return Wants::Break(());
        }
        let copied = match &change.what {
            GraphChangeKind::BlockPut(block) => block.metadata.len() + block.content.len(),
            GraphChangeKind::EdgePut { properties, .. } => properties.len(),
            GraphChangeKind::BlockDeleted { .. } | GraphChangeKind::EdgeDeleted { .. } => 0,
        };
        if let Err(problem) = claim.grow(copied) {
            refused = Some(problem);
            return Wants::Break(());
        }
        bytes += copied;
        changes.push(shown(change));
        last = change.place.after();
        Wants::Continue(())
    });
    if let Some(problem) = refused.filter(|_| changes.is_empty()) {
        return Err(problem);
    }
    let is_all = match visited {
        Ok(is_all) => is_all,
        Err(error) if error.kind() == ErrorKind::TooCostly && !changes.is_empty() => false,
        Err(error) => return Err(error.into()),
    };
    let next = told(if is_all { feed.next() } else { last });
    let cursor = (!is_all).then(|| next.clone());
    Ok((ListPage::of(changes, cursor, ChangesRead { next }), claim))
}

/// A place, in the form of `after`.
fn told(Place { position, index }: Place) -> String {
    format!("{position}-{index}")
}

fn shown(change: &GraphChange<'_>) -> ChangeReply {
    let what = match &change.what {
        GraphChangeKind::BlockPut(block) => ChangeKind::BlockPut(Box::new(block_reply(block))),
        GraphChangeKind::BlockDeleted { block } => ChangeKind::BlockDeleted { id: block.to_string() },
        GraphChangeKind::EdgePut { source, edge_type, target, properties } => ChangeKind::EdgePut {
            source: source.to_string(),
            edge_type: (*edge_type).to_owned(),
            target: target.to_string(),
            properties: value(properties.to_vec()),
        },
        GraphChangeKind::EdgeDeleted { source, edge_type, target } => ChangeKind::EdgeDeleted {
            source: source.to_string(),
            edge_type: (*edge_type).to_owned(),
            target: target.to_string(),
        },
    };
    ChangeReply { position: change.place.position.get(), time_ms: change.time.as_millis(), what }
}

fn place(text: &str) -> Result<Place, Problem> {
    let parsed = text.split_once('-').and_then(|(position, index)| position.parse().ok().zip(index.parse().ok()));
    let (position, index) =
        parsed.ok_or_else(|| Problem::invalid(format!("after is the `next` of an answer, not {text:?}")))?;
    Ok(Place::new(Position::new(position), index))
}
