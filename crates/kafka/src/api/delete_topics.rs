//! DeleteTopics: deletes topics with all their records, by name or by id.

use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;
use quire::streams::Command;
use uuid::Uuid;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::items::RequestItems;
use crate::read_only::{self, TopicOperation};
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};
use crate::topics::{self, KafkaTopic};

/// Topics of (name, id), names, timeout.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 4,
    body: fields(&[Field(6, LAST, Shape::Structs(&TOPIC)), Field(0, 5, Shape::Texts), Field(0, LAST, Shape::Fixed(4))]),
};
static TOPIC: Struct = fields(&[Field(6, LAST, Shape::Text), Field(6, LAST, Shape::Fixed(16))]);

/// The first versions with topic ids, and with error messages in responses.
const IDS_FROM: i16 = 6;
const MESSAGES_FROM: i16 = 5;

/// Deletes each topic by itself.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<DeleteTopicsResponse, CloseReason> {
    let decoded: DeleteTopicsRequest = request.decode()?;
    let by_name = decoded.topic_names.into_iter().map(|name| (Some(name), Uuid::nil()));
    let asked: Vec<(Option<TopicName>, Uuid)> =
        decoded.topics.into_iter().map(|topic| (topic.name, topic.topic_id)).chain(by_name).collect();
    let mut items = RequestItems::begin(broker);
    let mut responses = Vec::with_capacity(asked.len());
    for (name, id) in asked {
        let found = broker.read(|database, view| match &name {
            Some(name) => topics::permitted(database, view, name, Operation::Delete),
            None => topics::permitted_by_id(database, view, id, Operation::Delete),
        });
        let found = found.await?;
        let deleted = match (items.commit().await, &found) {
            (Ok(()), Ok(topic)) => delete(broker, topic).await,
            (Err(failure), _) => Err(failure),
            (Ok(()), Err(failure)) => Err(failure.clone()),
        };
        let (found_name, found_id) = match found {
            Ok(topic) => (Some(TopicName(StrBytes::from_string(topic.name))), topic.uuid),
            Err(_) => (name, id),
        };
        let response = DeletableTopicResult::default().with_name(found_name);
        let response = if request.version >= IDS_FROM { response.with_topic_id(found_id) } else { response };
        responses.push(match deleted {
            Ok(()) => response,
            Err(failure) => {
                let message = StrBytes::from_string(failure.message);
                let response = response.with_error_code(failure.code.code());
                if request.version >= MESSAGES_FROM { response.with_error_message(Some(message)) } else { response }
            }
        });
    }
    Ok(DeleteTopicsResponse::default().with_responses(responses))
}

async fn delete(broker: &Broker, topic: &KafkaTopic) -> Result<(), KafkaError> {
    match read_only::refusal(topic, TopicOperation::Delete) {
        Some(refusal) => Err(refusal),
        None => broker.commit(Command::DeleteTopic { topic: topic.committed_as() }).await.map(|_| ()),
    }
}
