//! Event stores: appends, the stores, the head of one, events by query, a page at a time; projections and subscriptions, also under names.
//!
//! A page has a bounded number of events and bytes. It is cut short only between events, and says so with `more`.

mod project;
mod projections;
mod subscribe;
mod subscriptions;

pub(crate) use project::project;
pub(crate) use projections::{projection, projections, remove_projection, save_projection};
pub(crate) use subscribe::subscribe;
pub(crate) use subscriptions::{
    fetch as fetch_subscription, put as put_subscription, remove as remove_subscription, subscription, subscriptions,
};

use std::sync::Arc;

use axum::extract::State;
use quire::events::{EventPosition, EventView, Query, QueryItem, ReadOptions};
use quire::{Database, Event, Reply};
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, aside};
use crate::app::App;
use crate::body::Body;
use crate::bytes::{Shown, Tag};
use crate::commit::request::{AppendRequest, PartRequest, QueryRequest};
use crate::commit::{committed, submit_at, submitted};
use crate::error::Problem;
use crate::params::{Named, Params, limit};

/// A page ends before the event whose data and metadata would take it over so many bytes.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// A read, in the body of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadRequest<'r> {
    /// Every event, when absent.
    #[serde(borrow)]
    query: Option<QueryRequest<'r>>,
    #[serde(default)]
    after: u64,
    up_to: Option<u64>,
    before: Option<u64>,
    limit: Option<usize>,
    #[serde(default)]
    backwards: bool,
}

#[derive(Debug, Serialize)]
struct AppendReply {
    first: Option<u64>,
    last: Option<u64>,
    duplicate: bool,
}

#[derive(Debug, Serialize)]
struct Page<'h> {
    events: Vec<EventReply<'h>>,
    /// The last position of the store when it was read.
    head: u64,
    /// Whether more events match behind the last of the page.
    more: bool,
}

#[derive(Debug, Serialize)]
struct EventReply<'h> {
    position: u64,
    id: String,
    #[serde(rename = "type")]
    event_type: &'h str,
    tags: Vec<Tag<'h>>,
    time_ms: u64,
    #[serde(flatten)]
    metadata: Shown<'h>,
    #[serde(flatten)]
    data: Shown<'h>,
}

impl EventReply<'_> {
    /// The same where an answer is made of lines.
    fn on_a_line(self) -> Self {
        EventReply { metadata: self.metadata.on_a_line(), data: self.data.on_a_line(), ..self }
    }
}

#[derive(Debug, Serialize)]
struct StoreReply {
    store: String,
    head: u64,
}

#[derive(Debug, Serialize)]
struct StatsReply {
    store: String,
    /// The position of the last event.
    head: u64,
    /// Events up to this position are gone.
    trimmed: u64,
    /// How many tags it was told to forget.
    forgotten: usize,
    /// How long its events are kept; for ever when it is null.
    retention_ms: Option<u64>,
    /// How many sources it reads from, ...
    sources: usize,
    /// ... how many named subscriptions read from it, ...
    subscriptions: usize,
    /// ... and how many states of projections it keeps.
    projections: usize,
}

#[derive(Debug, Serialize)]
struct SourceReply {
    source: String,
    position: u64,
}

#[derive(Debug, Serialize)]
struct Sources {
    store: String,
    sources: Vec<SourceReply>,
}

#[derive(Debug, Serialize)]
struct Stores {
    stores: Vec<StoreReply>,
}

/// `GET /v1/events`: the stores.
pub(crate) async fn stores(State(app): State<Arc<App>>, params: Params) -> Result<Answer, Problem> {
    params.end()?;
    let theirs = Arc::clone(&app);
    let stores = aside(move || {
        let stores = heads(&theirs.database)?;
        Ok(stores.into_iter().map(|(store, head)| StoreReply { store, head }).collect())
    });
    Answer::of(&app.memory, &Stores { stores: stores.await? })
}

/// Every store with the position of its last event.
pub(crate) fn heads(database: &Database) -> Result<Vec<(String, u64)>, Problem> {
    let names: Vec<String> =
        database.read_published(|view| view.events.stores().map(|(name, _)| name.to_owned()).collect())?;
    let head = |name: String| {
        let head = database.events(&name).head()?;
        Ok((name, head.get()))
    };
    names.into_iter().map(head).collect()
}

/// `GET /v1/events/{store}/head`: the position of the last event.
pub(crate) async fn head(
    State(app): State<Arc<App>>,
    Named(store): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let head = app.database.events(&store).head()?.get();
    Answer::of(&app.memory, &StoreReply { store, head })
}

/// `GET /v1/events/{store}/stats`: what there is of a store.
pub(crate) async fn stats(
    State(app): State<Arc<App>>,
    Named(store): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    aside(move || {
        let stats = app.database.events(&store).statistics()?;
        Answer::of(
            &app.memory,
            &StatsReply {
                head: stats.head.get(),
                trimmed: stats.trimmed.get(),
                forgotten: stats.forgotten,
                retention_ms: stats.retention_ms,
                sources: stats.sources,
                subscriptions: stats.subscriptions,
                projections: stats.projections,
                store,
            },
        )
    })
    .await
}

/// `GET /v1/events/{store}/sources`: how far each was read.
pub(crate) async fn sources(
    State(app): State<Arc<App>>,
    Named(store): Named<String>,
    params: Params,
) -> Result<Answer, Problem> {
    params.end()?;
    let ticket = app.database.read(|view| {
        let sources = view.events.store(&store).into_iter().flat_map(|number| view.events.sources(number));
        sources.map(|(source, position)| SourceReply { source: source.to_owned(), position }).collect()
    })?;
    let sources = ticket.await?;
    Answer::of(&app.memory, &Sources { store, sources })
}

/// `GET /v1/events/{store}`: events of any of the types that carry all of the tags.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Named(store): Named<String>,
    mut params: Params,
) -> Result<Answer, Problem> {
    let query = query_of(&mut params);
    let options = ReadOptions {
        after: EventPosition::new(params.one("after")?.unwrap_or_default()),
        up_to: params.one("up_to")?.map(EventPosition::new),
        before: params.one("before")?.map(EventPosition::new),
        backwards: params.one("backwards")?.unwrap_or_default(),
        limit: None,
    };
    let limit = params.limit()?;
    params.end()?;
    aside(move || page(&app, &store, &query, options, limit)).await
}

/// Events of any of the types that carry all of the tags.
fn query_of(params: &mut Params) -> Query<'static> {
    let (types, tags) = (params.all("type"), params.all("tag"));
    Query::from(QueryItem {
        types: types.into_iter().map(Into::into).collect(),
        tags: tags.into_iter().map(|tag| tag.into_bytes().into()).collect(),
        only_last_event: false,
    })
}

/// `POST /v1/events/{store}/append`: events, if every condition holds. A commit of this one part.
pub(crate) async fn append(
    State(app): State<Arc<App>>,
    Named(store): Named<String>,
    body: Body,
) -> Result<Answer, Problem> {
    let ticket = submitted(&app, body, move |database, body, pace| {
        let request: AppendRequest<'_> = body.parse()?;
        let (append, upstream) = request.to(&store);
        let parts = append.map(PartRequest::Append).into_iter().chain(upstream.map(PartRequest::Upstream));
        submit_at(database, &parts.collect::<Vec<_>>(), pace)
    });
    let committed = committed(ticket.await.map_err(Problem::of_one)?.await?).map_err(Problem::of_one)?;
    match committed.replies.first() {
        Some(Reply::Events(appended)) => Ok(Answer::of_done(
            &app.memory,
            &AppendReply {
                first: appended.first.map(EventPosition::get),
                last: appended.last.map(EventPosition::get),
                duplicate: appended.duplicate,
            },
        )),
        other => unreachable!("an append is answered by events, not by {other:?}"),
    }
}

/// `POST /v1/events/{store}/read`: events by a whole query.
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Named(store): Named<String>,
    body: Body,
) -> Result<Answer, Problem> {
    aside(move || {
        let request: ReadRequest<'_> = body.parse()?;
        let query = request.query.as_ref().map_or_else(Query::all, QueryRequest::query);
        let options = ReadOptions {
            after: EventPosition::new(request.after),
            up_to: request.up_to.map(EventPosition::new),
            before: request.before.map(EventPosition::new),
            backwards: request.backwards,
            limit: None,
        };
        page(&app, &store, &query, options, limit(request.limit)?)
    })
    .await
}

fn page(app: &App, store: &str, query: &Query<'_>, options: ReadOptions, limit: usize) -> Result<Answer, Problem> {
    let selection = app.database.read_published(|view| view.events.select(store, query))?;
    let selection = selection.map_err(|refusal| Problem::select(&refusal))?;
    let history = app.database.history();
    let mut reading = selection.read(&history, options).map_err(quire::Error::from)?;
    let mut page = Page { events: Vec::new(), head: reading.head().get(), more: false };
    let (mut bytes, mut too_much) = (0, false);
    loop {
        let event = match reading.next().transpose() {
            Ok(Some(event)) => event,
            Ok(None) => break,
            // What is whole before it is told; whoever goes on behind that meets it.
            Err(_) if !page.events.is_empty() => {
                page.more = true;
                break;
            }
            Err(error) => return Err(quire::Error::from(error).into()),
        };
        bytes += event.data.len() + event.metadata.len();
        let full = page.events.len() == limit || (!page.events.is_empty() && (bytes > PAGE_BYTES_MAX || too_much));
        if full {
            page.more = true;
            break;
        }
        page.events.push(shown(&event));
        // What is unpacked to be read goes with this page; the next one begins anew.
        too_much = history.holds_too_much();
    }
    Answer::of(&app.memory, &page)
}

fn shown<'h>(event: &EventView<'h>) -> EventReply<'h> {
    EventReply {
        position: event.position.get(),
        id: event.id().to_string(),
        event_type: event.event_type,
        tags: event.tags().map(Tag).collect(),
        time_ms: event.time.as_millis(),
        metadata: Shown::value("metadata", event.metadata),
        data: Shown::value("data", event.data),
    }
}

/// An event that was copied out of the log.
fn shown_event(event: &Event) -> EventReply<'_> {
    EventReply {
        position: event.position.get(),
        id: event.id.to_string(),
        event_type: &event.event_type,
        tags: event.tags.iter().map(|tag| Tag(tag)).collect(),
        time_ms: event.time.as_millis(),
        metadata: Shown::value("metadata", &event.metadata),
        data: Shown::value("data", &event.data),
    }
}
