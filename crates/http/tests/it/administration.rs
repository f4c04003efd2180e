//! Administration of access over HTTP: who may do it, and what each route does.

use quire::events::{Attempts, PutSubscription, Query, QueryItem, ReadOptions};
use quire::system::{AccessRule, Command, RulePattern, RuleSubject};
use quire::{ACCESS_CHANGED, AUDIT_STORE, Operation, Resource, ResourceKind};
use serde_json::{Value, json};

use crate::served::{Served, whole};

/// Each route of administration: its method, its path, a body, and whether it changes anything.
fn routes() -> Vec<(&'static str, &'static str, Value, bool)> {
    let rule = "/v1/access/rules?subject=everyone&rule=allow%20read%20on%20topic%20t";
    vec![
        ("GET", "/v1/access/users", Value::Null, false),
        ("POST", "/v1/access/users", json!({"user": "bob"}), true),
        ("POST", "/v1/access/users/bob", json!({"enabled": false}), true),
        ("DELETE", "/v1/access/users/bob", Value::Null, true),
        ("POST", "/v1/access/users/bob/password", json!({"password": "correct horse"}), true),
        ("DELETE", "/v1/access/users/bob/password", Value::Null, true),
        ("GET", "/v1/access/keys", Value::Null, false),
        ("POST", "/v1/access/keys", json!({"user": "bob", "lifetime_ms": 1000}), true),
        ("POST", "/v1/access/keys/0123456789", json!({"enabled": false}), true),
        ("DELETE", "/v1/access/keys/0123456789", Value::Null, true),
        ("GET", "/v1/access/roles", Value::Null, false),
        ("POST", "/v1/access/roles/clerk", json!({"rules": []}), true),
        ("DELETE", "/v1/access/roles/clerk", Value::Null, true),
        ("GET", "/v1/access/rules", Value::Null, false),
        ("POST", "/v1/access/rules", json!({"subject": "everyone", "rule": "allow read on topic t"}), true),
        ("DELETE", rule, Value::Null, true),
    ]
}

fn body(value: &Value) -> String {
    if value.is_null() { String::new() } else { value.to_string() }
}

/// A server with access control, whose client has these operations on the administration of it, and
/// no other rights.
fn administered(operations: &[Operation]) -> Served {
    Served::with_access(|access| {
        access.create_user("client", &[]).expect("created");
        let access_only = RulePattern::Literal(Resource::ACCESS.name.to_owned());
        for operation in operations {
            let rule = AccessRule::allow(*operation, ResourceKind::Admin, access_only.clone());
            access.add_rule(&client(), &rule).expect("added");
        }
    })
}

fn client() -> RuleSubject {
    RuleSubject::Principal("client".to_owned())
}

fn audited(served: &Served) -> Vec<String> {
    let changed = Query::from(QueryItem::new().event_type(ACCESS_CHANGED));
    let database = served.database.as_ref().expect("open");
    let read = database.events(AUDIT_STORE).read(&changed, ReadOptions::default()).expect("readable");
    read.events.into_iter().map(|event| String::from_utf8(event.data).expect("text")).collect()
}

#[test]
fn every_route_of_administration_is_on_the_list() {
    let description: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).expect("JSON");
    let paths = description["paths"].as_object().expect("paths");
    let of_access = paths.iter().filter(|(path, _)| path.starts_with("/v1/access/"));
    let operations = of_access.flat_map(|(_, methods)| methods.as_object().expect("methods").keys());
    assert_eq!(operations.count(), routes().len() + 3, "and `self`, `init` and `check`");
}

#[test]
fn without_access_control_only_a_client_on_this_machine_creates_the_first_administrator() {
    let served = Served::new();
    for (method, path, request, _) in routes() {
        served.fails(method, path, &body(&request), 409, "access_disabled");
    }
    let nobody = json!({"enabled": false, "principal": null, "key": null});
    assert_eq!(served.read("/v1/access/self"), nobody);
    assert_eq!(audited(&served), Vec::<String>::new());

    // A proxy on this machine makes every client local.
    let request = r#"{"user":"eve"}"#;
    for header in ["X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1", "Via: 1.1 proxy"] {
        let head = served.head("POST", "/v1/access/init", request.len(), &format!("Connection: close\r\n{header}\r\n"));
        let refused = served.send((head + request).as_bytes());
        assert_eq!((refused.status, &refused.json()["code"]), (403, &json!("not_permitted")), "{header}");
    }

    let answer = served.post("/v1/access/init", json!({"user": "root"}));
    assert!(answer.head.contains("cache-control: no-store\r\n"), "{answer:?}");
    let created = answer.json();
    assert_eq!(created["user"], "root");
    let database = served.database.as_ref().expect("open");
    let principal = database.access().verify_key(created["key"].as_str().expect("a key")).expect("valid");
    assert_eq!(
        (&*principal.name, principal.key.map(|id| id.to_string())),
        ("root", created["id"].as_str().map(str::to_owned))
    );
    let events = audited(&served);
    assert_eq!(events.len(), 3);
    let by = r#"{"principal":"anonymous","address":"127.0.0.1:"#;
    assert!(events.iter().all(|event| event.starts_with(by) && event.contains(r#""protocol":"http""#)), "{events:?}");

    // A second administrator of this kind is refused, and everything else needs a key.
    let second = served.post("/v1/access/init", json!({"user": "eve"}));
    assert!(matches!(second.status, 401 | 409), "{second:?}");
    served.fails("GET", "/v1/access/self", "", 401, "unauthenticated");
    for (method, path, request, _) in routes() {
        served.fails(method, path, &body(&request), 401, "unauthenticated");
    }
    assert_eq!(audited(&served).len(), 3);
}

#[test]
fn a_client_without_the_operation_on_access_is_refused_on_each_route() {
    for (operations, may_read, may_change) in
        [(&[][..], false, false), (&[Operation::Describe], true, false), (&[Operation::Alter], true, true)]
    {
        let served = administered(operations);
        for (method, path, request, changes) in routes() {
            let answer = served.ask(method, path, &body(&request));
            let is_permitted = if changes { may_change } else { may_read };
            let problem = answer.json();
            assert_eq!(answer.status == 403, !is_permitted, "{method} {path} with {operations:?}: {problem}");
            if !is_permitted {
                assert_eq!(problem["code"], "not_permitted");
                assert_eq!((&problem["kind"], &problem["name"]), (&json!("admin"), &json!("access")));
            }
        }
    }
}

#[test]
fn users_keys_roles_and_rules_are_changed_and_listed() {
    let served = administered(&[Operation::Describe, Operation::Alter]);
    let changed = json!({"changed": true});
    let rule = "allow read on topic orders";
    assert_eq!(served.write("/v1/access/roles/clerk", json!({"rules": [rule]})), changed);
    assert_eq!(served.write("/v1/access/users", json!({"user": "ann", "roles": ["clerk"]})), changed);
    let key =
        served.write("/v1/access/keys", json!({"user": "ann", "lifetime_ms": 60_000, "rules": [rule], "note": "n"}));
    let id = key["id"].as_str().expect("an id");
    assert_eq!(served.write("/v1/access/users/ann", json!({"enabled": false})), changed);
    assert_eq!(served.write("/v1/access/users/ann", json!({"enabled": false})), json!({"changed": false}));
    let granted = json!({"subject": "principal ann", "rule": "deny all on store prefix pay/"});
    assert_eq!(served.write("/v1/access/rules", &granted), changed);

    let users = served.read("/v1/access/users");
    let ann = json!({"user": "ann", "enabled": false, "roles": ["clerk"], "passwords": []});
    let client = json!({"user": "client", "enabled": true, "roles": [], "passwords": []});
    let root = json!({"user": "root", "enabled": true, "roles": ["admin"], "passwords": []});
    assert_eq!(users, whole(json!([ann, client, root])));
    let keys = served.read("/v1/access/keys");
    let listed = keys["data"].as_array().expect("a list").iter().find(|key| key["id"] == id).expect("listed");
    assert_eq!((&listed["rules"], &listed["note"], &listed["enabled"]), (&json!([rule]), &json!("n"), &json!(true)));
    assert!(listed["expires_ms"].is_number() && listed.get("key").is_none(), "{listed}");
    let roles = served.read("/v1/access/roles");
    let clerk = json!({"role": "clerk", "built_in": false, "rules": [rule]});
    assert_eq!(roles["data"].as_array().map(Vec::len), Some(7));
    assert_eq!(roles["data"][6], clerk);
    let rules = served.read("/v1/access/rules")["data"].clone();
    assert_eq!(rules[0], granted);
    assert_eq!(rules[1], json!({"subject": "principal client", "rule": "allow alter on admin access"}));

    let removed = "/v1/access/rules?subject=principal%20ann&rule=deny%20all%20on%20store%20prefix%20pay/";
    assert_eq!(served.ask("DELETE", removed, "").json(), changed);
    assert_eq!(served.write(&format!("/v1/access/keys/{id}"), json!({"enabled": false})), changed);
    assert_eq!(served.ask("DELETE", &format!("/v1/access/keys/{id}"), "").json(), changed);
    assert_eq!(served.ask("DELETE", "/v1/access/users/ann", "").json(), changed);
    assert_eq!(served.ask("DELETE", "/v1/access/roles/clerk", "").json(), changed);
    assert_eq!(served.read("/v1/access/users"), whole(json!([client, root])));
    // No event has a secret.
    let secret = &key["key"].as_str().expect("a key")[14..];
    assert!(audited(&served).iter().all(|event| !event.contains(secret)));
}

#[test]
fn a_refused_change_has_its_code_and_its_facts() {
    let served = administered(&[Operation::Describe, Operation::Alter]);
    let unknown = served.fails("DELETE", "/v1/access/users/ann", "", 409, "unknown_user");
    assert_eq!((&unknown["user"], unknown.get("part")), (&json!("ann"), None));
    served.fails("POST", "/v1/access/users", r#"{"user": "root"}"#, 409, "user_exists");
    served.fails("POST", "/v1/access/users", r#"{"user": "ann", "roles": ["clerk"]}"#, 409, "unknown_role");
    served.fails("POST", "/v1/access/roles/admin", r#"{"rules": []}"#, 409, "built_in_role");
    served.fails("POST", "/v1/access/users/root", "{}", 400, "invalid");
    served.fails("DELETE", "/v1/access/keys/short", "", 400, "invalid");
    served.fails("DELETE", "/v1/access/keys/0123456789", "", 409, "unknown_key");
    served.fails("DELETE", "/v1/access/rules", "", 400, "invalid");
    let wrong = r#"{"subject": "ann", "rule": "allow read on topic t"}"#;
    let wrong = served.fails("POST", "/v1/access/rules", wrong, 400, "invalid");
    assert_eq!(wrong["field"], "subject");
    let detail = wrong["detail"].as_str().expect("a message");
    assert!(detail.contains("expected everyone, principal NAME or role NAME"), "{detail}");
    served.write("/v1/access/users", json!({"user": "bob"}));
    served.fails("POST", "/v1/access/keys", r#"{"user": "bob"}"#, 400, "expiry_required");
    // Nobody writes audit events.
    let forged = r#"{"events": [{"type": "AccessChanged"}]}"#;
    served.fails("POST", "/v1/events/quire%2Faudit/append", forged, 403, "not_permitted");
    let open = Served::new();
    let refused = open.fails("POST", "/v1/events/quire%2Faudit/append", forged, 403, "reserved_store");
    assert_eq!(refused["store"], "quire/audit");
}

/// A right: the kind and the name of the resource, and the operation.
type Right = (ResourceKind, &'static str, Operation);

/// Each part of a commit, and the rights that it needs.
fn parts(job: &str) -> Vec<(Value, Vec<Right>)> {
    use Operation::{Alter, AlterConfigs, Create, Delete, Read, Write};
    use ResourceKind::{Admin, Graph, Group, Queue, Store, Topic};
    let leased = json!({"job": job, "token": "9-0"});
    let with = |fields: Value| {
        let mut all = leased.clone();
        all.as_object_mut().expect("fields").extend(fields.as_object().expect("fields").clone());
        all
    };
    let edge = json!({"graph": "g", "source": "a", "type": "t", "target": "b"});
    vec![
        (json!({"append": {"store": "s", "events": [{"type": "A"}]}}), vec![(Store, "s", Write)]),
        (json!({"upstream": {"store": "s", "source": "x", "position": 1}}), vec![(Store, "s", Write)]),
        (json!({"trim_events": {"store": "s", "up_to": 1}}), vec![(Store, "s", Delete)]),
        (json!({"forget_tag": {"store": "s", "tag": "t"}}), vec![(Store, "s", Delete)]),
        (json!({"retain_events": {"store": "s"}}), vec![(Store, "s", Alter)]),
        (
            json!({"put_subscription": {"store": "s", "name": "other"}}),
            vec![(Store, "s", Alter), (Store, "s", Read), (Queue, "other", Write)],
        ),
        (json!({"drop_subscription": {"name": "mails"}}), vec![(Store, "s", Alter)]),
        (json!({"save_projection": {"store": "s", "name": "p", "position": 1}}), vec![(Store, "s", Alter)]),
        (json!({"drop_projection": {"store": "s", "name": "p"}}), vec![(Store, "s", Alter)]),
        (json!({"produce": {"topic": "t", "value": 1}}), vec![(Topic, "t", Write)]),
        (json!({"create_topic": {"name": "new", "partitions": 1}}), vec![(Topic, "new", Create)]),
        (json!({"delete_topic": {"topic": "t"}}), vec![(Topic, "t", Delete)]),
        (json!({"alter_topic": {"topic": "t", "settings": {}}}), vec![(Topic, "t", AlterConfigs)]),
        (json!({"delete_records": {"topic": "t", "partition": 0}}), vec![(Topic, "t", Delete)]),
        (
            json!({"commit_offset": {"group": "g", "topic": "t", "partition": 0, "offset": 0}}),
            vec![(Group, "g", Read), (Topic, "t", Read)],
        ),
        (
            json!({"delete_offset": {"group": "g", "topic": "t", "partition": 0}}),
            vec![(Group, "g", Delete), (Topic, "t", Read)],
        ),
        (json!({"delete_group": {"group": "g"}}), vec![(Group, "g", Delete)]),
        (
            json!({"protect_unread": {"group": "g", "topic": "t", "protects": true}}),
            vec![(Group, "g", Read), (Topic, "t", AlterConfigs)],
        ),
        (json!({"enqueue": {"queue": "q"}}), vec![(Queue, "q", Write)]),
        (json!({"fetch": {"queues": ["q"]}}), vec![(Queue, "q", Read)]),
        (json!({"ack": leased}), vec![(Queue, "q", Read)]),
        (json!({"fail": with(json!({"error": "e"}))}), vec![(Queue, "q", Read)]),
        (json!({"snooze": with(json!({"delay_ms": 1}))}), vec![(Queue, "q", Read)]),
        (json!({"heartbeat": leased}), vec![(Queue, "q", Read)]),
        (json!({"change": {"job": job, "change": {"priority": 1}}}), vec![(Queue, "q", Alter)]),
        (json!({"set_queue": {"queue": "q", "set": {"paused": false}}}), vec![(Queue, "q", Alter)]),
        (json!({"clear": {"queue": "q"}}), vec![(Queue, "q", Delete)]),
        (json!({"destroy": {"queue": "q"}}), vec![(Queue, "q", Delete)]),
        (json!({"bulk": {"filter": {"queue": "q"}, "change": {"priority": 1}}}), vec![(Queue, "q", Alter)]),
        (json!({"each": []}), Vec::new()),
        (json!({"tick": {}}), vec![(Admin, "database", Alter)]),
        (json!({"put_block": {"graph": "g", "block": "b", "kind": "k"}}), vec![(Graph, "g", Write)]),
        (json!({"delete_block": {"graph": "g", "block": "b"}}), vec![(Graph, "g", Delete)]),
        (json!({"put_edge": edge}), vec![(Graph, "g", Write)]),
        (json!({"delete_edge": edge}), vec![(Graph, "g", Delete)]),
        (json!({"delete_edges": {"graph": "g", "block": "b", "count_max": 1}}), vec![(Graph, "g", Delete)]),
        (json!({"retain_graph": {"graph": "g"}}), vec![(Graph, "g", Alter)]),
        (json!({"trim_graph": {"graph": "g", "from": 1}}), vec![(Graph, "g", Delete)]),
    ]
}

/// A part with exactly the rights of the page is decided; with one right less it is refused, and
/// nothing changes.
#[test]
fn each_part_of_a_commit_needs_the_rights_of_the_page() {
    let page = include_str!("../../../../docs/rights.md");
    let served = Served::with_access(|access| access.create_user("client", &[]).expect("created"));
    let database = served.database.as_ref().expect("open");
    let give = |rights: &[Right]| {
        let given = database.access().list().expect("listed");
        let old: Vec<_> = given.rules().map(|(_, rule)| rule.clone()).collect();
        let rule = |(kind, name, operation): &Right| {
            AccessRule::allow(*operation, *kind, RulePattern::Literal((*name).to_owned()))
        };
        let (subject, new) = (client(), rights.iter().map(rule).collect::<Vec<_>>());
        let removed = old.iter().map(|rule| Command::RemoveRule { subject: &subject, rule });
        let added = new.iter().map(|rule| Command::AddRule { subject: &subject, rule });
        let commands: Vec<_> = removed.chain(added).collect();
        database.access().change(&commands).expect("changed");
    };
    let (store, name, query) = ("s", "mails", Query::all());
    let subscription = PutSubscription { store, name, query, after: None, attempts: Attempts::default() };
    let setup = quire::Commit::new()
        .enqueue("q", quire::NewJob::new(""))
        .produce("t", quire::Message::new("m"))
        .part(quire::events::Command::PutSubscription(subscription));
    let done = database.commit(&setup).expect("durable").committed().expect("accepted");
    let enqueued = done.replies.iter().find_map(|reply| match reply {
        quire::Reply::Jobs(quire::jobs::Reply::Enqueued { job, .. }) => Some(job.to_string()),
        _ => None,
    });

    for (part, needed) in parts(&enqueued.expect("a job")) {
        let name = part.as_object().and_then(|fields| fields.keys().next()).expect("a name").clone();
        let right = |(kind, name, operation): &Right| {
            let name = if *kind == ResourceKind::Admin { format!(" {name}") } else { String::new() };
            format!("`{operation}` on `{kind}{name}`")
        };
        let row = format!("| `{name}` | {}", needed.iter().map(right).collect::<Vec<_>>().join(", "));
        assert!(page.lines().any(|line| line.starts_with(row.trim_end())), "docs/rights.md has no row {row}");

        let commit = json!({"parts": [part]});
        let refused = || {
            let answer = served.post("/v1/commit", &commit).json();
            let code = answer["code"].as_str().unwrap_or_default().to_owned();
            (matches!(&*code, "not_permitted" | "unknown_job" | "unknown_subscription"), code)
        };
        for lacking in &needed {
            give(&needed.iter().filter(|right| *right != lacking).copied().collect::<Vec<_>>());
            let before = database.published();
            let (is_refused, code) = refused();
            assert!(is_refused, "{name} without {lacking:?}: {code}");
            assert_eq!(database.published(), before, "{name} without {lacking:?}");
        }
        // Parts that end the job or delete what others need are checked without them.
        if !matches!(&*name, "delete_topic" | "destroy" | "clear" | "drop_subscription") {
            give(&needed);
            let (is_refused, code) = refused();
            assert!(!is_refused, "{name} with {needed:?}: {code}");
        }
    }
}
