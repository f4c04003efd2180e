//! The client over TLS.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

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
        for _ in 0..3 {
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
    let ask = |address: &str, root: &str| {
        // A retry would wait for a server that accepts no other connection.
        let client = Client::builder(address).roots(root).timeout(Duration::from_secs(3_600)).build();
        client.expect("a client").get::<QueueReply>(&["queues", "q"], &[])
    };
    for (address, root, reason) in [
        (&*address, &*other_root, "invalid peer certificate: "),
        (
            &*address.replace("localhost", "127.0.0.1"),
            &*root,
            "invalid peer certificate: certificate not valid for name",
        ),
    ] {
        let error = ask(address, root).expect_err("no trust");
        assert_eq!(error.kind(), FailureKind::Untrusted, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(ask(&address, &root).expect("an answer").queue, "q");
    server.join().expect("the server ends");
}

#[test]
fn a_server_without_tls_is_not_asked_again() {
    let (root, _) = authority();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("it listens");
    let address = format!("https://localhost:{}", listener.local_addr().expect("an address").port());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").expect("the client reads");
        drop(stream.read_to_end(&mut Vec::new()));
    });
    let client = Client::builder(address).roots(root).timeout(Duration::from_secs(3_600)).build().expect("a client");
    let error = client.get::<QueueReply>(&["queues", "q"], &[]).expect_err("no TLS");
    assert_eq!(error.kind(), FailureKind::Untrusted, "{error}");
}

#[test]
fn roots_without_a_certificate_are_invalid() {
    let error = Client::builder("https://localhost:7070").roots("no PEM").build().expect_err("no roots");
    assert_eq!(error.kind(), FailureKind::Invalid);
}
