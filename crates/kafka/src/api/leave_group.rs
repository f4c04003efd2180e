//! LeaveGroup: removes members, by member id or by instance id.

use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{LeaveGroupRequest, LeaveGroupResponse};
use quire::Operation;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::groups::MemberIdentity;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Group, member, members of (id, instance, reason).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 4,
    body: fields(&[Field(0, LAST, Shape::Text), Field(0, 2, Shape::Text), Field(3, LAST, Shape::Structs(&MEMBER))]),
};
static MEMBER: Struct =
    fields(&[Field(3, LAST, Shape::Text), Field(3, LAST, Shape::Text), Field(5, LAST, Shape::Text)]);

/// The first version with several members in a request.
const MANY_FROM: i16 = 3;

/// Answers each member by itself.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<LeaveGroupResponse, CloseReason> {
    let decoded: LeaveGroupRequest = request.decode()?;
    let response = LeaveGroupResponse::default();
    let group = match broker.group(decoded.group_id.as_str(), Operation::Read) {
        Ok(group) => group,
        Err(failure) => return Ok(response.with_error_code(failure.code.code())),
    };
    let code = |left: &Result<(), kafka_protocol::ResponseError>| left.map_or_else(|code| code.code(), |()| 0);
    if request.version < MANY_FROM {
        let identity = MemberIdentity { member: decoded.member_id.to_string(), instance: None };
        return Ok(match broker.groups.leave(group, vec![identity]).await {
            Ok(left) => response.with_error_code(left.first().map_or(0, code)),
            Err(failed) => response.with_error_code(failed.code()),
        });
    }
    let identities = decoded.members.iter().map(|member| MemberIdentity {
        member: member.member_id.to_string(),
        instance: member.group_instance_id.as_ref().map(ToString::to_string),
    });
    Ok(match broker.groups.leave(group, identities.collect()).await {
        Ok(left) => {
            let members = decoded.members.into_iter().zip(&left).map(|(member, left)| {
                let answered = MemberResponse::default().with_member_id(member.member_id);
                answered.with_group_instance_id(member.group_instance_id).with_error_code(code(left))
            });
            response.with_members(members.collect())
        }
        Err(failed) => response.with_error_code(failed.code()),
    })
}
