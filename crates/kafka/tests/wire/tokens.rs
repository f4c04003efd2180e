//! OAUTHBEARER: clients authenticate with tokens of an OpenID provider.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kafka_protocol::messages::SaslAuthenticateResponse;
use quire::system::Command;
use quire::{Database, Durability, ManualClock, Operation, ResourceKind, Timestamp};
use quire_access::{OidcSettings, TokenVerifier};
use quire_kafka::{Server, Settings};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SigningKey};

use crate::permissions::{allow, user};
use crate::support::{Client, World, batch};

const SASL_AUTHENTICATION_FAILED: i16 = 58;
const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;

const NOW_S: u64 = 1_800_000_000;

/// The answer to a token that is not accepted.
const INVALID_TOKEN: &[u8] = br#"{"status":"invalid_token"}"#;

/// The client's answer to it.
const SEEN: &[u8] = b"\x01";

/// A provider with one key.
struct Provider(KeyPair);

impl Provider {
    fn new() -> Self {
        Provider(KeyPair::generate_for(&PKCS_ED25519).expect("a key"))
    }

    fn keys(&self) -> String {
        let x = URL_SAFE_NO_PAD.encode(self.0.der_bytes());
        format!(r#"{{"keys": [{{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": "{x}"}}]}}"#)
    }

    /// A token for the server of these tests, with further claims.
    fn token(&self, subject: &str, expires_s: u64, more: &str) -> String {
        let claims =
            format!(r#"{{"iss":"https://id.example","aud":"quire","sub":"{subject}","exp":{expires_s}{more}}}"#);
        let [header, claims] = [r#"{"alg":"EdDSA","kid":"one"}"#, &claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        let signed = format!("{header}.{claims}");
        let signature = self.0.sign(signed.as_bytes()).expect("signed");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// A server that accepts the tokens of a provider, at [`NOW_S`]. The principal `anna` may use the
/// topic `t`, and the group `dev` has the role `reader`.
async fn served(provider: &Provider) -> (World, Arc<ManualClock>) {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOW_S * 1_000)));
    let data = directory.path().join("data");
    let database = Database::builder(data).durability(Durability::Os).clock(clock.clone()).open().expect("a database");
    database.access().init("root").expect("enabled");
    user(&database, "anna", &[], &[allow((ResourceKind::Topic, "t", Operation::All))]);
    let keys = directory.path().join("keys.json");
    std::fs::write(&keys, provider.keys()).expect("written");
    let tokens = TokenVerifier::load(OidcSettings {
        issuer: "https://id.example".to_owned(),
        audience: "quire".to_owned(),
        keys,
        principal_claim: "sub".to_owned(),
        roles_claim: Some("groups".to_owned()),
        roles: vec!["dev => producer".parse().expect("valid")],
        login: None,
    });
    let (settings, any) = (Settings::default(), "127.0.0.1:0".parse().expect("an address"));
    let server = Server::bind_with(database.clone(), any, settings.clone()).await.expect("a free port");
    let server = server.without_audit().with_tokens(tokens.expect("valid"));
    (World::serving(directory, database, settings, server), clock)
}

fn message(token: &str) -> Vec<u8> {
    format!("n,,\x01auth=Bearer {token}\x01\x01").into_bytes()
}

impl Client {
    async fn present(&mut self, message: impl Into<bytes::Bytes>) -> SaslAuthenticateResponse {
        assert_eq!(self.handshake(1, "OAUTHBEARER").await.0, 0);
        self.authenticate(2, message).await
    }
}

#[tokio::test]
async fn a_token_authenticates_its_principal_until_it_expires() {
    let provider = Provider::new();
    let (world, clock) = served(&provider).await;
    for topic in ["t", "u"] {
        world.database.topic(topic).create(1).expect("created");
    }
    let mut client = world.client().await;
    let offered = client.handshake(1, "OAUTHBEARER").await;
    assert_eq!(offered.1, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]);
    let done = client.present(message(&provider.token("anna", NOW_S + 60, ""))).await;
    assert_eq!((done.error_code, &done.auth_bytes[..], done.session_lifetime_ms), (0, &b""[..], 60_000));
    assert_eq!(client.produce("t", &batch(&["a"])).await.error_code, 0);
    assert_eq!(client.produce("u", &batch(&["a"])).await.error_code, TOPIC_AUTHORIZATION_FAILED);

    // A new token of the same principal lengthens the session, and has roles of its own.
    let longer = provider.token("anna", NOW_S + 600, r#","groups":["dev"]"#);
    clock.set(Timestamp::from_millis((NOW_S + 30) * 1_000));
    assert_eq!(client.present(message(&longer)).await.session_lifetime_ms, 570_000);
    clock.set(Timestamp::from_millis((NOW_S + 599) * 1_000));
    assert_eq!(client.produce("u", &batch(&["a"])).await.error_code, 0);
    let other = client.present(message(&provider.token("otto", NOW_S + 900, ""))).await;
    assert_eq!(other.error_code, SASL_AUTHENTICATION_FAILED);
    assert!(client.is_closed().await);

    let mut client = world.client().await;
    assert_eq!(client.present(message(&longer)).await.session_lifetime_ms, 1_000);
    clock.set(Timestamp::from_millis((NOW_S + 600) * 1_000));
    assert!(!client.may().await, "the token has expired");
    // Clients before KIP-152 send their messages without headers.
    let mut older = world.client().await;
    assert_eq!(older.handshake(0, "OAUTHBEARER").await.0, 0);
    let later = provider.token("anna", NOW_S + 900, "");
    assert_eq!(older.exchange_raw(&message(&later)).await.as_deref(), Some(&b""[..]));
    assert!(older.may().await);
}

#[tokio::test]
async fn a_token_that_is_not_accepted_is_reported_as_json_and_ends_the_connection() {
    let provider = Provider::new();
    let (world, _clock) = served(&provider).await;
    let good = provider.token("anna", NOW_S + 60, "");
    user(&world.database, "idle", &[], &[]);
    let disable = Command::EnableUser { user: "idle", is_enabled: false };
    world.database.access().change(&[disable]).expect("disabled");
    let (head, _) = good.rsplit_once('.').expect("three parts");
    let wrong = [
        provider.token("anna", NOW_S, ""),
        provider.token("idle", NOW_S + 60, ""),
        Provider::new().token("anna", NOW_S + 60, ""),
        format!("{head}."),
        "qk_wrong".to_owned(),
        String::new(),
    ];
    let count = wrong.len() as u64;
    for token in wrong {
        let mut client = world.client().await;
        let answer = client.present(message(&token)).await;
        assert_eq!((answer.error_code, &answer.auth_bytes[..], answer.session_lifetime_ms), (0, INVALID_TOKEN, 0));
        let failed = client.authenticate(2, SEEN).await;
        assert_eq!(failed.error_code, SASL_AUTHENTICATION_FAILED, "{token}");
        assert!(client.is_closed().await);
    }
    world.counted(|counts| counts.closed_authentication_failed == count).await;

    // The reason is no authentication.
    let mut client = world.client().await;
    assert_eq!(&client.present(message("wrong")).await.auth_bytes[..], INVALID_TOKEN);
    assert!(!client.may().await);
    let mut older = world.client().await;
    assert_eq!(older.handshake(0, "OAUTHBEARER").await.0, 0);
    assert_eq!(older.exchange_raw(&message("wrong")).await.as_deref(), Some(INVALID_TOKEN));
    assert_eq!(older.exchange_raw(SEEN).await, None);
}

#[tokio::test]
async fn a_message_that_is_malformed_or_asks_for_another_principal_fails() {
    let provider = Provider::new();
    let (world, _clock) = served(&provider).await;
    let token = provider.token("anna", NOW_S + 60, "");
    for message in [token.clone(), format!("n,a=otto,\x01auth=Bearer {token}\x01\x01")] {
        let mut client = world.client().await;
        let failed = client.present(message).await;
        assert_eq!((failed.error_code, &failed.auth_bytes[..]), (SASL_AUTHENTICATION_FAILED, &b""[..]));
        assert!(client.is_closed().await);
    }
    let same = format!("n,a=anna,\x01auth=Bearer {token}\x01\x01");
    assert_eq!(world.client().await.present(same).await.session_lifetime_ms, 60_000);
    // The longest token fits.
    let padding = "x".repeat(11_800);
    let long = provider.token("anna", NOW_S + 60, &format!(r#","note":"{padding}""#));
    assert!((15_900..16_384).contains(&long.len()), "{}", long.len());
    assert_eq!(world.client().await.present(message(&long)).await.session_lifetime_ms, 60_000);
}

#[tokio::test]
async fn a_server_without_tokens_does_not_offer_the_mechanism() {
    let world = World::new().await;
    world.database.access().init("root").expect("enabled");
    let (error, offered) = world.client().await.handshake(1, "OAUTHBEARER").await;
    assert_eq!((error, offered.len()), (UNSUPPORTED_SASL_MECHANISM, 3));
}
