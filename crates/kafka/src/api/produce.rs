//! Produce: each partition of a request is a commit of its own, of the batches as they came.
//!
//! Committing is one step, done in the order of the requests. Waiting for durability and
//! answering is another. The batches of a compacted topic are decompressed before the commit, for
//! their keys, on the threads of `decompression`.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use quire::streams::wire::Batch;
use quire::streams::{Command, Refusal, Reply as StreamReply, TopicRef};
use quire::{
    Commit, CommitRefusal, Database, ErrorKind, NotPermitted, Operation, Outcome, Part, PermittedView, Reason, Reply,
    Resource, ResourceKind, Ticket,
};
use quire_access::BoundedRequest;
use quire_access::budget::BudgetCaller;
use uuid::Uuid;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::read_only::{self, TopicOperation};
use crate::request::Request;
use crate::response;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, ResourceNumber};

/// Transactional id, acks, timeout, topics of (name or id, partitions of (number, records)).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 9,
    body: fields(&[
        Field(3, LAST, Shape::Text),
        Field(0, LAST, Shape::Fixed(2 + 4)),
        Field(0, LAST, Shape::Structs(&TOPIC)),
    ]),
};
static TOPIC: Struct =
    fields(&[Field(0, 12, Shape::Text), Field(13, LAST, Shape::Fixed(16)), Field(0, LAST, Shape::Structs(&PARTITION))]);
static PARTITION: Struct = fields(&[Field(0, LAST, Shape::Fixed(4)), Field(0, LAST, Shape::Bytes)]);

/// The first version whose response has error messages.
const MESSAGES_FROM: i16 = 8;

/// A response that waits until the commit is durable; `None` when the producer wants none.
pub(crate) type PendingResponse = Pin<Box<dyn Future<Output = Result<Option<Bytes>, CloseReason>> + Send>>;

/// A decoded request.
pub(crate) struct ProduceCommit {
    decoded: ProduceRequest,
    /// The request's memory.
    request: Request,
}

impl ProduceCommit {
    /// Decodes a request.
    ///
    /// # Errors
    /// [`CloseReason::Malformed`].
    pub(crate) fn read(request: Request) -> Result<Self, CloseReason> {
        Ok(ProduceCommit { decoded: request.decode()?, request })
    }

    pub(crate) fn wants_answer(&self) -> bool {
        self.decoded.acks != 0
    }

    /// Commits the request's batches. Dropping the future cancels partitions that were not begun.
    /// `unpacking` has the steps for decompression; the first batch that needs some sets it.
    pub(crate) async fn start(
        self,
        broker: &Arc<Broker>,
        caller: &BudgetCaller,
        unpacking: &mut Option<BoundedRequest>,
    ) -> StartedProduce {
        let ProduceCommit { decoded, request } = self;
        let Request { version, correlation_id, .. } = request;
        let acks = decoded.acks;
        let problem = check(broker, &decoded).err();
        let mut topics = Vec::with_capacity(decoded.topic_data.len());
        for topic in &decoded.topic_data {
            topics.push(ProducedTopic::start(broker, caller, unpacking, topic, problem.as_ref()).await);
        }
        // The response is built after the request, outside of its session.
        StartedProduce { database: broker.database(), topics, acks, version, correlation_id }
    }
}

/// A request whose batches are committed or refused.
pub(crate) struct StartedProduce {
    database: Database,
    topics: Vec<ProducedTopic>,
    acks: i16,
    version: i16,
    correlation_id: i32,
}

impl StartedProduce {
    /// The response, which tells the client to wait for `throttle_ms`.
    pub(crate) fn response(self, throttle_ms: i32) -> PendingResponse {
        let StartedProduce { database, topics, acks, version, correlation_id } = self;
        Box::pin(async move {
            let mut responses = Vec::with_capacity(topics.len());
            let mut is_refused = false;
            for topic in topics {
                let response = topic.finish(&database, version).await;
                is_refused |= response.partition_responses.iter().any(|partition| partition.error_code != 0);
                responses.push(response);
            }
            if acks == 0 {
                return if is_refused { Err(CloseReason::Unacknowledged) } else { Ok(None) };
            }
            let response = ProduceResponse::default().with_responses(responses).with_throttle_time_ms(throttle_ms);
            response::frame(correlation_id, version, &response).map(Some)
        })
    }
}

/// A topic of a request, with its partitions committed or refused. It keeps no memory of the
/// request.
struct ProducedTopic {
    /// The topic's name, or from version 13 on its id.
    name: TopicName,
    id: Uuid,
    partitions: Vec<(i32, Result<Ticket<ProduceOutcome>, KafkaError>)>,
}

/// The outcome of a commit, with the records that have no key where the topic needs keys.
struct ProduceOutcome {
    outcome: Outcome,
    keyless: Vec<u32>,
}

impl ProduceOutcome {
    /// Finds the records without a key while the request is at hand.
    fn of(outcome: Outcome, batches: &[Batch<'_>]) -> Self {
        let is_missing_key = matches!(&outcome, Outcome::Refused(refused)
            if matches!(refused.reason, Reason::Streams(Refusal::MissingKey { .. })));
        let keyless = if is_missing_key { keyless(batches) } else { Vec::new() };
        ProduceOutcome { outcome, keyless }
    }
}

/// The records of a partition without a key, counted over its batches.
fn keyless(batches: &[Batch<'_>]) -> Vec<u32> {
    let (mut found, mut first) = (Vec::new(), 0u32);
    for batch in batches {
        // The commit has read the records already.
        let opened = quire::open_batch(batch).unwrap_or_default();
        let records = batch.records_from(&opened).map_while(Result::ok).filter(|record| record.key.is_none());
        found.extend(records.map(|record| first.saturating_add(record.offset_delta)));
        first = first.saturating_add(batch.record_count());
    }
    found
}

impl ProducedTopic {
    /// `unpacking` is the request, once it decompresses a batch.
    async fn start(
        broker: &Arc<Broker>,
        caller: &BudgetCaller,
        unpacking: &mut Option<BoundedRequest>,
        topic: &TopicProduceData,
        problem: Option<&KafkaError>,
    ) -> Self {
        let reference = topic_ref(broker, topic);
        let mut partitions = Vec::with_capacity(topic.partition_data.len());
        for partition in &topic.partition_data {
            let submitted = match (problem, &reference) {
                (Some(failure), _) | (None, Err(failure)) => Err(failure.clone()),
                (None, Ok(reference)) => submit(broker, caller, unpacking, *reference, partition).await,
            };
            partitions.push((partition.index, submitted));
        }
        let name = TopicName(StrBytes::from_string(topic.name.to_string()));
        ProducedTopic { name, id: topic.topic_id, partitions }
    }

    async fn finish(self, database: &Database, version: i16) -> TopicProduceResponse {
        let mut responses = Vec::with_capacity(self.partitions.len());
        for (index, submitted) in self.partitions {
            let response = PartitionProduceResponse::default().with_index(index);
            responses.push(match base_offset(database, self.id, submitted).await {
                Ok((base_offset, append_time_ms)) => {
                    response.with_base_offset(base_offset).with_log_append_time_ms(append_time_ms.unwrap_or(-1))
                }
                Err(failure) => {
                    let error = |record: u32| {
                        let index = i32::try_from(record).unwrap_or(i32::MAX);
                        let text = StrBytes::from_static_str("the record has no key");
                        BatchIndexAndErrorMessage::default()
                            .with_batch_index(index)
                            .with_batch_index_error_message(Some(text))
                    };
                    let wanted = failure.records.into_iter().filter(|_| version >= MESSAGES_FROM);
                    let response = response.with_record_errors(wanted.map(error).collect());
                    let message = (version >= MESSAGES_FROM).then(|| StrBytes::from_string(failure.message));
                    response.with_error_code(failure.code.code()).with_base_offset(-1).with_error_message(message)
                }
            });
        }
        TopicProduceResponse::default().with_name(self.name).with_topic_id(self.id).with_partition_responses(responses)
    }
}

/// Checks the parts of a request that are not about one topic.
fn check(broker: &Broker, decoded: &ProduceRequest) -> Result<(), KafkaError> {
    if let Some(id) = &decoded.transactional_id {
        broker.check(Resource::new(ResourceKind::TransactionalId, id), Operation::Write)?;
    }
    match decoded.acks {
        -1..=1 => Ok(()),
        acks => {
            let message = format!("acks must be -1, 0 or 1, got {acks}");
            Err(KafkaError::new(ResponseError::InvalidRequiredAcks, message))
        }
    }
}

/// Resolves the topic. The commit looks a name up.
fn topic_ref<'t>(broker: &Broker, topic: &'t TopicProduceData) -> Result<TopicRef<'t>, KafkaError> {
    if topic.topic_id.is_nil() {
        return Ok(TopicRef::Name(topic.name.as_str()));
    }
    match ResourceNumber::of(broker.database_id(), topic.topic_id) {
        Some(ResourceNumber::Stream(id)) => Ok(TopicRef::Id(id)),
        Some(ResourceNumber::Events(_) | ResourceNumber::Jobs(_)) => {
            let topic = broker.read_published(|database, view| {
                topics::permitted_by_id(database, view, topic.topic_id, Operation::Write)
            })?;
            // The store or queue has just been deleted, unless it refuses.
            let refused = |topic| read_only::refusal(&topic, TopicOperation::Produce);
            Err(topic.map_or_else(Some, refused).unwrap_or_else(KafkaError::unknown_topic_id))
        }
        None => Err(KafkaError::unknown_topic_id()),
    }
}

/// Commits the batches of one partition. If the topic compacts, they are decompressed first, in
/// turn and within the steps of the request. The commit itself reports that the topic compacts, so
/// its policy can't change in between.
async fn submit(
    broker: &Arc<Broker>,
    caller: &BudgetCaller,
    unpacking: &mut Option<BoundedRequest>,
    topic: TopicRef<'_>,
    data: &PartitionProduceData,
) -> Result<Ticket<ProduceOutcome>, KafkaError> {
    let partition = u32::try_from(data.index).map_err(|_| KafkaError::unknown_partition(data.index))?;
    let records = data.records.clone().unwrap_or_default();
    let came = batches(&records)?;
    check_sizes(&came, broker.batch_bytes_max())?;
    let packed = broker.database().submit_briefly(&commit(topic, partition, &came)).map_err(failure)?;
    if let Some(ticket) = packed {
        return Ok(ticket.map(|outcome| ProduceOutcome::of(outcome, &came)));
    }
    let (name, id) = match topic {
        TopicRef::Name(name) => (name.to_owned(), None),
        TopicRef::Id(id) => (String::new(), Some(id)),
        TopicRef::Outside(_) => unreachable!("a client names a real topic"),
    };
    let request = unpacking.get_or_insert_with(|| BoundedRequest::begin(&broker.database()));
    let (database, records) = (request.database().clone(), records.clone());
    let committed = move || {
        let topic = id.map_or(TopicRef::Name(&name), TopicRef::Id);
        let came = batches(&records)?;
        let ticket = database.submit(&commit(topic, partition, &came)).map_err(failure)?;
        Ok(ticket.map(|outcome| ProduceOutcome::of(outcome, &came)))
    };
    broker.unpacking.run(caller, committed).await
}

fn commit<'c>(topic: TopicRef<'c>, partition: u32, batches: &[Batch<'c>]) -> Commit<'c> {
    let produce =
        |&batch: &Batch<'c>| Part::Streams(Command::Produce { topic, partition, batch, create_partitions: None });
    batches.iter().map(produce).fold(Commit::new(), Commit::part)
}

fn failure(error: quire::Error) -> KafkaError {
    match error.kind() {
        // The only malformed input found here are records that must be decompressed and can't be.
        ErrorKind::Invalid => KafkaError::new(ResponseError::InvalidRecord, error),
        _ => error.into(),
    }
}

/// Splits the records of a partition into batches, unchanged.
fn batches(mut records: &[u8]) -> Result<Vec<Batch<'_>>, KafkaError> {
    let mut batches = Vec::with_capacity(1);
    while !records.is_empty() {
        // A batch: its offset, the length of the rest, and the rest. `parse` reports an invalid
        // length.
        let length = records.get(8..12).and_then(|length| length.try_into().ok()).map(i32::from_be_bytes);
        let bytes = length.and_then(|length| usize::try_from(length).ok()).map_or(records.len(), |length| length + 12);
        let (batch, rest) = records.split_at(bytes.min(records.len()));
        let batch = Batch::parse(batch)?;
        check_records(&batch)?;
        batches.push(batch);
        records = rest;
    }
    if batches.is_empty() {
        return Err(KafkaError::new(ResponseError::InvalidRecord, "the request has no records"));
    }
    Ok(batches)
}

/// The commit checks the limits of the topic's own settings.
fn check_sizes(batches: &[Batch<'_>], bytes_most: u32) -> Result<(), KafkaError> {
    match batches.iter().map(|batch| batch.bytes().len()).find(|bytes| *bytes > bytes_most as usize) {
        Some(bytes) => Err(KafkaError::from(Refusal::BatchTooLarge { bytes, bytes_max: bytes_most })),
        None => Ok(()),
    }
}

/// Reads the records of an uncompressed batch once. A batch that can't be read would stop every
/// consumer.
///
/// [`Batch::parse`] checks the last offset delta against the count, and the walk requires ascending
/// deltas. So a batch that is read to its end has every delta from 0 on. A compressed batch is
/// stored unchanged.
fn check_records(batch: &Batch<'_>) -> Result<(), KafkaError> {
    let problem = batch.records().into_iter().flatten().find_map(Result::err);
    problem.map_or(Ok(()), |problem| Err(problem.into()))
}

/// Returns the offset of the first record, and the time of the records if it is that of their
/// append, once they are durable.
async fn base_offset(
    database: &Database,
    id: Uuid,
    submitted: Result<Ticket<ProduceOutcome>, KafkaError>,
) -> Result<(i64, Option<i64>), KafkaError> {
    let ProduceOutcome { outcome, keyless } = submitted?.await?;
    let committed = match outcome {
        Outcome::Committed(committed) => committed,
        Outcome::Refused(refused) => return Err(KafkaError { records: keyless, ..refusal(database, id, refused) }),
    };
    let Some(Reply::Streams(StreamReply::Produced(produced))) = committed.replies.first() else {
        unreachable!("a produce returns offsets, not {:?}", committed.replies)
    };
    let time_ms = i64::try_from(produced.time.as_millis()).unwrap_or(i64::MAX);
    let base_offset = i64::try_from(produced.base_offset.get()).expect("an offset has 63 bits");
    Ok((base_offset, produced.is_append_time.then_some(time_ms)))
}

/// The error for a refused batch. The commit looks for a topic: of a store or a queue it reports
/// that there is none, or that the client may not produce to it. A topic that the client named by
/// its `id`, and may not describe, has the answer of an unknown id.
fn refusal(database: &Database, id: Uuid, refused: CommitRefusal) -> KafkaError {
    let name = match &refused.reason {
        Reason::Streams(Refusal::UnknownTopicId { .. }) | Reason::NotPermitted(_) if !id.is_nil() => {
            let look = |view: &PermittedView<'_>| topics::permitted_by_id(database.id(), view, id, Operation::Write);
            let found = database.read_published_permitted(look).map_err(KafkaError::from);
            return found.flatten().err().unwrap_or_else(KafkaError::unknown_topic_id);
        }
        Reason::Streams(Refusal::UnknownTopic { name }) => name.clone(),
        Reason::NotPermitted(NotPermitted { refusal, .. }) => refusal.name.clone(),
        _ => return refused.into(),
    };
    read_only::explained_by(database, &name, TopicOperation::Produce, refused.into())
}
