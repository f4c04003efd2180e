//! DescribeGroups: groups with their members and assignments.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use kafka_protocol::protocol::StrBytes;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::groups::DescribedMember;
use crate::memory::{GrowingResponse, bytes_in_memory};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// The groups, and whether to include authorized operations.
pub(crate) static SCHEMA: Schema =
    Schema { flexible_from: 5, body: fields(&[Field(0, LAST, Shape::Texts), Field(3, LAST, Shape::Fixed(1))]) };

/// The first versions whose responses have instance ids, and an error for an unknown group.
const INSTANCES_FROM: i16 = 4;
const NOT_FOUND_FROM: i16 = 6;

/// Describes each group by itself.
pub(crate) async fn handle(
    broker: &Broker,
    request: &Request,
    memory: &mut GrowingResponse<'_>,
) -> Result<DescribeGroupsResponse, CloseReason> {
    let decoded: DescribeGroupsRequest = request.decode()?;
    let mut groups = Vec::new();
    for group in decoded.groups {
        let described = describe(broker, group.as_str(), request.version).await?.with_group_id(group);
        memory.claim(bytes_in_memory(&described, request.version)?).await?;
        groups.push(described);
    }
    Ok(DescribeGroupsResponse::default().with_groups(groups))
}

async fn describe(broker: &Broker, name: &str, version: i16) -> Result<DescribedGroup, CloseReason> {
    let described = DescribedGroup::default();
    let group = match broker.groups.describe(name).await {
        Ok(group) => group,
        Err(code) => return Ok(described.with_error_code(code.code())),
    };
    let Some(group) = group else {
        let look =
            broker.database.read(|view| view.streams.group_named(name).map(|group| group.protocol_type.to_owned()));
        let stored = look.map_err(|_| CloseReason::Failed)?.await.map_err(|_| CloseReason::Failed)?;
        return Ok(match stored {
            Some(protocol_type) => described
                .with_group_state(StrBytes::from_static_str("Empty"))
                .with_protocol_type(StrBytes::from_string(protocol_type)),
            None if version >= NOT_FOUND_FROM => described
                .with_group_state(StrBytes::from_static_str("Dead"))
                .with_error_code(ResponseError::GroupIdNotFound.code())
                .with_error_message(Some(StrBytes::from_string(format!("unknown group {name:?}")))),
            None => described.with_group_state(StrBytes::from_static_str("Dead")),
        });
    };
    let members = group.members.into_iter().map(|member| describe_member(member, version));
    Ok(described
        .with_group_state(StrBytes::from_static_str(group.state))
        .with_protocol_type(StrBytes::from_string(group.protocol_type))
        .with_protocol_data(StrBytes::from_string(group.protocol))
        .with_members(members.collect()))
}

fn describe_member(member: DescribedMember, version: i16) -> DescribedGroupMember {
    let described = DescribedGroupMember::default()
        .with_member_id(StrBytes::from_string(member.member))
        .with_client_id(StrBytes::from_string(member.client))
        .with_client_host(StrBytes::from_string(member.host))
        .with_member_metadata(member.metadata)
        .with_member_assignment(member.assignment);
    match version {
        INSTANCES_FROM.. => described.with_group_instance_id(member.instance.map(StrBytes::from_string)),
        _ => described,
    }
}
