//! DescribeCluster: the only broker.

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, Resource};
use uuid::Uuid;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::permissions::AuthorizedOperations;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// Whether to include authorized operations, the kind of endpoints, and whether to include fenced
/// brokers.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 0,
    body: fields(&[Field(0, LAST, Shape::Fixed(1)), Field(1, LAST, Shape::Fixed(1)), Field(2, LAST, Shape::Fixed(1))]),
};

/// Returns the broker, with its advertised address. As in Kafka, every client may know it.
pub(crate) fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<DescribeClusterResponse, CloseReason> {
    let decoded: DescribeClusterRequest = request.decode()?;
    let brokers = broker.brokers(ends);
    let controller = brokers.leader_id();
    let nodes = brokers.nodes.into_iter().map(|node| {
        DescribeClusterBroker::default()
            .with_broker_id(node.id.into())
            .with_host(StrBytes::from_string(node.host))
            .with_port(i32::from(node.port))
    });
    let response = DescribeClusterResponse::default()
        .with_cluster_id(StrBytes::from_string(Uuid::from_u128(broker.database_id()).to_string()))
        .with_controller_id(controller)
        .with_brokers(nodes.collect());
    let response = match decoded.include_cluster_authorized_operations {
        true => response.with_cluster_authorized_operations(cluster_operations(broker)),
        false => response,
    };
    Ok(if request.version > 0 { response.with_endpoint_type(decoded.endpoint_type) } else { response })
}

/// The operations on the cluster that the client may perform, if it may describe the cluster.
pub(super) fn cluster_operations(broker: &Broker) -> i32 {
    match broker.check_cluster(Operation::Describe) {
        Ok(()) => AuthorizedOperations::CLUSTER.on(&broker.database(), Resource::CLUSTER),
        Err(_) => 0,
    }
}
