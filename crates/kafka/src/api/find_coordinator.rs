//! FindCoordinator: the coordinator of a group. It is this broker, the only one.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

use crate::broker::{BROKER_ID, Broker};
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// Key, kind of key, keys.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 3,
    body: fields(&[Field(0, 3, Shape::Text), Field(1, LAST, Shape::Fixed(1)), Field(4, LAST, Shape::Texts)]),
};

/// The key type of a group's name.
const GROUP: i8 = 0;

/// The first version with several keys in a request.
const MANY_FROM: i16 = 4;

/// Returns this broker for every group. Transactions and share groups have no coordinator.
pub(crate) fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<FindCoordinatorResponse, CloseReason> {
    let decoded: FindCoordinatorRequest = request.decode()?;
    let (host, port) = broker.address(ends);
    let (host, port) = (StrBytes::from_string(host), i32::from(port));
    let (code, message) = match decoded.key_type {
        GROUP => (0, None),
        _ => {
            let message = StrBytes::from_static_str("only consumer groups have a coordinator");
            (ResponseError::InvalidRequest.code(), Some(message))
        }
    };
    if request.version < MANY_FROM {
        let response = FindCoordinatorResponse::default().with_error_code(code);
        let response = if request.version > 0 { response.with_error_message(message) } else { response };
        return Ok(response.with_node_id(BROKER_ID.into()).with_host(host).with_port(port));
    }
    let coordinators = decoded.coordinator_keys.into_iter().map(|key| {
        let coordinator =
            Coordinator::default().with_key(key).with_error_code(code).with_error_message(message.clone());
        coordinator.with_node_id(BROKER_ID.into()).with_host(host.clone()).with_port(port)
    });
    Ok(FindCoordinatorResponse::default().with_coordinators(coordinators.collect()))
}
