//! SyncGroup: the leader sends the assignments, and every member receives its own.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SyncGroupRequest, SyncGroupResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;

use crate::broker::Broker;
use crate::client::ClientState;
use crate::close_reason::CloseReason;
use crate::groups::{ClaimedMember, GROUP_BYTES_MAX, Sync};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Group, generation, member, instance, type, protocol, assignments of (member, bytes).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 4,
    body: fields(&[
        Field(0, LAST, Shape::Text),
        Field(0, LAST, Shape::Fixed(4)),
        Field(0, LAST, Shape::Text),
        Field(3, LAST, Shape::Text),
        Field(5, LAST, Shape::Text),
        Field(5, LAST, Shape::Text),
        Field(0, LAST, Shape::Structs(&ASSIGNMENT)),
    ]),
};
static ASSIGNMENT: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Bytes)]);

/// The first version whose response has the protocol.
const PROTOCOL_FROM: i16 = 5;

/// Waits until the leader has sent the assignments.
pub(crate) async fn handle(
    broker: &Broker,
    state: &mut ClientState,
    request: &Request,
) -> Result<SyncGroupResponse, CloseReason> {
    let decoded: SyncGroupRequest = request.decode()?;
    let failed = |code: ResponseError| Ok(SyncGroupResponse::default().with_error_code(code.code()));
    let group = match broker.group(decoded.group_id.as_str(), Operation::Read) {
        Ok(group) => group,
        Err(refused) => return failed(refused.code),
    };
    let bytes: usize = decoded.assignments.iter().map(|of| of.assignment.len()).sum();
    if bytes > GROUP_BYTES_MAX {
        return failed(ResponseError::InvalidRequest);
    }
    let mut claim = state.caller.beyond_connection().claim();
    if claim.grow(bytes).is_err() {
        // Clients retry after this error.
        return failed(ResponseError::CoordinatorNotAvailable);
    }
    state.sync(decoded.group_id.as_str(), decoded.member_id.as_str());
    let assignments = decoded.assignments.iter();
    let sync = Sync {
        who: ClaimedMember {
            member: decoded.member_id.to_string(),
            instance: decoded.group_instance_id.as_ref().map(ToString::to_string),
            generation: decoded.generation_id,
        },
        protocol_type: decoded.protocol_type.as_ref().map(ToString::to_string),
        protocol: decoded.protocol_name.as_ref().map(ToString::to_string),
        assignments: assignments.map(|of| (of.member_id.to_string(), Bytes::copy_from_slice(&of.assignment))).collect(),
        claim,
    };
    Ok(match broker.groups.sync(group, sync).await {
        Ok(synced) => {
            let response = SyncGroupResponse::default().with_assignment(synced.assignment);
            match request.version {
                PROTOCOL_FROM.. => response
                    .with_protocol_type(Some(StrBytes::from_string(synced.protocol_type)))
                    .with_protocol_name(Some(StrBytes::from_string(synced.protocol))),
                _ => response,
            }
        }
        Err(code) => return failed(code),
    })
}
