//! Handshakes of a rustls client with a listener.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use quire::Timestamp;
use quire::system::Principal;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::listener::{EstablishedConnection, Listener};
use crate::settings::ConnectionSettings;
use crate::statistics::ConnectionStatistics;

/// A certificate authority, and the directory of the files that it signs.
struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// The files of a certificate and its key.
#[derive(Clone)]
struct Credentials {
    certificate: PathBuf,
    key: PathBuf,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, key_pair()).expect("signed");
        let authority = Authority { directory: tempfile::tempdir().expect("a directory"), issuer };
        std::fs::write(authority.path("roots.pem"), authority.issuer.pem()).expect("written");
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Signs a certificate, and writes it with its key into files of this name.
    fn sign(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Credentials {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        change(&mut params);
        let key = key_pair();
        let certificate = params.signed_by(&key, &*self.issuer).expect("signed");
        let files =
            Credentials { certificate: self.path(&format!("{name}.pem")), key: self.path(&format!("{name}.key")) };
        std::fs::write(&files.certificate, certificate.pem()).expect("written");
        std::fs::write(&files.key, key.serialize_pem()).expect("written");
        files
    }

    /// Writes a list that revokes a serial number.
    fn revoke(&self, serial: u64, next_update: i32) -> PathBuf {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(next_update, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2021, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.path("crl.pem");
        std::fs::write(&path, list.signed_by(&self.issuer).expect("signed").pem().expect("PEM")).expect("written");
        path
    }

    fn settings(&self, own: &Credentials) -> TlsSettings {
        TlsSettings {
            certificate: own.certificate.clone(),
            key: own.key.clone(),
            version_min: TlsVersion::Tls12,
            client_certificates: ClientCertificates::None,
            client_roots: None,
            client_crls: Vec::new(),
            client_names: Vec::new(),
        }
    }

    /// Settings that require certificates of this authority.
    fn mutual(&self, own: &Credentials) -> TlsSettings {
        TlsSettings {
            client_certificates: ClientCertificates::Required,
            client_roots: Some(self.path("roots.pem")),
            ..self.settings(own)
        }
    }

    /// A client that trusts this authority.
    fn client(&self, protocols: &[&str], credentials: Option<&Credentials>) -> TlsConnector {
        self.client_of(rustls::DEFAULT_VERSIONS, protocols, credentials)
    }

    /// A client with these versions of TLS.
    fn client_of(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        protocols: &[&str],
        credentials: Option<&Credentials>,
    ) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match credentials {
            None => builder.with_no_client_auth(),
            Some(Credentials { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_file(certificate).expect("a certificate")];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).expect("a key")).expect("valid")
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

fn key_pair() -> KeyPair {
    KeyPair::generate().expect("a key")
}

async fn listener(settings: &TlsSettings, protocol: TlsProtocol) -> Listener {
    let tls = ServerTls::load(settings).expect("valid");
    let address = "127.0.0.1:0".parse().expect("an address");
    let listener = Listener::bind(&address, &ConnectionSettings::default()).await.expect("a port");
    listener.with_tls(tls, protocol).expect("TCP")
}

/// A moment that no handshake of these tests reaches.
fn late() -> Instant {
    Instant::now() + std::time::Duration::from_secs(600)
}

/// Connects a client, and sends a byte each way: a TLS 1.3 client learns of a refusal only then.
async fn talk(
    listener: &Listener,
    client: &TlsConnector,
) -> (Option<EstablishedConnection>, std::io::Result<TlsStream<TcpStream>>) {
    let address = listener.address().tcp().expect("TCP");
    let serving = async {
        let mut established = listener.accept().await.establish(late()).await?;
        established.stream.write_all(b"s").await.expect("written");
        established.stream.flush().await.expect("sent");
        assert_eq!(established.stream.read_u8().await.expect("a byte"), b'c');
        Some(established)
    };
    let connecting = async {
        let stream = TcpStream::connect(address).await?;
        let mut stream = client.connect(ServerName::try_from("localhost").expect("a name"), stream).await?;
        stream.write_all(b"c").await?;
        stream.flush().await?;
        stream.read_u8().await?;
        Ok(stream)
    };
    tokio::join!(serving, connecting)
}

async fn is_served(listener: &Listener, client: &TlsConnector) -> bool {
    let (served, connected) = talk(listener, client).await;
    assert_eq!(served.is_some(), connected.is_ok(), "{connected:?}");
    served.is_some()
}

fn statistics(listener: &Listener) -> ConnectionStatistics {
    listener.counters().statistics()
}

#[tokio::test]
async fn each_protocol_negotiates_its_own_and_refuses_another() {
    let authority = Authority::new();
    let settings = authority.settings(&authority.sign("server", |_| {}));
    let mut refused = 0;
    for (protocol, offered, expected) in [
        (TlsProtocol::Grpc, &["h2"][..], true),
        (TlsProtocol::Grpc, &["http/1.1"], true),
        (TlsProtocol::Grpc, &[], false),
        (TlsProtocol::Grpc, &["kafka"], false),
        (TlsProtocol::Http, &["http/1.1"], true),
        (TlsProtocol::Http, &["h2", "http/1.1"], true),
        (TlsProtocol::Http, &[], true),
        (TlsProtocol::Http, &["h2"], false),
        (TlsProtocol::Kafka, &[], true),
        (TlsProtocol::Kafka, &["http/1.1"], false),
        (TlsProtocol::Kafka, &["h2", "http/1.1"], false),
    ] {
        let listener = listener(&settings, protocol).await;
        let served = is_served(&listener, &authority.client(offered, None)).await;
        assert_eq!(served, expected, "{protocol:?} {offered:?}");
        assert_eq!(statistics(&listener).handshake_failures, u64::from(!expected));
        refused += u64::from(!expected);
    }
    assert_eq!(refused, 5);
}

#[tokio::test]
async fn a_client_certificate_is_required_optional_or_not_requested() {
    let authority = Authority::new();
    let server = authority.sign("server", |_| {});
    let own = authority.sign("own", |_| {});
    let expired = authority.sign("expired", |params| {
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    });
    let foreign = Authority::new();
    let foreign = (foreign.sign("foreign", |_| {}), foreign);
    let required = authority.mutual(&server);
    let optional = TlsSettings { client_certificates: ClientCertificates::Optional, ..required.clone() };
    for (settings, [none, valid, ended, other]) in [
        (authority.settings(&server), [true, true, true, true]),
        (optional, [true, true, false, false]),
        (required, [false, true, false, false]),
    ] {
        let listener = listener(&settings, TlsProtocol::Http).await;
        let served = async |credentials| is_served(&listener, &authority.client(&[], credentials)).await;
        assert_eq!(served(None).await, none, "none: {settings:?}");
        assert_eq!(served(Some(&own)).await, valid, "valid: {settings:?}");
        assert_eq!(served(Some(&expired)).await, ended, "expired: {settings:?}");
        assert_eq!(served(Some(&foreign.0)).await, other, "of another authority: {settings:?}");
    }
}

#[tokio::test]
async fn a_session_is_resumed_only_where_no_client_certificate_is_requested() {
    let authority = Authority::new();
    let server = authority.sign("server", |_| {});
    let own = authority.sign("own", |_| {});
    let required = authority.mutual(&server);
    let optional = TlsSettings { client_certificates: ClientCertificates::Optional, ..required.clone() };
    for (settings, second) in [
        (authority.settings(&server), HandshakeKind::Resumed),
        (optional, HandshakeKind::Full),
        (required, HandshakeKind::Full),
    ] {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let listener = listener(&settings, TlsProtocol::Http).await;
            let client = authority.client_of(&[version], &[], Some(&own));
            for expected in [HandshakeKind::Full, second] {
                let (_served, connected) = talk(&listener, &client).await;
                let connected = connected.expect("served");
                let kind = connected.get_ref().1.handshake_kind();
                assert_eq!(kind, Some(expected), "{version:?} {:?}", settings.client_certificates);
            }
        }
    }
}

#[tokio::test]
async fn the_principal_of_a_certificate_expires_with_it() {
    let authority = Authority::new();
    let server = authority.sign("server", |_| {});
    let own = authority.sign("own", |params| {
        params.distinguished_name.push(DnType::CommonName, "anna");
        params.not_after = date_time_ymd(2999, 1, 1);
    });
    let rule = "cn:{name} => {name}".parse().expect("a rule");
    let settings = TlsSettings { client_names: vec![rule], ..authority.mutual(&server) };
    let listener = listener(&settings, TlsProtocol::Http).await;
    let (served, _client) = talk(&listener, &authority.client(&[], Some(&own))).await;
    let principal = served.expect("served").peer.verified().expect("it has a name");
    let end_s = u64::try_from(date_time_ymd(2999, 1, 1).unix_timestamp()).expect("after 1970");
    let expires = Some(Timestamp::from_millis((end_s + 1) * 1_000));
    assert_eq!(principal, Principal { expires, ..Principal::named("anna") });
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_from_the_reload_on_and_a_stale_list_refuses_all() {
    let authority = Authority::new();
    let server = authority.sign("server", |_| {});
    let [first, second] = [1_u64, 2].map(|serial| {
        authority.sign(&serial.to_string(), |params| params.serial_number = Some(SerialNumber::from(serial)))
    });
    let settings = TlsSettings { client_crls: vec![authority.revoke(9, 2999)], ..authority.mutual(&server) };
    let listener = listener(&settings, TlsProtocol::Http).await;
    let clients = [first, second].map(|credentials| authority.client(&[], Some(&credentials)));
    let served = async || (is_served(&listener, &clients[0]).await, is_served(&listener, &clients[1]).await);
    assert_eq!(served().await, (true, true));
    let tls = listener.tls().expect("TLS");
    assert!(!tls.refresh().expect("unchanged"));
    authority.revoke(1, 2999);
    assert!(tls.refresh().expect("valid"));
    // Its session of before is not resumed either.
    assert_eq!(served().await, (false, true));
    authority.revoke(1, 2022);
    assert!(tls.refresh().expect("valid"));
    assert_eq!(served().await, (false, false));
}

#[tokio::test]
async fn the_rules_give_a_certificate_its_name_and_without_one_a_required_certificate_is_refused() {
    let authority = Authority::new();
    let server = authority.sign("server", |_| {});
    let uri = |text: &str| SanType::URI(text.try_into().expect("ASCII"));
    let billing = authority.sign("billing", |params| params.subject_alt_names = vec![uri("spiffe://acme/billing")]);
    let anna = authority.sign("anna", |params| params.distinguished_name.push(DnType::CommonName, "anna"));
    let rules = ["uri:spiffe://acme/{service} => svc-{service}", "dns:{host}.acme => {host}"];
    let client_names = rules.map(|rule| rule.parse().expect("a rule")).to_vec();
    let required = TlsSettings { client_names, ..authority.mutual(&server) };
    let optional = TlsSettings { client_certificates: ClientCertificates::Optional, ..required.clone() };
    let name = async |settings: &TlsSettings, credentials: &Credentials| {
        let listener = listener(settings, TlsProtocol::Kafka).await;
        let (served, _client) = talk(&listener, &authority.client(&[], Some(credentials))).await;
        served.map(|served| {
            assert!(served.peer.has_tls());
            served.peer.principal().map(str::to_owned)
        })
    };
    assert_eq!(name(&required, &billing).await, Some(Some("svc-billing".to_owned())));
    assert_eq!(name(&optional, &billing).await, Some(Some("svc-billing".to_owned())));
    assert_eq!(name(&required, &anna).await, None);
    assert_eq!(name(&optional, &anna).await, Some(None));
    let without_rules = TlsSettings { client_names: Vec::new(), ..required };
    assert_eq!(name(&without_rules, &billing).await, Some(None));
}

#[tokio::test]
async fn a_handshake_that_is_not_complete_in_time_ends_and_frees_its_place() {
    let authority = Authority::new();
    let settings = authority.settings(&authority.sign("server", |_| {}));
    let listener = listener(&settings, TlsProtocol::Http).await;
    let mut client = TcpStream::connect(listener.address().tcp().expect("TCP")).await.expect("connected");
    // The begin of a ClientHello of 512 bytes.
    client.write_all(b"\x16\x03\x01\x02\0\x01").await.expect("sent");
    let admission = listener.accept().await;
    assert_eq!(statistics(&listener).open, 1);
    assert!(admission.establish(Instant::now()).await.is_none());
    let counts = statistics(&listener);
    assert_eq!((counts.ended_first_request, counts.handshake_failures, counts.open), (1, 0, 0));
    assert_eq!(client.read(&mut [0; 1]).await.ok(), Some(0));
}

#[tokio::test]
async fn bytes_that_are_not_tls_and_messages_beyond_the_limit_end_a_handshake() {
    let authority = Authority::new();
    let settings = authority.settings(&authority.sign("server", |_| {}));
    let listener = listener(&settings, TlsProtocol::Http).await;
    // Records of a ClientHello that claims 16 MiB: the server must not collect them.
    let claimed = [&b"\x16\x03\x01\x40\0\x01\xff\xff\xff"[..], &[0; (16 << 10) - 4]].concat();
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), &claimed] {
        let mut client = TcpStream::connect(listener.address().tcp().expect("TCP")).await.expect("connected");
        client.write_all(bytes).await.expect("sent");
        assert!(listener.accept().await.establish(late()).await.is_none());
    }
    assert_eq!((statistics(&listener).handshake_failures, statistics(&listener).open), (2, 0));
}

#[tokio::test]
async fn a_file_that_can_not_be_used_is_named_once_and_keeps_the_old_state() {
    let authority = Authority::new();
    let server = authority.sign("server", |params| params.not_after = date_time_ymd(2999, 1, 1));
    let listener = listener(&authority.mutual(&server), TlsProtocol::Http).await;
    let tls = listener.tls().expect("TLS");
    let own = authority.client(&[], Some(&authority.sign("own", |_| {})));
    let end = date_time_ymd(2999, 1, 1).unix_timestamp();
    assert_eq!(tls.certificate_end(), end);
    assert_eq!([end - 86_400, end - 1, end, end + 1].map(|now| tls.certificate_days_left(now)), [1, 0, 0, -1]);
    let saved = std::fs::read(&server.certificate).expect("read");
    let other = std::fs::read(authority.sign("other", |_| {}).certificate).expect("read");
    for (file, content, problem) in [
        (&server.certificate, &b""[..], "the file has no certificate"),
        (&server.certificate, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "invalid certificate"),
        (&server.certificate, &other, "with the key"),
        (&server.key, b"secret", "no private key"),
        (&authority.path("roots.pem"), b"", "the file has no certificate"),
    ] {
        let before = std::fs::read(file).expect("read");
        std::fs::write(file, content).expect("written");
        let error = tls.refresh().expect_err(problem).to_string();
        assert!(error.contains(problem) && error.contains(&file.display().to_string()), "{problem}: {error}");
        assert!(!error.contains("secret"), "{error}");
        assert!(!tls.refresh().expect("reported already"));
        assert_eq!(tls.certificate_end(), end);
        assert!(is_served(&listener, &own).await, "{problem}");
        std::fs::write(file, before).expect("written");
        assert!(tls.refresh().expect("valid again"));
    }
    std::fs::remove_file(&server.certificate).expect("removed");
    assert!(tls.refresh().expect_err("missing").to_string().contains("server.pem"));
    std::fs::write(&server.certificate, saved).expect("written");
    assert!(tls.refresh().expect("valid again"));
    assert!(tls.requires_client_certificates());
}

#[test]
fn a_key_that_others_can_read_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let authority = Authority::new();
    let server = authority.sign("server", |_| {});
    let tls = ServerTls::load(&authority.settings(&server)).expect("valid");
    for (mode, is_wide) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true)] {
        std::fs::set_permissions(&server.key, std::fs::Permissions::from_mode(mode)).expect("set");
        let expected = is_wide.then(|| (server.key.display().to_string(), mode));
        assert_eq!(tls.wide_key(), expected, "{mode:o}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_reloads_lose_no_connection() {
    const RELOADS: u32 = 1_000;
    let authority = Authority::new();
    let servers = [authority.sign("server", |_| {}), authority.sign("other", |_| {})];
    let settings = servers.clone().map(|server| authority.mutual(&server));
    let listener = Arc::new(listener(&settings[0], TlsProtocol::Http).await);
    let client = authority.client(&[], Some(&authority.sign("own", |_| {})));
    let (is_over, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut open = talk(&listener, &client).await;
    let load = {
        let (listener, is_over, connections) = (Arc::clone(&listener), Arc::clone(&is_over), Arc::clone(&connections));
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                assert!(is_served(&listener, &client).await);
                connections.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let tls = listener.tls().expect("TLS");
    for reload in 0..RELOADS {
        tls.replace(&settings[reload as usize % 2]).expect("valid");
        // The load continues between the reloads.
        let before = connections.load(Ordering::Relaxed);
        while reload % 100 == 0 && connections.load(Ordering::Relaxed) == before && !load.is_finished() {
            tokio::task::yield_now().await;
        }
    }
    is_over.store(true, Ordering::Relaxed);
    load.await.expect("no connection is lost");
    assert!(connections.load(Ordering::Relaxed) >= 10);
    // A connection from before the reloads still works.
    let (Some(served), Ok(client)) = (&mut open.0, &mut open.1) else { panic!("it was open") };
    client.write_all(b"x").await.expect("written");
    client.flush().await.expect("sent");
    assert_eq!(served.stream.read_u8().await.expect("a byte"), b'x');
    assert_eq!(statistics(&listener).handshake_failures, 0);
}

#[tokio::test]
async fn the_halves_of_a_tls_stream_work_at_once_and_show_a_client_that_leaves() {
    let authority = Authority::new();
    let settings = authority.settings(&authority.sign("server", |_| {}));
    let listener = listener(&settings, TlsProtocol::Kafka).await;
    let (served, client) = talk(&listener, &authority.client(&[], None)).await;
    let (mut client, served) = (client.expect("connected"), served.expect("established"));
    let (mut reader, mut writer) = served.stream.into_halves().expect("TLS has halves");
    let large = vec![7; 1 << 20];
    let sending = async {
        writer.write_all(&large).await.expect("written");
        writer.flush().await.expect("sent");
    };
    let mut received = vec![0; large.len()];
    let client_side = async {
        client.write_all(b"ping").await.expect("written");
        client.flush().await.expect("sent");
        client.read_exact(&mut received).await.expect("received");
    };
    let mut ping = [0; 4];
    let (_, (), read) = tokio::join!(sending, client_side, reader.read_exact(&mut ping));
    read.expect("read");
    assert_eq!((&ping, received == large), (b"ping", true));
    // An end without the alert of TLS, behind a byte that nothing reads yet.
    client.write_all(b"x").await.expect("written");
    client.flush().await.expect("sent");
    drop(client.into_inner().0);
    while tokio::time::timeout(std::time::Duration::from_millis(10), writer.client_closed()).await.is_err() {}
    assert_eq!(reader.read_u8().await.expect("a byte"), b'x');
    assert_eq!(reader.read(&mut ping).await.expect("the end"), 0);
}

#[tokio::test]
async fn a_unix_socket_has_no_tls() {
    let authority = Authority::new();
    let tls = ServerTls::load(&authority.settings(&authority.sign("server", |_| {})));
    let address = crate::address::ListenAddress::Unix(authority.path("quire.sock"));
    let listener = Listener::bind(&address, &ConnectionSettings::default()).await.expect("bound");
    let error = listener.with_tls(tls.expect("valid"), TlsProtocol::Http).expect_err("a Unix socket");
    assert!(error.to_string().ends_with("is a Unix socket, which has no TLS"), "{error}");
}

#[tokio::test]
async fn a_client_below_the_lowest_version_is_refused() {
    let authority = Authority::new();
    let settings = authority.settings(&authority.sign("server", |_| {}));
    for (version_min, expected) in [(TlsVersion::Tls12, true), (TlsVersion::Tls13, false)] {
        let listener = listener(&TlsSettings { version_min, ..settings.clone() }, TlsProtocol::Http).await;
        let client = authority.client_of(&[&rustls::version::TLS12], &[], None);
        assert_eq!(is_served(&listener, &client).await, expected, "{version_min}");
        assert!(is_served(&listener, &authority.client(&[], None)).await);
    }
}

#[tokio::test]
async fn listeners_of_one_server_share_its_limits_and_each_has_its_own_tls() {
    let authority = Authority::new();
    let tls = ServerTls::load(&authority.settings(&authority.sign("server", |_| {}))).expect("valid");
    let address = "127.0.0.1:0".parse().expect("an address");
    let limits = ConnectionSettings { connections_max: 1, ..ConnectionSettings::default() };
    let plain = Listener::bind(&address, &limits).await.expect("a port");
    let secure = plain.and_on(&address).await.expect("a port").with_tls(tls, TlsProtocol::Kafka).expect("TCP");
    let (served, client) = talk(&secure, &authority.client(&[], None)).await;
    let served = served.expect("established");
    assert!(client.is_ok() && served.peer.has_tls() && plain.tls().is_none());
    let running = served.place.activity().begin();
    let mut refused = TcpStream::connect(plain.address().tcp().expect("TCP")).await.expect("connected");
    let mut byte = [0];
    tokio::select! {
        _ = plain.accept() => panic!("beyond the limit"),
        read = refused.read(&mut byte) => assert_eq!(read.expect("closed"), 0),
    }
    assert_eq!((statistics(&plain).refused_limit, statistics(&secure).refused_limit), (1, 1));
    drop(running);
}
