//! ListConfigResources: the resources that have settings.

use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;

use super::describe_configs::{BROKER, TOPIC};
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::items::RequestItems;
use crate::memory::GrowingResponse;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};
use crate::topic_list::TopicList;

/// The types of resources.
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 0, body: fields(&[Field(1, LAST, Shape::Numbers(1))]) };

/// The first version with types. Before it, a request is for the subscriptions of client metrics,
/// of which there are none.
const TYPES_FROM: i16 = 1;

/// The memory of a resource without its name: in the response and in its frame.
const RESOURCE_BYTES: usize = 128;

/// Lists the resources of the requested types; of all types when none is named.
pub(crate) async fn handle(
    broker: &Broker,
    request: &Request,
    memory: &mut GrowingResponse<'_>,
) -> Result<ListConfigResourcesResponse, CloseReason> {
    let decoded: ListConfigResourcesRequest = request.decode()?;
    let response = ListConfigResourcesResponse::default();
    if let Err(failure) = broker.check_cluster(Operation::DescribeConfigs) {
        return Ok(response.with_error_code(failure.code.code()));
    }
    if request.version < TYPES_FROM {
        return Ok(response);
    }
    let wants = |of: i8| decoded.resource_types.is_empty() || decoded.resource_types.contains(&of);
    let resource = |of: i8, name: String| {
        ConfigResource::default().with_resource_type(of).with_resource_name(StrBytes::from_string(name))
    };
    let mut resources = Vec::new();
    if wants(TOPIC) {
        // As in Kafka, the permission on the cluster shows the names of all topics.
        let (mut items, mut list) = (RequestItems::begin(broker), TopicList::new());
        loop {
            match list.next(broker, &mut items, |_, topic| Some(topic.name)).await? {
                Ok(Some(few)) => {
                    let bytes = few.iter().map(|name| RESOURCE_BYTES + 2 * name.len()).sum();
                    items.grow(memory, bytes).await?;
                    resources.extend(few.into_iter().map(|name| resource(TOPIC, name)));
                }
                Ok(None) => break,
                Err(failure) => return Ok(response.with_error_code(failure.code.code())),
            }
        }
    }
    if wants(BROKER) {
        resources.extend(broker.all_ids().into_iter().map(|id| resource(BROKER, id.to_string())));
    }
    Ok(response.with_config_resources(resources))
}
