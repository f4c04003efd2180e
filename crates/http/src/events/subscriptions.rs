//! Named subscriptions: the list, their progress, and fetching their deliveries.
//!
//! Deliveries are jobs of the queue of the same name. Here they are fetched with their events; use
//! the routes of jobs and queues for everything else.

use std::sync::Arc;

use axum::extract::State;
use quire::events::{Command, Subscription};
use quire::jobs::{self, FetchedJob};
use quire::{Database, Operation, Part, ReadView, Resource, ResourceKind, Timestamp};
use quire_access::BoundedRequest;
use quire_api::ListPage;

use super::shown_event;
use crate::app::App;
use crate::body::Body;
use crate::commit::reply::fetched;
use crate::commit::{committed, submit_commit, submitted};
use crate::error::Problem;
use crate::idempotency::{NoRequestKey, RequestKey};
use crate::params::{Params, PathNames};
use crate::queues;
use crate::response::{JsonResponse, bounded};
use crate::stats::SubscriptionStats;
use quire_api::reply::{DeliveredJob, DeliveredReply, ItemReply, QueryReply, SubscriptionReply, TagReply};
use quire_api::request::SubscriptionRequest;

fn reply(view: &ReadView<'_>, name: &str, subscription: &Subscription) -> SubscriptionReply {
    let items = subscription.query.items.iter().map(|item| ItemReply {
        types: item.types.iter().map(|event_type| event_type.to_string().into()).collect(),
        tags: item.tags.iter().map(|tag| TagReply(tag.to_vec().into())).collect(),
    });
    let query = QueryReply { items: items.collect() };
    let attempts = &subscription.attempts;
    SubscriptionReply {
        name: name.to_owned(),
        store: view.events.store_name(subscription.store).unwrap_or_default().to_owned(),
        position: subscription.position.get(),
        behind: behind(view, subscription),
        query,
        attempts_max: attempts.attempts_max,
        backoff_ms: attempts.backoff_micros / 1_000,
        backoff_max_ms: attempts.backoff_max_micros / 1_000,
        group_by: attempts.group_by.clone().into_owned(),
        paused: view.pause_of(name, subscription).map(|problem| problem.to_string()),
        queue: view.jobs.queue_stats(name).map(|stats| queues::of_view(view, name, stats)),
    }
}

/// The number of events after the position of a subscription, whether they match or not.
fn behind(view: &ReadView<'_>, subscription: &Subscription) -> u64 {
    view.events.last_appended(subscription.store).get() - subscription.position.get()
}

/// The first `count_max` named subscriptions by name, and the number of all.
pub(crate) async fn statistics(
    database: &Database,
    count_max: usize,
) -> Result<(Vec<SubscriptionStats>, u64), Problem> {
    let ticket = database.read_permitted(|view| {
        let all = view.events.subscriptions();
        let count = all.len() as u64;
        let is_shown = |(name, found): &(&str, &Subscription)| {
            let store = view.events.store_name(found.store);
            store.is_some_and(|store| view.shows(ResourceKind::Store, store)) && view.shows(ResourceKind::Queue, name)
        };
        let first = all.filter(is_shown).take(count_max).map(|(name, subscription)| SubscriptionStats {
            store: view.events.store_name(subscription.store).unwrap_or_default().to_owned(),
            subscription: name.to_owned(),
            behind: behind(view, subscription),
            is_paused: view.pause_of(name, subscription).is_some(),
        });
        (first.collect(), count)
    })?;
    Ok(ticket.await?)
}

/// `GET /v1/events/{store}/subscriptions`: the named subscriptions of a store.
pub(crate) async fn subscriptions(
    State(app): State<Arc<App>>,
    PathNames(store): PathNames<String>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let database = app.database();
    database.check_permission(Resource::new(ResourceKind::Store, &store), Operation::Describe)?;
    let ticket = database.read_permitted(|view| {
        let number = view.events.store(&store);
        let own = view.events.subscriptions().filter(|(_, found)| Some(found.store) == number);
        // The queue of the deliveries has the name of the subscription.
        let shown = own.filter(|(name, _)| view.shows(ResourceKind::Queue, name));
        shown.map(|(name, found)| reply(view, name, found)).collect::<Vec<_>>()
    })?;
    JsonResponse::of(&app.memory, &ListPage::whole(ticket.await?))
}

/// `GET /v1/events/{store}/subscriptions/{name}`: a named subscription.
pub(crate) async fn subscription(
    State(app): State<Arc<App>>,
    PathNames((store, name)): PathNames<(String, String)>,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    // The queue of the deliveries has the name of the subscription.
    let is_shown = app.database().permits(Resource::new(ResourceKind::Queue, &name), Operation::Describe);
    let found = found(&app, &store, &name).await?;
    JsonResponse::of(&app.memory, &Some(found).filter(|_| is_shown).ok_or_else(|| unknown(&store, &name))?)
}

fn unknown(store: &str, name: &str) -> Problem {
    Problem::not_found(format!("unknown subscription {name:?} in store {store:?}"))
}

async fn found(app: &App, store: &str, name: &str) -> Result<SubscriptionReply, Problem> {
    let resource = Resource::new(ResourceKind::Store, store);
    let ticket = app.database().read_for(resource, Operation::Describe, |view| {
        let number = view.events.store(store);
        let found = view.events.subscription(name).filter(|found| Some(found.store) == number);
        found.map(|found| reply(view, name, found))
    })?;
    ticket.await?.ok_or_else(|| unknown(store, name))
}

/// `POST /v1/events/{store}/subscriptions/{name}`: creates or changes a subscription.
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    PathNames((store, name)): PathNames<(String, String)>,
    params: Params,
    _no_key: NoRequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    let names = (store.clone(), name.clone());
    let ticket = submitted(&app, body, move |database, body, pace| {
        let request = body.parse::<SubscriptionRequest<'_>>()?.of(&names.0, &names.1);
        submit_commit(database, &quire::Commit::new().part(Part::Events(request.command()?)), pace)
    });
    committed(ticket.await?.await?).map_err(Problem::of_one)?;
    JsonResponse::of(&app.memory, &found(&app, &store, &name).await?)
}

/// `DELETE /v1/events/{store}/subscriptions/{name}`: deletes a subscription. Its deliveries stay in
/// its queue.
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    PathNames((store, name)): PathNames<(String, String)>,
    _no_key: NoRequestKey,
    params: Params,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    found(&app, &store, &name).await?;
    let ticket = {
        let drop = Command::DropSubscription { name: &name };
        app.database().submit(&quire::Commit::new().part(Part::Events(drop)))?
    };
    committed(ticket.await?).map_err(Problem::of_one)?;
    Ok(JsonResponse::of_done(&app.memory, &serde_json::json!({})))
}

/// Maximum bytes of events in a response; a single event may exceed it.
const EVENTS_BYTES_MAX: usize = 16 << 20;

/// Makes the jobs that are not in the response pending again; their attempts do not count. The
/// server returns them, also when the session of their client has ended.
fn give_back(database: &Database, jobs: &[FetchedJob]) -> Result<(), Problem> {
    let back = |job: &FetchedJob| jobs::Command::Snooze { job: job.job, token: job.token, until: Timestamp::ZERO };
    let commands: Vec<_> = jobs.iter().map(back).collect();
    let each = quire::Commit::new().part(Part::Jobs(jobs::Command::Each(&commands)));
    committed(database.commit(&each)?).map(drop)
}

/// `POST /v1/events/{store}/subscriptions/{name}/fetch`: leases deliveries to a member, and waits
/// when there are none.
pub(crate) async fn fetch(
    State(app): State<Arc<App>>,
    PathNames((store, name)): PathNames<(String, String)>,
    params: Params,
    _no_key: NoRequestKey,
    body: Body,
) -> Result<JsonResponse, Problem> {
    params.end()?;
    // A delivery shows its event: without the permission, no job is leased.
    app.database().check_permission(Resource::new(ResourceKind::Store, &store), Operation::Read)?;
    found(&app, &store, &name).await?;
    let (jobs, _) = queues::fetch_one(&app, &name, &RequestKey::default(), body).await?;
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let mut events = Vec::with_capacity(jobs.len());
        let mut bytes = 0;
        // The memory of the jobs and their events, until they are written.
        let mut claim = app.memory.claim_of_done();
        claim.grow(jobs.iter().map(queues::job_bytes).sum())?;
        for (number, job) in jobs.iter().enumerate() {
            let event = match database.event_of(job) {
                Ok(event) => event,
                Err(error) => {
                    // A client that gets an error for an unreadable event gets no lease: its job,
                    // and later ones, would wait for the lease to expire.
                    give_back(app.owner(), &jobs[number..])?;
                    if number == 0 {
                        return Err(error.into());
                    }
                    break;
                }
            };
            let event_bytes = event.as_ref().map_or(0, |event| event.data.len() + event.metadata.len());
            bytes += event_bytes;
            claim.grow(event_bytes)?;
            if bytes > EVENTS_BYTES_MAX && number > 0 {
                give_back(app.owner(), &jobs[number..])?;
                break;
            }
            events.push(event);
        }
        let delivered =
            |(job, event)| DeliveredJob { job: fetched(job), event: Option::as_ref(event).map(shown_event) };
        let events = jobs.iter().zip(&events).map(delivered).collect();
        JsonResponse::within(claim, &DeliveredReply { events })
    })
    .await
}
