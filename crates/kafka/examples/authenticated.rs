//! Serves a new database with access control to Kafka clients:
//! `cargo run --example authenticated -- DIR [ADDRESS]`.
//!
//! The user `ann` has a password, an API key and a token for an hour, which are printed. It also
//! listens with TLS on a free port of the same machine, with a certificate that it writes into the
//! directory.
//! `tests/kafka/sasl.py` runs its clients on it. Do not keep data in it.

use std::error::Error;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use quire::{Database, Durability, NewApiKey, NewPassword, Timestamp};
use quire_access::{ClientCertificates, OidcSettings, ServerTls, TlsSettings, TlsVersion, TokenVerifier};
use quire_kafka::Server;
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, PublicKeyData, SigningKey};

const PASSWORD: &str = "correct horse";
const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "quire";
const HOUR_S: u64 = 3_600;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: authenticated DIR [ADDRESS]")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());

    let database = Database::builder(&directory).durability(Durability::Os).open()?;
    let access = database.access();
    access.init("root")?;
    access.create_user("ann", &["admin"])?;
    access.set_password("ann", PASSWORD, NewPassword::default())?;
    let key = access.create_key("ann", NewApiKey::default())?;

    let (tokens, token) = provider(Path::new(&directory), database.now())?;
    let server = Server::bind(database.clone(), address.parse()?).await?.with_tokens(TokenVerifier::load(tokens)?);
    let tls = ServerTls::load(&with_certificate(Path::new(&directory))?)?;
    let server = server.and_on("127.0.0.1:0".parse()?, Some(tls)).await?;
    println!("password {PASSWORD}");
    println!("key {} {}", key.id(), key.reveal());
    println!("token {token}");
    println!("tls {} {directory}/server.pem", server.addresses()[1]);
    println!("Kafka clients connect to {}", server.address());
    server.run(async { tokio::signal::ctrl_c().await.expect("a signal handler") }).await?;
    Ok(())
}

/// Writes the key of a provider. Returns the settings with it, and a token of `ann`.
fn provider(directory: &Path, now: Timestamp) -> Result<(OidcSettings, String), Box<dyn Error>> {
    let pair = KeyPair::generate_for(&PKCS_ED25519)?;
    let (keys, point) = (directory.join("keys.json"), URL_SAFE_NO_PAD.encode(pair.der_bytes()));
    std::fs::write(
        &keys,
        format!(r#"{{"keys": [{{"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": "{point}"}}]}}"#),
    )?;
    let expires_s = now.as_millis() / 1_000 + HOUR_S;
    let claims = format!(r#"{{"iss": "{ISSUER}", "aud": "{AUDIENCE}", "sub": "ann", "exp": {expires_s}}}"#);
    let [header, claims] = [r#"{"alg": "EdDSA", "kid": "one"}"#, &claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    let signed = format!("{header}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes())?);
    let settings = OidcSettings {
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        keys,
        principal_claim: "sub".to_owned(),
        roles_claim: None,
        roles: Vec::new(),
        login: None,
    };
    Ok((settings, format!("{signed}.{signature}")))
}

/// Writes a certificate for this machine and its key, and returns the settings with them.
fn with_certificate(directory: &Path) -> Result<TlsSettings, Box<dyn Error>> {
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let (certificate, own_key) = (directory.join("server.pem"), directory.join("server.key"));
    std::fs::write(&certificate, params.self_signed(&key)?.pem())?;
    std::fs::write(&own_key, key.serialize_pem())?;
    Ok(TlsSettings {
        certificate,
        key: own_key,
        version_min: TlsVersion::Tls12,
        client_certificates: ClientCertificates::None,
        client_roots: None,
        client_crls: Vec::new(),
        client_names: Vec::new(),
    })
}
