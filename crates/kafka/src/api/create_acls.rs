//! CreateAcls: adds access rules.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::{CreateAclsRequest, CreateAclsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::system::{AccessRule, RulePattern, RuleSubject};
use quire::{Operation, ResourceKind};

use crate::acls::Acl;
use crate::administration;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, TopicKind};

/// ACLs of (resource type, name, pattern type, principal, host, operation, permission).
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 2, body: fields(&[Field(0, LAST, Shape::Structs(&ACL))]) };
static ACL: Struct = fields(&[
    Field(0, LAST, Shape::Fixed(1)),
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Fixed(1)),
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Fixed(1 + 1)),
]);

/// Adds the rule of each ACL by itself. A rule that exists stays as it is.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<CreateAclsResponse, CloseReason> {
    let decoded: CreateAclsRequest = request.decode()?;
    let permitted = administration::check(broker, Operation::Alter);
    let rules = decoded.creations.into_iter().map(|creation| {
        permitted.clone()?;
        rule(broker, creation)
    });
    let rules: Vec<Result<(RuleSubject, AccessRule), KafkaError>> = rules.collect();
    let added = administration::run(broker, ends, move |access| {
        let add =
            |(subject, rule): (RuleSubject, AccessRule)| access.add_rule(&subject, &rule).map_err(KafkaError::from);
        rules.into_iter().map(|rule| rule.and_then(add)).collect::<Vec<_>>()
    });
    let result = |added: Result<bool, KafkaError>| {
        let result = AclCreationResult::default();
        match added {
            Ok(_) => result.with_error_message(None),
            Err(failure) => result
                .with_error_code(failure.code.code())
                .with_error_message(Some(StrBytes::from_string(failure.message))),
        }
    };
    Ok(CreateAclsResponse::default().with_results(added.await?.into_iter().map(result).collect()))
}

fn rule(broker: &Broker, creation: AclCreation) -> Result<(RuleSubject, AccessRule), KafkaError> {
    let acl = Acl {
        resource_type: creation.resource_type,
        name: creation.resource_name.to_string(),
        pattern_type: creation.resource_pattern_type,
        principal: creation.principal.to_string(),
        operation: creation.operation,
        permission: creation.permission_type,
    };
    let (subject, rule) = acl.rule(&creation.host)?;
    // A topic that shows a store or a queue is checked as that object.
    if let (ResourceKind::Topic, RulePattern::Literal(name)) = (rule.kind, &rule.pattern)
        && let Some(topic) = broker.read_published(|database, view| topics::named(database, view, name))?
        && !matches!(topic.kind, TopicKind::Stream { .. })
    {
        let object = topic.resource();
        let message = format!("the topic {name} shows the {object}: add a rule on it with `POST /v1/access/rules`");
        return Err(KafkaError::new(ResponseError::InvalidRequest, message));
    }
    Ok((subject, rule))
}
