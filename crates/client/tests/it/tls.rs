//! The client over TLS.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use quire_client::reply::QueueReply;
use quire_client::{Client, FailureKind};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// An authority in PEM, and the settings of a server with a certificate of it for `localhost`.
fn authority() -> (String, Arc<ServerConfig>) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let root = params.self_signed(&key).expect("a root");
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = config.with_single_cert(vec![certificate.der().clone()], key).expect("settings");
    (root.pem(), Arc::new(config))
}

#[test]
fn a_client_trusts_its_roots_and_no_other_server() {
    let (root, config) = authority();
    let (other_root, _) = authority();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("it listens");
    let address = format!("https://localhost:{}", listener.local_addr().expect("an address").port());
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let (stream, _) = listener.accept().expect("a connection");
            let connection = ServerConnection::new(config.clone()).expect("settings");
            let mut stream = StreamOwned::new(connection, stream);
            let mut request = [0; 4096];
            // The client that does not trust the server ends the handshake.
            let Ok(count) = stream.read(&mut request) else { continue };
            assert!(request[..count].starts_with(b"GET /v1/queues/q"));
            let body = r#"{"queue": "q"}"#;
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).expect("the client reads");
        }
    });
    let ask = |root: &str| {
        let client = Client::builder(&*address).roots(root).without_retries().build().expect("a client");
        client.get::<QueueReply>(&["queues", "q"], &[])
    };
    let error = ask(&other_root).expect_err("another authority");
    assert_eq!(error.kind(), FailureKind::Unanswered, "{error}");
    assert_eq!(ask(&root).expect("an answer").queue, "q");
    server.join().expect("the server ends");
}

#[test]
fn roots_without_a_certificate_are_invalid() {
    let error = Client::builder("https://localhost:7070").roots("no PEM").build().expect_err("no roots");
    assert_eq!(error.kind(), FailureKind::Invalid);
}
