//! Serves a new database with access control to Kafka clients:
//! `cargo run --example authenticated -- DIR [ADDRESS]`.
//!
//! The user `ann` has a password and an API key, which are printed. It also listens with TLS on a
//! free port of the same machine, with a certificate that it writes into the directory.
//! `tests/kafka/sasl.py` runs its clients on it. Do not keep data in it.

use std::error::Error;
use std::path::Path;

use quire::{Database, Durability, NewApiKey, NewPassword};
use quire_access::{ClientCertificates, ServerTls, TlsSettings, TlsVersion};
use quire_kafka::Server;
use rcgen::{CertificateParams, KeyPair};

const PASSWORD: &str = "correct horse";

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

    let server = Server::bind(database.clone(), address.parse()?).await?;
    let tls = ServerTls::load(&with_certificate(Path::new(&directory))?)?;
    let server = server.and_on("127.0.0.1:0".parse()?, Some(tls)).await?;
    println!("password {PASSWORD}");
    println!("key {} {}", key.id(), key.reveal());
    println!("tls {} {directory}/server.pem", server.addresses()[1]);
    println!("Kafka clients connect to {}", server.address());
    server.run(async { tokio::signal::ctrl_c().await.expect("a signal handler") }).await?;
    Ok(())
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
