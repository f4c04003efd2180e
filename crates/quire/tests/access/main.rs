//! Users, API keys, roles and rules through the public API: what stays after a restart, a
//! checkpoint and a compaction, what the audit store holds, and what other openings see.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quire::events::{
    Append, Attempts, Condition, EventPosition, NewEvent, PutSubscription, Query, QueryItem, ReadOptions,
    SaveProjection, Upstream,
};
use quire::system::{AccessRule, Command, RulePattern, RuleSubject, ScramCredential, ScramMechanism};
use quire::{
    ACCESS_CHANGED, AUDIT_STORE, AuditAuthor, Commit, CommitRefusal, Database, Durability, ErrorKind, Guard, Message,
    NewApiKey, NewJob, NewPassword, Operation, Permissions, Reason, Reply, Resource, ResourceKind, events,
    scram_credential, system,
};

fn open(directory: &Path) -> Database {
    Database::builder(directory).durability(Durability::Os).open().unwrap()
}

fn reads_orders() -> AccessRule {
    AccessRule::allow(Operation::Read, ResourceKind::Topic, RulePattern::Literal("orders".to_owned()))
}

fn ann() -> RuleSubject {
    RuleSubject::Principal("ann".to_owned())
}

const ORDERS: Resource<'static> = Resource::new(ResourceKind::Topic, "orders");

fn an_hour() -> NewApiKey<'static> {
    NewApiKey { lifetime: Some(Duration::from_secs(3_600)), ..NewApiKey::default() }
}

/// The audit events, as text.
fn audited(database: &Database) -> Vec<String> {
    let changed = Query::from(QueryItem::new().event_type(ACCESS_CHANGED));
    let read = database.events(AUDIT_STORE).read(&changed, ReadOptions::default()).unwrap();
    read.events.into_iter().map(|event| String::from_utf8(event.data).unwrap()).collect()
}

#[test]
fn users_keys_and_rules_are_the_same_after_a_replay_a_checkpoint_and_a_compaction() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    assert!(!database.access().rules().is_enabled());
    let root = database.access().init("root").unwrap();
    database.access().put_role("clerk", &[reads_orders()]).unwrap();
    database.access().create_user("ann", &["clerk"]).unwrap();
    let key = database.access().create_key("ann", an_hour()).unwrap();
    let dropped = database.access().create_key("ann", an_hour()).unwrap();
    database.access().drop_key(dropped.id()).unwrap();
    let expected = database.access().list().unwrap();

    let check = |database: &Database| {
        let access = database.access();
        assert_eq!(access.list().unwrap(), expected);
        assert!(access.rules().is_enabled());
        let (root, ann) = (access.verify_key(root.reveal()).unwrap(), access.verify_key(key.reveal()).unwrap());
        assert!(access.rules().allows(&root, Operation::Alter, Resource::ACCESS));
        assert!(access.rules().allows(&ann, Operation::Read, ORDERS));
        assert!(!access.rules().allows(&ann, Operation::Write, ORDERS));
        assert_eq!(access.verify_key(dropped.reveal()), None);
        assert_eq!(access.verify_key("qk_"), None);
    };
    check(&database);
    drop(database);
    // Closing saved a checkpoint.
    let database = open(directory.path());
    check(&database);
    database.checkpoint().unwrap();
    database.compact().unwrap();
    drop(database);
    check(&open(directory.path()));
}

#[test]
fn each_change_has_its_audit_event_and_a_refused_one_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let key = database.access().init("root").unwrap();
    let author = AuditAuthor { principal: "root", key: Some("key1"), address: Some("::1"), protocol: "http" };
    let access = database.access().by(author);
    access.add_rule(&ann(), &reads_orders()).unwrap();
    let commands = [Command::CreateUser { user: "bob", roles: &[] }, Command::DropUser { user: "cem" }];
    assert_eq!(access.change(&commands).unwrap_err().kind(), ErrorKind::Refused);
    assert!(access.list().unwrap().user("bob").is_none());
    let events = audited(&database);
    assert_eq!(events.len(), 4, "{events:?}");
    assert!(events[0].contains(r#""operation":"create_user","thing":"user root: roles admin","outcome":"done""#));
    assert!(events[1].contains(&format!(r#""thing":"key {} of user root""#, key.id())));
    assert!(events[2].contains(r#""principal":"owner""#) && events[2].contains("enable_access"));
    let rule = r#"{"principal":"root","key":"key1","address":"::1","protocol":"http","operation":"add_rule","thing":"principal ann: allow read on topic orders","outcome":"done"}"#;
    assert_eq!(events[3], rule);
    let secret = std::str::from_utf8(key.secret()).unwrap();
    assert!(events.iter().all(|event| !event.contains(secret)));
}

#[test]
fn a_change_by_another_opening_is_seen_at_the_next_check() {
    let directory = tempfile::tempdir().unwrap();
    let (server, tool) = (open(directory.path()), open(directory.path()));
    tool.access().init("root").unwrap();
    tool.access().create_user("ann", &[]).unwrap();
    let key = tool.access().create_key("ann", an_hour()).unwrap();
    let principal = server.access().verify_key(key.reveal()).expect("the key is valid");
    let may = || server.access().rules().allows(&principal, Operation::Read, ORDERS);
    assert!(!may());
    assert!(tool.access().add_rule(&ann(), &reads_orders()).unwrap());
    assert!(may());
    assert!(!tool.access().add_rule(&ann(), &reads_orders()).unwrap());
    let before = server.access().rules();
    assert!(tool.access().remove_rule(&ann(), &reads_orders()).unwrap());
    assert!(!may());
    assert!(before.allows(&principal, Operation::Read, ORDERS), "a set that a reader holds never changes");
    tool.access().drop_key(key.id()).unwrap();
    assert_eq!(server.access().verify_key(key.reveal()), None);
    tool.access().disable().unwrap();
    assert!(!server.access().rules().is_enabled());
}

#[test]
fn a_key_expires_and_only_administrators_have_keys_without_an_end() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let access = database.access();
    access.create_user("ann", &[]).unwrap();
    let refused = access.create_key("ann", NewApiKey::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    let over = NewApiKey { lifetime: Some(Duration::ZERO), ..NewApiKey::default() };
    let key = access.create_key("ann", over).unwrap();
    assert_eq!(access.verify_key(key.reveal()), None);
}

#[test]
fn a_password_replaces_the_one_before_with_all_its_mechanisms_and_leaves_with_an_audit_event() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let access = database.access();
    access.create_user("ann", &[]).unwrap();
    let held = || ScramMechanism::ALL.map(|mechanism| access.rules().scram("ann", mechanism).cloned());
    let holds = |password: &str| {
        let holds = |credential: ScramCredential| {
            let ScramCredential { mechanism, iterations, ref salt, .. } = credential;
            scram_credential(mechanism, password, salt.clone(), iterations) == credential
        };
        held().map(|credential| credential.map(holds))
    };
    access.set_password("ann", "first", NewPassword::default()).unwrap();
    assert_eq!(holds("first"), [Some(true), Some(true)]);
    let [first, _] = held();
    access.set_password("ann", "first", NewPassword::default()).unwrap();
    assert_ne!(held()[0], first, "the same password gets another salt");
    let one = NewPassword { mechanisms: &[ScramMechanism::Sha512], iterations: 5_000 };
    access.set_password("ann", "second", one).unwrap();
    assert_eq!(holds("second"), [None, Some(true)]);
    assert_eq!(held()[1].as_ref().map(|credential| credential.iterations), Some(5_000));
    assert!(access.drop_password("ann").unwrap());
    assert!(!access.drop_password("ann").unwrap());
    assert_eq!(held(), [None, None]);
    let events = audited(&database).join("\n");
    assert!(events.contains(r#""operation":"put_scram","thing":"SCRAM-SHA-512 of user ann""#), "{events}");
    assert!(events.contains(r#""operation":"drop_scram","thing":"SCRAM-SHA-512 of user ann""#), "{events}");
    assert!(!events.contains("second"), "{events}");
}

#[test]
fn a_password_that_clients_would_send_in_several_forms_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let access = database.access();
    access.create_user("ann", &[]).unwrap();
    let set = |password: &str, new| access.set_password("ann", password, new).map_err(|error| error.to_string());
    let usual = NewPassword::default();
    for (password, problem) in [
        ("", "is empty"),
        ("gr\u{fc}n", "not printable ASCII"),
        ("a\tb", "not printable ASCII"),
        ("qk_mine", "begins with qk_, as API keys do"),
        (&"a".repeat(1_025), "has 1025 bytes, at most 1024"),
    ] {
        let error = set(password, usual).unwrap_err();
        assert!(error.contains(problem) && (password.is_empty() || !error.contains(password)), "{error}");
    }
    assert!(set("long enough", NewPassword { mechanisms: &[], ..usual }).unwrap_err().contains("mechanism"));
    for iterations in [4_095, 16_385, u32::MAX] {
        let error = set("long enough", NewPassword { iterations, ..usual }).unwrap_err();
        assert!(error.contains("must be 4096 to 16384, got"), "{error}");
    }
    let unknown = access.set_password("bob", "long enough", usual).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Refused);
    set(" ~", usual).unwrap();
}

/// Other programs can read the files of a database that never used access control.
#[test]
fn a_database_without_users_has_no_entry_of_the_model() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    database.events("orders").append([NewEvent::new("Placed")]).unwrap();
    assert!(database.access().list().unwrap().is_unused());
    assert_eq!(audited(&database), Vec::<String>::new());
    let without = database.published();
    database.access().rules();
    assert_eq!(database.published(), without);
}

/// Every form of a change of the audit store, as embedded programs, servers and imports commit it.
#[test]
fn nobody_but_the_database_changes_the_audit_store_or_takes_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    let store = AUDIT_STORE;
    let append = |events, conditions| events::Command::Append(Append { store, events, conditions });
    let forged = || append(vec![NewEvent::new(ACCESS_CHANGED)], Vec::new());
    let save = SaveProjection {
        store,
        name: "sum",
        version: 1,
        base: EventPosition::new(0),
        position: EventPosition::new(0),
        state: b"1",
    };
    let changes = || {
        [
            forged(),
            events::Command::Upstream(Upstream { store, source: "other", position: 1 }),
            events::Command::Trim { store, up_to: EventPosition::new(1) },
            events::Command::Forget { store, tag: b"tag" },
            events::Command::SetRetention { store, retention_ms: Some(1) },
            events::Command::SaveProjection(save),
            events::Command::DropProjection { store, name: "sum" },
        ]
    };
    let check = |database: &Database| {
        let before = audited(database);
        for change in changes() {
            let commit = Commit::new().append("orders", [NewEvent::new("Placed")]).part(change);
            let refused = database.commit(&commit).unwrap().refused().expect("refused");
            let expected = events::Refusal::ReservedStore { store: store.to_owned() };
            assert_eq!(refused, CommitRefusal { part: 1, reason: Reason::Events(expected) });
        }
        // A produce of a Kafka client creates the topic of this name.
        let named = [
            Commit::new().produce("quire.audit", Message::new("forged")),
            Commit::new().append("quire.audit", [NewEvent::new("Forged")]),
        ];
        for commit in named {
            let refused = database.commit(&commit).unwrap().refused().expect("refused");
            assert!(refused.to_string().contains("event store \"quire/audit\""), "{refused}");
        }
        assert_eq!(audited(database), before);
        assert_eq!(database.events("orders").head().unwrap(), EventPosition::new(0), "all parts or none");
    };
    check(&database);
    database.access().init("root").unwrap();
    check(&database);
    // Reads, conditions and deliveries to a queue stay possible.
    let query = Query::from(QueryItem::new().event_type(ACCESS_CHANGED));
    let condition = append(Vec::new(), vec![Condition::fail_if_matches_after(query.clone(), EventPosition::new(3))]);
    database.commit(&Commit::new().part(condition)).unwrap().committed().unwrap();
    let subscription = PutSubscription { store, name: "alarms", query, after: None, attempts: Attempts::default() };
    let subscribe = Commit::new().part(events::Command::PutSubscription(subscription));
    database.commit(&subscribe).unwrap().committed().unwrap();
    // And the next change of access has its event, also where no further store may be created.
    drop(database);
    let database = Database::builder(directory.path()).durability(Durability::Os).stores_max(1).open().unwrap();
    database.access().create_user("ann", &[]).unwrap();
    assert_eq!(audited(&database).len(), 4);
}

#[test]
fn a_refused_change_names_its_part_and_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    database.access().create_user("ann", &[]).unwrap();
    let create = || Command::CreateUser { user: "ann", roles: &[] };
    let bob = || Command::CreateUser { user: "bob", roles: &[] };
    let reason = Reason::System(system::Refusal::UserExists { user: "ann".to_owned() });

    let refused = database.access().change(&[bob(), create()]).unwrap_err();
    assert_eq!(refused.to_string(), "the user ann already exists");
    assert_eq!(refused.refusal(), Some(&CommitRefusal { part: 1, reason: reason.clone() }));

    let commit = |first: Command<'static>| {
        Commit::new().part(first).append("orders", [NewEvent::new("Placed")]).part(Command::DropUser { user: "ann" })
    };
    let refused = database.commit(&commit(create())).unwrap().refused().expect("refused");
    assert_eq!(refused, CommitRefusal { part: 0, reason });
    let committed = database.commit(&commit(bob())).unwrap().committed().unwrap();
    let changed = Reply::System(system::Reply { is_changed: true });
    assert_eq!([&committed.replies[0], &committed.replies[2]], [&changed, &changed]);
    assert_eq!(audited(&database).len(), 3, "one event each");

    let keyed = commit(create()).idempotency_key("key");
    assert_eq!(database.commit(&keyed).unwrap_err().kind(), ErrorKind::Invalid);
}

/// Everything is permitted to this client.
#[derive(Debug)]
struct Everything;

impl Permissions for Everything {
    fn permits(&self, _: Resource<'_>, _: Operation) -> bool {
        true
    }

    fn denies(&self, _: Resource<'_>, _: Operation) -> bool {
        false
    }

    fn permits_every(&self, _: ResourceKind, _: Operation) -> bool {
        true
    }

    fn permits_any(&self, _: ResourceKind, _: Operation) -> bool {
        true
    }
}

#[test]
fn only_the_owner_of_the_directory_disables_access_control() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    database.access().init("root").unwrap();
    let of_client = database.guarded(Arc::new(Guard::new(Arc::new(Everything))));
    of_client.access().create_user("ann", &[]).unwrap();
    let refused = of_client.access().disable().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotPermitted);
    assert!(database.access().rules().is_enabled());
    database.access().disable().unwrap();
    assert!(!of_client.access().rules().is_enabled());
}

/// Permissions that can't be read.
#[derive(Debug)]
struct UnreadableRights;

impl Permissions for UnreadableRights {
    fn permits(&self, _: Resource<'_>, _: Operation) -> bool {
        true
    }

    fn denies(&self, _: Resource<'_>, _: Operation) -> bool {
        false
    }

    fn permits_every(&self, _: ResourceKind, _: Operation) -> bool {
        true
    }

    fn permits_any(&self, _: ResourceKind, _: Operation) -> bool {
        true
    }

    fn refresh(&self) -> quire::Result<()> {
        Err(quire::Error::new(ErrorKind::Failed, "the log has failed"))
    }
}

#[test]
fn a_client_whose_permissions_can_not_be_read_gets_the_reason_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let database = open(directory.path());
    database.queue("q").enqueue(NewJob::new("job")).unwrap();
    let of_client = database.guarded(Arc::new(Guard::new(Arc::new(UnreadableRights))));
    let failed = |error: quire::Error| {
        assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Failed, "the log has failed"))
    };
    failed(of_client.queue("q").stats().unwrap_err());
    failed(of_client.queue("q").enqueue(NewJob::new("job")).unwrap_err());
    failed(of_client.queue("q").fetch("w", 1).unwrap_err());
    failed(of_client.access().list().unwrap_err());
    assert_eq!(database.queue("q").stats().unwrap().unwrap().pending, 1);
}
