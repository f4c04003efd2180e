//! DeleteGroups: deletes groups without members, with their committed offsets.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};
use quire::Operation;
use quire::streams::{Command, Despite};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// The groups.
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 2, body: fields(&[Field(0, LAST, Shape::Texts)]) };

/// Answers each group by itself.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<DeleteGroupsResponse, CloseReason> {
    let decoded: DeleteGroupsRequest = request.decode()?;
    let mut items = RequestItems::begin(broker);
    let mut results = Vec::with_capacity(decoded.groups_names.len());
    for group in decoded.groups_names {
        let deleted = match items.commit().await {
            Ok(()) => delete(broker, group.as_str()).await,
            Err(failure) => Err(failure),
        };
        let code = deleted.map_or_else(|failure| failure.code.code(), |()| 0);
        results.push(DeletableGroupResult::default().with_group_id(group).with_error_code(code));
    }
    Ok(DeleteGroupsResponse::default().with_results(results))
}

async fn delete(broker: &Broker, group: &str) -> Result<(), KafkaError> {
    let permitted = broker.group(group, Operation::Delete)?;
    let members = broker
        .groups
        .describe(permitted)
        .await
        .map_err(|code| KafkaError::new(code, "this broker does not coordinate the group"))?;
    if members.is_some() {
        return Err(KafkaError::new(ResponseError::NonEmptyGroup, "the group has members"));
    }
    // The log records that the generation began with members. They may have left with an earlier
    // server.
    broker.commit(Command::DeleteGroup { group, despite: Despite::Generation }).await.map(|_| ())
}
