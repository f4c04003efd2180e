//! DescribeAcls: the access rules that are ACLs in Kafka's terms.

use kafka_protocol::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use kafka_protocol::messages::{DescribeAclsRequest, DescribeAclsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;

use crate::acls::{AclFilter, EVERY_HOST};
use crate::administration;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// Type and name of the resource, type of the pattern, principal, host, operation and permission.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 2,
    body: fields(&[
        Field(0, LAST, Shape::Fixed(1)),
        Field(0, LAST, Shape::Text),
        Field(0, LAST, Shape::Fixed(1)),
        Field(0, LAST, Shape::Text),
        Field(0, LAST, Shape::Text),
        Field(0, LAST, Shape::Fixed(1 + 1)),
    ]),
};

/// Lists the selected ACLs by their resources.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<DescribeAclsResponse, CloseReason> {
    let decoded: DescribeAclsRequest = request.decode()?;
    let described = match filter(broker, decoded) {
        Ok(filter) => {
            let select = move |system| filter.select(&system);
            let selected = administration::run(broker, ends, move |access| access.list().map(select)).await?;
            selected.map_err(KafkaError::from)
        }
        Err(failure) => Err(failure),
    };
    let response = DescribeAclsResponse::default();
    let selected = match described {
        Ok(selected) => selected,
        Err(failure) => {
            let message = StrBytes::from_string(failure.message);
            return Ok(response.with_error_code(failure.code.code()).with_error_message(Some(message)));
        }
    };
    let mut resources: Vec<DescribeAclsResource> = Vec::new();
    for (acl, ..) in selected {
        let description = AclDescription::default()
            .with_principal(StrBytes::from_string(acl.principal))
            .with_host(StrBytes::from_static_str(EVERY_HOST))
            .with_operation(acl.operation)
            .with_permission_type(acl.permission);
        let is_same = |last: &&mut DescribeAclsResource| {
            (last.resource_type, last.resource_name.as_str(), last.pattern_type)
                == (acl.resource_type, acl.name.as_str(), acl.pattern_type)
        };
        match resources.last_mut().filter(is_same) {
            Some(last) => last.acls.push(description),
            None => resources.push(
                DescribeAclsResource::default()
                    .with_resource_type(acl.resource_type)
                    .with_resource_name(StrBytes::from_string(acl.name))
                    .with_pattern_type(acl.pattern_type)
                    .with_acls(vec![description]),
            ),
        }
    }
    Ok(response.with_error_message(None).with_resources(resources))
}

fn filter(broker: &Broker, asked: DescribeAclsRequest) -> Result<AclFilter, KafkaError> {
    administration::check(broker, Operation::Describe)?;
    let numbers = (asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type);
    AclFilter::new(numbers, (asked.resource_name_filter, asked.principal_filter, asked.host_filter))
}
