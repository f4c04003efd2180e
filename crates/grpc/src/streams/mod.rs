//! The service `Streams`: produces, fetches, consumers of a group, topics and offsets.
//!
//! ```text
//! Produce and the changes of topics and groups ─▶ request ─▶ Database::submit ─▶ the ticket ─▶ reply
//! Fetch ─▶ records: a read aside, again after each publication until there is a record
//! Consume ─▶ consume: a member by lease ─▶ pages of records, one partition each
//! ```

mod consume;
mod groups;
mod records;
pub(crate) mod request;
mod topics;

use std::sync::Arc;

use prost::Message as _;
use quire::{Commit, Database, Outcome, Part, Reply, Ticket, streams};
use quire_access::BoundedRequest;
use tonic::{Request, Response, Status};

use crate::app::{App, ServiceComponents};
use crate::aside::{INLINE_BYTES_MAX, aside};
use crate::error::{ItemFault, failed, refused, refused_record};
use crate::idempotency::{self, CallKey};
use crate::metering::claimed;
use crate::pages::PageStream;
use crate::proto::streams_server::Streams;
use crate::proto::{
    AlterTopicRequest, AlterTopicResponse, CommitOffsetRequest, CommitOffsetResponse, ConsumeRequest, ConsumeResponse,
    CreateTopicRequest, CreateTopicResponse, DeleteGroupRequest, DeleteGroupResponse, DeleteOffsetRequest,
    DeleteOffsetResponse, DeleteRecordsRequest, DeleteRecordsResponse, DeleteTopicRequest, DeleteTopicResponse,
    DescribeGroupRequest, DescribeGroupResponse, DescribeTopicRequest, DescribeTopicResponse, FetchRecordsRequest,
    FetchRecordsResponse, ListGroupsRequest, ListGroupsResponse, ListTopicsRequest, ListTopicsResponse, ProduceRequest,
    ProduceResponse, ProducedRecord, ProtectUnreadRequest, ProtectUnreadResponse, ResetOffsetsRequest,
    ResetOffsetsResponse,
};

/// Maximum number of records in a call.
const RECORDS_MAX: usize = 1_024;

/// The service.
#[derive(Debug)]
pub(crate) struct StreamsService {
    components: Arc<ServiceComponents>,
}

impl StreamsService {
    pub(crate) fn new(components: Arc<ServiceComponents>) -> Self {
        StreamsService { components }
    }

    /// The components for the running call.
    fn app(&self) -> Arc<App> {
        self.components.call()
    }
}

/// Passes records to the database, as the function `submit` commits.
fn submit_as<T>(
    database: &Database,
    key: &CallKey,
    request: &ProduceRequest,
    submit: fn(&Database, &Commit<'_>) -> quire::Result<T>,
) -> Result<T, Status> {
    let mut commit = Commit::new();
    for (index, record) in request.records.iter().enumerate() {
        let message = request::message(record).map_err(|fault| fault.within(&format!("record {index}")))?;
        commit = commit.part(Part::Produce { topic: request.topic.as_str().into(), message });
    }
    submit(database, &key.on(commit)).map_err(failed)
}

/// Passes records to the database, on another thread when they are large or take long.
async fn produced(app: &Arc<App>, key: CallKey, request: ProduceRequest) -> Result<Ticket<Outcome>, Status> {
    let count = request.records.len();
    if count > RECORDS_MAX {
        let given = u32::try_from(count).unwrap_or(u32::MAX);
        return Err(ItemFault::out_of_range("the number of records", given, RECORDS_MAX as u32).into());
    }
    if count == 0 {
        return Err(ItemFault::invalid("give at least one record").into());
    }
    let bounded = BoundedRequest::begin(app.database());
    if request.encoded_len() <= INLINE_BYTES_MAX
        && let Some(ticket) = submit_as(bounded.database(), &key, &request, Database::submit_briefly)?
    {
        return Ok(ticket);
    }
    let app = app.within(&bounded);
    aside(move || submit_as(app.database(), &key, &request, Database::submit)).await
}

/// Commits the command of a request, on another thread when it takes long. `message` makes the
/// response from the reply.
async fn one<R: Send + 'static, M>(
    app: &Arc<App>,
    request: Request<R>,
    command: for<'r> fn(&'r R) -> Result<streams::Command<'r>, ItemFault>,
    message: impl FnOnce(streams::Reply) -> M,
) -> Result<Response<M>, Status> {
    fn submit_as<T>(
        database: &Database,
        key: &CallKey,
        command: streams::Command<'_>,
        submit: fn(&Database, &Commit<'_>) -> quire::Result<T>,
    ) -> Result<T, Status> {
        submit(database, &key.on(Commit::new().part(Part::Streams(command)))).map_err(failed)
    }
    let key = CallKey::of(request.metadata())?;
    let request = request.into_inner();
    let bounded = BoundedRequest::begin(app.database());
    let brief = submit_as(bounded.database(), &key, command(&request)?, Database::submit_briefly)?;
    let ticket = match brief {
        Some(ticket) => ticket,
        None => {
            let app = app.within(&bounded);
            aside(move || submit_as(app.database(), &key, command(&request)?, Database::submit)).await?
        }
    };
    match ticket.await.map_err(failed)? {
        Outcome::Committed(mut committed) => match committed.replies.pop() {
            Some(Reply::Streams(reply)) => Ok(idempotency::response(message(reply), committed.is_replay)),
            other => unreachable!("a command to a topic gets its reply, not {other:?}"),
        },
        Outcome::Refused(refusal) => Err(refused(&refusal)),
    }
}

#[tonic::async_trait]
impl Streams for StreamsService {
    type ConsumeStream = PageStream<ConsumeResponse>;

    async fn produce(&self, request: Request<ProduceRequest>) -> Result<Response<ProduceResponse>, Status> {
        let key = CallKey::of(request.metadata())?;
        let ticket = produced(&self.app(), key, request.into_inner()).await?;
        match ticket.await.map_err(failed)? {
            Outcome::Committed(committed) => {
                let place = |reply: &Reply| match reply {
                    Reply::Streams(streams::Reply::Produced(produced)) => {
                        ProducedRecord { partition: produced.partition, offset: produced.base_offset.get() }
                    }
                    other => unreachable!("a record gets its place, not {other:?}"),
                };
                let message = ProduceResponse { records: committed.replies.iter().map(place).collect() };
                Ok(idempotency::response(message, committed.is_replay))
            }
            Outcome::Refused(refusal) => Err(refused_record(&refusal)),
        }
    }

    async fn fetch(&self, request: Request<FetchRecordsRequest>) -> Result<Response<FetchRecordsResponse>, Status> {
        Ok(Response::new(records::fetch(&self.app(), request.into_inner()).await?))
    }

    async fn consume(&self, request: Request<ConsumeRequest>) -> Result<Response<Self::ConsumeStream>, Status> {
        Ok(Response::new(consume::begin(self.app(), request.into_inner()).await?))
    }

    async fn list_topics(&self, _request: Request<ListTopicsRequest>) -> Result<Response<ListTopicsResponse>, Status> {
        topics::list(&self.app()).map(claimed)
    }

    async fn describe_topic(
        &self,
        request: Request<DescribeTopicRequest>,
    ) -> Result<Response<DescribeTopicResponse>, Status> {
        topics::describe(&self.app(), request.into_inner().topic).await.map(claimed)
    }

    async fn create_topic(
        &self,
        request: Request<CreateTopicRequest>,
    ) -> Result<Response<CreateTopicResponse>, Status> {
        one(&self.app(), request, request::create, |reply| match reply {
            streams::Reply::TopicCreated(created) => CreateTopicResponse { partitions: created.partitions },
            other => unreachable!("a creation has no reply {other:?}"),
        })
        .await
    }

    async fn delete_topic(
        &self,
        request: Request<DeleteTopicRequest>,
    ) -> Result<Response<DeleteTopicResponse>, Status> {
        one(&self.app(), request, |request| Ok(request::delete(request)), |_| DeleteTopicResponse {}).await
    }

    async fn alter_topic(&self, request: Request<AlterTopicRequest>) -> Result<Response<AlterTopicResponse>, Status> {
        one(&self.app(), request, request::alter, |reply| match reply {
            streams::Reply::TopicAltered(altered) => AlterTopicResponse { partitions: altered.partitions },
            other => unreachable!("a change has no reply {other:?}"),
        })
        .await
    }

    async fn delete_records(
        &self,
        request: Request<DeleteRecordsRequest>,
    ) -> Result<Response<DeleteRecordsResponse>, Status> {
        one(
            &self.app(),
            request,
            |request| Ok(request::delete_records(request)),
            |reply| match reply {
                streams::Reply::RecordsDeleted(deleted) => {
                    DeleteRecordsResponse { partition: deleted.partition, start: deleted.start.get() }
                }
                other => unreachable!("a deletion has no reply {other:?}"),
            },
        )
        .await
    }

    async fn list_groups(&self, _request: Request<ListGroupsRequest>) -> Result<Response<ListGroupsResponse>, Status> {
        groups::list(&self.app()).await.map(claimed)
    }

    async fn describe_group(
        &self,
        request: Request<DescribeGroupRequest>,
    ) -> Result<Response<DescribeGroupResponse>, Status> {
        groups::describe(&self.app(), request.into_inner().group).await.map(claimed)
    }

    async fn delete_group(
        &self,
        request: Request<DeleteGroupRequest>,
    ) -> Result<Response<DeleteGroupResponse>, Status> {
        one(&self.app(), request, |request| Ok(request::delete_group(request)), |_| DeleteGroupResponse {}).await
    }

    async fn commit_offset(
        &self,
        request: Request<CommitOffsetRequest>,
    ) -> Result<Response<CommitOffsetResponse>, Status> {
        let partition = request.get_ref().partition;
        one(&self.app(), request, |request| Ok(request::commit_offset(request)), |_| CommitOffsetResponse { partition })
            .await
    }

    async fn delete_offset(
        &self,
        request: Request<DeleteOffsetRequest>,
    ) -> Result<Response<DeleteOffsetResponse>, Status> {
        let partition = request.get_ref().partition;
        one(&self.app(), request, |request| Ok(request::delete_offset(request)), |_| DeleteOffsetResponse { partition })
            .await
    }

    async fn reset_offsets(
        &self,
        request: Request<ResetOffsetsRequest>,
    ) -> Result<Response<ResetOffsetsResponse>, Status> {
        Ok(Response::new(groups::reset(&self.app(), request.into_inner()).await?))
    }

    async fn protect_unread(
        &self,
        request: Request<ProtectUnreadRequest>,
    ) -> Result<Response<ProtectUnreadResponse>, Status> {
        one(&self.app(), request, |request| Ok(request::protect_unread(request)), |_| ProtectUnreadResponse {}).await
    }
}
