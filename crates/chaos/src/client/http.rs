//! A client of a server, over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use super::{
    AnswerError, ClientAnswer, ClientRequest, DONE, GRAPH, LEASE, MADE, MAKER, QUEUE, STORE, TOPIC, TestedDatabase,
};
use crate::ledger::PartPositions;

/// The timeout of an answer; a stopped server takes longer.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct HttpSession {
    agent: Agent,
    url: String,
}

impl HttpSession {
    pub(super) fn new(address: &str) -> Self {
        let config = Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false).build();
        HttpSession { agent: config.into(), url: format!("http://{address}/v1/commit") }
    }

    fn post(&self, body: &Value) -> Result<(u16, Value), AnswerError> {
        let unknown = |error: ureq::Error| AnswerError::Unknown(error.to_string());
        let mut response =
            self.agent.post(&self.url).content_type("application/json").send(body.to_string()).map_err(unknown)?;
        let text = response.body_mut().read_to_string().map_err(unknown)?;
        let answer = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        Ok((response.status().as_u16(), answer))
    }
}

impl TestedDatabase for HttpSession {
    fn ask(&mut self, ask: ClientRequest<'_>) -> Result<ClientAnswer, AnswerError> {
        let (status, answer) = self.post(&json!({ "parts": parts(ask) }))?;
        match (status, answer["code"].as_str().unwrap_or_default()) {
            (200, _) => Ok(told(ask, &answer)),
            (409, "condition_failed") => Ok(ClientAnswer::ConditionFailed(answer["position"].as_u64())),
            (409, "stale_lease") => Ok(ClientAnswer::Stale),
            (507, "no_space") => Err(AnswerError::Full),
            (503, "failed") => Err(AnswerError::Failed(answer.to_string())),
            (500, "io") => Err(AnswerError::Refused(answer.to_string())),
            _ => panic!("{ask:?} was answered {status}: {answer}"),
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
