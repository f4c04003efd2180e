//! DeleteAcls: removes the access rules that filters select.

use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl};
use kafka_protocol::messages::{DeleteAclsRequest, DeleteAclsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::system::Command;
use quire::{AccessControl, Operation};

use crate::acls::{Acl, AclFilter, EVERY_HOST};
use crate::administration;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Filters of (resource type, name, pattern type, principal, host, operation, permission).
pub(crate) static SCHEMA: Schema =
    Schema { flexible_from: 2, body: fields(&[Field(0, LAST, Shape::Structs(&FILTER))]) };
static FILTER: Struct = fields(&[
    Field(0, LAST, Shape::Fixed(1)),
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Fixed(1)),
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Fixed(1 + 1)),
]);

/// Removes the rules of each filter in one commit.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<DeleteAclsResponse, CloseReason> {
    let decoded: DeleteAclsRequest = request.decode()?;
    let permitted = administration::check(broker, Operation::Alter);
    let filters = decoded.filters.into_iter().map(|asked| {
        permitted.clone()?;
        filter(asked)
    });
    let filters: Vec<Result<AclFilter, KafkaError>> = filters.collect();
    let removed = administration::run(broker, ends, move |access| {
        let remove = |filter: AclFilter| remove(access, &filter).map_err(KafkaError::from);
        filters.into_iter().map(|filter| filter.and_then(remove)).collect::<Vec<_>>()
    });
    let results = removed.await?.into_iter().map(|removed| {
        let result = DeleteAclsFilterResult::default();
        match removed {
            Ok(acls) => result.with_error_message(None).with_matching_acls(acls.into_iter().map(describe).collect()),
            Err(failure) => result
                .with_error_code(failure.code.code())
                .with_error_message(Some(StrBytes::from_string(failure.message))),
        }
    });
    Ok(DeleteAclsResponse::default().with_filter_results(results.collect()))
}

fn filter(asked: DeleteAclsFilter) -> Result<AclFilter, KafkaError> {
    let numbers = (asked.resource_type_filter, asked.pattern_type_filter, asked.operation, asked.permission_type);
    AclFilter::new(numbers, (asked.resource_name_filter, asked.principal_filter, asked.host_filter))
}

/// Removes the selected rules, and returns those that existed until then.
fn remove(access: &AccessControl<'_>, filter: &AclFilter) -> quire::Result<Vec<Acl>> {
    let selected = filter.select(&access.list()?);
    if selected.is_empty() {
        return Ok(Vec::new());
    }
    let commands = selected.iter().map(|(_, subject, rule)| Command::RemoveRule { subject, rule });
    let replies = access.change(&commands.collect::<Vec<_>>())?;
    let removed = selected.into_iter().zip(replies).filter(|(_, reply)| reply.is_changed);
    Ok(removed.map(|((acl, ..), _)| acl).collect())
}

fn describe(acl: Acl) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl::default()
        .with_error_message(None)
        .with_resource_type(acl.resource_type)
        .with_resource_name(StrBytes::from_string(acl.name))
        .with_pattern_type(acl.pattern_type)
        .with_principal(StrBytes::from_string(acl.principal))
        .with_host(StrBytes::from_static_str(EVERY_HOST))
        .with_operation(acl.operation)
        .with_permission_type(acl.permission)
}
