//! The service `Events`: appends, reads, subscriptions, also under names, and heads of event
//! stores.
//!
//! ```text
//! Append ─▶ request ─▶ Database::submit ─▶ the ticket ─▶ positions, or a refusal
//! Read, Subscribe ─▶ request ─▶ pages: one after the other, as the client takes them
//! ```

mod named;
mod pages;
pub(crate) mod request;

pub(crate) use pages::message_of;

use std::sync::Arc;

use prost::Message as _;
use quire::{Commit, Database, Operation, Outcome, ReadView, Reply, Resource, ResourceKind};
use quire_access::BoundedRequest;
use tonic::{Request, Response, Status};

use crate::app::{App, ServiceComponents};
use crate::aside::{INLINE_BYTES_MAX, aside};
use crate::error::{failed, refused};
use crate::idempotency::{self, CallKey};
use crate::metering::claimed;
use crate::pages::PageStream;
use crate::proto::events_server::Events;
use crate::proto::{
    AppendEventsRequest, AppendEventsResponse, DropSubscriptionRequest, DropSubscriptionResponse, EventUpstream,
    ForgetEventsRequest, ForgetEventsResponse, HeadEventsRequest, HeadEventsResponse, ListSubscriptionsRequest,
    ListSubscriptionsResponse, PutSubscriptionRequest, PutSubscriptionResponse, ReadEventsRequest, ReadEventsResponse,
    SetEventRetentionRequest, SetEventRetentionResponse, SubscribeEventsRequest, SubscribeEventsResponse,
    UpstreamEventsRequest, UpstreamEventsResponse,
};

/// The service.
#[derive(Debug)]
pub(crate) struct EventsService {
    components: Arc<ServiceComponents>,
}

impl EventsService {
    pub(crate) fn new(components: Arc<ServiceComponents>) -> Self {
        EventsService { components }
    }

    /// The components for the running call.
    fn app(&self) -> Arc<App> {
        self.components.call()
    }
}

/// Passes an append to the database, as the function `how` commits.
fn submit<T>(
    database: &Database,
    key: &CallKey,
    request: &AppendEventsRequest,
    submit: impl FnOnce(&Database, &Commit<'_>) -> quire::Result<T>,
) -> Result<T, Status> {
    let (events, conditions) = (request::events(&request.events)?, request::conditions(&request.conditions)?);
    let is_empty = events.is_empty() && conditions.is_empty();
    let mut commit = Commit::new();
    if !is_empty || request.upstream.is_none() {
        commit = commit.append_if(&request.store, events, conditions);
    }
    if let Some(EventUpstream { source, position }) = &request.upstream {
        commit = commit.upstream(&request.store, source, *position);
    }
    submit(database, &key.on(commit)).map_err(failed)
}

#[tonic::async_trait]
impl Events for EventsService {
    type ReadStream = PageStream<ReadEventsResponse>;
    type SubscribeStream = PageStream<SubscribeEventsResponse>;

    async fn append(&self, request: Request<AppendEventsRequest>) -> Result<Response<AppendEventsResponse>, Status> {
        let key = CallKey::of(request.metadata())?;
        let request = request.into_inner();
        let app = self.app();
        let bounded = BoundedRequest::begin(app.database());
        let brief = match request.encoded_len() <= INLINE_BYTES_MAX {
            true => submit(bounded.database(), &key, &request, Database::submit_briefly)?,
            false => None,
        };
        let ticket = match brief {
            Some(ticket) => ticket,
            None => {
                let app = app.within(&bounded);
                aside(move || submit(app.database(), &key, &request, Database::submit)).await?
            }
        };
        match ticket.await.map_err(failed)? {
            Outcome::Committed(committed) => {
                let Some(Reply::Events(appended)) = committed.replies.first() else {
                    unreachable!("an append returns events")
                };
                let message = AppendEventsResponse {
                    first: appended.first.map(|position| position.get()),
                    last: appended.last.map(|position| position.get()),
                    duplicate: appended.duplicate,
                };
                Ok(idempotency::response(message, committed.is_replay))
            }
            Outcome::Refused(refusal) => Err(refused(&refusal)),
        }
    }

    async fn read(&self, request: Request<ReadEventsRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let pages = pages::read(self.app(), request.into_inner()).await?;
        Ok(Response::new(pages))
    }

    async fn subscribe(
        &self,
        request: Request<SubscribeEventsRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        Ok(Response::new(pages::subscribe(self.app(), request.into_inner())?))
    }

    async fn head(&self, request: Request<HeadEventsRequest>) -> Result<Response<HeadEventsResponse>, Status> {
        let head = self.app().database().events(&request.into_inner().store).head().map_err(failed)?;
        Ok(Response::new(HeadEventsResponse { head: head.get() }))
    }

    async fn upstream(
        &self,
        request: Request<UpstreamEventsRequest>,
    ) -> Result<Response<UpstreamEventsResponse>, Status> {
        let UpstreamEventsRequest { store, source } = request.into_inner();
        let resource = Resource::new(ResourceKind::Store, &store);
        let look = |view: &ReadView<'_>| view.events.upstream(&store, &source);
        let ticket = self.app().database().read_for(resource, Operation::Describe, look).map_err(failed)?;
        Ok(Response::new(UpstreamEventsResponse { position: ticket.await.map_err(failed)? }))
    }

    async fn put_subscription(
        &self,
        request: Request<PutSubscriptionRequest>,
    ) -> Result<Response<PutSubscriptionResponse>, Status> {
        named::put(&self.app(), request.into_inner()).await?;
        Ok(Response::new(PutSubscriptionResponse {}))
    }

    async fn drop_subscription(
        &self,
        request: Request<DropSubscriptionRequest>,
    ) -> Result<Response<DropSubscriptionResponse>, Status> {
        named::remove(&self.app(), &request.into_inner().name).await?;
        Ok(Response::new(DropSubscriptionResponse {}))
    }

    async fn list_subscriptions(
        &self,
        request: Request<ListSubscriptionsRequest>,
    ) -> Result<Response<ListSubscriptionsResponse>, Status> {
        named::list(&self.app(), &request.into_inner().store).await.map(claimed)
    }

    async fn forget(&self, request: Request<ForgetEventsRequest>) -> Result<Response<ForgetEventsResponse>, Status> {
        named::forget(&self.app(), request.into_inner()).await?;
        Ok(Response::new(ForgetEventsResponse {}))
    }

    async fn set_retention(
        &self,
        request: Request<SetEventRetentionRequest>,
    ) -> Result<Response<SetEventRetentionResponse>, Status> {
        named::retain(&self.app(), request.into_inner()).await?;
        Ok(Response::new(SetEventRetentionResponse {}))
    }
}
