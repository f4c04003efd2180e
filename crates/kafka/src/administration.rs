//! Administration of users and rules over the Kafka protocol.
//!
//! As over HTTP, a client needs a permission on [`Resource::ACCESS`]: [`Operation::Describe`] to
//! read, and [`Operation::Alter`] to change, which each commit checks again. While access control
//! is not enabled, no client is an administrator.

use kafka_protocol::ResponseError;
use quire::{AccessControl, AuditAuthor, Operation, Resource};
use quire_access::Session;

use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;

/// Checks that the client may read or change users and rules.
///
/// # Errors
/// The error for the client.
pub(crate) fn check(broker: &Broker, operation: Operation) -> Result<(), KafkaError> {
    if !broker.served().is_access_enabled() {
        let message = "access control is not enabled: create the first administrator with `POST /v1/access/init`";
        return Err(KafkaError::new(ResponseError::SecurityDisabled, message));
    }
    broker.check(Resource::ACCESS, operation)
}

/// Does the work in the name of the client, on another thread: a change waits until it is durable.
///
/// # Errors
/// [`CloseReason::Failed`] when the work panicked.
pub(crate) async fn run<T: Send + 'static>(
    broker: &Broker,
    ends: Endpoints,
    work: impl FnOnce(&AccessControl<'_>) -> T + Send + 'static,
) -> Result<T, CloseReason> {
    let (database, session) = (broker.database(), Session::current());
    let done = tokio::task::spawn_blocking(move || {
        let principal = session.as_ref().and_then(Session::principal);
        let key = principal.and_then(|principal| principal.key).map(|key| key.to_string());
        let address = ends.remote.to_string();
        let author = AuditAuthor {
            principal: principal.map_or("anonymous", |principal| &principal.name),
            key: key.as_deref(),
            address: Some(&address),
            protocol: "kafka",
        };
        work(&database.access().by(author))
    });
    done.await.map_err(|_| CloseReason::Failed)
}
