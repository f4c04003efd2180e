//! `GET /v1/refusals`: the last refused commits, and which clients see them.

use quire::system::{AccessRule, RulePattern};
use quire::{Commit, NewJob, Operation, Resource, ResourceKind};
use serde_json::{Value, json};

use crate::access::{ask, user};
use crate::served::Served;

/// A commit whose second part fails its condition from the second time on.
fn register(store: &str) -> Value {
    let taken = json!({"items": [{"types": ["Registered"], "tags": ["username:ada"]}]});
    json!({"parts": [
        {"enqueue": {"queue": "mails", "payload": "a secret"}},
        {"append": {
            "store": store,
            "events": [{"type": "Registered", "tags": ["username:ada"], "data": "a secret"}],
            "conditions": [{"fail_if_events_match": taken}],
        }},
    ]})
}

#[test]
fn the_last_refused_commits_are_listed_with_their_reasons_and_without_data() {
    let served = Served::new();
    assert_eq!(served.read("/v1/refusals")["data"], json!([]));
    served.write("/v1/commit", register("accounts"));
    let mut problem = served.fails("POST", "/v1/commit", &register("accounts").to_string(), 409, "condition_failed");
    served.fails("POST", "/v1/commit?dry_run=true", &register("accounts").to_string(), 409, "condition_failed");
    served.fails("POST", "/v1/queues/%20/jobs", "{}", 400, "invalid_name");
    served.fails("POST", "/v1/jobs/9-0/ack", r#"{"token": "9-0"}"#, 409, "unknown_job");
    let page = served.get("/v1/refusals");
    assert!(!page.text.contains("secret"), "{page:?}");
    let refusals = page.json()["data"].clone();
    let of = |field: &str| -> Vec<Value> {
        refusals.as_array().expect("a list").iter().map(|one| one[field].clone()).collect()
    };
    assert_eq!(of("number"), [3, 2, 1]);
    problem.as_object_mut().expect("an object").remove("request_id");
    assert_eq!(refusals[2]["problem"], problem, "what the client got");
    assert_eq!(refusals[2]["problem"]["part"], 1);
    assert_eq!(refusals[2]["resources"], json!([{"kind": "store", "name": "accounts"}]));
    assert_eq!(refusals[0]["resources"], json!([{"kind": "admin", "name": "database"}]), "no job, so no queue");
    assert!(refusals[0]["time_ms"].as_u64().expect("a time") >= refusals[2]["time_ms"].as_u64().expect("a time"));
}

#[test]
fn commits_of_programs_are_listed_and_at_most_200() {
    let served = Served::new();
    let database = served.database.as_ref().expect("it is open");
    for _ in 0..205 {
        let _ = database.commit(&Commit::new().enqueue("no queue", NewJob::new(""))).expect("decided");
    }
    let refusals = served.read("/v1/refusals");
    let numbers =
        refusals["data"].as_array().expect("a list").iter().map(|one| one["number"].as_u64().expect("a number"));
    assert_eq!(numbers.collect::<Vec<_>>(), (6..=205).rev().collect::<Vec<_>>());
}

#[test]
fn a_client_sees_the_refusals_of_what_it_may_read() {
    let served = Served::new();
    for store in ["acme/accounts", "zebra/accounts"] {
        served.write("/v1/commit", register(store));
        served.fails("POST", "/v1/commit", &register(store).to_string(), 409, "condition_failed");
    }
    served.database.as_ref().expect("it is open").access().init("root").expect("enabled");
    let describes = AccessRule::allow(
        Operation::Describe,
        Resource::DATABASE.kind,
        RulePattern::Literal(Resource::DATABASE.name.to_owned()),
    );
    let own = AccessRule::allow(Operation::All, ResourceKind::Space, RulePattern::Literal("acme".to_owned()));
    let operator = user(&served, "operator", [describes.clone(), own.clone()]);
    let answer = ask(&served, "get", "/v1/refusals", "", &operator);
    assert!(answer.text.contains("acme/accounts") && !answer.text.contains("zebra"), "{answer:?}");
    let monitor = user(&served, "monitor", [describes]);
    assert_eq!(ask(&served, "get", "/v1/refusals", "", &monitor).json()["data"], json!([]));
    let tenant = user(&served, "tenant", [own]);
    assert_eq!(ask(&served, "get", "/v1/refusals", "", &tenant).status, 403);
}
