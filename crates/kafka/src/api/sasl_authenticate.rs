//! SaslAuthenticate: a message of the mechanism that the client chose.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Timestamp;
use quire_access::Peer;
use quire_access::sasl::{SaslFailure, SaslProgress};

use crate::authentication::OtherPrincipal;
use crate::broker::Broker;
use crate::client::ClientState;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// The message.
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 2, body: fields(&[Field(0, LAST, Shape::Bytes)]) };

/// The first version whose response has the lifetime of the session (KIP-368).
const LIFETIME_FROM: i16 = 1;

/// Why a message authenticates nobody.
#[derive(Debug, Clone, Copy)]
enum SaslProblem {
    NoExchange,
    Failed(SaslFailure),
    OtherPrincipal,
}

/// Answers a message. A client that fails is answered after a pause, and its connection closes.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    state: &mut ClientState,
    request: &Request,
) -> Result<SaslAuthenticateResponse, CloseReason> {
    let decoded: SaslAuthenticateRequest = request.decode()?;
    let (error, message) = match answer(broker, ends, state, &decoded.auth_bytes).await {
        Ok(answer) => {
            let response = SaslAuthenticateResponse::default().with_auth_bytes(answer);
            let expires = state.authentication.principal.as_ref().and_then(|principal| principal.expires);
            return Ok(match expires {
                Some(expires) if state.authentication.exchange.is_none() && request.version >= LIFETIME_FROM => {
                    response.with_session_lifetime_ms(lifetime_ms(expires, broker.owner().now()))
                }
                _ => response,
            });
        }
        Err(SaslProblem::NoExchange) => (ResponseError::IllegalSaslState, "send SaslHandshake first".to_owned()),
        Err(SaslProblem::Failed(failure)) => (ResponseError::SaslAuthenticationFailed, failure.to_string()),
        Err(SaslProblem::OtherPrincipal) => {
            let message = "a connection can be authenticated again as the same user only; open another connection";
            (ResponseError::SaslAuthenticationFailed, message.to_owned())
        }
    };
    if error == ResponseError::SaslAuthenticationFailed {
        state.closing = Some(CloseReason::AuthenticationFailed);
    }
    let message = Some(StrBytes::from_string(message));
    Ok(SaslAuthenticateResponse::default().with_error_code(error.code()).with_error_message(message))
}

/// Answers a message without a header. `None` closes the connection, as in Kafka.
pub(crate) async fn handle_raw(
    broker: &Broker,
    ends: Endpoints,
    state: &mut ClientState,
    message: &[u8],
) -> Option<Bytes> {
    answer(broker, ends, state, message).await.ok()
}

async fn answer(
    broker: &Broker,
    ends: Endpoints,
    state: &mut ClientState,
    message: &[u8],
) -> Result<Bytes, SaslProblem> {
    let pending = state.authentication.exchange.as_mut().ok_or(SaslProblem::NoExchange)?;
    let peer = Peer::Tcp { local: ends.local, remote: ends.remote, tls: None };
    let was_refused = pending.exchange.is_refused();
    match broker.authenticator.answer(&mut pending.exchange, message, broker.owner(), &peer).await {
        Ok(SaslProgress::Challenge(message)) => Ok(message.into()),
        Ok(SaslProgress::Refused(message)) => {
            broker.served().login_refused("sasl", &peer.host());
            Ok(message.into())
        }
        Ok(SaslProgress::Authenticated { principal, message }) => {
            state.authentication.succeed(principal).map_err(|OtherPrincipal| SaslProblem::OtherPrincipal)?;
            Ok(message.into())
        }
        Err(failure) => {
            state.authentication.exchange = None;
            if !was_refused {
                broker.served().login_refused("sasl", &peer.host());
            }
            Err(SaslProblem::Failed(failure))
        }
    }
}

/// The milliseconds until a key expires; at least one, because 0 stands for no end.
fn lifetime_ms(expires: Timestamp, now: Timestamp) -> i64 {
    let left_us = expires.as_micros().saturating_sub(now.as_micros());
    i64::try_from(left_us / 1_000).unwrap_or(i64::MAX).max(1)
}
