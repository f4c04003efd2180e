//! Named subscriptions of a store, and its retention and trims. Deliveries are jobs: the service
//! `Jobs` fetches them and takes their reports.

use bytes::Bytes;
use quire::events::{self, Command};
use quire::{Commit, Operation, Outcome, Part, ReadView, Resource, ResourceKind};
use tonic::Status;

use super::request;
use crate::app::App;
use crate::error::{failed, refused};
use crate::proto::{
    EventQuery, EventQueryItem, ForgetEventsRequest, NamedSubscription, PutSubscriptionRequest,
    SetEventRetentionRequest,
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
pub(super) async fn list(app: &App, store: &str) -> Result<Vec<NamedSubscription>, Status> {
    let resource = Resource::new(ResourceKind::Store, store);
    app.database().check_permission(resource, Operation::Describe).map_err(failed)?;
    let ticket = app.database().read_permitted(|view| {
        let number = view.events.store(store);
        let own = view.events.subscriptions().filter(|(_, found)| Some(found.store) == number);
        // The queue of the deliveries has the name of the subscription.
        let shown = own.filter(|(name, _)| view.shows(ResourceKind::Queue, name));
        shown.map(|(name, found)| message(view, name, found)).collect()
    });
    ticket.map_err(failed)?.await.map_err(failed)
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
