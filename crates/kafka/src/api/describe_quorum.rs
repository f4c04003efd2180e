//! DescribeQuorum: the quorum of the metadata log. Every broker is a voter. What other brokers have
//! on their disks, only the leader knows.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_quorum_response::{Listener, Node, PartitionData, ReplicaState, TopicData};
use kafka_protocol::messages::{DescribeQuorumRequest, DescribeQuorumResponse};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, Position};

use crate::broker::Broker;
use crate::brokers::{BrokerNode, id_of};
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

/// Stands for an offset or a time that this node does not know.
const UNKNOWN: i64 = -1;

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
    let (database, brokers) = (broker.owner(), broker.brokers(ends));
    let end = offset_of(database.statistics().published);
    let now_ms = i64::try_from(database.now().as_millis()).unwrap_or(i64::MAX);
    let status = database.cluster_control().map(|control| control.status());
    let voter = |node: &BrokerNode| {
        let progress = status.iter().flat_map(|status| &status.members);
        let mut progress = progress.filter(|member| id_of(member.node) == node.id && node.id != brokers.own);
        let has = progress.next_back().map(|member| member.acknowledged.map_or(UNKNOWN, offset_of));
        let voter = ReplicaState::default().with_replica_id(node.id.into()).with_log_end_offset(has.unwrap_or(end));
        match request.version {
            TIMES_FROM.. => {
                let time = if has.is_none() { now_ms } else { UNKNOWN };
                voter.with_last_fetch_timestamp(time).with_last_caught_up_timestamp(time)
            }
            _ => voter,
        }
    };
    let voters: Vec<_> = brokers.nodes.iter().map(voter).collect();
    let topics = decoded.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let number = partition.partition_index;
            let data = PartitionData::default().with_partition_index(number);
            match (topic.topic_name.as_str(), number) {
                (METADATA, 0) => data
                    .with_error_message(None)
                    .with_leader_id(brokers.leader_id())
                    .with_leader_epoch(brokers.epoch)
                    .with_high_watermark(end)
                    .with_current_voters(voters.clone()),
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
    let nodes = brokers.nodes.into_iter().map(|node| {
        let listener = Listener::default()
            .with_name(StrBytes::from_static_str("PLAINTEXT"))
            .with_host(StrBytes::from_string(node.host))
            .with_port(node.port);
        Node::default().with_node_id(node.id.into()).with_listeners(vec![listener])
    });
    Ok(response.with_nodes(nodes.collect()))
}

/// The offset after a position in the metadata log, which is the log of the database.
fn offset_of(position: Position) -> i64 {
    i64::try_from(position.get()).unwrap_or(i64::MAX)
}
