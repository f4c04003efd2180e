//! TLS of a server: each protocol, certificates of clients, listeners, and files that change.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::support::{Server, quire, run_on};

const PAGE: &str = include_str!("../../../../docs/tls.md");

/// Connections that are tried until a reload has taken effect.
const TRIES_MAX: u32 = 100_000;

/// ApiVersions, version 0, number 1, no name.
const API_VERSIONS: &[u8] = b"\0\x12\0\0\0\0\0\x01\xff\xff";

/// Metadata of all topics, version 0, number 1, no name.
const METADATA: &[u8] = b"\0\x03\0\0\0\0\0\x01\xff\xff\0\0\0\0";

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// A certificate authority, and the directory of the files that it signs.
pub(crate) struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed");
        let authority = Authority { directory: tempfile::tempdir().expect("a directory"), issuer };
        fs::write(authority.path("roots.pem"), authority.issuer.pem()).expect("written");
        authority.sign("server", "server");
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Signs a certificate for `localhost` with this common name. Writes it and its key into files.
    fn sign(&self, file: &str, common_name: &str) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &*self.issuer).expect("signed");
        fs::write(self.path(&format!("{file}.pem")), certificate.pem()).expect("written");
        fs::write(self.path(&format!("{file}.key")), key.serialize_pem()).expect("written");
    }

    /// `quire serve` with the certificate of this authority.
    fn serve(&self) -> Command {
        self.serve_on(&self.path("data"), "os")
    }

    /// `quire serve` on a directory, with the certificate of this authority.
    pub(crate) fn serve_on(&self, data: &Path, durability: &str) -> Command {
        let mut command = quire();
        command.args(["serve", "--durability", durability, "--data"]).arg(data);
        command.arg("--tls-certificate").arg(self.path("server.pem"));
        command.arg("--tls-key").arg(self.path("server.key"));
        command
    }

    /// A client that trusts this authority. `own` are the files of its certificate.
    fn client(&self, protocols: &[&str], own: Option<&str>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("versions").with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = CertificateDer::from_pem_file(self.path(&format!("{own}.pem"))).expect("a certificate");
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{own}.key"))).expect("a key");
                builder.with_client_auth_cert(vec![chain], key).expect("they fit")
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    fn connect(&self, address: &str, own: Option<&str>) -> TlsStream {
        let client = ClientConnection::new(self.client(&[], own), localhost()).expect("a client");
        StreamOwned::new(client, TcpStream::connect(bare(address)).expect("it listens"))
    }

    /// The certificate that the server at this address has.
    fn served_certificate(&self, address: &str) -> Vec<u8> {
        let mut stream = self.connect(address, None);
        ask_kafka(&mut stream, API_VERSIONS).expect("served");
        stream.conn.peer_certificates().expect("a certificate")[0].to_vec()
    }

    fn written_certificate(&self) -> Vec<u8> {
        CertificateDer::from_pem_file(self.path("server.pem")).expect("a certificate").to_vec()
    }
}

fn localhost() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("a name")
}

/// The address of a listener with TLS, without its prefix.
#[track_caller]
fn bare(address: &str) -> &str {
    address.strip_prefix("tls://").unwrap_or_else(|| panic!("{address} has no TLS"))
}

/// Asks a server of the Kafka protocol on an open connection.
fn ask_kafka(stream: &mut (impl Read + Write), request: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(&[&(request.len() as u32).to_be_bytes()[..], request].concat())?;
    stream.flush()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// The response of HTTP to a request for this path.
fn get(mut stream: TlsStream, address: &str, path: &str) -> std::io::Result<String> {
    let port = address.rsplit_once(':').expect("a port").1;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The status of HTTP/2 and of gRPC in the response to a call.
async fn call(address: &str, client: Arc<ClientConfig>) -> (u16, String) {
    let stream = tokio::net::TcpStream::connect(bare(address)).await.expect("it listens");
    let stream = tokio_rustls::TlsConnector::from(client).connect(localhost(), stream).await.expect("TLS");
    let (client, connection) = h2::client::handshake(stream).await.expect("it speaks HTTP/2");
    tokio::spawn(async { drop(connection.await) });
    let mut client = client.ready().await.expect("it takes calls");
    let request = Request::post("https://localhost/quire.v1.Jobs/Queues");
    let request = request.header("content-type", "application/grpc").header("te", "trailers").body(());
    let (response, mut body) = client.send_request(request.expect("a request"), false).expect("a call");
    body.send_data(Bytes::from_static(&[0; 5]), true).expect("sent");
    let response = response.await.expect("a response");
    let (status, mut body) = (response.status().as_u16(), response.into_body());
    while let Some(data) = body.data().await {
        drop(data.expect("data"));
    }
    let trailers = body.trailers().await.expect("an end").expect("trailers");
    (status, trailers["grpc-status"].to_str().expect("text").to_owned())
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

/// Waits until the log has a line.
fn wait_for(log: &Path, line: &str) -> String {
    loop {
        let text = fs::read_to_string(log).expect("a log");
        if text.contains(line) {
            return text;
        }
        std::thread::yield_now();
    }
}

#[test]
fn each_protocol_has_tls_and_a_hangup_loads_the_files_again() {
    let authority = Authority::new();
    let log = authority.path("log");
    let server = Server::logging(&mut authority.serve(), &log);
    let first = authority.written_certificate();
    assert_eq!(authority.served_certificate(&server.kafka), first);
    let mut open = authority.connect(&server.kafka, None);
    ask_kafka(&mut open, API_VERSIONS).expect("served");
    let metrics = get(authority.connect(&server.http, None), &server.http, "/metrics").expect("served");
    for front_end in ["grpc", "http", "kafka"] {
        let days = format!("\nquire_tls_certificate_days_left{{front_end=\"{front_end}\"}} ");
        assert!(metrics.starts_with("HTTP/1.0 200") && metrics.contains(&days), "{metrics}");
    }
    let grpc = || block_on(call(&server.grpc, authority.client(&["h2"], None)));
    assert_eq!(grpc(), (200, "0".to_owned()));
    let plain = TcpStream::connect(bare(&server.kafka)).expect("it listens");
    ask_kafka(&mut { plain }, API_VERSIONS).expect_err("a listener with TLS serves nothing else");

    authority.sign("server", "second");
    let second = authority.written_certificate();
    server.signal("HUP");
    let is_second = || authority.served_certificate(&server.kafka) == second;
    assert!((0..TRIES_MAX).any(|_| is_second()), "the new certificate is not served");
    assert_eq!(grpc(), (200, "0".to_owned()));
    ask_kafka(&mut open, API_VERSIONS).expect("an open connection lasts");

    fs::write(authority.path("server.key"), "no key").expect("written");
    server.signal("HUP");
    let text = wait_for(&log, "ERROR server: can't reload the settings; nothing has changed");
    assert!(text.contains("server.key for TLS: the file has no private key"), "{text}");
    assert!(is_second());
    assert_eq!(server.stop_by("TERM").0, Some(0));
    let text = fs::read_to_string(log).expect("a log");
    assert_eq!(text.matches("nothing has changed").count(), 1, "{text}");
    assert!(text.contains("INFO server: loaded the certificate and its key days_left="), "{text}");
}

#[test]
fn a_client_without_a_valid_certificate_is_refused_where_one_is_required() {
    let authority = Authority::new();
    authority.sign("anna", "anna");
    authority.sign("stranger", "anna smith");
    let mut command = authority.serve();
    command.arg("--tls-client-roots").arg(authority.path("roots.pem"));
    let rules = ["--tls-client-name", "uri:spiffe://acme/{service} => {service}", "--tls-client-name", "cn:{x} => {x}"];
    command.args(["--tls-client-certificates", "required"]).args(rules);
    let server = Server::spawn_at("0.0.0.0:0", &mut command);
    assert!(!server.report.contains("no authentication"), "{}", server.report);
    for (own, is_served) in [(None, false), (Some("stranger"), false), (Some("anna"), true)] {
        let kafka = ask_kafka(&mut authority.connect(&server.kafka, own), API_VERSIONS);
        assert_eq!(kafka.is_ok(), is_served, "{own:?}");
        let http = get(authority.connect(&server.http, own), &server.http, "/livez");
        assert_eq!(http.is_ok_and(|answer| answer.starts_with("HTTP/1.0 200")), is_served, "{own:?}");
    }
}

#[test]
fn other_machines_need_tls_and_a_credential() {
    let authority = Authority::new();
    let data = authority.path("data");
    let [certificate, key] = ["server.pem", "server.key"].map(|name| authority.path(name).display().to_string());
    let with_tls = ["--tls-certificate", &certificate, "--tls-key", &key];
    let serve = |kafka: &'static str| {
        let addresses = ["serve", "--kafka", kafka, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
        run_on(&data, &[&addresses[..], &with_tls].concat())
    };
    let ways = format!("`quire access init root --data {} --save-key root.key`", data.display());
    serve("0.0.0.0:0").failed_with("--kafka 0.0.0.0:0 has no access control;");
    assert!(!data.exists(), "nothing is created");
    serve("0.0.0.0:0").failed_with(&ways);
    let saved = authority.path("root.key").display().to_string();
    run_on(&data, &["access", "init", "root", "--save-key", &saved]).succeeded();
    serve("plain://0.0.0.0:0").failed_with("--kafka 0.0.0.0:0 has no TLS;");
    let server = Server::spawn_at("0.0.0.0:0", quire().arg("serve").arg("--data").arg(&data).args(with_tls));
    assert!(!server.report.contains("note:"), "{}", server.report);
    assert_eq!(server.stop_by("TERM").0, Some(0));
}

/// A server whose clients need certificates keeps asking for them, whatever the file of settings
/// says at a reload.
#[test]
fn a_reload_does_not_let_other_machines_in() {
    let authority = Authority::new();
    let (config, log) = (authority.path("quire.toml"), authority.path("log"));
    let settings = |certificates: &str| {
        let text = format!("tls_client_certificates = '{certificates}'\n");
        fs::write(&config, text).expect("written");
    };
    settings("required");
    let mut command = authority.serve();
    command.arg("--tls-client-roots").arg(authority.path("roots.pem")).arg("--config").arg(&config);
    let server = Server::logging_at("0.0.0.0:0", &mut command, &log);
    settings("optional");
    server.signal("HUP");
    let text = wait_for(&log, "ERROR server: can't reload the settings; nothing has changed");
    assert!(text.contains("--kafka 0.0.0.0:") && text.contains("has no access control;"), "{text}");
    let stranger = ask_kafka(&mut authority.connect(&server.kafka, None), API_VERSIONS);
    assert!(stranger.is_err(), "{stranger:?}");
    assert_eq!(server.stop_by("TERM").0, Some(0));
}

#[test]
fn listeners_of_kafka_have_tls_and_advertised_addresses_of_their_own() {
    let authority = Authority::new();
    let mut command = authority.serve();
    command.args(["--kafka", "plain://127.0.0.1:0", "--kafka-advertised", "inside.example:1,outside.example:2"]);
    let server = Server::spawn(&mut command);
    let plain = server.report.lines().find_map(|line| line.strip_prefix("kafka       127"));
    let mut plain = TcpStream::connect(format!("127{}", plain.expect("a listener without TLS"))).expect("it listens");
    let has = |answer: &[u8], host: &str| answer.windows(host.len()).any(|window| window == host.as_bytes());
    let answer = ask_kafka(&mut plain, METADATA).expect("served");
    assert!(has(&answer, "inside.example") && !has(&answer, "outside.example"));
    let answer = ask_kafka(&mut authority.connect(&server.kafka, None), METADATA).expect("served");
    assert!(has(&answer, "outside.example") && !has(&answer, "inside.example"));
}

#[test]
fn invalid_tls_settings_end_the_start_before_any_file_is_created() {
    let authority = Authority::new();
    let data = authority.path("data");
    let [certificate, key] = ["server.pem", "server.key"].map(|name| authority.path(name).display().to_string());
    let refused = |flags: &[&str], problem: &str| {
        run_on(&data, &[&["serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"], flags].concat())
            .failed_with(problem);
    };
    let any = "tls://127.0.0.1:0";
    refused(&["--kafka", any], "needs a certificate: give `quire serve` --tls-certificate and --tls-key");
    refused(&["--tls-certificate", &certificate], "tls_certificate needs tls_key");
    refused(&["--tls-certificate", "missing.pem", "--tls-key", &key], "can't use missing.pem for TLS");
    refused(&["--tls-certificate", &certificate, "--tls-key", &certificate], "has no private key in PEM");
    let advertised = ["--kafka", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--kafka-advertised", "one.example:1"];
    refused(&advertised, "must be none or one for each of the 2 listeners, in the same order, got 1");
    assert!(!data.exists());
}

/// Whether a program is installed.
fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--help").output().is_ok()
}

/// The commands of the page under a heading.
fn commands(heading: &str) -> Vec<String> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the heading");
    let section = section.split("\n## ").next().expect("a section").replace("\\\n", "");
    section.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

#[test]
fn the_commands_of_the_page_make_certificates_that_openssl_and_curl_accept() {
    if !is_installed("openssl") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let shell = |command: &str| {
        let ran = Command::new("sh").args(["-c", command]).current_dir(folder.path()).output().expect("a shell");
        let output = [&ran.stdout[..], &ran.stderr].concat();
        (ran.status.success(), String::from_utf8_lossy(&output).into_owned())
    };
    for heading in ["Make a certificate", "Certificates of clients"] {
        for command in commands(heading).iter().filter(|command| command.starts_with("openssl ")) {
            let (is_ok, output) = shell(command);
            assert!(is_ok, "{command}\n{output}");
        }
    }
    let mut command = quire();
    command.current_dir(folder.path()).args(["serve", "--durability", "os", "--data", "data"]);
    command.args(["--tls-certificate", "server.pem", "--tls-key", "server.key"]);
    command.args(["--tls-client-certificates", "required", "--tls-client-roots", "ca.pem"]);
    let server = Server::spawn(command.args(["--tls-client-name", "cn:{name} => {name}"]));
    let port = |address: &str| address.rsplit_once(':').expect("a port").1.to_owned();
    let client = "-CAfile ca.pem -cert anna.pem -key anna.key -verify_return_error -brief </dev/null";
    let (is_ok, output) = shell(&format!("openssl s_client -connect localhost:{} {client}", port(&server.kafka)));
    assert!(is_ok && output.contains("Protocol version: TLSv1.3"), "{output}");
    if is_installed("curl") {
        let curl = format!(
            "curl -sS --cacert ca.pem --cert anna.pem --key anna.key https://localhost:{}/livez",
            port(&server.http)
        );
        let (is_ok, output) = shell(&curl);
        assert!(is_ok, "{output}");
        let (is_ok, output) = shell(&curl.replace("--cert anna.pem --key anna.key", ""));
        assert!(!is_ok, "{output}");
    }
}
