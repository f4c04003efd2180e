//! Produce: each partition of a request is a commit of its own, of the batches as they came.
//!
//! Committing is one step, done in the order in which requests come in; waiting for durability and answering is another. What has to
//! be unpacked before it is committed, as the batches of a topic that compacts are for their keys, takes its turn for that.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use quire::streams::wire::Batch;
use quire::streams::{Command, Refusal, Reply as StreamReply, TopicRef};
use quire::{Commit, ErrorKind, Outcome, Part, Reason, Reply, Ticket};
use uuid::Uuid;

use crate::broker::Broker;
use crate::connection::Closed;
use crate::errors::Failure;
use crate::read_only::{self, Wants};
use crate::request::Request;
use crate::response;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, Numbered};

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

/// From which version on an answer has room for words.
const MESSAGES_FROM: i16 = 8;

/// An answer that waits until what was committed is durable; `None` when the producer wants none.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Result<Option<Bytes>, Closed>> + Send>>;

/// A request, decoded.
pub(crate) struct Produce {
    decoded: ProduceRequest,
    /// With the memory that it takes.
    request: Request,
}

impl Produce {
    /// Decodes a request.
    ///
    /// # Errors
    /// [`Closed::Malformed`].
    pub(crate) fn read(request: Request) -> Result<Self, Closed> {
        Ok(Produce { decoded: request.decode()?, request })
    }

    pub(crate) fn wants_answer(&self) -> bool {
        self.decoded.acks != 0
    }

    /// Commits what the request holds. What was not begun when the future is dropped, never is.
    pub(crate) async fn start(self, broker: &Arc<Broker>) -> Pending {
        let Produce { decoded, request } = self;
        let Request { version, correlation_id, .. } = request;
        let acks = decoded.acks;
        let problem = match acks {
            -1..=1 => None,
            _ => {
                let message = format!("acks is {acks}, and must be -1, 0 or 1");
                Some(Failure::new(ResponseError::InvalidRequiredAcks, message))
            }
        };
        let mut topics = Vec::with_capacity(decoded.topic_data.len());
        for topic in &decoded.topic_data {
            topics.push(ProducedTopic::start(broker, topic, problem.as_ref()).await);
        }
        let broker = Arc::clone(broker);
        Box::pin(async move {
            let mut responses = Vec::with_capacity(topics.len());
            let mut is_refused = false;
            for topic in topics {
                let response = topic.finish(&broker, version).await;
                is_refused |= response.partition_responses.iter().any(|partition| partition.error_code != 0);
                responses.push(response);
            }
            if acks == 0 {
                return if is_refused { Err(Closed::Unacknowledged) } else { Ok(None) };
            }
            let response = ProduceResponse::default().with_responses(responses);
            response::frame(correlation_id, version, &response).map(Some)
        })
    }
}

/// A topic of a request, its partitions committed or refused. It holds nothing of the request's memory.
struct ProducedTopic {
    /// As the request names it: by name, or from version 13 on by id.
    name: TopicName,
    id: Uuid,
    partitions: Vec<(i32, Result<Ticket<Outcome>, Failure>)>,
}

impl ProducedTopic {
    async fn start(broker: &Arc<Broker>, topic: &TopicProduceData, problem: Option<&Failure>) -> Self {
        let reference = topic_ref(broker, topic);
        let mut partitions = Vec::with_capacity(topic.partition_data.len());
        for partition in &topic.partition_data {
            let submitted = match (problem, &reference) {
                (Some(failure), _) | (None, Err(failure)) => Err(failure.clone()),
                (None, Ok(reference)) => submit(broker, *reference, partition).await,
            };
            partitions.push((partition.index, submitted));
        }
        let name = TopicName(StrBytes::from_string(topic.name.to_string()));
        ProducedTopic { name, id: topic.topic_id, partitions }
    }

    async fn finish(self, broker: &Broker, version: i16) -> TopicProduceResponse {
        let mut responses = Vec::with_capacity(self.partitions.len());
        for (index, submitted) in self.partitions {
            let response = PartitionProduceResponse::default().with_index(index);
            responses.push(match base_offset(broker, submitted).await {
                Ok(base_offset) => response.with_base_offset(base_offset).with_log_append_time_ms(-1),
                Err(failure) => {
                    let message = (version >= MESSAGES_FROM).then(|| StrBytes::from_string(failure.message));
                    response.with_error_code(failure.code.code()).with_base_offset(-1).with_error_message(message)
                }
            });
        }
        TopicProduceResponse::default().with_name(self.name).with_topic_id(self.id).with_partition_responses(responses)
    }
}

/// What the request means. A name is left to the commit to look up.
fn topic_ref<'t>(broker: &Broker, topic: &'t TopicProduceData) -> Result<TopicRef<'t>, Failure> {
    if topic.topic_id.is_nil() {
        return Ok(TopicRef::Name(topic.name.as_str()));
    }
    let database = broker.database.id();
    match Numbered::of(database, topic.topic_id) {
        Some(Numbered::Stream(id)) => Ok(TopicRef::Id(id)),
        Some(Numbered::Events(_) | Numbered::Jobs(_)) => {
            let topic = broker.database.read_published(|view| topics::with_uuid(database, view, topic.topic_id))?;
            Err(topic.map_or_else(Failure::unknown_topic_id, |topic| refuse_to_produce(&topic)))
        }
        None => Err(Failure::unknown_topic_id()),
    }
}

/// Commits the batches of one partition, when it is their turn if they are to be unpacked: which the commit itself tells, so that no topic
/// comes to be compacted in between.
async fn submit(
    broker: &Arc<Broker>,
    topic: TopicRef<'_>,
    data: &PartitionProduceData,
) -> Result<Ticket<Outcome>, Failure> {
    let partition = u32::try_from(data.index).map_err(|_| Failure::unknown_partition(data.index))?;
    let records = data.records.clone().unwrap_or_default();
    let came = batches(&records)?;
    check_sizes(&came, broker.database.batch_bytes_max())?;
    let packed = broker.database.submit_briefly(&commit(topic, partition, &came)).map_err(failure)?;
    if let Some(ticket) = packed {
        return Ok(ticket);
    }
    let (name, id) = match topic {
        TopicRef::Name(name) => (name.to_owned(), None),
        TopicRef::Id(id) => (String::new(), Some(id)),
        TopicRef::Outside(_) => unreachable!("a client names a topic of ours"),
    };
    let (theirs, records) = (Arc::clone(broker), records.clone());
    let committed = move || {
        let topic = id.map_or(TopicRef::Name(&name), TopicRef::Id);
        theirs.database.submit(&commit(topic, partition, &batches(&records)?)).map_err(failure)
    };
    broker.unpacking.run(committed).await
}

fn commit<'c>(topic: TopicRef<'c>, partition: u32, batches: &[Batch<'c>]) -> Commit<'c> {
    let produce =
        |&batch: &Batch<'c>| Part::Streams(Command::Produce { topic, partition, batch, create_partitions: None });
    batches.iter().map(produce).fold(Commit::new(), Commit::part)
}

fn failure(error: quire::Error) -> Failure {
    match error.kind() {
        // Of what a client sends, only records that are to be unpacked and can't be are no commit.
        ErrorKind::Invalid => Failure::new(ResponseError::InvalidRecord, error),
        _ => error.into(),
    }
}

/// The batches that the records of a partition are, each as it came.
fn batches(mut records: &[u8]) -> Result<Vec<Batch<'_>>, Failure> {
    let mut batches = Vec::with_capacity(1);
    while !records.is_empty() {
        // A batch: offset, length of what follows, and so much. A length that can't be is `parse`'s to tell.
        let length = records.get(8..12).and_then(|length| length.try_into().ok()).map(i32::from_be_bytes);
        let bytes = length.and_then(|length| usize::try_from(length).ok()).map_or(records.len(), |length| length + 12);
        let (batch, rest) = records.split_at(bytes.min(records.len()));
        let batch = Batch::parse(batch)?;
        check_records(&batch)?;
        batches.push(batch);
        records = rest;
    }
    if batches.is_empty() {
        return Err(Failure::new(ResponseError::InvalidRecord, "there are no records"));
    }
    Ok(batches)
}

/// What a topic takes by its own settings is the commit's to tell.
fn check_sizes(batches: &[Batch<'_>], bytes_most: u32) -> Result<(), Failure> {
    match batches.iter().map(|batch| batch.bytes().len()).find(|bytes| *bytes > bytes_most as usize) {
        Some(bytes) => Err(Failure::from(Refusal::BatchTooLarge { bytes, bytes_max: bytes_most })),
        None => Ok(()),
    }
}

/// Walks the records of an uncompressed batch once: one that can't be read would stop every consumer that comes to it.
///
/// [`Batch::parse`] holds the last offset delta against the count, and the walk lets deltas only ascend: so a batch that
/// is walked to its end has every delta from 0 on. What is compressed stays as it is.
fn check_records(batch: &Batch<'_>) -> Result<(), Failure> {
    let problem = batch.records().into_iter().flatten().find_map(Result::err);
    problem.map_or(Ok(()), |problem| Err(problem.into()))
}

/// The offset of the first record, once it is durable.
async fn base_offset(broker: &Broker, submitted: Result<Ticket<Outcome>, Failure>) -> Result<i64, Failure> {
    let committed = match submitted?.await? {
        Outcome::Committed(committed) => committed,
        Outcome::Refused(refused) => {
            let Reason::Streams(Refusal::UnknownTopic { name }) = &refused.reason else { return Err(refused.into()) };
            let database = broker.database.id();
            let topic = broker.database.read_published(|view| topics::named(database, view, name))?;
            return Err(topic.map_or_else(|| refused.into(), |topic| refuse_to_produce(&topic)));
        }
    };
    let Some(Reply::Streams(StreamReply::Produced(produced))) = committed.replies.first() else {
        unreachable!("a produced batch is answered by its offsets, not by {:?}", committed.replies)
    };
    Ok(i64::try_from(produced.base_offset.get()).expect("an offset has 63 bits"))
}

/// Why a topic that is there took no batch: it is an event store, or it came to be only just now.
fn refuse_to_produce(topic: &topics::Topic) -> Failure {
    read_only::refusal(topic, Wants::Produce).unwrap_or_else(Failure::unknown_topic)
}
