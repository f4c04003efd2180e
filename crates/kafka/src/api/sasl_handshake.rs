//! SaslHandshake: the client chooses a mechanism of SASL.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SaslHandshakeRequest, SaslHandshakeResponse};
use kafka_protocol::protocol::StrBytes;

use crate::authentication::{Authentication, PendingExchange};
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// The mechanism.
pub(crate) static SCHEMA: Schema = Schema { flexible_from: i16::MAX, body: fields(&[Field(0, LAST, Shape::Text)]) };

/// The first version after which messages are in requests of SaslAuthenticate.
const FRAMED_FROM: i16 = 1;

/// Begins an exchange. As in Kafka, a server that authenticates nobody refuses it: the client
/// expects to be authenticated.
pub(crate) fn handle(
    broker: &Broker,
    authentication: &mut Authentication,
    request: &Request,
) -> Result<SaslHandshakeResponse, CloseReason> {
    let decoded: SaslHandshakeRequest = request.decode()?;
    let refused = |error: ResponseError| SaslHandshakeResponse::default().with_error_code(error.code());
    if !broker.served().is_access_enabled() {
        return Ok(refused(ResponseError::IllegalSaslState));
    }
    let offered = || broker.authenticator.mechanisms();
    let names: Vec<_> = offered().map(|mechanism| StrBytes::from_static_str(mechanism.name())).collect();
    let Some(mechanism) = offered().find(|mechanism| *mechanism.name() == *decoded.mechanism) else {
        return Ok(refused(ResponseError::UnsupportedSaslMechanism).with_mechanisms(names));
    };
    let is_raw = request.version < FRAMED_FROM;
    if is_raw && authentication.is_by_sasl() {
        // Clients authenticate again in requests only (KIP-368).
        return Ok(refused(ResponseError::IllegalSaslState).with_mechanisms(names));
    }
    let exchange = broker.authenticator.begin(mechanism).map_err(|_| CloseReason::Failed)?;
    authentication.exchange = Some(PendingExchange { exchange, is_raw });
    Ok(SaslHandshakeResponse::default().with_mechanisms(names))
}
