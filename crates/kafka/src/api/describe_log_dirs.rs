//! DescribeLogDirs: the sizes of partitions in bytes.

use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, ReadView};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Topics of (name, partitions).
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 2, body: fields(&[Field(0, LAST, Shape::Structs(&TOPIC))]) };
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Numbers(4))]);

/// The name of the only log.
pub(crate) const LOG: &str = "shard-0000";

/// The first version whose response has an error.
const ERRORS_FROM: i16 = 3;

/// Returns the sizes of the requested partitions, or of all.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<DescribeLogDirsResponse, CloseReason> {
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
    let topics = broker.read(|_, view| match &decoded.topics {
        None => {
            let all = view.streams.topics().map(|topic| (topic.name.to_owned(), (0..topic.partitions).collect()));
            all.map(|(name, partitions): (String, Vec<u32>)| sizes(view, name, partitions)).collect::<Vec<_>>()
        }
        Some(asked) => {
            let asked = asked.iter().map(|topic| {
                let partitions = topic.partitions.iter().filter_map(|partition| u32::try_from(*partition).ok());
                sizes(view, topic.topic.to_string(), partitions.collect())
            });
            asked.filter(|topic| !topic.partitions.is_empty()).collect()
        }
    });
    let log = DescribeLogDirsResult::default().with_log_dir(StrBytes::from_static_str(LOG)).with_topics(topics.await?);
    let log = if request.version >= 4 { log.with_total_bytes(-1).with_usable_bytes(-1) } else { log };
    Ok(DescribeLogDirsResponse::default().with_results(vec![log]))
}

fn sizes(view: &ReadView<'_>, name: String, partitions: Vec<u32>) -> DescribeLogDirsTopic {
    let topic = view.streams.topic_named(&name).map(|topic| topic.id);
    let sizes = partitions.into_iter().filter_map(|partition| {
        let bytes = view.streams.partition_bytes(topic?, partition).ok()?;
        let described = DescribeLogDirsPartition::default().with_partition_index(i32::try_from(partition).ok()?);
        Some(described.with_partition_size(i64::try_from(bytes).unwrap_or(i64::MAX)))
    });
    let partitions = sizes.collect();
    DescribeLogDirsTopic::default().with_name(TopicName(StrBytes::from_string(name))).with_partitions(partitions)
}
