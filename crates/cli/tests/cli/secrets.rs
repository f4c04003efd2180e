//! The log of a server at its most talkative level has no secret of any way to authenticate.

use std::io::{Read, Write};
use std::net::TcpStream;

use quire::{Database, Durability, NewPassword};
use quire_grpc::proto::QueuesRequest;
use quire_grpc::proto::jobs_client::JobsClient;

use crate::support::{Server, quire};

const PASSWORD: &str = "correct horse battery";
const WRONG_PASSWORD: &str = "staple of the wrong kind";
const NONCE: &str = "nonce-of-this-client";
const PROOF: &str = "bm90IHRoZSByaWdodCBwcm9vZg==";

/// Sends a Kafka request with this API key, version and body, and returns the answer.
fn ask(stream: &mut TcpStream, api: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let head = [&api.to_be_bytes()[..], &version.to_be_bytes(), &[0, 0, 0, 7, 0xff, 0xff]].concat();
    let length = u32::try_from(head.len() + body.len()).expect("short");
    stream.write_all(&[&length.to_be_bytes()[..], &head, body].concat()).expect("sent");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    answer
}

/// Authenticates with these messages of a mechanism. A message may contain `{nonces}`: those of the
/// last answer.
fn sasl(server: &Server, mechanism: &str, messages: &[&str]) {
    let mut stream = TcpStream::connect(&server.kafka).expect("it listens");
    let name = [&u16::try_from(mechanism.len()).expect("short").to_be_bytes()[..], mechanism.as_bytes()].concat();
    ask(&mut stream, 17, 1, &name);
    let mut nonces = String::new();
    for message in messages {
        let message = message.replace("{nonces}", &nonces);
        let length = u32::try_from(message.len()).expect("short").to_be_bytes();
        let answer = ask(&mut stream, 36, 0, &[&length[..], message.as_bytes()].concat());
        let text = String::from_utf8_lossy(&answer).into_owned();
        let found = text.split_once("r=").and_then(|(_, rest)| rest.split_once(','));
        nonces = found.map_or_else(String::new, |(nonces, _)| nonces.to_owned());
    }
}

/// Calls a method of gRPC with this key.
fn call(server: &Server, key: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    let called = runtime.block_on(async {
        let mut jobs = JobsClient::connect(format!("http://{}", server.grpc)).await.expect("it listens");
        let mut request = tonic::Request::new(QueuesRequest::default());
        request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().expect("metadata"));
        jobs.queues(request).await.is_ok()
    });
    assert_eq!(called, !key.ends_with("wrong"), "{key}");
}

#[test]
fn the_log_has_no_secret_of_any_authentication() {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let database = Database::builder(&data).durability(Durability::Os).open().expect("a new database");
    let key = database.access().init("root").expect("enabled").reveal().to_owned();
    database.access().create_user("ann", &["admin"]).expect("created");
    database.access().set_password("ann", PASSWORD, NewPassword::default()).expect("set");
    drop(database);
    let mut command = quire();
    command.args(["serve", "--durability", "os", "--log", "trace", "--data"]).arg(&data);
    let server = Server::logging(&mut command, &log);
    // The secret part of a key of the right form, whose checksum is wrong.
    let wrong = format!("{}wrong", &key[..key.len() - 5]);
    let mut created = String::new();
    for key in [&key, &wrong] {
        let line = format!("Authorization: Bearer {key}\r\n");
        let (status, _) = server.ask_with("GET", "/v1/queues", "", &line);
        assert_eq!(status, if key == &wrong { 401 } else { 200 });
        let (_, answer) = server.ask_with("POST", "/v1/access/keys", r#"{"user":"ann"}"#, &line);
        created += answer["key"].as_str().unwrap_or_default();
        call(&server, key);
        sasl(&server, "PLAIN", &[&format!("\0root\0{key}")]);
    }
    let basic = "Authorization: Basic cm9vdDpzZWNyZXQ=\r\n";
    assert_eq!(server.ask_with("GET", "/v1/queues", "", basic).0, 401);
    for password in [PASSWORD, WRONG_PASSWORD] {
        sasl(&server, "PLAIN", &[&format!("\0ann\0{password}")]);
    }
    let first = format!("n,,n=ann,r={NONCE}");
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        sasl(&server, mechanism, &[&first, &format!("c=biws,r={{nonces}},p={PROOF}")]);
    }
    assert_eq!(server.stop_by("TERM").0, Some(0));
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.contains("api=SaslAuthenticate") && log.contains("method=quire.v1.Jobs/Queues"), "{log}");
    // The id of a key is no secret.
    let secrets =
        [&key[14..], &wrong[14..], &created[14..], PASSWORD, WRONG_PASSWORD, NONCE, PROOF, "cm9vdDpzZWNyZXQ="];
    for secret in secrets {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}
