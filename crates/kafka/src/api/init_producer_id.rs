//! InitProducerId: assigns an id to an idempotent producer.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse};
use quire::streams::{Command, ProducerId, Reply};
use quire::{Operation, Resource, ResourceKind};

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// Transactional id, timeout, producer id, epoch.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 2,
    body: fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Fixed(4)), Field(3, LAST, Shape::Fixed(8 + 2))]),
};

/// Assigns an id with epoch 0. A producer that already had an id gets a new one. Transactional
/// producers get none.
pub(crate) async fn handle(broker: &Broker, request: &Request) -> Result<InitProducerIdResponse, CloseReason> {
    let decoded: InitProducerIdRequest = request.decode()?;
    let given = match decoded.transactional_id {
        None => give(broker).await,
        Some(id) => Err(refuse_transactions(broker, &id)),
    };
    Ok(match given {
        Ok(producer) => {
            let id = i64::try_from(producer.get()).expect("an id has 63 bits");
            InitProducerIdResponse::default().with_producer_id(id.into()).with_producer_epoch(0)
        }
        Err(failure) => InitProducerIdResponse::default()
            .with_error_code(failure.code.code())
            .with_producer_id((-1).into())
            .with_producer_epoch(-1),
    })
}

fn refuse_transactions(broker: &Broker, id: &str) -> KafkaError {
    let checked = broker.check(Resource::new(ResourceKind::TransactionalId, id), Operation::Write);
    let unsupported = || KafkaError::new(ResponseError::InvalidRequest, "transactions are not supported");
    checked.err().unwrap_or_else(unsupported)
}

async fn give(broker: &Broker) -> Result<ProducerId, KafkaError> {
    match broker.commit(Command::InitProducer).await? {
        Reply::ProducerInitialized(producer) => Ok(producer),
        other => unreachable!("a new producer gets an id, not {other:?}"),
    }
}
