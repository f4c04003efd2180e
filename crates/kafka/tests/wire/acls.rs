//! ACLs and passwords of users, as Kafka's own tools change them.

use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request};
use quire::events::{NewEvent, Query, ReadOptions};
use quire::system::{AccessRule, RuleSubject, ScramMechanism};
use quire::{AUDIT_STORE, Database, Durability, NewPassword};
use quire_access::{ClientCertificates, ServerTls, TlsSettings, TlsVersion};
use quire_kafka::{Server, Settings};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::permissions::{acl, connected, enabled, listing_acls, user};
use crate::support::{World, frame, patiently, text};

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const INVALID_REQUEST: i16 = 42;
const SECURITY_DISABLED: i16 = 54;
const RESOURCE_NOT_FOUND: i16 = 91;
const DUPLICATE_RESOURCE: i16 = 92;
const UNACCEPTABLE_CREDENTIAL: i16 = 93;

fn parsed(subject: &str, rule: &str) -> (RuleSubject, AccessRule) {
    (subject.parse().expect("a holder"), rule.parse().expect("a rule"))
}

/// The rules of a database, as `/v1/access/rules` shows them.
fn rules(database: &Database) -> Vec<String> {
    let system = database.access().list().expect("listed");
    system.rules().map(|(subject, rule)| format!("{subject}: {rule}")).collect()
}

/// The last changes of access, without the addresses of clients.
fn audited(database: &Database, last: usize) -> Vec<String> {
    let read = database.events(AUDIT_STORE).read(&Query::all(), ReadOptions::default()).expect("readable");
    let events = read.events.into_iter().rev().take(last).rev();
    let shown = events.map(|event| {
        let text = String::from_utf8(event.data).expect("text");
        let begin = text.find(r#""protocol""#).expect("a protocol");
        text[begin..].to_owned()
    });
    shown.collect()
}

/// The filter that selects every ACL on topics.
fn of_topics() -> DeleteAclsFilter {
    DeleteAclsFilter::default()
        .with_resource_type_filter(2)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(1)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(1)
        .with_permission_type(1)
}

#[tokio::test]
async fn acls_are_the_rules_of_the_database() {
    let world = enabled().await;
    let database = &world.database;
    let key = user(database, "admin", &["admin"], &[]);
    let mut admin = connected(&world, "admin", &key).await;
    let creations = vec![
        acl("User:ann", "orders"),
        acl("User:*", "pay.").with_resource_pattern_type(4).with_operation(2).with_permission_type(2),
        acl("User:ann", "*").with_resource_type(3),
        acl("User:ann", "orders"),
    ];
    let created = admin.call(3, &CreateAclsRequest::default().with_creations(creations)).await;
    assert_eq!(created.results.iter().map(|result| result.error_code).collect::<Vec<_>>(), [0; 4]);
    let expected = [
        "everyone: deny all on topic prefix pay.",
        "principal ann: allow read on topic orders",
        "principal ann: allow read on group *",
    ];
    assert_eq!(rules(database), expected);
    let change = |operation: &str, thing: &str| {
        format!(r#""protocol":"kafka","operation":"{operation}","thing":"{thing}","outcome":"done"}}"#)
    };
    // A rule that exists is audited, too.
    let added = [1, 0, 2, 1].map(|number| change("add_rule", expected[number]));
    assert_eq!(audited(database, 4), added);

    // Rules of other front ends are ACLs, if Kafka has their resources.
    for rule in ["allow write on topic orders", "allow read on store orders", "deny all on space pay"] {
        let (subject, rule) = parsed("principal bob", rule);
        database.access().add_rule(&subject, &rule).expect("added");
    }
    let listed = admin.call(3, &listing_acls()).await;
    let shown = listed.resources.iter().flat_map(|resource| {
        let of = (resource.resource_type, resource.resource_name.to_string(), resource.pattern_type);
        resource.acls.iter().map(move |acl| {
            assert_eq!(acl.host.as_str(), "*");
            (of.clone(), acl.principal.to_string(), acl.operation, acl.permission_type)
        })
    });
    let orders = || (2, "orders".to_owned(), 3);
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            (orders(), "User:ann".to_owned(), 3, 3),
            (orders(), "User:bob".to_owned(), 4, 3),
            ((2, "pay.".to_owned(), 4), "User:*".to_owned(), 2, 2),
            ((3, "*".to_owned(), 3), "User:ann".to_owned(), 3, 3),
        ]
    );
    assert_eq!(listed.resources.len(), 3, "the ACLs of a resource are together");

    let filters = vec![of_topics().with_principal_filter(Some(text("User:bob"))), of_topics(), of_topics()];
    let deleted = admin.call(3, &DeleteAclsRequest::default().with_filters(filters)).await.filter_results;
    let counts: Vec<_> = deleted.iter().map(|result| (result.error_code, result.matching_acls.len())).collect();
    assert_eq!(counts, [(0, 1), (0, 2), (0, 0)]);
    assert_eq!(deleted[0].matching_acls[0].resource_name.as_str(), "orders");
    let left = ["principal ann: allow read on group *", "principal bob: allow read on store orders"];
    assert_eq!(rules(database), [left[0], left[1], "principal bob: deny all on space pay"]);
    assert_eq!(audited(database, 2), [expected[1], expected[0]].map(|rule| change("remove_rule", rule)));
}

#[tokio::test]
async fn an_acl_without_a_counterpart_is_refused_and_the_others_are_created() {
    let world = enabled().await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    let key = user(&world.database, "admin", &["admin"], &[]);
    let mut admin = connected(&world, "admin", &key).await;
    let creations = vec![
        acl("User:ann", "t").with_host(text("10.0.0.1")),
        acl("User:ann", "air.flights"),
        acl("Role:nothing", "t"),
        acl("User:ann", ""),
        acl("User:ann", "t"),
    ];
    let created = admin.call(3, &CreateAclsRequest::default().with_creations(creations)).await.results;
    let codes: Vec<_> = created.iter().map(|result| result.error_code).collect();
    assert_eq!(codes, [INVALID_REQUEST, INVALID_REQUEST, RESOURCE_NOT_FOUND, INVALID_REQUEST, 0]);
    let message = |number: usize| created[number].error_message.as_deref().expect("a message");
    assert!(message(0).contains("hold for every host"), "{}", message(0));
    assert!(message(1).contains("shows the store air/flights"), "{}", message(1));
    assert_eq!(rules(&world.database), ["principal ann: allow read on topic t"]);
    let unknown = listing_acls().with_operation(0);
    assert_eq!(admin.call(3, &unknown).await.error_code, INVALID_REQUEST);
}

#[tokio::test]
async fn without_access_control_no_client_is_an_administrator() {
    let world = World::new().await;
    let mut client = world.client().await;
    assert_eq!(client.call(3, &listing_acls()).await.error_code, SECURITY_DISABLED);
    let create = CreateAclsRequest::default().with_creations(vec![acl("User:ann", "t")]);
    assert_eq!(client.call(3, &create).await.results[0].error_code, SECURITY_DISABLED);
    let delete = DeleteAclsRequest::default().with_filters(vec![of_topics()]);
    assert_eq!(client.call(3, &delete).await.filter_results[0].error_code, SECURITY_DISABLED);
    let describe = DescribeUserScramCredentialsRequest::default().with_users(None);
    assert_eq!(client.call(0, &describe).await.error_code, SECURITY_DISABLED);
    let alter = AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion("ann", 1)]);
    assert_eq!(client.call(0, &alter).await.results[0].error_code, SECURITY_DISABLED);
    assert_eq!(rules(&world.database), [""; 0]);
}

fn deletion(user: &str, mechanism: i8) -> ScramCredentialDeletion {
    ScramCredentialDeletion::default().with_name(text(user)).with_mechanism(mechanism)
}

/// A credential as a client computes it.
fn upsertion(user: &str, password: &str, iterations: i32) -> ScramCredentialUpsertion {
    let salt = b"a salt of 26 bytes in all..".to_vec();
    let mut salted = vec![0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, iterations.unsigned_abs(), &mut salted);
    ScramCredentialUpsertion::default()
        .with_name(text(user))
        .with_mechanism(1)
        .with_iterations(iterations)
        .with_salt(salt.into())
        .with_salted_password(salted.into())
}

#[tokio::test]
async fn passwords_are_described_without_their_keys() {
    let world = enabled().await;
    let access = world.database.access();
    let key = user(&world.database, "admin", &["admin"], &[]);
    access.create_user("ann", &[]).expect("created");
    access.set_password("ann", "correct horse", NewPassword::default()).expect("set");
    let only = NewPassword { mechanisms: &[ScramMechanism::Sha512], iterations: 8_192 };
    access.create_user("bob", &[]).expect("created");
    access.set_password("bob", "correct horse", only).expect("set");
    let mut admin = connected(&world, "admin", &key).await;
    let described = admin.call(0, &DescribeUserScramCredentialsRequest::default().with_users(None)).await;
    let infos = |number: usize| {
        let result: &describe_user_scram_credentials_response::DescribeUserScramCredentialsResult =
            &described.results[number];
        let infos = result.credential_infos.iter().map(|info| (info.mechanism, info.iterations)).collect::<Vec<_>>();
        (result.user.to_string(), infos)
    };
    assert_eq!(described.results.len(), 2, "users without a password are omitted");
    assert_eq!(infos(0), ("ann".to_owned(), vec![(1, 4_096), (2, 4_096)]));
    assert_eq!(infos(1), ("bob".to_owned(), vec![(2, 8_192)]));
    let names = ["bob", "nobody", "ann", "ann"].map(|name| UserName::default().with_name(text(name)));
    let named = DescribeUserScramCredentialsRequest::default().with_users(Some(names.to_vec()));
    let codes =
        admin.call(0, &named).await.results.into_iter().map(|result| (result.user.to_string(), result.error_code));
    let expected = [("bob", 0), ("nobody", RESOURCE_NOT_FOUND), ("ann", DUPLICATE_RESOURCE)];
    assert_eq!(codes.collect::<Vec<_>>(), expected.map(|(user, code)| (user.to_owned(), code)));
}

/// A server with TLS, and a client that trusts it.
async fn with_tls() -> (World, TlsConnector) {
    let directory = tempfile::tempdir().expect("a directory");
    let (database, connector) = {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        let certificate = params.self_signed(&key).expect("signed");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("own.pem"), certificate.pem()).expect("written");
        std::fs::write(path("own.key"), key.serialize_pem()).expect("written");
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let database = Database::builder(path("data")).durability(Durability::Os).open().expect("a database");
        (database, TlsConnector::from(Arc::new(config)))
    };
    let own = |name: &str| Path::new(directory.path()).join(name);
    let settings = TlsSettings {
        certificate: own("own.pem"),
        key: own("own.key"),
        version_min: TlsVersion::Tls12,
        client_certificates: ClientCertificates::None,
        client_roots: None,
        client_crls: Vec::new(),
        client_names: Vec::new(),
    };
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind_with(database.clone(), any, Settings::default()).await.expect("a free port");
    let server = server.with_tls(ServerTls::load(&settings).expect("valid")).expect("TCP");
    (World::serving(directory, database, Settings::default(), server), connector)
}

/// Sends a request over TLS, and returns the response.
async fn call<R: Request>(stream: &mut TlsStream<TcpStream>, version: i16, request: &R) -> R::Response {
    stream.write_all(&frame(7, version, request)).await.expect("sent");
    stream.flush().await.expect("sent");
    let mut response = patiently(async {
        let mut bytes = vec![0; stream.read_u32().await.expect("a length") as usize];
        stream.read_exact(&mut bytes).await.expect("a response");
        Bytes::from(bytes)
    })
    .await;
    ResponseHeader::decode(&mut response, R::Response::header_version(version)).expect("a header");
    let decoded = R::Response::decode(&mut response, version).expect("a response");
    assert!(!response.has_remaining());
    decoded
}

/// Authenticates with PLAIN, and returns the error code.
async fn log_in(stream: &mut TlsStream<TcpStream>, user: &str, password: &str) -> i16 {
    let handshake = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
    assert_eq!(call(stream, 1, &handshake).await.error_code, 0);
    let message = format!("\0{user}\0{password}").into_bytes();
    call(stream, 2, &SaslAuthenticateRequest::default().with_auth_bytes(message.into())).await.error_code
}

#[tokio::test]
async fn passwords_are_changed_over_tls() {
    let (world, connector) = with_tls().await;
    let database = &world.database;
    let key = database.access().init("root").expect("enabled");
    let connect = async || {
        let stream = TcpStream::connect(world.address).await.expect("accepted");
        connector.connect(ServerName::try_from("localhost").expect("a name"), stream).await.expect("a handshake")
    };
    let mut admin = connect().await;
    assert_eq!(log_in(&mut admin, "root", key.reveal()).await, 0);
    database.access().create_user("bob", &[]).expect("created");
    database.access().set_password("bob", "correct horse", NewPassword::default()).expect("set");
    let short = upsertion("few", "correct horse", 4_096).with_salted_password(Bytes::from_static(b"short"));
    let request = AlterUserScramCredentialsRequest::default()
        .with_upsertions(vec![
            upsertion("ann", "pencil", 4_096),
            upsertion("cheap", "pencil", 100),
            short,
            upsertion("twice", "pencil", 4_096),
            upsertion("twice", "pencil", 4_096),
        ])
        .with_deletions(vec![deletion("bob", 2), deletion("nobody", 1), deletion("odd", 3)]);
    let altered = call(&mut admin, 0, &request).await.results;
    let codes = altered.iter().map(|result| (result.user.as_str(), result.error_code)).collect::<Vec<_>>();
    assert_eq!(
        codes,
        [
            ("ann", 0),
            ("bob", 0),
            ("cheap", UNACCEPTABLE_CREDENTIAL),
            ("few", UNACCEPTABLE_CREDENTIAL),
            ("nobody", RESOURCE_NOT_FOUND),
            ("odd", UNSUPPORTED_SASL_MECHANISM),
            ("twice", DUPLICATE_RESOURCE),
        ]
    );
    let system = database.access().list().expect("listed");
    let users: Vec<_> = system.users().map(|(name, user)| (name, user.scram.len())).collect();
    assert_eq!(users, [("ann", 1), ("bob", 1), ("root", 0)], "a refused change creates no user");
    assert_eq!(log_in(&mut connect().await, "ann", "pencil").await, 0);
    let last = audited(database, 3);
    assert!(last[0].contains(r#""operation":"create_user","thing":"user ann: roles ""#), "{last:?}");
    assert!(last[1].contains(r#""operation":"put_scram","thing":"SCRAM-SHA-256 of user ann""#), "{last:?}");
    assert!(last[2].contains(r#""operation":"drop_scram","thing":"SCRAM-SHA-512 of user bob""#), "{last:?}");
}
