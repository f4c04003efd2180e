//! DescribeGroups: groups with their members and assignments.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{DescribeGroupsRequest, DescribeGroupsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, ReadView, Resource, ResourceKind};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::groups::DescribedMember;
use crate::items::RequestItems;
use crate::memory::{GrowingResponse, bytes_in_memory};
use crate::permissions::{AuthorizedOperations, PermittedGroup};
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
    let mut items = RequestItems::begin(broker);
    let mut groups = Vec::new();
    for group in decoded.groups {
        let permitted = items.look(1).await.and_then(|()| broker.group(group.as_str(), Operation::Describe));
        let described = match permitted {
            Ok(permitted) => describe(broker, permitted, request.version).await?,
            Err(failure) => DescribedGroup::default().with_error_code(failure.code.code()),
        };
        let described = match decoded.include_authorized_operations && described.error_code == 0 {
            true => described.with_authorized_operations(operations(broker, group.as_str())),
            false => described,
        };
        let described = described.with_group_id(group);
        items.grow(memory, bytes_in_memory(&described, request.version)?).await?;
        groups.push(described);
    }
    Ok(DescribeGroupsResponse::default().with_groups(groups))
}

fn operations(broker: &Broker, group: &str) -> i32 {
    AuthorizedOperations::GROUP.on(&broker.database(), Resource::new(ResourceKind::Group, group))
}

async fn describe(broker: &Broker, permitted: PermittedGroup<'_>, version: i16) -> Result<DescribedGroup, CloseReason> {
    let (described, name) = (DescribedGroup::default(), permitted.name());
    let group = match broker.groups.describe(permitted).await {
        Ok(group) => group,
        Err(code) => return Ok(described.with_error_code(code.code())),
    };
    let Some(group) = group else {
        let protocol_type =
            |view: &ReadView<'_>| view.streams.group_named(name).map(|group| group.protocol_type.to_owned());
        let resource = Resource::new(ResourceKind::Group, name);
        let look = broker.database().read_for(resource, Operation::Describe, protocol_type);
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
