//! Tests of sessions and of the rights of their clients.

use std::time::Duration;

use quire::system::{AccessRule, Command, RulePattern, RuleSubject, ScramMechanism};
use quire::{
    Clock, ErrorKind, ManualClock, NewApiKey, NewJob, NewPassword, Operation, Resource, ResourceKind, Timestamp,
};

use super::*;

fn served() -> (tempfile::TempDir, Arc<ManualClock>, ServedDatabase) {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000)));
    let database =
        Database::builder(directory.path()).clock(Arc::clone(&clock) as Arc<dyn Clock>).open().expect("a database");
    database.queue("q").enqueue(NewJob::new("job")).expect("enqueued");
    (directory, clock, ServedDatabase::new(database))
}

fn stats(database: &Database) -> Result<bool, ErrorKind> {
    database.queue("q").stats().map(|found| found.is_some()).map_err(|error| error.kind())
}

fn may_describe(user: &str) -> (RuleSubject, AccessRule) {
    let rule = AccessRule::allow(Operation::Describe, ResourceKind::Queue, RulePattern::Literal("q".to_owned()));
    (RuleSubject::Principal(user.to_owned()), rule)
}

#[tokio::test]
async fn outside_of_a_session_nothing_is_permitted_and_an_open_server_permits_everything() {
    let (_directory, _, served) = served();
    assert_eq!(stats(&served.get()), Err(ErrorKind::NotPermitted));
    assert_eq!(stats(served.owner()), Ok(true));
    let open = served.session(&Credential::Absent).expect("access control is disabled");
    let seen = open.clone().scope(async { (stats(&served.get()), served.get().read(|_| ()).is_ok()) }).await;
    assert_eq!(seen, (Ok(true), true));
    let other = served.clone();
    let seen = open.scope(crate::aside(move || stats(&other.get()))).await;
    assert_eq!(seen, Ok(Ok(true)));
}

#[tokio::test]
async fn the_owner_is_not_checked_in_a_session_of_its_own_server() {
    let (_directory, _, served) = served();
    let owned = ServedDatabase::owned(served.owner().clone());
    served.owner().access().init("root").expect("initialised");
    assert_eq!(stats(&owned.get()), Err(ErrorKind::NotPermitted), "outside of a session");
    let session = owned.session(&Credential::Key("qk_wrong")).expect("no credential is needed");
    assert!(session.is_live() && session.is_of_owner() && !owned.is_access_enabled());
    assert_eq!(session.scope(async { stats(&owned.get()) }).await, Ok(true));
    assert_eq!(served.session(&Credential::Absent).err(), Some(AuthenticationError::Missing));
}

#[tokio::test]
async fn enabling_access_control_ends_open_sessions_and_their_waits() {
    let (_directory, _, served) = served();
    let open = served.session(&Credential::Absent).expect("open");
    let database = served.of(&open);
    let waiting = tokio::spawn({
        let (served, open) = (served.clone(), open.clone());
        async move { served.ended(&open).await }
    });
    let key = served.owner().access().init("root").expect("initialised");
    waiting.await.expect("it ends");
    assert_eq!((open.is_live(), stats(&database)), (false, Err(ErrorKind::NotPermitted)));
    assert_eq!(served.session(&Credential::Absent).err(), Some(AuthenticationError::Missing));
    assert_eq!(served.session(&Credential::Key("qk_none")).err(), Some(AuthenticationError::Wrong));
    let root = served.session(&Credential::Key(key.reveal())).expect("the key is valid");
    assert_eq!(stats(&served.of(&root)), Ok(true));
}

#[tokio::test]
async fn a_session_follows_the_rules_and_ends_with_its_key() {
    let (_directory, clock, served) = served();
    let access = served.owner().access();
    access.init("root").expect("initialised");
    access.create_user("ann", &[]).expect("created");
    let lifetime = Some(Duration::from_secs(60));
    let first = access.create_key("ann", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
    let second = access.create_key("ann", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
    let session = |text| served.session(&Credential::Key(text)).expect("a session");
    let (one, two) = (session(first.reveal()), session(second.reveal()));
    let (of_one, of_two) = (served.of(&one), served.of(&two));
    assert_eq!(stats(&of_one), Err(ErrorKind::NotPermitted));
    let (subject, rule) = may_describe("ann");
    access.add_rule(&subject, &rule).expect("added");
    assert_eq!((stats(&of_one), stats(&of_two)), (Ok(true), Ok(true)));
    access.drop_key(first.id()).expect("dropped");
    assert_eq!((stats(&of_one), one.is_live()), (Err(ErrorKind::NotPermitted), false));
    assert_eq!((stats(&of_two), two.is_live()), (Ok(true), true));
    clock.set(Timestamp::from_micros(1_000_000 + 61_000_000));
    assert_eq!((stats(&of_two), two.is_live()), (Err(ErrorKind::NotPermitted), false));
}

#[tokio::test]
async fn a_denial_on_a_topic_wins_over_the_right_to_create_topics_in_the_cluster() {
    let (_directory, _, served) = served();
    let access = served.owner().access();
    access.init("root").expect("initialised");
    let ann = RuleSubject::Principal("ann".to_owned());
    let cluster = RulePattern::Literal(Resource::CLUSTER.name.to_owned());
    let secrets = RulePattern::Literal("secrets".to_owned());
    access.add_rule(&ann, &AccessRule::allow(Operation::Create, ResourceKind::Cluster, cluster)).expect("added");
    access.add_rule(&ann, &AccessRule::deny(Operation::All, ResourceKind::Topic, secrets)).expect("added");
    let session = served.session(&Credential::Verified(&Principal::named("ann"))).expect("a session");
    let database = served.of(&session);
    database.topic("orders").create(1).expect("created");
    let refused = database.topic("secrets").create(1).expect_err("it is denied");
    assert_eq!(refused.kind(), ErrorKind::NotPermitted);
}

#[tokio::test]
async fn a_verified_name_acts_by_its_rules_and_an_authenticated_one_needs_its_user() {
    let (_directory, clock, served) = served();
    let access = served.owner().access();
    access.init("root").expect("initialised");
    let (subject, rule) = may_describe("CN=ann");
    access.add_rule(&subject, &rule).expect("added");
    let ann = Principal::named("CN=ann");
    let peer = served.session(&Credential::Verified(&ann)).expect("a session");
    assert_eq!(stats(&served.of(&peer)), Ok(true));
    // The principal of a token.
    let of_token = served.session(&Credential::Authenticated(&ann)).expect("a session");
    assert_eq!(stats(&served.of(&of_token)), Ok(true));
    access.create_user("bob", &["monitor"]).expect("created");
    access.set_password("bob", "correct horse", NewPassword::default()).expect("set");
    let password = access.rules().scram("bob", ScramMechanism::Sha256).cloned().map(Arc::new);
    let bob = Principal { password, ..Principal::named("bob") };
    let bob = served.session(&Credential::Authenticated(&bob)).expect("a session");
    assert_eq!(stats(&served.of(&bob)), Ok(true));
    access.drop_user("bob").expect("dropped");
    assert_eq!(stats(&served.of(&bob)), Err(ErrorKind::NotPermitted));
    // A certificate that ends.
    let end = Timestamp::from_micros(2_000_000);
    let ending = Principal { expires: Some(end), ..ann };
    let peer = served.session(&Credential::Verified(&ending)).expect("a session");
    assert_eq!(stats(&served.of(&peer)), Ok(true));
    clock.set(end);
    assert_eq!((peer.is_live(), stats(&served.of(&peer))), (false, Err(ErrorKind::NotPermitted)));
    assert_eq!(served.session(&Credential::Verified(&ending)).err(), Some(AuthenticationError::Wrong));
}

#[tokio::test]
async fn a_principal_has_the_roles_of_its_credential_and_unknown_roles_grant_nothing() {
    let (_directory, _, served) = served();
    let access = served.owner().access();
    access.init("root").expect("initialised");
    let session = |roles: &[&str]| {
        let roles = roles.iter().map(|role| Arc::from(*role)).collect();
        let principal = Principal { roles, ..Principal::named("anna") };
        stats(&served.of(&served.session(&Credential::Verified(&principal)).expect("a session")))
    };
    assert_eq!(session(&[]), Err(ErrorKind::NotPermitted));
    assert_eq!(session(&["unknown"]), Err(ErrorKind::NotPermitted));
    assert_eq!(session(&["unknown", "monitor"]), Ok(true));
    let denial = AccessRule::deny(Operation::Describe, ResourceKind::Queue, RulePattern::Any);
    access.put_role("blind", &[denial]).expect("put");
    assert_eq!(session(&["monitor", "blind"]), Err(ErrorKind::NotPermitted), "a denial of a role wins");
}

#[tokio::test]
async fn a_session_of_a_password_ends_with_the_next_password() {
    let (_directory, _, served) = served();
    let access = served.owner().access();
    access.init("root").expect("initialised");
    access.create_user("ann", &["monitor"]).expect("created");
    for mechanism in ScramMechanism::ALL {
        access.set_password("ann", "first", NewPassword::default()).expect("set");
        let password = access.rules().scram("ann", mechanism).cloned().map(Arc::new);
        let principal = Principal { password, ..Principal::named("ann") };
        let session = served.session(&Credential::Authenticated(&principal)).expect("a session");
        assert_eq!(stats(&served.of(&session)), Ok(true));
        // Roles change rights, and no password.
        access.change(&[Command::SetRoles { user: "ann", roles: &["monitor", "reader"] }]).expect("changed");
        assert!(session.is_live());
        let waiting = tokio::spawn({
            let (served, session) = (served.clone(), session.clone());
            async move { served.ended(&session).await }
        });
        // The same text is another password, too: its salt is another.
        access.set_password("ann", "first", NewPassword::default()).expect("set");
        waiting.await.expect("it ends");
        assert_eq!(stats(&served.of(&session)), Err(ErrorKind::NotPermitted));
        assert_eq!(served.session(&Credential::Authenticated(&principal)).err(), Some(AuthenticationError::Wrong));
    }
}

#[tokio::test]
async fn a_server_that_saw_access_control_enabled_checks_its_clients_until_it_stops() {
    let (_directory, _, served) = served();
    let access = served.owner().access();
    let open = served.session(&Credential::Absent).expect("open");
    let key = access.init("root").expect("initialised");
    let root = served.session(&Credential::Key(key.reveal())).expect("the key is valid");
    access.disable().expect("disabled");
    assert!(served.is_access_enabled());
    assert_eq!(served.session(&Credential::Absent).err(), Some(AuthenticationError::Missing));
    assert_eq!((open.is_live(), stats(&served.of(&open))), (false, Err(ErrorKind::NotPermitted)));
    // Users, keys and rules stay in effect here.
    assert_eq!((root.is_live(), stats(&served.of(&root))), (true, Ok(true)));
    access.drop_key(key.id()).expect("dropped");
    assert_eq!((root.is_live(), stats(&served.of(&root))), (false, Err(ErrorKind::NotPermitted)));
}

#[tokio::test]
async fn each_user_has_idempotency_keys_of_its_own() {
    let (_directory, _, served) = served();
    served.owner().access().init("root").expect("enabled");
    let begin = |user: &str| {
        let access = served.owner().access();
        access.create_user(user, &[]).expect("created");
        let rule = AccessRule::allow(Operation::All, ResourceKind::Queue, RulePattern::Any);
        access.add_rule(&RuleSubject::Principal(user.to_owned()), &rule).expect("added");
        let lifetime = Some(Duration::from_secs(60));
        let key = access.create_key(user, NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
        served.session(&Credential::Key(key.reveal())).expect("valid")
    };
    let (ann, bob) = (begin("ann"), begin("bob"));
    let commit = |session: &Session, payload: &'static str| {
        let commit = quire::Commit::new().enqueue("q", NewJob::new(payload)).idempotency_key("order-17");
        served.of(session).commit(&commit).expect("decided").committed()
    };
    let first = commit(&ann, "of ann").expect("accepted");
    let other = commit(&bob, "of bob").expect("accepted");
    assert!(!other.is_replay && other.at.position > first.at.position, "it is another key");
    let again = commit(&ann, "of ann").expect("accepted");
    assert!(again.is_replay && again.at == first.at);
    commit(&bob, "of ann").expect_err("another commit with the key of bob");
}
