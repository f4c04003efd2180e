//! A client of a server, over HTTP.

use std::time::Duration;

use quire_client::{Call, Client, ClientError, Code, FailureKind};
use serde_json::{Value, json};

use super::{
    AnswerError, ClientAnswer, ClientRequest, DONE, GRAPH, LEASE, MADE, MAKER, QUEUE, STORE, TOPIC, TestedDatabase,
};
use crate::ledger::PartPositions;

/// The timeout of an answer; a stopped server takes longer.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct HttpSession {
    client: Client,
}

impl HttpSession {
    /// A lost answer counts as unknown, so the client repeats nothing.
    pub(super) fn new(address: &str) -> Self {
        let client = Client::builder(format!("http://{address}")).timeout(TIMEOUT).without_retries();
        HttpSession { client: client.build().expect("the address of a server") }
    }

    fn commit(&self, parts: &Value) -> Result<Value, ClientError> {
        let call = Call::post(&["commit"]).json(&json!({ "parts": parts }))?;
        let answer = self.client.send(&call)?;
        Ok(serde_json::from_slice(&answer).unwrap_or_else(|error| panic!("{error} in {answer:?}")))
    }
}

impl TestedDatabase for HttpSession {
    fn ask(&mut self, ask: ClientRequest<'_>) -> Result<ClientAnswer, AnswerError> {
        let error = match self.commit(&parts(ask)) {
            Ok(answer) => return Ok(told(ask, &answer)),
            Err(error) => error,
        };
        match (error.status(), error.code()) {
            (409, Some(Code::ConditionFailed)) => {
                Ok(ClientAnswer::ConditionFailed(error.facts().get("position").and_then(Value::as_u64)))
            }
            (409, Some(Code::StaleLease)) => Ok(ClientAnswer::Stale),
            (507, Some(Code::NoSpace)) => Err(AnswerError::Full),
            (503, Some(Code::Failed)) => Err(AnswerError::Failed(error.to_string())),
            (500, Some(Code::Io)) => Err(AnswerError::Refused(error.to_string())),
            _ if error.kind() == FailureKind::Unanswered => Err(AnswerError::Unknown(error.to_string())),
            _ => panic!("{ask:?} was answered {error:?}"),
        }
    }
}

fn parts(ask: ClientRequest<'_>) -> Value {
    match ask {
        ClientRequest::Make { id, name, last } => json!([
            { "append": {
                "store": STORE,
                "events": [{ "type": "Made", "tags": [name], "data_text": id }],
                "conditions": [{ "last_is": { "items": [{ "types": ["Made"], "tags": [name] }], "position": last } }],
            } },
            { "produce": { "topic": TOPIC, "value_text": id } },
            { "enqueue": {
                "queue": QUEUE, "payload_text": id, "attempts_max": u16::MAX, "backoff": "fixed", "backoff_base_ms": 20,
            } },
            { "put_block": { "graph": GRAPH, "block": name, "kind": MAKER } },
            { "put_block": { "graph": GRAPH, "block": id, "kind": MADE, "expect_version": 0 } },
            { "put_edge": { "graph": GRAPH, "source": name, "type": MADE, "target": id } },
        ]),
        ClientRequest::Claim { claim, name } => json!([{ "append": {
            "store": STORE,
            "events": [{ "type": "Claimed", "tags": [claim], "data_text": name }],
            "conditions": [{ "fail_if_events_match": { "items": [{ "types": ["Claimed"], "tags": [claim] }] } }],
        } }]),
        ClientRequest::Fetch { count, name } => {
            json!([{ "fetch": {
                "queues": [QUEUE], "count": count, "lease_ms": LEASE.as_millis() as u64, "worker": name,
            } }])
        }
        ClientRequest::Done { job, token, id } => json!([
            { "ack": { "job": job, "token": token } },
            { "append": { "store": STORE, "events": [{ "type": "Done", "data_text": id }] } },
            { "put_block": { "graph": GRAPH, "block": id, "kind": DONE } },
        ]),
    }
}

fn told(ask: ClientRequest<'_>, answer: &Value) -> ClientAnswer {
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{ask:?} was answered {answer}"));
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{ask:?} was answered {answer}")).to_owned();
    let (position, replies) = (number(&answer["position"]), &answer["replies"]);
    match ask {
        ClientRequest::Make { .. } => ClientAnswer::Made(PartPositions {
            position,
            event: number(&replies[0]["appended"]["first"]),
            offset: number(&replies[1]["produced"]["offset"]),
            job: text(&replies[2]["enqueued"]["job"]),
        }),
        ClientRequest::Claim { .. } => {
            ClientAnswer::Claimed { position, event: number(&replies[0]["appended"]["first"]) }
        }
        ClientRequest::Fetch { .. } => {
            let jobs = replies[0]["fetched"]["jobs"].as_array().unwrap_or_else(|| panic!("{ask:?}: {answer}"));
            ClientAnswer::Fetched(
                jobs.iter().map(|job| (text(&job["job"]), text(&job["token"]), text(&job["payload_text"]))).collect(),
            )
        }
        ClientRequest::Done { .. } => ClientAnswer::Done { position },
    }
}
