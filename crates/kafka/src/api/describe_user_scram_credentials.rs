//! DescribeUserScramCredentials: the mechanisms and iterations of the passwords of users.

use std::collections::HashMap;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use kafka_protocol::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;
use quire::system::{ScramCredential, System};

use crate::administration;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::errors::KafkaError;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Users.
pub(crate) static SCHEMA: Schema = Schema { flexible_from: 0, body: fields(&[Field(0, LAST, Shape::Structs(&USER))]) };
static USER: Struct = fields(&[Field(0, LAST, Shape::Text)]);

/// Describes the named users, or every user with a password when none is named.
pub(crate) async fn handle(
    broker: &Broker,
    ends: Endpoints,
    request: &Request,
) -> Result<DescribeUserScramCredentialsResponse, CloseReason> {
    let decoded: DescribeUserScramCredentialsRequest = request.decode()?;
    let system = match administration::check(broker, Operation::Describe) {
        Ok(()) => administration::run(broker, ends, |access| access.list()).await?.map_err(KafkaError::from),
        Err(failure) => Err(failure),
    };
    let response = DescribeUserScramCredentialsResponse::default();
    Ok(match system {
        Ok(system) => {
            let names = decoded.users.unwrap_or_default().into_iter().map(|user| user.name);
            response.with_error_message(None).with_results(results(&system, names.collect()))
        }
        Err(failure) => response
            .with_error_code(failure.code.code())
            .with_error_message(Some(StrBytes::from_string(failure.message))),
    })
}

fn results(system: &System, names: Vec<StrBytes>) -> Vec<DescribeUserScramCredentialsResult> {
    if names.is_empty() {
        let with_password = system.users().filter(|(_, user)| !user.scram.is_empty());
        return with_password
            .map(|(name, user)| describe(StrBytes::from_string(name.to_owned()), &user.scram))
            .collect();
    }
    let mut counts: HashMap<&StrBytes, usize> = HashMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let failed = |name: &StrBytes, code: ResponseError, message: String| {
        DescribeUserScramCredentialsResult::default()
            .with_user(name.clone())
            .with_error_code(code.code())
            .with_error_message(Some(StrBytes::from_string(message)))
    };
    let mut results = Vec::with_capacity(counts.len());
    for name in &names {
        let Some(count) = counts.remove(name) else { continue };
        let credentials = system.user(name).map(|user| &user.scram[..]).unwrap_or_default();
        results.push(match (count, credentials) {
            (1, []) => failed(name, ResponseError::ResourceNotFound, format!("the user {name} has no password")),
            (1, credentials) => describe(name.clone(), credentials),
            _ => failed(name, ResponseError::DuplicateResource, format!("the request names the user {name} twice")),
        });
    }
    results
}

fn describe(user: StrBytes, credentials: &[ScramCredential]) -> DescribeUserScramCredentialsResult {
    let info = |credential: &ScramCredential| {
        CredentialInfo::default()
            .with_mechanism((credential.mechanism as u8).cast_signed())
            .with_iterations(i32::try_from(credential.iterations).unwrap_or(i32::MAX))
    };
    DescribeUserScramCredentialsResult::default()
        .with_user(user)
        .with_error_message(None)
        .with_credential_infos(credentials.iter().map(info).collect())
}
