//! A served database with one of everything, its principals, and calls as raw messages.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};
use quire::system::{AccessRule, KeyText, RuleSubject};
use quire::{Database, NewApiKey};
use quire_grpc::proto::block_ref::Ref;
use quire_grpc::proto::commit_part::{AppendPart, FetchPart, GraphPart, Kind, ProducePart, SaveProjectionPart};
use quire_grpc::proto::event_condition::FailIfEventsMatch;
use quire_grpc::proto::job_change::{Reason, What};
use quire_grpc::proto::job_report::{Fail, fail};
use quire_grpc::proto::quire_client::QuireClient;
use quire_grpc::proto::{
    BlockRef, CommitOffsetRequest, CommitPart, CommitRequest, CreateTopicRequest, EventCondition, EventQuery,
    EventQueryItem, GraphCommand, JobChange, JobReport, NamedSubscription, NewEvent, NewJob, NewRecord, PartReply,
    PutBlock, PutEdge, PutSubscriptionRequest, change_jobs_request, event_condition, graph_command, job_report,
    part_reply,
};
use tokio_stream::StreamExt;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use crate::served::Served;

pub(super) const STORE: &str = "orders-store";
pub(super) const TOPIC: &str = "orders-topic";
pub(super) const GROUP: &str = "orders-group";
pub(super) const QUEUE: &str = "orders-queue";
pub(super) const OTHER_QUEUE: &str = "other-queue";
pub(super) const GRAPH: &str = "orders-graph";
pub(super) const SUBSCRIPTION: &str = "orders-deliveries";
pub(super) const PROJECTION: &str = "orders-projection";

/// The files of the services.
pub(super) fn descriptors() -> FileDescriptorSet {
    FileDescriptorSet::decode(&include_bytes!("../../../src/proto/v1.binpb")[..]).expect("descriptors")
}

/// The path of each method, and whether a client sends it a stream.
pub(super) fn methods() -> Vec<(String, bool)> {
    let mut methods = Vec::new();
    for file in descriptors().file {
        for service in &file.service {
            let path = |method: &str| format!("/{}.{}/{method}", file.package(), service.name());
            methods.extend(service.method.iter().map(|method| (path(method.name()), method.client_streaming())));
        }
    }
    methods
}

/// The message of this name.
pub(super) fn message(name: &str) -> DescriptorProto {
    let found = descriptors().file.into_iter().flat_map(|file| file.message_type).find(|found| found.name() == name);
    found.unwrap_or_else(|| panic!("no message {name}"))
}

/// A database with one of everything, served with access control enabled.
pub(super) struct Fixture {
    pub(super) served: Served,
    pub(super) owner: Database,
    channel: Channel,
    pub(super) root: String,
    users: AtomicUsize,
    /// A leased job: its id and the token.
    pub(super) leased: (String, String),
    pub(super) pending: String,
    pub(super) on_hold: String,
    pub(super) cancelled: String,
    pub(super) dead: String,
}

/// The query that matches every event.
pub(super) fn every_event() -> EventQuery {
    EventQuery { items: vec![EventQueryItem::default()] }
}

pub(super) fn named(name: &str) -> Option<BlockRef> {
    Some(BlockRef { r#ref: Some(Ref::Name(name.to_owned())) })
}

fn graph(command: graph_command::Kind) -> Kind {
    Kind::Graph(GraphPart { graph: GRAPH.to_owned(), command: Some(GraphCommand { kind: Some(command) }) }.into())
}

fn contents() -> Vec<Kind> {
    let event = NewEvent { r#type: "Ordered".to_owned(), tags: vec!["order:1".into()], ..NewEvent::default() };
    let subscription =
        NamedSubscription { name: SUBSCRIPTION.to_owned(), query: Some(every_event()), ..NamedSubscription::default() };
    let put = |name| PutBlock { block: named(name), kind: "order".to_owned(), ..PutBlock::default() };
    let edge = PutEdge { source: named("a"), r#type: "follows".to_owned(), target: named("b"), ..PutEdge::default() };
    let job = |queue: &str| NewJob { queue: queue.to_owned(), payload: "order 1".into(), ..NewJob::default() };
    let record = NewRecord { value: Some("order 1".into()), ..NewRecord::default() };
    let offset = CommitOffsetRequest {
        group: GROUP.to_owned(),
        topic: TOPIC.to_owned(),
        offset: 1,
        ..CommitOffsetRequest::default()
    };
    let projection = SaveProjectionPart {
        store: STORE.to_owned(),
        name: PROJECTION.to_owned(),
        version: 1,
        position: 1,
        ..SaveProjectionPart::default()
    };
    let create = CreateTopicRequest { name: TOPIC.to_owned(), partitions: 1, settings: None };
    let append = AppendPart { store: STORE.to_owned(), events: vec![event.clone(), event], conditions: Vec::new() };
    let subscription =
        PutSubscriptionRequest { store: STORE.to_owned(), subscription: Some(subscription), after: Some(2) };
    let produce = ProducePart { topic: TOPIC.to_owned(), record: Some(record) };
    let mut contents = vec![
        Kind::Append(append.into()),
        Kind::PutSubscription(subscription.into()),
        Kind::SaveProjection(projection.into()),
        Kind::CreateTopic(create.into()),
        Kind::Produce(produce.clone().into()),
        Kind::Produce(produce.into()),
        Kind::CommitOffset(offset.into()),
        Kind::Enqueue(job(OTHER_QUEUE).into()),
        graph(graph_command::Kind::PutBlock(put("a"))),
        graph(graph_command::Kind::PutBlock(put("b"))),
        graph(graph_command::Kind::PutEdge(edge)),
    ];
    contents.extend((0..5).map(|_| Kind::Enqueue(job(QUEUE).into())));
    contents
}

async fn commit(client: &mut QuireClient<Channel>, kinds: Vec<Kind>) -> Vec<part_reply::Kind> {
    let parts = kinds.into_iter().map(|kind| CommitPart { kind: Some(kind) }).collect();
    let response = client.commit(CommitRequest { parts, dry_run: false }).await.expect("committed").into_inner();
    let kind = |reply: PartReply| reply.kind.expect("a reply");
    response.replies.into_iter().map(kind).collect()
}

fn change(job: &str, what: What) -> Kind {
    let change = Some(JobChange { what: Some(what) });
    Kind::Change(change_jobs_request::Item { job: job.to_owned(), change }.into())
}

impl Fixture {
    pub(super) async fn new() -> Self {
        let (served, owner) = Served::with_owner().await;
        let channel = served.channel().await;
        // Access control is disabled until everything is there.
        let mut client = QuireClient::new(channel.clone());
        let replies = commit(&mut client, contents()).await;
        // Clients that may read the store see this refusal.
        let condition = FailIfEventsMatch { query: Some(every_event()), after: 0 };
        let condition = EventCondition { kind: Some(event_condition::Kind::FailIfEventsMatch(condition)) };
        let check = AppendPart { store: STORE.to_owned(), events: Vec::new(), conditions: vec![condition] };
        let parts = vec![CommitPart { kind: Some(Kind::Append(check.into())) }];
        client.commit(CommitRequest { parts, dry_run: false }).await.expect_err("the store has events");
        let jobs: Vec<String> = replies
            .into_iter()
            .filter_map(|reply| match reply {
                part_reply::Kind::Enqueued(job) => Some(job.job),
                _ => None,
            })
            .collect();
        let [_, leased, dead, pending, on_hold, cancelled] = <[String; 6]>::try_from(jobs).expect("six jobs");
        let fetch = FetchPart { queues: vec![QUEUE.to_owned()], count: Some(2), ..FetchPart::default() };
        let reason = || Reason { reason: "a test".to_owned() };
        let kinds = vec![
            Kind::Fetch(fetch.into()),
            change(&on_hold, What::Hold(reason())),
            change(&cancelled, What::Cancel(reason())),
        ];
        let fetched = commit(&mut client, kinds).await.swap_remove(0);
        let part_reply::Kind::Fetched(fetched) = fetched else { panic!("no jobs: {fetched:?}") };
        assert_eq!([&fetched.jobs[0].job, &fetched.jobs[1].job], [&leased, &dead]);
        let fail = Fail { retry: Some(fail::Retry::Never(true)), ..Fail::default() };
        let token = fetched.jobs[1].token.clone();
        let report = JobReport { job: dead.clone(), token, what: Some(job_report::What::Fail(fail)) };
        commit(&mut client, vec![Kind::Report(report.into())]).await;
        let leased = (leased, fetched.jobs[0].token.clone());
        let root = owner.access().init("root").expect("initialised").reveal().to_owned();
        let users = AtomicUsize::new(0);
        Fixture { served, owner, channel, root, users, leased, pending, on_hold, cancelled, dead }
    }

    /// Creates a user with these rules, and returns its name and its key.
    pub(super) fn user(&self, rules: &[AccessRule]) -> (String, KeyText) {
        let name = format!("user-{}", self.users.fetch_add(1, Ordering::Relaxed));
        let access = self.owner.access();
        access.create_user(&name, &[]).expect("created");
        let subject = RuleSubject::Principal(name.clone());
        for rule in rules {
            access.add_rule(&subject, rule).expect("added");
        }
        let lifetime = Some(Duration::from_secs(3_600));
        let key = access.create_key(&name, NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
        (name, key)
    }

    /// Creates a key of a user with these rules, and returns the value of `authorization`.
    pub(super) fn key(&self, rules: &[AccessRule]) -> String {
        format!("Bearer {}", self.user(rules).1.reveal())
    }

    /// Begins a call with these values of `authorization`. A stream of messages stays open.
    pub(super) async fn begin(
        &self,
        path: &str,
        is_stream: bool,
        message: Bytes,
        authorization: &[&str],
    ) -> Result<Streaming<Bytes>, Status> {
        let mut client = tonic::client::Grpc::new(self.channel.clone());
        client.ready().await.expect("connected");
        let path = PathAndQuery::try_from(path).expect("a path");
        let messages = tokio_stream::once(message);
        let response = if is_stream {
            let request = authorized(messages.chain(tokio_stream::pending()), authorization);
            client.streaming(request, path, RawCodec).await?
        } else {
            client.streaming(authorized(messages, authorization), path, RawCodec).await?
        };
        Ok(response.into_inner())
    }

    /// Calls a method, and returns its first message.
    pub(super) async fn call(
        &self,
        (path, is_stream): (&str, bool),
        message: Bytes,
        authorization: &[&str],
    ) -> Result<Bytes, Status> {
        let mut messages = self.begin(path, is_stream, message, authorization).await?;
        let first = messages.message().await?;
        Ok(first.unwrap_or_else(|| panic!("{path} has no response")))
    }
}

fn authorized<T>(messages: T, authorization: &[&str]) -> Request<T> {
    let mut request = Request::new(messages);
    for value in authorization {
        request.metadata_mut().append("authorization", value.parse().expect("metadata"));
    }
    request
}

/// Messages as their bytes.
#[derive(Debug, Clone, Copy)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
