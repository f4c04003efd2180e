//! Access control is enabled: clients authenticate, and may do nothing before.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use kafka_protocol::messages::{
    ApiVersionsRequest, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
};
use quire::system::KeyText;
use quire::{Database, Durability, ManualClock, NewApiKey, NewPassword, Timestamp};
use quire_kafka::Settings;
use sha2::{Digest, Sha256, Sha512};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Client, World, about, batch, frame, patiently, text, values};

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const ILLEGAL_SASL_STATE: i16 = 34;
const SASL_AUTHENTICATION_FAILED: i16 = 58;

const MECHANISMS: [&str; 3] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
const PASSWORD: &str = "correct horse";

/// Gives a database the administrator `root`, and `ann` with the password and the key that is
/// returned.
fn enable(database: &Database) -> KeyText {
    let access = database.access();
    access.init("root").expect("enabled");
    access.create_user("ann", &["admin"]).expect("created");
    access.create_user("bob", &[]).expect("created");
    for user in ["ann", "bob"] {
        access.set_password(user, PASSWORD, NewPassword::default()).expect("set");
    }
    access.create_key("ann", NewApiKey::default()).expect("created")
}

async fn enabled() -> (World, KeyText) {
    let world = World::with(Settings { auto_create_topics: Some(true), ..Settings::default() }).await;
    let key = enable(&world.database);
    (world, key)
}

impl Client {
    pub(crate) async fn handshake(&mut self, version: i16, mechanism: &str) -> (i16, Vec<String>) {
        let request = SaslHandshakeRequest::default().with_mechanism(text(mechanism));
        let response = self.call(version, &request).await;
        (response.error_code, response.mechanisms.iter().map(ToString::to_string).collect())
    }

    pub(crate) async fn authenticate(&mut self, version: i16, message: impl Into<Bytes>) -> SaslAuthenticateResponse {
        self.call(version, &SaslAuthenticateRequest::default().with_auth_bytes(message.into())).await
    }

    /// Authenticates with a password, and returns the last response.
    async fn log_in(&mut self, mechanism: &str, user: &str, password: &str) -> SaslAuthenticateResponse {
        assert_eq!(self.handshake(1, mechanism).await.0, 0);
        if mechanism == "PLAIN" {
            return self.authenticate(2, plain(user, password)).await;
        }
        let first = format!("n={user},r=abc");
        let challenge = self.authenticate(2, format!("n,,{first}")).await;
        assert_eq!(challenge.error_code, 0);
        let challenge = String::from_utf8(challenge.auth_bytes.to_vec()).expect("a text");
        self.authenticate(2, last_message(mechanism, password, &first, &challenge)).await
    }

    /// Sends a message without a header, and returns the answer.
    pub(crate) async fn exchange_raw(&mut self, message: &[u8]) -> Option<Bytes> {
        self.send_raw(message).await;
        self.receive_frame().await
    }

    async fn send_raw(&mut self, frame: &[u8]) {
        let length = u32::try_from(frame.len()).expect("a length").to_be_bytes();
        self.stream.write_all(&[&length[..], frame].concat()).await.expect("taken");
    }

    /// Whether the server answers a request that needs authentication.
    pub(crate) async fn may(&mut self) -> bool {
        self.send(12, &about("t")).await;
        self.receive_frame().await.is_some()
    }
}

fn plain(user: &str, password: &str) -> Vec<u8> {
    format!("\0{user}\0{password}").into_bytes()
}

/// The last message of a client of SCRAM.
fn last_message(mechanism: &str, password: &str, first: &str, challenge: &str) -> String {
    let mut attributes = challenge.split(',');
    let nonces = attributes.next().expect("nonces");
    let salt = attributes.next().and_then(|salt| salt.strip_prefix("s=")).expect("a salt");
    let salt = STANDARD.decode(salt).expect("base64");
    let iterations = attributes.next().and_then(|count| count.strip_prefix("i=")).expect("a count");
    let iterations = iterations.parse().expect("a count");
    let without_proof = format!("c=biws,{nonces}");
    let messages = format!("{first},{challenge},{without_proof}");
    let password = password.as_bytes();
    let proof = if mechanism == "SCRAM-SHA-256" {
        let mut salted = [0; 32];
        pbkdf2::pbkdf2_hmac::<Sha256>(password, &salt, iterations, &mut salted);
        proof_of::<Hmac<Sha256>, Sha256>(&salted, &messages)
    } else {
        let mut salted = [0; 64];
        pbkdf2::pbkdf2_hmac::<Sha512>(password, &salt, iterations, &mut salted);
        proof_of::<Hmac<Sha512>, Sha512>(&salted, &messages)
    };
    format!("{without_proof},p={}", STANDARD.encode(proof))
}

fn proof_of<M: Mac + KeyInit, H: Digest>(salted: &[u8], messages: &str) -> Vec<u8> {
    let mac = |key: &[u8], bytes: &[u8]| {
        let mut mac = <M as KeyInit>::new_from_slice(key).expect("any length");
        mac.update(bytes);
        mac.finalize().into_bytes().to_vec()
    };
    let key = mac(salted, b"Client Key");
    let signature = mac(&H::digest(&key), messages.as_bytes());
    key.iter().zip(signature).map(|(key, signature)| key ^ signature).collect()
}

#[tokio::test]
async fn each_mechanism_authenticates_and_the_client_produces_and_fetches() {
    let (world, key) = enabled().await;
    for (number, mechanism) in MECHANISMS.into_iter().enumerate() {
        let mut client = world.client().await;
        let (error, offered) = client.handshake(1, mechanism).await;
        assert_eq!((error, &offered[..]), (0, &MECHANISMS.map(str::to_owned)[..]));
        let done = client.log_in(mechanism, "ann", PASSWORD).await;
        assert_eq!((done.error_code, done.session_lifetime_ms), (0, 0), "{mechanism}: {done:?}");
        let topic = format!("topic-{number}");
        client.topic(&topic).await;
        assert_eq!(client.produce(&topic, &batch(&["a"])).await.error_code, 0);
        assert_eq!(values(&client.fetch(&topic, 0).await), [(0, "a".to_owned())]);
    }
    for version in 0..=2 {
        let mut client = world.client().await;
        assert_eq!(client.handshake(1, "PLAIN").await.0, 0);
        assert_eq!(client.authenticate(version, plain(key.id().as_str(), key.reveal())).await.error_code, 0);
        assert!(client.may().await);
    }
}

/// All APIs: what they would do is refused before their bodies are read.
#[tokio::test]
async fn a_client_that_is_not_authenticated_may_send_three_apis_only() {
    let (world, _) = enabled().await;
    let offered = world.client().await.call(3, &ApiVersionsRequest::default()).await.api_keys;
    let mut refused = 0;
    for api in offered.iter().filter(|api| ![17, 18, 36].contains(&api.api_key)) {
        for version in [api.min_version, api.max_version] {
            let mut client = world.client().await;
            client.call(0, &ApiVersionsRequest::default()).await;
            let mut frame = BytesMut::new();
            frame.put_i16(api.api_key);
            frame.put_i16(version);
            frame.put_i32(1);
            frame.put_i16(-1);
            client.send_raw(&frame).await;
            assert!(client.is_closed().await, "API {}", api.api_key);
            refused += 1;
        }
    }
    world.counted(|counts| counts.closed_unauthenticated == refused).await;
    let counts = world.counters.statistics();
    assert_eq!((counts.closed_malformed, counts.closed_unsupported), (0, 0));
    // An exchange that has begun changes nothing.
    let mut client = world.client().await;
    assert_eq!(client.handshake(1, "SCRAM-SHA-256").await.0, 0);
    assert_eq!(client.authenticate(2, "n,,n=ann,r=abc").await.error_code, 0);
    client.call(3, &ApiVersionsRequest::default()).await;
    assert!(!client.may().await);
}

#[tokio::test]
async fn a_wrong_credential_is_one_error_and_closes_the_connection() {
    let (world, key) = enabled().await;
    let mut messages = Vec::new();
    for (mechanism, user, password) in [
        ("PLAIN", "ann", "wrong"),
        ("PLAIN", "nobody", PASSWORD),
        ("PLAIN", "bob", key.reveal()),
        ("SCRAM-SHA-256", "ann", "wrong"),
        ("SCRAM-SHA-512", "nobody", PASSWORD),
    ] {
        let mut client = world.client().await;
        let failed = client.log_in(mechanism, user, password).await;
        assert_eq!((failed.error_code, &failed.auth_bytes[..]), (SASL_AUTHENTICATION_FAILED, &b""[..]));
        messages.push(failed.error_message.expect("a message"));
        assert!(client.is_closed().await);
    }
    messages.dedup();
    assert_eq!(messages, [text("authentication failed: unknown user, or invalid API key, password or token")]);
    world.counted(|counts| counts.closed_authentication_failed == 5 && counts.connections_open == 0).await;
}

#[tokio::test]
async fn requests_out_of_order_are_illegal_and_unknown_mechanisms_are_refused_with_the_offered_ones() {
    let (world, _) = enabled().await;
    let mut client = world.client().await;
    assert_eq!(client.authenticate(2, plain("ann", PASSWORD)).await.error_code, ILLEGAL_SASL_STATE);
    let offered = MECHANISMS.map(str::to_owned).to_vec();
    for mechanism in ["GSSAPI", "", "plain"] {
        assert_eq!(client.handshake(1, mechanism).await, (UNSUPPORTED_SASL_MECHANISM, offered.clone()));
    }
    assert_eq!(client.authenticate(2, plain("ann", PASSWORD)).await.error_code, ILLEGAL_SASL_STATE);
    assert_eq!(client.log_in("PLAIN", "ann", PASSWORD).await.error_code, 0);
    assert_eq!(client.authenticate(2, plain("ann", PASSWORD)).await.error_code, ILLEGAL_SASL_STATE);
    assert_eq!(client.handshake(0, "PLAIN").await, (ILLEGAL_SASL_STATE, offered));
    assert!(client.may().await);
}

#[tokio::test]
async fn without_access_control_there_is_nothing_to_authenticate_for() {
    let world = World::new().await;
    let mut client = world.client().await;
    assert_eq!(client.handshake(1, "PLAIN").await, (ILLEGAL_SASL_STATE, Vec::new()));
    assert_eq!(client.authenticate(2, plain("ann", PASSWORD)).await.error_code, ILLEGAL_SASL_STATE);
    assert!(client.may().await);
    enable(&world.database);
    assert!(!client.may().await, "access control counts from the next request on");
}

#[tokio::test]
async fn messages_without_headers_authenticate_older_clients() {
    let (world, _) = enabled().await;
    let mut client = world.client().await;
    assert_eq!(client.handshake(0, "PLAIN").await.0, 0);
    assert_eq!(client.exchange_raw(&plain("ann", PASSWORD)).await, Some(Bytes::new()));
    assert!(client.may().await);

    let mut client = world.client().await;
    assert_eq!(client.handshake(0, "SCRAM-SHA-512").await.0, 0);
    let challenge = client.exchange_raw(b"n,,n=ann,r=abc").await.expect("a challenge");
    let challenge = std::str::from_utf8(&challenge).expect("a text");
    let last = last_message("SCRAM-SHA-512", PASSWORD, "n=ann,r=abc", challenge);
    assert!(client.exchange_raw(last.as_bytes()).await.expect("a signature").starts_with(b"v="));
    assert!(client.may().await);

    for message in [&b""[..], b"a", &plain("ann", "wrong")] {
        let mut client = world.client().await;
        assert_eq!(client.handshake(0, "PLAIN").await.0, 0);
        assert_eq!(client.exchange_raw(message).await, None);
    }
    world.counted(|counts| counts.closed_authentication_failed == 3).await;
}

#[tokio::test]
async fn a_client_authenticates_again_as_the_same_user_before_its_key_expires() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let builder = Database::builder(directory.path()).durability(Durability::Os).clock(clock.clone());
    let database = builder.open().expect("a database");
    enable(&database);
    let key_of = |user: &str, seconds: u64| {
        let lifetime = Some(Duration::from_secs(seconds));
        database.access().create_key(user, NewApiKey { lifetime, ..NewApiKey::default() }).expect("created")
    };
    let (short, long, of_bob) = (key_of("ann", 60), key_of("ann", 600), key_of("bob", 600));
    let world = World::over(directory, database.clone(), Settings::default()).await;
    let mut client = world.client().await;
    let done = client.log_in("PLAIN", "ann", short.reveal()).await;
    assert_eq!((done.error_code, done.session_lifetime_ms), (0, 60_000));
    assert!(client.may().await);

    clock.set(Timestamp::from_millis(31_000));
    let done = client.log_in("PLAIN", "ann", long.reveal()).await;
    assert_eq!((done.error_code, done.session_lifetime_ms), (0, 570_000));
    clock.set(Timestamp::from_millis(600_999));
    assert!(client.may().await);
    let mut expired = world.client().await;
    assert_eq!(expired.log_in("PLAIN", "ann", long.reveal()).await.session_lifetime_ms, 1);
    clock.set(Timestamp::from_millis(601_000));
    assert!(!expired.may().await);
    world.counted(|counts| counts.closed_unauthenticated == 1).await;

    // It may still authenticate again, and as no other user.
    assert_eq!(client.log_in("SCRAM-SHA-256", "ann", PASSWORD).await.error_code, 0);
    assert!(client.may().await);
    let other = client.log_in("SCRAM-SHA-256", "bob", PASSWORD).await;
    assert_eq!(other.error_code, SASL_AUTHENTICATION_FAILED);
    assert!(other.error_message.expect("a message").contains("as the same user only"));
    assert!(client.is_closed().await);
    assert_eq!(
        world.client().await.log_in("PLAIN", "bob", of_bob.reveal()).await.error_code,
        SASL_AUTHENTICATION_FAILED
    );
}

#[tokio::test]
async fn a_client_that_is_not_authenticated_holds_little_memory_and_has_little_time() {
    let settings = Settings { first_request_timeout_ms: 200, ..Settings::default() };
    let world = World::with(settings).await;
    enable(&world.database);
    let mut long = world.client().await;
    long.stream.write_all(&((18u32 << 10) + 1).to_be_bytes()).await.expect("taken");
    assert!(long.is_closed().await);
    world.counted(|counts| counts.closed_malformed == 1).await;
    let mut silent = world.client().await;
    silent.call(3, &ApiVersionsRequest::default()).await;
    assert!(silent.is_closed().await, "a first request is not enough");
    world.counted(|counts| counts.closed_idle == 1).await;
    assert_eq!(world.connections.statistics().ended_first_request, 1);

    let (world, _) = enabled().await;
    let mut client = world.client().await;
    assert_eq!(client.log_in("PLAIN", "root", PASSWORD).await.error_code, SASL_AUTHENTICATION_FAILED);
    let mut client = world.client().await;
    assert_eq!(client.log_in("PLAIN", "ann", PASSWORD).await.error_code, 0);
    let long_name = "t".repeat(20_000);
    client.send(12, &about(&long_name)).await;
    assert!(client.receive_frame().await.is_some(), "an authenticated client may send long requests");
}

/// A client that is never silent.
#[tokio::test]
async fn a_client_that_only_asks_for_versions_is_closed_at_the_deadline() {
    let settings = Settings { first_request_timeout_ms: 200, ..Settings::default() };
    let world = World::with(settings).await;
    enable(&world.database);
    let client = world.client().await;
    let (mut input, mut output) = client.stream.into_split();
    let many = frame(1, 3, &ApiVersionsRequest::default()).repeat(100);
    let sending = tokio::spawn(async move { while output.write_all(&many).await.is_ok() {} });
    let mut read = vec![0; 1 << 16];
    patiently(async { while input.read(&mut read).await.is_ok_and(|bytes| bytes > 0) {} }).await;
    world.counted(|counts| counts.closed_idle == 1 && counts.connections_open == 0).await;
    assert_eq!(world.connections.statistics().ended_first_request, 1);
    sending.await.expect("no panic");
}

/// A connection that was served before access control was enabled, and sends nothing.
#[tokio::test]
async fn an_open_connection_is_closed_when_access_control_is_enabled() {
    let world = World::new().await;
    let (mut silent, mut used) = (world.client().await, world.client().await);
    assert!(used.may().await);
    silent.call(3, &ApiVersionsRequest::default()).await;
    enable(&world.database);
    assert!(silent.is_closed().await && used.is_closed().await);
    world.counted(|counts| counts.closed_unauthenticated == 2).await;
}
