//! JoinGroup: a consumer joins or rejoins a group. The response comes when the next generation
//! begins.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;
use quire::streams::{MEMBER_NAME_BYTES_MAX, check_group};
use quire::{Operation, Resource, ResourceKind};

use crate::broker::Broker;
use crate::client::ClientState;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::groups::{Join, JoinRefusal, JoinReply};
use crate::permissions::PermittedGroup;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Group, session timeout, rebalance timeout, member, instance, type, protocols of (name,
/// metadata), reason.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 6,
    body: fields(&[
        Field(0, LAST, Shape::Text),
        Field(0, LAST, Shape::Fixed(4)),
        Field(1, LAST, Shape::Fixed(4)),
        Field(0, LAST, Shape::Text),
        Field(5, LAST, Shape::Text),
        Field(0, LAST, Shape::Text),
        Field(0, LAST, Shape::Structs(&PROTOCOL)),
        Field(8, LAST, Shape::Text),
    ]),
};
static PROTOCOL: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Bytes)]);

/// The first versions in which a member gets its id first, the response has the type, and a leader
/// may skip the assignment.
const ID_FIRST_FROM: i16 = 4;
const TYPE_FROM: i16 = 7;
const SKIP_FROM: i16 = 9;

/// Maximum bytes of a member: of its names, and of the metadata of its protocols.
const MEMBER_BYTES_MAX: usize = 64 << 10;

/// The memory of a member besides these bytes.
const MEMBER_BYTES: usize = 1 << 10;

/// Joins, and waits for the generation.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    state: &mut ClientState,
    request: &Request,
) -> Result<JoinGroupResponse, CloseReason> {
    let decoded: JoinGroupRequest = request.decode()?;
    let version = request.version;
    let group = broker.group(decoded.group_id.as_str(), Operation::Read);
    let joining = group.map_err(|failure| failure.code).and_then(|group| {
        let join = join(broker, ends, state, request, group, &decoded)?;
        Ok((group, join))
    });
    let answer = match joining {
        Ok((group, join)) => broker.groups.join(group, join).await,
        Err(code) => Err(JoinRefusal { code, member: decoded.member_id.to_string() }),
    };
    Ok(match answer {
        Ok(joined) => {
            state.join(decoded.group_id.as_str(), &joined.member);
            response(joined, version)
        }
        Err(refused) => {
            let response = JoinGroupResponse::default().with_error_code(refused.code.code());
            // Before version 7 the field can't be null.
            let protocol = (version < TYPE_FROM).then(StrBytes::default);
            response.with_protocol_name(protocol).with_member_id(StrBytes::from_string(refused.member))
        }
    })
}

/// Copies the request's fields.
fn join(
    broker: &Broker,
    ends: Endpoints,
    state: &ClientState,
    request: &Request,
    group: PermittedGroup<'_>,
    decoded: &JoinGroupRequest,
) -> Result<Join, ResponseError> {
    // The name comes first, as in Kafka: a client without a group learns what is missing.
    let resource = Resource::new(ResourceKind::Group, group.name());
    // A group from an earlier version may have another name.
    let is_there = || {
        let database = broker.database();
        database.read_published_for(resource, Operation::Read, |view| view.streams.group_named(group.name()).is_some())
    };
    if check_group(group.name()).is_err() && !is_there().unwrap_or_default() {
        return Err(ResponseError::InvalidGroupId);
    }
    let settings = broker.settings();
    let range = settings.session_timeout_ms_min..=settings.session_timeout_ms_max;
    let session_ms = u64::try_from(decoded.session_timeout_ms).ok().filter(|ms| range.contains(ms));
    let session_timeout = Duration::from_millis(session_ms.ok_or(ResponseError::InvalidSessionTimeout)?);
    let instance = decoded.group_instance_id.as_ref().map(ToString::to_string);
    let names = decoded.protocols.iter().map(|protocol| protocol.name.as_str());
    let instance_name = decoded.group_instance_id.as_deref().unwrap_or_default();
    let mut names = names.chain([decoded.protocol_type.as_str(), instance_name]);
    // A generated id is longer than the client's name.
    if names.any(|name| name.len() > MEMBER_NAME_BYTES_MAX || name.contains(char::is_control)) {
        return Err(ResponseError::InvalidRequest);
    }
    let bytes = member_bytes(decoded);
    if bytes > MEMBER_BYTES_MAX {
        return Err(ResponseError::InvalidRequest);
    }
    let mut claim = state.caller.beyond_connection().claim();
    // Clients retry after this error.
    claim.grow(MEMBER_BYTES + bytes).map_err(|_| ResponseError::CoordinatorNotAvailable)?;
    let rebalance_ms = u64::try_from(decoded.rebalance_timeout_ms).ok().filter(|_| request.version > 0);
    // It becomes a part of the member's id.
    let client = request.client.chars().filter(|character| !character.is_control());
    let client: String = client.take(MEMBER_NAME_BYTES_MAX / 8).collect();
    let protocols = decoded.protocols.iter();
    Ok(Join {
        member: decoded.member_id.to_string(),
        instance,
        client,
        host: format!("/{}", ends.remote.ip()),
        session_timeout,
        rebalance_timeout: rebalance_ms.map_or(session_timeout, Duration::from_millis),
        protocol_type: decoded.protocol_type.to_string(),
        protocols: protocols.map(|of| (of.name.to_string(), Bytes::copy_from_slice(&of.metadata))).collect(),
        id_first: request.version >= ID_FIRST_FROM,
        can_skip: request.version >= SKIP_FROM,
        claim,
    })
}

/// The bytes that a member keeps of its request.
fn member_bytes(decoded: &JoinGroupRequest) -> usize {
    let protocols = decoded.protocols.iter().map(|of| size_of::<(String, Bytes)>() + of.name.len() + of.metadata.len());
    let instance = decoded.group_instance_id.as_ref().map_or(0, |instance| instance.len());
    decoded.member_id.len() + decoded.protocol_type.len() + instance + protocols.sum::<usize>()
}

fn response(joined: JoinReply, version: i16) -> JoinGroupResponse {
    let members = joined.members.into_iter().map(|(member, instance, metadata)| {
        let member = JoinGroupResponseMember::default().with_member_id(StrBytes::from_string(member));
        member.with_group_instance_id(instance.map(StrBytes::from_string)).with_metadata(metadata)
    });
    let response = JoinGroupResponse::default()
        .with_generation_id(joined.generation)
        .with_protocol_name(Some(StrBytes::from_string(joined.protocol)))
        .with_leader(StrBytes::from_string(joined.leader))
        .with_member_id(StrBytes::from_string(joined.member))
        .with_members(members.collect());
    let response = match version {
        TYPE_FROM.. => response.with_protocol_type(Some(StrBytes::from_string(joined.protocol_type))),
        _ => response,
    };
    if version >= SKIP_FROM { response.with_skip_assignment(joined.skip_assignment) } else { response }
}
