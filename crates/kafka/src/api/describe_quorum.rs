//! DescribeQuorum: the quorum of the metadata log. The only broker is its only voter.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_quorum_response::{Listener, Node, PartitionData, ReplicaState, TopicData};
use kafka_protocol::messages::{DescribeQuorumRequest, DescribeQuorumResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;

use crate::broker::{BROKER_ID, Broker, LEADER_EPOCH};
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Topics of (name, partitions).
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 0, body: fields(&[Field(0, LAST, Shape::Structs(&TOPIC))]) };
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&PARTITION))]);
static PARTITION: Struct = fields(&[Field(0, LAST, Shape::Fixed(4))]);

/// The topic of Kafka's metadata log, whose only partition a client may describe.
const METADATA: &str = "__cluster_metadata";

/// The first versions with the times of a voter, and with messages and addresses.
const TIMES_FROM: i16 = 1;
const NODES_FROM: i16 = 2;

/// Describes the metadata log: its end is the position of the last published record.
pub(crate) fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<DescribeQuorumResponse, CloseReason> {
    let decoded: DescribeQuorumRequest = request.decode()?;
    if let Err(failure) = broker.check_cluster(Operation::Describe) {
        return Ok(DescribeQuorumResponse::default()
            .with_error_code(failure.code.code())
            .with_error_message((request.version >= NODES_FROM).then(|| StrBytes::from_string(failure.message))));
    }
    // Facts about the log as a whole, which a client that may describe the cluster may know.
    let database = broker.owner();
    let end = i64::try_from(database.statistics().published.get()).unwrap_or(i64::MAX);
    let now_ms = i64::try_from(database.now().as_millis()).unwrap_or(i64::MAX);
    let voter = ReplicaState::default().with_replica_id(BROKER_ID.into()).with_log_end_offset(end);
    let voter = match request.version {
        TIMES_FROM.. => voter.with_last_fetch_timestamp(now_ms).with_last_caught_up_timestamp(now_ms),
        _ => voter,
    };
    let topics = decoded.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let number = partition.partition_index;
            let data = PartitionData::default().with_partition_index(number);
            match (topic.topic_name.as_str(), number) {
                (METADATA, 0) => data
                    .with_error_message(None)
                    .with_leader_id(BROKER_ID.into())
                    .with_leader_epoch(LEADER_EPOCH)
                    .with_high_watermark(end)
                    .with_current_voters(vec![voter.clone()]),
                _ => {
                    let message = StrBytes::from_static_str("only the metadata log has a quorum");
                    data.with_error_code(ResponseError::UnknownTopicOrPartition.code())
                        .with_error_message((request.version >= NODES_FROM).then_some(message))
                }
            }
        });
        TopicData::default().with_topic_name(topic.topic_name.clone()).with_partitions(partitions.collect())
    });
    let response = DescribeQuorumResponse::default().with_error_message(None).with_topics(topics.collect());
    if request.version < NODES_FROM {
        return Ok(response);
    }
    let (host, port) = broker.address(ends);
    let listener = Listener::default()
        .with_name(StrBytes::from_static_str("PLAINTEXT"))
        .with_host(StrBytes::from_string(host))
        .with_port(port);
    Ok(response.with_nodes(vec![Node::default().with_node_id(BROKER_ID.into()).with_listeners(vec![listener])]))
}
