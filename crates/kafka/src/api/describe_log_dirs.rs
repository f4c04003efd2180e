//! DescribeLogDirs: the sizes of partitions in bytes.

use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, ReadView};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::memory::GrowingResponse;
use crate::pause::STEPS_AT_ONCE;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Topics of (name, partitions).
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 2, body: fields(&[Field(0, LAST, Shape::Structs(&TOPIC))]) };
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Numbers(4))]);

/// The name of the only log.
pub(crate) const LOG: &str = "shard-0000";

/// The first version whose response has an error.
const ERRORS_FROM: i16 = 3;

/// The memory of a topic and of a partition in bytes: in the response and in its frame.
const TOPIC_BYTES: usize = 256;
const PARTITION_BYTES: usize = 128;

/// Returns the sizes of the requested partitions, or of all.
pub(crate) async fn handle(
    broker: &Broker,
    request: &Request,
    memory: &mut GrowingResponse<'_>,
) -> Result<DescribeLogDirsResponse, CloseReason> {
    let decoded: DescribeLogDirsRequest = request.decode()?;
    if let Err(failure) = broker.check_cluster(Operation::Describe) {
        let response = DescribeLogDirsResponse::default();
        // Earlier versions have no error, and get no directory.
        return Ok(if request.version >= ERRORS_FROM {
            response.with_error_code(failure.code.code())
        } else {
            response
        });
    }
    let topics = match describe(broker, decoded.topics, memory).await? {
        Ok(topics) => topics,
        Err(failure) if request.version >= ERRORS_FROM => {
            return Ok(DescribeLogDirsResponse::default().with_error_code(failure.code.code()));
        }
        Err(_) => return Ok(DescribeLogDirsResponse::default()),
    };
    let log = DescribeLogDirsResult::default().with_log_dir(StrBytes::from_static_str(LOG)).with_topics(topics);
    let log = if request.version >= 4 { log.with_total_bytes(-1).with_usable_bytes(-1) } else { log };
    Ok(DescribeLogDirsResponse::default().with_results(vec![log]))
}

/// Describes the known partitions of the requested topics, or of all, in slices. Topics without a
/// known partition are omitted from a request that names them.
async fn describe(
    broker: &Broker,
    asked: Option<Vec<DescribableLogDirTopic>>,
    memory: &mut GrowingResponse<'_>,
) -> Result<Result<Vec<DescribeLogDirsTopic>, KafkaError>, CloseReason> {
    let mut items = RequestItems::begin(broker);
    let is_all = asked.is_none();
    let asked: Vec<(String, Vec<u32>)> = match asked {
        Some(asked) => {
            let numbers = |partitions: Vec<i32>| partitions.into_iter().filter_map(|number| u32::try_from(number).ok());
            asked.into_iter().map(|topic| (topic.topic.to_string(), numbers(topic.partitions).collect())).collect()
        }
        None => match all(broker, &mut items, memory).await? {
            Ok(all) => all,
            Err(failure) => return Ok(Err(failure)),
        },
    };
    let mut topics = Vec::new();
    for (name, partitions) in asked {
        let mut described = Vec::new();
        for few in partitions.chunks(STEPS_AT_ONCE) {
            if let Err(failure) = items.look(few.len()).await {
                return Ok(Err(failure));
            }
            items.grow(memory, few.len() * PARTITION_BYTES).await?;
            let look = broker.read_of_node(|_, view| described.extend(sizes(view, &name, few)));
            look.map_err(|_| CloseReason::Failed)?;
        }
        if is_all || !described.is_empty() {
            items.grow(memory, TOPIC_BYTES + name.len()).await?;
            let topic = DescribeLogDirsTopic::default().with_name(TopicName(StrBytes::from_string(name)));
            topics.push(topic.with_partitions(described));
        }
    }
    Ok(Ok(topics))
}

/// Returns every topic with its partitions.
async fn all(
    broker: &Broker,
    items: &mut RequestItems,
    memory: &mut GrowingResponse<'_>,
) -> Result<Result<Vec<(String, Vec<u32>)>, KafkaError>, CloseReason> {
    let (mut all, mut from) = (Vec::new(), String::new());
    loop {
        if let Err(failure) = items.look(STEPS_AT_ONCE).await {
            return Ok(Err(failure));
        }
        let look = broker.read_of_node(|_, view| {
            let few = view.streams.topics_from(&from).take(STEPS_AT_ONCE);
            few.map(|topic| (topic.name.to_owned(), topic.partitions)).collect::<Vec<_>>()
        });
        let few = look.map_err(|_| CloseReason::Failed)?;
        let next = few.last().filter(|_| few.len() == STEPS_AT_ONCE).map(|(last, _)| format!("{last}\0"));
        for (name, partitions) in few {
            items.grow(memory, TOPIC_BYTES + name.len() + partitions as usize * size_of::<u32>()).await?;
            all.push((name, (0..partitions).collect()));
        }
        match next {
            // The least name after the last one.
            Some(next) => from = next,
            None => return Ok(Ok(all)),
        }
    }
}

/// Describes those of `partitions` that exist.
fn sizes(view: &ReadView<'_>, topic: &str, partitions: &[u32]) -> Vec<DescribeLogDirsPartition> {
    let Some(topic) = view.streams.topic_named(topic) else { return Vec::new() };
    let sizes = partitions.iter().filter_map(|&partition| {
        let bytes = view.streams.partition_bytes(topic.id, partition).ok()?;
        let described = DescribeLogDirsPartition::default().with_partition_index(i32::try_from(partition).ok()?);
        Some(described.with_partition_size(i64::try_from(bytes).unwrap_or(i64::MAX)))
    });
    sizes.collect()
}
