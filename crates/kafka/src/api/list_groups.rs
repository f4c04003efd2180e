//! ListGroups: the groups with members or committed offsets.

use std::collections::BTreeMap;

use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, Resource, ResourceKind};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::permissions::PermittedGroup;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// States, types.
pub(crate) static SCHEMA: Schema =
    Schema { flexible_from: 3, body: fields(&[Field(4, LAST, Shape::Texts), Field(5, LAST, Shape::Texts)]) };

/// The first versions whose responses have states and types.
const STATES_FROM: i16 = 4;
const TYPES_FROM: i16 = 5;

/// The type of every group.
const CLASSIC: &str = "Classic";

/// Lists the groups of the requested states and types, ordered by name.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<ListGroupsResponse, CloseReason> {
    let decoded: ListGroupsRequest = request.decode()?;
    let stored = broker.read(|_, view| {
        let lists_all = view.permits(ResourceKind::Cluster, Resource::CLUSTER.name, Operation::Describe);
        let groups = view.streams.groups().filter(|group| lists_all || view.shows(ResourceKind::Group, group.name));
        groups.map(|group| (group.name.to_owned(), group.protocol_type.to_owned())).collect::<Vec<_>>()
    });
    let mut groups: BTreeMap<String, (String, &'static str)> =
        stored.await?.into_iter().map(|(name, protocol_type)| (name, (protocol_type, "Empty"))).collect();
    let running = broker.groups.names();
    for permitted in PermittedGroup::listed(&broker.database(), running.iter().map(String::as_str)) {
        if let Ok(Some(group)) = broker.groups.describe(permitted).await {
            groups.insert(permitted.name().to_owned(), (group.protocol_type, group.state));
        }
    }
    let wanted = |filter: &[StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.as_str().eq_ignore_ascii_case(value))
    };
    let groups = groups
        .into_iter()
        .filter(|(_, (_, state))| wanted(&decoded.states_filter, state) && wanted(&decoded.types_filter, CLASSIC));
    let groups = groups.map(|(name, (protocol_type, state))| {
        let group = ListedGroup::default().with_group_id(StrBytes::from_string(name).into());
        let group = group.with_protocol_type(StrBytes::from_string(protocol_type));
        let group = match request.version {
            STATES_FROM.. => group.with_group_state(StrBytes::from_static_str(state)),
            _ => group,
        };
        if request.version >= TYPES_FROM { group.with_group_type(StrBytes::from_static_str(CLASSIC)) } else { group }
    });
    Ok(ListGroupsResponse::default().with_groups(groups.collect()))
}
