//! AlterUserScramCredentials: sets and removes the passwords of users.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::ResponseError;
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use kafka_protocol::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::system::{Command, ScramCredential, ScramMechanism};
use quire::{AccessControl, Operation, salted_credential};

use crate::administration;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Deletions of (user, mechanism), credentials of (user, mechanism, iterations, salt, salted
/// password).
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 0,
    body: fields(&[Field(0, LAST, Shape::Structs(&DELETION)), Field(0, LAST, Shape::Structs(&CREDENTIAL))]),
};
static DELETION: Struct = fields(&[Field(0, LAST, Shape::Text), Field(0, LAST, Shape::Fixed(1))]);
static CREDENTIAL: Struct = fields(&[
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Fixed(1 + 4)),
    Field(0, LAST, Shape::Bytes),
    Field(0, LAST, Shape::Bytes),
]);

/// A change of one credential.
#[derive(Debug)]
enum CredentialChange {
    Put(ScramCredential),
    Drop(ScramMechanism),
}

impl CredentialChange {
    fn mechanism(&self) -> ScramMechanism {
        match self {
            CredentialChange::Put(credential) => credential.mechanism,
            CredentialChange::Drop(mechanism) => *mechanism,
        }
    }
}

/// Changes the credentials of each user in one commit. As in Kafka, a new user is created.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<AlterUserScramCredentialsResponse, CloseReason> {
    let decoded: AlterUserScramCredentialsRequest = request.decode()?;
    let permitted = check(broker, ends);
    let mut users: BTreeMap<String, Vec<Result<CredentialChange, KafkaError>>> = BTreeMap::new();
    for deletion in decoded.deletions {
        users.entry(deletion.name.to_string()).or_default().push(drop_of(&deletion));
    }
    for credential in decoded.upsertions {
        users.entry(credential.name.to_string()).or_default().push(put_of(&credential));
    }
    let altered = administration::run(broker, ends, move |access| {
        let alter = |(user, changes): (String, Vec<_>)| {
            let altered = permitted.clone().and_then(|()| alter(access, &user, changes));
            (user, altered)
        };
        users.into_iter().map(alter).collect::<Vec<_>>()
    });
    let results = altered.await?.into_iter().map(|(user, altered)| {
        let result = AlterUserScramCredentialsResult::default().with_user(StrBytes::from_string(user));
        match altered {
            Ok(()) => result.with_error_message(None),
            Err(failure) => result
                .with_error_code(failure.code.code())
                .with_error_message(Some(StrBytes::from_string(failure.message))),
        }
    });
    Ok(AlterUserScramCredentialsResponse::default().with_results(results.collect()))
}

/// Checks the client and its connection: who reads a salted password can log in with it.
fn check(broker: &Broker, ends: Endpoints) -> Result<(), KafkaError> {
    administration::check(broker, Operation::Alter)?;
    if ends.has_tls {
        return Ok(());
    }
    let message = "the request has salted passwords and is accepted over TLS only: use a listener with TLS";
    Err(KafkaError::new(ResponseError::PolicyViolation, message))
}

fn mechanism_of(number: i8) -> Result<ScramMechanism, KafkaError> {
    let known = ScramMechanism::ALL.into_iter().find(|mechanism| (*mechanism as u8).cast_signed() == number);
    known.ok_or_else(|| {
        let message = format!("the mechanism must be 1 (SCRAM-SHA-256) or 2 (SCRAM-SHA-512), got {number}");
        KafkaError::new(ResponseError::UnsupportedSaslMechanism, message)
    })
}

fn drop_of(deletion: &ScramCredentialDeletion) -> Result<CredentialChange, KafkaError> {
    mechanism_of(deletion.mechanism).map(CredentialChange::Drop)
}

fn put_of(asked: &ScramCredentialUpsertion) -> Result<CredentialChange, KafkaError> {
    let mechanism = mechanism_of(asked.mechanism)?;
    let (bytes, expected) = (asked.salted_password.len(), mechanism.hash_bytes());
    if bytes != expected {
        let message = format!("the salted password of {} must have {expected} bytes, got {bytes}", mechanism.name());
        return Err(KafkaError::new(ResponseError::UnacceptableCredential, message));
    }
    // The commit checks the salt and the iterations.
    let iterations = u32::try_from(asked.iterations).unwrap_or(0);
    Ok(CredentialChange::Put(salted_credential(mechanism, &asked.salted_password, asked.salt.to_vec(), iterations)))
}

fn alter(
    access: &AccessControl<'_>,
    user: &str,
    changes: Vec<Result<CredentialChange, KafkaError>>,
) -> Result<(), KafkaError> {
    let changes = changes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mechanisms: BTreeSet<ScramMechanism> = changes.iter().map(CredentialChange::mechanism).collect();
    if mechanisms.len() < changes.len() {
        let message = format!("the request changes a mechanism of the user {user} twice");
        return Err(KafkaError::new(ResponseError::DuplicateResource, message));
    }
    let system = access.list()?;
    let known = system.user(user);
    let mut commands = Vec::with_capacity(changes.len() + 1);
    if known.is_none() && changes.iter().any(|change| matches!(change, CredentialChange::Put(_))) {
        commands.push(Command::CreateUser { user, roles: &[] });
    }
    for change in &changes {
        commands.push(match change {
            CredentialChange::Put(credential) => Command::PutScram { user, credential },
            CredentialChange::Drop(mechanism) => {
                let has = known.is_some_and(|user| user.scram.iter().any(|own| own.mechanism == *mechanism));
                if !has {
                    let message = format!("the user {user} has no password for {}", mechanism.name());
                    return Err(KafkaError::new(ResponseError::ResourceNotFound, message));
                }
                Command::DropScram { user, mechanism: *mechanism }
            }
        });
    }
    access.change(&commands)?;
    Ok(())
}
