//! Named subscriptions of a store, and its retention and trims. Deliveries are jobs: the service
//! `Jobs` fetches them and takes their reports.

use std::borrow::Cow;

use bytes::Bytes;
use quire::events::{self, Attempts, Command, EventPosition, Query};
use quire::{Commit, Outcome, Part};
use tonic::Status;

use super::request::query;
use crate::app::App;
use crate::error::{failed, invalid, refused};
use crate::proto::forget_events_request::Which;
use crate::proto::{
    EventQuery, EventQueryItem, ForgetEventsRequest, NamedSubscription, PutSubscriptionRequest,
    SetEventRetentionRequest,
};

/// Creates or changes a subscription.
pub(super) async fn put(app: &App, request: PutSubscriptionRequest) -> Result<(), Status> {
    let subscription = request.subscription.ok_or_else(|| invalid("subscription is missing"))?;
    let default = Attempts::default();
    let attempts_max = subscription.attempts_max.map_or(Ok(default.attempts_max), u16::try_from);
    let attempts = Attempts {
        attempts_max: attempts_max.map_err(|_| invalid("attempts_max must be at most 65535"))?,
        backoff_micros: subscription.backoff_us.unwrap_or(default.backoff_micros),
        backoff_max_micros: subscription.backoff_max_us.unwrap_or(default.backoff_max_micros),
        group_by: Cow::Owned(subscription.group_by),
    };
    let put = events::PutSubscription {
        store: &request.store,
        name: &subscription.name,
        query: subscription.query.as_ref().map_or_else(Query::all, query),
        after: request.after.map(EventPosition::new),
        attempts,
    };
    commit(app, Command::PutSubscription(put))?.await
}

/// Deletes a subscription.
pub(super) async fn remove(app: &App, name: &str) -> Result<(), Status> {
    commit(app, Command::DropSubscription { name })?.await
}

/// Trims or erases events.
pub(super) async fn forget(app: &App, request: ForgetEventsRequest) -> Result<(), Status> {
    let store = &request.store;
    let command = match &request.which {
        Some(Which::Tag(tag)) => Command::Forget { store, tag },
        Some(Which::UpTo(position)) => Command::Trim { store, up_to: EventPosition::new(*position) },
        None => return Err(invalid("give a tag or a position")),
    };
    commit(app, command)?.await
}

/// Sets the retention of events.
pub(super) async fn retain(app: &App, request: SetEventRetentionRequest) -> Result<(), Status> {
    let SetEventRetentionRequest { store, retention_ms } = &request;
    commit(app, Command::SetRetention { store, retention_ms: *retention_ms })?.await
}

fn commit(app: &App, command: Command<'_>) -> Result<impl Future<Output = Result<(), Status>> + use<>, Status> {
    let ticket = app.database.submit(&Commit::new().part(Part::Events(command))).map_err(failed)?;
    Ok(async move {
        match ticket.await.map_err(failed)? {
            Outcome::Committed(_) => Ok(()),
            Outcome::Refused(refusal) => Err(refused(&refusal)),
        }
    })
}

/// Lists the subscriptions of a store.
pub(super) async fn list(app: &App, store: &str) -> Result<Vec<NamedSubscription>, Status> {
    let ticket = app.database.read(|view| {
        let number = view.events.store(store);
        let own = view.events.subscriptions().filter(|(_, found)| Some(found.store) == number);
        own.map(|(name, found)| message(name, found)).collect()
    });
    ticket.map_err(failed)?.await.map_err(failed)
}

fn message(name: &str, subscription: &events::Subscription) -> NamedSubscription {
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
    }
}
