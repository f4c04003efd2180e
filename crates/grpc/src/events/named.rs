//! Named subscriptions of a store, and its retention and trims. Deliveries are jobs: the service
//! `Jobs` fetches them and takes their reports.

use bytes::Bytes;
use quire::events::{self, Command};
use quire::{Commit, Operation, Outcome, Part, ReadView, Resource, ResourceKind};
use quire_access::budget::ByteClaim;
use tonic::Status;

use super::request;
use crate::app::App;
use crate::error::{failed, overloaded, refused};
use crate::proto::{
    EventQuery, EventQueryItem, ForgetEventsRequest, ListSubscriptionsResponse, NamedSubscription,
    PutSubscriptionRequest, SetEventRetentionRequest,
};

/// Creates or changes a subscription.
pub(super) async fn put(app: &App, request: PutSubscriptionRequest) -> Result<(), Status> {
    let put = request::subscription(&request.store, request.subscription.as_ref(), request.after)?;
    commit(app, Command::PutSubscription(put))?.await
}

/// Deletes a subscription.
pub(super) async fn remove(app: &App, name: &str) -> Result<(), Status> {
    commit(app, Command::DropSubscription { name })?.await
}

/// Trims or erases events.
pub(super) async fn forget(app: &App, request: ForgetEventsRequest) -> Result<(), Status> {
    commit(app, request::forget(&request)?)?.await
}

/// Sets the retention of events.
pub(super) async fn retain(app: &App, request: SetEventRetentionRequest) -> Result<(), Status> {
    let SetEventRetentionRequest { store, retention_ms } = &request;
    commit(app, Command::SetRetention { store, retention_ms: *retention_ms })?.await
}

fn commit(app: &App, command: Command<'_>) -> Result<impl Future<Output = Result<(), Status>> + use<>, Status> {
    let ticket = app.database().submit(&Commit::new().part(Part::Events(command))).map_err(failed)?;
    Ok(async move {
        match ticket.await.map_err(failed)? {
            Outcome::Committed(_) => Ok(()),
            Outcome::Refused(refusal) => Err(refused(&refusal)),
        }
    })
}

/// Lists the subscriptions of a store, except those of queues that the client may not describe.
pub(super) async fn list(app: &App, store: &str) -> Result<(ListSubscriptionsResponse, ByteClaim), Status> {
    let resource = Resource::new(ResourceKind::Store, store);
    app.database().check_permission(resource, Operation::Describe).map_err(failed)?;
    let mut claim = app.caller().claim();
    let ticket = app.database().read_permitted(|view| {
        let number = view.events.store(store);
        let own = view.events.subscriptions().filter(|(_, found)| Some(found.store) == number);
        // The queue of the deliveries has the name of the subscription.
        let shown = own.filter(|(name, _)| view.shows(ResourceKind::Queue, name));
        let within = shown.map(|(name, found)| claim.grow(bytes_of(name, found)).map(|()| message(view, name, found)));
        within.collect::<Result<Vec<_>, _>>()
    });
    let subscriptions = ticket.map_err(failed)?.await.map_err(failed)?.map_err(overloaded)?;
    Ok((ListSubscriptionsResponse { subscriptions }, claim))
}

/// The memory of the message of a subscription.
fn bytes_of(name: &str, subscription: &events::Subscription) -> usize {
    let types =
        |item: &events::QueryItem<'_>| item.types.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>();
    let tags = |item: &events::QueryItem<'_>| item.tags.iter().map(|tag| size_of::<Bytes>() + tag.len()).sum::<usize>();
    let item = |item| size_of::<EventQueryItem>() + types(item) + tags(item);
    size_of::<NamedSubscription>() + name.len() + subscription.query.items.iter().map(item).sum::<usize>()
}

fn message(view: &ReadView<'_>, name: &str, subscription: &events::Subscription) -> NamedSubscription {
    let items = subscription.query.items.iter().map(|item| EventQueryItem {
        types: item.types.iter().map(ToString::to_string).collect(),
        tags: item.tags.iter().map(|tag| Bytes::copy_from_slice(tag)).collect(),
        only_last_event: item.only_last_event,
    });
    let attempts = &subscription.attempts;
    NamedSubscription {
        name: name.to_owned(),
        query: Some(EventQuery { items: items.collect() }),
        attempts_max: Some(u32::from(attempts.attempts_max)),
        backoff_us: Some(attempts.backoff_micros),
        backoff_max_us: Some(attempts.backoff_max_micros),
        group_by: attempts.group_by.to_string(),
        position: subscription.position.get(),
        paused: view.pause_of(name, subscription).map(|problem| problem.to_string()),
    }
}
