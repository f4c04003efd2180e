//! ListGroups: the groups with members or committed offsets.

use std::collections::BTreeMap;

use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::{Operation, Resource, ResourceKind};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::memory::GrowingResponse;
use crate::pause::STEPS_AT_ONCE;
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

/// The memory of a group without its texts: in the list, in the response and in its frame.
const GROUP_BYTES: usize = 512;

/// A group's type of protocol and its state.
type GroupInList = (String, &'static str);

/// Returns the groups with committed offsets, as if none of them had members. Commits continue
/// after every few groups.
async fn stored(
    broker: &Broker,
    items: &mut RequestItems,
    memory: &mut GrowingResponse<'_>,
) -> Result<Result<BTreeMap<String, GroupInList>, KafkaError>, CloseReason> {
    let (mut groups, mut from) = (BTreeMap::new(), String::new());
    loop {
        if let Err(failure) = items.look(STEPS_AT_ONCE).await {
            return Ok(Err(failure));
        }
        let (mut few, mut looked_at, mut last) = (Vec::new(), 0, None);
        let read = broker.read_published(|_, view| {
            let lists_all = view.permits(ResourceKind::Cluster, Resource::CLUSTER.name, Operation::Describe);
            for group in view.streams.groups_from(&from).take(STEPS_AT_ONCE) {
                looked_at += 1;
                last = Some(group.name.to_owned());
                if lists_all || view.shows(ResourceKind::Group, group.name) {
                    few.push((group.name.to_owned(), group.protocol_type.to_owned()));
                }
            }
        });
        read.map_err(|_| CloseReason::Failed)?;
        let bytes = few.iter().map(|(name, protocol_type)| GROUP_BYTES + 2 * (name.len() + protocol_type.len()));
        items.grow(memory, bytes.sum()).await?;
        groups.extend(few.into_iter().map(|(name, protocol_type)| (name, (protocol_type, "Empty"))));
        match last.filter(|_| looked_at == STEPS_AT_ONCE) {
            // The least name after the last one.
            Some(last) => from = format!("{last}\0"),
            None => return Ok(Ok(groups)),
        }
    }
}

/// Lists the groups of the requested states and types, ordered by name. A node that does not lead
/// coordinates none: clients ask every broker.
pub(crate) async fn handle(
    broker: &Broker,
    request: &Request,
    memory: &mut GrowingResponse<'_>,
) -> Result<ListGroupsResponse, CloseReason> {
    let decoded: ListGroupsRequest = request.decode()?;
    if broker.check_coordinates().is_err() {
        return Ok(ListGroupsResponse::default());
    }
    let mut items = RequestItems::begin(broker);
    let mut groups = match stored(broker, &mut items, memory).await? {
        Ok(groups) => groups,
        Err(failure) => return Ok(ListGroupsResponse::default().with_error_code(failure.code.code())),
    };
    let running = broker.groups.names();
    for permitted in PermittedGroup::listed(&broker.database(), running.iter().map(String::as_str)) {
        if let Err(failure) = items.look(1).await {
            return Ok(ListGroupsResponse::default().with_error_code(failure.code.code()));
        }
        if let Ok(Some(group)) = broker.groups.describe(permitted).await {
            let bytes = GROUP_BYTES + 2 * (permitted.name().len() + group.protocol_type.len());
            items.grow(memory, bytes).await?;
            groups.insert(permitted.name().to_owned(), (group.protocol_type, group.state));
        }
    }
    drop(items);
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
