//! AlterReplicaLogDirs: refused for each partition, because there is one log.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use kafka_protocol::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse};

use quire::Operation;

use super::describe_log_dirs::LOG;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::items::RequestItems;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Directories of (path, topics of (name, partitions)).
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 2, body: fields(&[Field(0, LAST, Shape::Structs(&DIR))]) };
static DIR: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Structs(&TOPIC))]);
static TOPIC: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Numbers(4))]);

/// Answers each partition: a move to the directory that has it changes nothing.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<AlterReplicaLogDirsResponse, CloseReason> {
    let decoded: AlterReplicaLogDirsRequest = request.decode()?;
    let refused = broker.check_cluster(Operation::Alter).err();
    let of_dir = || decoded.dirs.iter().flat_map(|dir| dir.topics.iter().map(|topic| (dir.path.as_str(), topic)));
    let names: Vec<&str> = of_dir().map(|(_, topic)| topic.name.as_str()).collect();
    let known = RequestItems::begin(broker).partitions(broker, &names).await?;
    let results = of_dir().zip(&known).map(|((path, topic), known)| {
        let result = |&partition: &i32| {
            let is_known = known.as_ref().map(|known| known.contains(partition));
            let code = match (&refused, is_known, path) {
                (Some(failure), ..) => failure.code.code(),
                (None, Err(failure), _) => failure.code.code(),
                (None, Ok(false), _) => ResponseError::UnknownTopicOrPartition.code(),
                (None, Ok(true), LOG) => 0,
                (None, Ok(true), _) => ResponseError::LogDirNotFound.code(),
            };
            AlterReplicaLogDirPartitionResult::default().with_partition_index(partition).with_error_code(code)
        };
        AlterReplicaLogDirTopicResult::default()
            .with_topic_name(topic.name.clone())
            .with_partitions(topic.partitions.iter().map(result).collect())
    });
    Ok(AlterReplicaLogDirsResponse::default().with_results(results.collect()))
}
