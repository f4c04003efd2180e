//! Heartbeat: extends a member's session, and reports when the member has to rejoin.

use kafka_protocol::messages::{HeartbeatRequest, HeartbeatResponse};
use quire::Operation;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::groups::ClaimedMember;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// Group, generation, member, instance.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 4,
    body: fields(&[
        Field(0, LAST, Shape::Text),
        Field(0, LAST, Shape::Fixed(4)),
        Field(0, LAST, Shape::Text),
        Field(3, LAST, Shape::Text),
    ]),
};

/// Answers at once.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<HeartbeatResponse, CloseReason> {
    let decoded: HeartbeatRequest = request.decode()?;
    let who = ClaimedMember {
        member: decoded.member_id.to_string(),
        instance: decoded.group_instance_id.as_ref().map(ToString::to_string),
        generation: decoded.generation_id,
    };
    let answer = match broker.group(decoded.group_id.as_str(), Operation::Read) {
        Ok(group) => broker.groups.heartbeat(group, who).await,
        Err(failure) => Err(failure.code),
    };
    Ok(HeartbeatResponse::default().with_error_code(answer.map_or_else(|code| code.code(), |()| 0)))
}
