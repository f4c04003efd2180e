//! Event stores: appends, the list, the head of one, reads by query in pages, projections and
//! subscriptions.
//!
//! A page has a limit of events and bytes. It ends between events, and reports with `has_more` that
//! events are left.

pub(crate) mod project;
pub(crate) mod projections;
mod subscribe;
pub(crate) mod subscriptions;

pub(crate) use project::project;
pub(crate) use projections::{projection, projections, remove_projection, save_projection};
pub(crate) use subscribe::subscribe;
pub(crate) use subscriptions::{
    fetch as fetch_subscription, put as put_subscription, remove as remove_subscription,
    statistics as subscription_statistics, subscription, subscriptions,
};

use std::sync::Arc;

use axum::extract::State;
use quire::events::{EventPosition, EventView, Query, QueryItem, ReadOptions, Selection};
use quire::{Database, Event, Operation, ReadError, Reply, Resource, ResourceKind};
use quire_access::BoundedRequest;
use quire_api::ListPage;

use crate::app::App;
use crate::body::Body;
use crate::bytes::value;
use crate::commit::{committed, submit_at, submitted};
use crate::error::Problem;
use crate::idempotency::RequestKey;
use crate::memory::Claim;
use crate::params::{Params, PathNames, limit};
use crate::response::{JsonResponse, bounded};
use quire_api::reply::TagReply;
use quire_api::reply::{AppendReply, EventReply, EventsRead, SourceReply, SourcesRead, StatsReply, StoreReply};
use quire_api::request::{AppendRequest, PartRequest, QueryRequest, ReadRequest};

/// A page ends before the event whose data and metadata would exceed this size in bytes.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// A page with more bytes needs a turn: few are read at a time.
const LONG_PAGE_BYTES: usize = 256 << 10;

/// The events that a page is read from.
#[derive(Debug)]
struct ReadRange {
    /// The last position of the page before: in place of `after`, or backwards of `before`.
    cursor: Option<u64>,
    after: Option<u64>,
    up_to: Option<u64>,
    before: Option<u64>,
    backwards: bool,
}

impl ReadRange {
    fn options(self) -> Result<ReadOptions, Problem> {
        let ReadRange { cursor, mut after, up_to, mut before, backwards } = self;
        let (name, replaced) = if backwards { ("before", &mut before) } else { ("after", &mut after) };
        if cursor.is_some() && replaced.is_some() {
            return Err(Problem::invalid(format!("give cursor or {name}, not both")));
        }
        *replaced = cursor.or(*replaced);
        Ok(ReadOptions {
            after: EventPosition::new(after.unwrap_or_default()),
            up_to: up_to.map(EventPosition::new),
            before: before.map(EventPosition::new),
            backwards,
            limit: None,
        })
    }
}

/// `GET /v1/events`: lists the stores.
pub(crate) async fn stores(State(app): State<Arc<App>>, params: Params) -> Result<JsonResponse, Problem> {
    params.end()?;
    let stores = bounded(BoundedRequest::begin(&app.database()), move |database| {
        let mut claim = app.memory.claim();
        let stores = heads(database, usize::MAX, &mut claim)?;
        let stores = stores.into_iter().map(|(store, head)| StoreReply { store, head });
        JsonResponse::within(claim, &ListPage::whole(stores.collect()))
    });
    stores.await
}

/// The first `count_max` stores by name, with the positions of their last events. Claims the memory
/// of the list.
pub(crate) fn heads(database: &Database, count_max: usize, claim: &mut Claim) -> Result<Vec<(String, u64)>, Problem> {
    let names: Vec<String> = database.read_published_permitted(|view| {
        let shown = view.events.stores().filter(|(name, _)| view.shows(ResourceKind::Store, name));
        let names = shown.take(count_max).map(|(name, _)| -> Result<String, Problem> {
            claim.grow(size_of::<(String, u64)>() + name.len())?;
            Ok(name.to_owned())
        });
        names.collect::<Result<_, _>>()
    })??;
    let head = |name: String| {
        let head = database.events(&name).head()?;
        Ok((name, head.get()))
    };
    names.into_iter().map(head).collect()
}

/// `GET /v1/events/{store}/head`: the position of the last event.
pub(crate) async fn head(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let bounded = BoundedRequest::begin(&app.database());
    let head = bounded.database().events(&store).head()?.get();
    JsonResponse::of(&app.memory, &StoreReply { store, head })
}

/// `GET /v1/events/{store}/stats`: the statistics of a store.
pub(crate) async fn stats(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let stats = database.events(&store).statistics()?;
        JsonResponse::of(
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

/// `GET /v1/events/{store}/sources`: the position up to which each source was read.
pub(crate) async fn sources(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let resource = Resource::new(ResourceKind::Store, &store);
    let ticket = app.database().read_for(resource, Operation::Describe, |view| {
        let sources = view.events.store(&store).into_iter().flat_map(|number| view.events.sources(number));
        sources.map(|(source, position)| SourceReply { source: source.to_owned(), position }).collect::<Vec<_>>()
    })?;
    let sources = ticket.await?;
    JsonResponse::of(&app.memory, &ListPage::of(sources, None, SourcesRead { store }))
}

/// `GET /v1/events/{store}`: events of any of the types that have all of the tags.
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let query = query_of(&mut params);
    let options = ReadRange {
        cursor: params.one("cursor")?,
        after: params.one("after")?,
        up_to: params.one("up_to")?,
        before: params.one("before")?,
        backwards: params.one("backwards")?.unwrap_or_default(),
    };
    let options = options.options()?;
    let limit = params.limit()?;
    params.end()?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        page(&app, database, &store, &query, options, limit)
    })
    .await
}

/// Events of any of the types that have all of the tags.
fn query_of(params: &mut Params) -> Query<'static> {
    let (types, tags) = (params.all("type"), params.all("tag"));
    Query::from(QueryItem {
        types: types.into_iter().map(Into::into).collect(),
        tags: tags.into_iter().map(|tag| tag.into_bytes().into()).collect(),
        only_last_event: false,
    })
}

/// `POST /v1/events/{store}/append`: appends events, if every condition holds. A commit of this one
/// part.
pub(crate) async fn append(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    params: Params,
    key: RequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let ticket = submitted(&app, body, move |database, body, pace| {
        let request: AppendRequest<'_> = body.parse()?;
        let (append, upstream) = request.to(&store);
        let parts = append.map(PartRequest::Append).into_iter().chain(upstream.map(PartRequest::Upstream));
        submit_at(database, &key, &parts.collect::<Vec<_>>(), pace)
    });
    let committed = committed(ticket.await.map_err(Problem::of_one)?.await?).map_err(Problem::of_one)?;
    match committed.replies.first() {
        Some(Reply::Events(appended)) => Ok(JsonResponse::of_done(
            &app.memory,
            &AppendReply {
                first: appended.first.map(EventPosition::get),
                last: appended.last.map(EventPosition::get),
                duplicate: appended.duplicate,
            },
        )
        .replay(committed.is_replay)),
        other => unreachable!("an append returns events, not {other:?}"),
    }
}

/// `POST /v1/events/{store}/read`: events by a full query.
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    params: Params,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    body.bounded(BoundedRequest::begin(&app.database()), move |database, body| {
        let request: ReadRequest<'_> = body.parse()?;
        let query = request.query.as_ref().map_or_else(Query::all, QueryRequest::query);
        let range = ReadRange {
            cursor: request.cursor.map(|cursor| cursor.0),
            after: request.after,
            up_to: request.up_to,
            before: request.before,
            backwards: request.backwards,
        };
        page(&app, database, &store, &query, range.options()?, limit(request.limit)?)
    })
    .await
}

fn page(
    app: &App,
    database: &Database,
    store: &str,
    query: &Query<'_>,
    options: ReadOptions,
    limit: usize,
) -> Result<JsonResponse, Problem> {
    let resource = Resource::new(ResourceKind::Store, store);
    let selection = database.read_published_for(resource, Operation::Read, |view| view.events.select(store, query))?;
    let selection = selection.map_err(|refusal| Problem::select(&refusal))?;
    let history = database.history();
    let mut reading = selection.read(&history, options).map_err(quire::Error::from)?;
    let head = reading.head().get();
    let (mut events, mut has_more) = (Vec::new(), false);
    let (mut bytes, mut too_much, mut turn) = (0, false, None);
    loop {
        let event = match reading.next().transpose() {
            Ok(Some(event)) => event,
            Ok(None) => break,
            // The events before a damaged one, or before the steps were used up, are returned. The
            // next read begins there.
            Err(_) if !events.is_empty() => {
                has_more = true;
                break;
            }
            Err(error) => return Err(unread_page(app, &selection, options, error)),
        };
        bytes += event.data.len() + event.metadata.len();
        let full = events.len() == limit || (!events.is_empty() && (bytes > PAGE_BYTES_MAX || too_much));
        if full {
            has_more = true;
            break;
        }
        events.push(shown(&event));
        if bytes > LONG_PAGE_BYTES && turn.is_none() {
            turn = Some(app.long_pages.turn());
        }
        // The data that is decompressed for this page is released with it.
        too_much = history.holds_too_much();
    }
    let next = events.last().filter(|_| has_more).map(|last: &EventReply<'_>| last.position.to_string());
    JsonResponse::of(&app.memory, &ListPage::of(events, next, EventsRead { head }))
}

/// The problem of a page without events. If the read exceeded its steps, the problem names the
/// position from which the next read continues.
fn unread_page(app: &App, selection: &Selection, mut options: ReadOptions, error: ReadError) -> Problem {
    let reached = error.reached_place();
    let problem = Problem::from(quire::Error::from(error));
    let resumed = reached.map(|reached| selection.resume_at(&app.database().history(), &mut options, reached));
    match (resumed, options.before) {
        (Some(Ok(true)), Some(before)) if options.backwards => problem.continuing_at("before", before.get()),
        (Some(Ok(true)), _) => problem.continuing_at("after", options.after.get()),
        _ => problem,
    }
}

fn shown<'h>(event: &EventView<'h>) -> EventReply<'h> {
    EventReply {
        position: event.position.get(),
        id: event.id().to_string(),
        event_type: event.event_type.into(),
        tags: event.tags().map(|tag| TagReply(tag.into())).collect(),
        time_ms: event.time.as_millis(),
        metadata: value(event.metadata),
        data: value(event.data),
    }
}

/// An event copied out of the log.
fn shown_event(event: &Event) -> EventReply<'_> {
    EventReply {
        position: event.position.get(),
        id: event.id.to_string(),
        event_type: (&*event.event_type).into(),
        tags: event.tags.iter().map(|tag| TagReply((&**tag).into())).collect(),
        time_ms: event.time.as_millis(),
        metadata: value(&*event.metadata),
        data: value(&*event.data),
    }
}
