//! gRPC-Web: calls as a browser sends them, over HTTP/1.1.

use prost::Message;
use quire_grpc::Settings;
use quire_grpc::proto::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::served::Served;

const COMMIT: &str = "/quire.v1.Quire/Commit";

/// The flag of a frame with trailers.
const TRAILERS: u8 = 0x80;

/// A response over HTTP/1.1, whose body is read frame by frame.
struct WebResponse {
    stream: TcpStream,
    head: String,
    /// The bytes of the connection that were not read yet.
    raw: Vec<u8>,
    /// The bytes of the body that were not read yet.
    body: Vec<u8>,
}

impl WebResponse {
    async fn fill(&mut self) {
        let mut buffer = [0; 4 << 10];
        let count = self.stream.read(&mut buffer).await.expect("readable");
        assert!(count > 0, "the connection ended early: {}", self.head);
        self.raw.extend_from_slice(&buffer[..count]);
    }

    /// Adds the next chunk to the body.
    async fn chunk(&mut self) {
        let end = loop {
            match self.raw.windows(2).position(|line| line == b"\r\n") {
                Some(end) => break end,
                None => self.fill().await,
            }
        };
        let length = std::str::from_utf8(&self.raw[..end]).expect("text");
        let length = usize::from_str_radix(length, 16).expect("a length");
        while self.raw.len() < end + 4 + length {
            self.fill().await;
        }
        self.body.extend_from_slice(&self.raw[end + 2..][..length]);
        self.raw.drain(..end + 4 + length);
    }

    /// The flag and the bytes of the next frame.
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        loop {
            if let Some((prefix, rest)) = self.body.split_first_chunk::<5>() {
                let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
                if rest.len() >= length {
                    let frame = (prefix[0], rest[..length].to_vec());
                    self.body.drain(..5 + length);
                    return frame;
                }
            }
            self.chunk().await;
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// Sends a request with these headers, and reads the head of the response.
async fn send(served: &Served, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> WebResponse {
    let own = served.address.to_string();
    let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
    let host = [("Host", &*own)];
    let host = host.iter().filter(|_| headers.iter().all(|(name, _)| *name != "Host"));
    for (name, value) in host.chain(headers) {
        head += &format!("{name}: {value}\r\n");
    }
    let mut stream = TcpStream::connect(served.address).await.expect("it listens");
    stream.write_all(&[head.as_bytes(), b"\r\n", body].concat()).await.expect("sent");
    let mut response = WebResponse { stream, head: String::new(), raw: Vec::new(), body: Vec::new() };
    let end = loop {
        match response.raw.windows(4).position(|line| line == b"\r\n\r\n") {
            Some(end) => break end,
            None => response.fill().await,
        }
    };
    response.head = String::from_utf8(response.raw[..end].to_vec()).expect("text");
    response.raw.drain(..end + 4);
    response
}

/// Calls a method as a page does.
async fn call(served: &Served, path: &str, headers: &[(&str, &str)], message: &impl Message) -> WebResponse {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).expect("it is short").to_be_bytes();
    let kind = [("Content-Type", "application/grpc-web+proto"), ("X-Grpc-Web", "1")];
    send(served, "POST", path, &[&kind[..], headers].concat(), &[&[0][..], &length, &message].concat()).await
}

fn commit(kind: commit_part::Kind) -> CommitRequest {
    CommitRequest { parts: vec![CommitPart { kind: Some(kind) }], dry_run: false }
}

fn enqueue() -> CommitRequest {
    commit(commit_part::Kind::Enqueue(Box::new(NewJob { queue: "q".to_owned(), ..NewJob::default() })))
}

fn append(count: usize) -> AppendEventsRequest {
    let event = NewEvent { r#type: "Made".to_owned(), ..NewEvent::default() };
    AppendEventsRequest { store: "s".to_owned(), events: vec![event; count], ..AppendEventsRequest::default() }
}

#[tokio::test]
async fn a_page_commits_and_reads_a_stream() {
    let served = Served::new().await;
    let own = format!("http://{}", served.address);
    let page = [("Origin", &*own), ("Sec-Fetch-Site", "same-origin")];
    let mut response = call(&served, COMMIT, &page, &enqueue()).await;
    assert!(response.head.starts_with("HTTP/1.1 200"), "{}", response.head);
    assert_eq!(response.header("content-type"), Some("application/grpc-web+proto"));
    let (flag, message) = response.frame().await;
    let committed = CommitResponse::decode(&message[..]).expect("a response");
    assert_eq!((flag, committed.replies.len()), (0, 1));
    let (flag, trailers) = response.frame().await;
    assert_eq!(flag, TRAILERS);
    assert!(String::from_utf8(trailers).expect("text").contains("grpc-status:0"));

    let mut events = served.events().await;
    events.append(append(2)).await.expect("accepted");
    let subscribe = SubscribeEventsRequest { store: "s".to_owned(), ..SubscribeEventsRequest::default() };
    let mut stream = call(&served, "/quire.v1.Events/Subscribe", &page, &subscribe).await;
    let mut seen = 0;
    while seen < 5 {
        let (flag, message) = stream.frame().await;
        assert_eq!(flag, 0);
        let page = SubscribeEventsResponse::decode(&message[..]).expect("a page");
        seen += page.events.len();
        if page.caught_up == Some(2) {
            events.append(append(3)).await.expect("accepted");
        }
    }
}

#[tokio::test]
async fn a_refusal_reaches_the_page() {
    let served = Served::new().await;
    let lost = JobReport { job: "9-9".to_owned(), token: "9-9".to_owned(), what: None };
    let response = call(&served, COMMIT, &[], &commit(commit_part::Kind::Report(Box::new(lost)))).await;
    let status = (tonic::Code::InvalidArgument as i32).to_string();
    assert_eq!(response.header("grpc-status"), Some(&*status), "{}", response.head);
    assert!(response.header("grpc-status-details-bin").is_some(), "{}", response.head);
}

#[tokio::test]
async fn only_pages_of_this_server_and_of_allowed_origins_call() {
    let settings = Settings {
        hosts: vec!["quire.example".to_owned()],
        allowed_origins: vec!["https://app.example".to_owned()],
        ..Settings::default()
    };
    let served = Served::with(settings).await;
    let port = served.address.port();
    let foreign_host = format!("evil.example:{port}");
    let its_origin = format!("http://{foreign_host}");
    let denied = (tonic::Code::PermissionDenied as i32).to_string();
    let refused: [&[(&str, &str)]; 5] = [
        &[("Origin", "https://evil.example")],
        &[("Origin", "null")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Origin", "https://app.example.evil")],
        &[("Origin", "https://app.example"), ("Origin", "https://app.example")],
    ];
    for headers in refused {
        let response = call(&served, COMMIT, headers, &enqueue()).await;
        assert_eq!(response.header("grpc-status"), Some(&*denied), "{headers:?}: {}", response.head);
        assert_eq!(response.header("access-control-allow-origin"), None, "{headers:?}");
    }
    // A name that an attacker points at this address.
    let rebound = [("Host", &*foreign_host), ("Origin", &*its_origin)];
    for headers in [&rebound[..], &rebound[..1], &[("Host", "")][..]] {
        let response = call(&served, COMMIT, headers, &enqueue()).await;
        let status = response.header("grpc-status");
        assert!(status.is_some_and(|status| status != "0"), "{headers:?}: {}", response.head);
    }
    let queues = served.jobs().await.queues(QueuesRequest::default()).await.expect("listed").into_inner().queues;
    assert!(queues.is_empty(), "no refused call was carried out");

    let preflight = [
        ("Origin", "https://app.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type,x-grpc-web"),
    ];
    let response = send(&served, "OPTIONS", COMMIT, &preflight, b"").await;
    assert!(response.head.starts_with("HTTP/1.1 204"), "{}", response.head);
    assert_eq!(response.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(response.header("access-control-allow-headers").is_some_and(|names| names.contains("x-grpc-web")));
    let page = [("Origin", "https://app.example"), ("Sec-Fetch-Site", "cross-site")];
    let mut response = call(&served, COMMIT, &page, &enqueue()).await;
    assert_eq!(response.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(response.header("access-control-expose-headers").is_some_and(|names| names.contains("grpc-status")));
    assert_eq!(response.frame().await.0, 0, "it is carried out");
    let mut response = call(&served, COMMIT, &[("Host", "quire.example")], &enqueue()).await;
    assert_eq!(response.frame().await.0, 0, "a proxy has this name");
}

#[tokio::test]
async fn a_request_for_an_unknown_method_is_refused_and_adds_no_name_to_the_metrics() {
    let served = Served::new().await;
    for (method, path, status) in [("GET", "/", "400"), ("POST", "/made/up", "400"), ("OPTIONS", COMMIT, "400")] {
        let response = send(&served, method, path, &[("Content-Type", "text/plain")], b"").await;
        assert!(response.head.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {}", response.head);
    }
    // A page may call a method that no service has.
    let response = call(&served, "/quire.v1.Quire/Made", &[], &enqueue()).await;
    let unimplemented = (tonic::Code::Unimplemented as i32).to_string();
    assert_eq!(response.header("grpc-status"), Some(&*unimplemented), "{}", response.head);
    let ended = served.traffic.grpc.ended();
    let names: Vec<_> = ended.iter().map(|ended| (&*ended.name, ended.durations.count())).collect();
    assert_eq!(names, [("unknown", 4)]);
}

#[tokio::test]
async fn invalid_names_and_origins_are_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a directory");
    let database = quire::Database::open(folder.path()).expect("opened");
    for settings in [
        Settings { hosts: vec!["http://quire.example".to_owned()], ..Settings::default() },
        Settings { allowed_origins: vec!["*".to_owned()], ..Settings::default() },
    ] {
        let any = "127.0.0.1:0".parse().expect("an address");
        let bound = quire_grpc::Server::bind_with(database.clone(), any, settings).await;
        assert_eq!(bound.expect_err("invalid").kind(), std::io::ErrorKind::InvalidInput);
    }
}
