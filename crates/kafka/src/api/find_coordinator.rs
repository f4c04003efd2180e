//! FindCoordinator: the coordinator of a group. It is the leader: this broker where it is alone.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, Resource, ResourceKind};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// Key, kind of key, keys.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 3,
    body: fields(&[Field(0, 3, Shape::Text), Field(1, LAST, Shape::Fixed(1)), Field(4, LAST, Shape::Texts)]),
};

/// The key types of a group's name and of a transactional id.
const GROUP: i8 = 0;
const TRANSACTIONAL_ID: i8 = 1;

/// The first version with several keys in a request.
const MANY_FROM: i16 = 4;

/// The node id and the port of no broker.
const NOBODY: i32 = -1;

/// Returns the leader for every group: this broker where it is alone. Transactions and share groups
/// have no coordinator.
pub(crate) fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<FindCoordinatorResponse, CloseReason> {
    let decoded: FindCoordinatorRequest = request.decode()?;
    let brokers = broker.brokers(ends);
    let leader = brokers.leader().cloned();
    let (id, host, port) = match &leader {
        Some(leader) => (leader.id, StrBytes::from_string(leader.host.clone()), i32::from(leader.port)),
        None => (NOBODY, StrBytes::default(), NOBODY),
    };
    let checked = |key: &str| {
        check(broker, decoded.key_type, key)?;
        let none = || KafkaError::new(ResponseError::CoordinatorNotAvailable, "the cluster has no leader now");
        leader.as_ref().map(drop).ok_or_else(none)
    };
    let answer = |key: &str| match checked(key) {
        Ok(()) => (0, None),
        Err(failure) => (failure.code.code(), Some(StrBytes::from_string(failure.message))),
    };
    if request.version < MANY_FROM {
        let (code, message) = answer(&decoded.key);
        let response = FindCoordinatorResponse::default().with_error_code(code);
        let response = if request.version > 0 { response.with_error_message(message) } else { response };
        return Ok(response.with_node_id(id.into()).with_host(host).with_port(port));
    }
    let coordinators = decoded.coordinator_keys.into_iter().map(|key| {
        let (code, message) = answer(&key);
        let coordinator = Coordinator::default().with_key(key).with_error_code(code).with_error_message(message);
        coordinator.with_node_id(id.into()).with_host(host.clone()).with_port(port)
    });
    Ok(FindCoordinatorResponse::default().with_coordinators(coordinators.collect()))
}

/// Checks that the client may describe what the key names, and that this has a coordinator.
fn check(broker: &Broker, key_type: i8, key: &str) -> Result<(), KafkaError> {
    match key_type {
        GROUP => return broker.check(Resource::new(ResourceKind::Group, key), Operation::Describe),
        TRANSACTIONAL_ID => broker.check(Resource::new(ResourceKind::TransactionalId, key), Operation::Describe)?,
        // Share groups, as in Kafka.
        _ => broker.check_cluster(Operation::ClusterAction)?,
    }
    Err(KafkaError::new(ResponseError::InvalidRequest, "only consumer groups have a coordinator"))
}
