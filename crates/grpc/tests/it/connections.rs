//! Connections: their limits and deadlines.

use quire_access::ConnectionSettings;
use quire_grpc::Settings;
use quire_grpc::proto::{
    AppendEventsRequest, AppendEventsResponse, NewEvent, ReadEventsRequest, SubscribeEventsRequest,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Status};

use crate::served::{Served, told};

/// What a client of HTTP/2 sends first: its preface, and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn with(connections: ConnectionSettings) -> Served {
    Served::with(Settings { connections, ..Settings::default() }).await
}

/// Reads until the server closes. A reset is an end, too.
async fn closed(mut stream: TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn a_connection_without_a_first_call_is_closed() {
    let served = with(ConnectionSettings { first_request_ms: 50, ..ConnectionSettings::default() }).await;
    for begun in [&b""[..], &PREFACE[..10], PREFACE] {
        let mut stream = TcpStream::connect(served.address).await.expect("it listens");
        stream.write_all(begun).await.expect("sent");
        closed(stream).await;
    }
    assert_eq!(served.connections.statistics().ended_first_request, 3);
    served.stop().await;
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_closed() {
    let served = with(ConnectionSettings { connections_max: 1, ..ConnectionSettings::default() }).await;
    let mut events = served.events().await;
    let subscribe = SubscribeEventsRequest { store: "s".to_owned(), ..SubscribeEventsRequest::default() };
    let subscription = events.subscribe(Request::new(subscribe)).await.expect("served");
    closed(TcpStream::connect(served.address).await.expect("it listens")).await;
    assert_eq!(served.connections.statistics().refused_limit, 1);
    drop((subscription, events));
    served.stop().await;
}

#[tokio::test]
async fn an_idle_connection_of_an_address_gives_its_place_to_a_new_one() {
    let limits = ConnectionSettings { connections_per_address_max: Some(2), ..ConnectionSettings::default() };
    let served = with(limits).await;
    let mut busy = served.events().await;
    let subscribe = SubscribeEventsRequest { store: "s".to_owned(), ..SubscribeEventsRequest::default() };
    let subscription = busy.subscribe(Request::new(subscribe)).await.expect("served");
    let mut silent = TcpStream::connect(served.address).await.expect("it listens");
    silent.write_all(PREFACE).await.expect("sent");
    let mut events = served.events().await;
    let read = ReadEventsRequest { store: "s".to_owned(), ..ReadEventsRequest::default() };
    events.read(Request::new(read)).await.expect("served");
    closed(silent).await;
    let counts = served.connections.statistics();
    assert_eq!((counts.refused_address, counts.displaced), (0, 1));
    drop((subscription, busy, events));
    served.stop().await;
}

/// Calls `Append` with these messages, and never ends the call.
async fn append_without_end(served: &Served, messages: Vec<AppendEventsRequest>) -> Status {
    let mut client = Grpc::new(served.channel().await);
    client.ready().await.expect("connected");
    let messages = tokio_stream::iter(messages).chain(tokio_stream::pending());
    let codec = tonic_prost::ProstCodec::<AppendEventsRequest, AppendEventsResponse>::default();
    let path = PathAndQuery::from_static("/quire.v1.Events/Append");
    client.client_streaming(Request::new(messages), path, codec).await.expect_err("it has no end")
}

#[tokio::test]
async fn a_call_whose_message_or_end_does_not_arrive_is_given_up() {
    let served = with(ConnectionSettings { request_ms: 50, ..ConnectionSettings::default() }).await;
    let append = AppendEventsRequest {
        store: "s".to_owned(),
        events: vec![NewEvent { r#type: "E".to_owned(), ..NewEvent::default() }],
        conditions: vec![],
        upstream: None,
    };
    for messages in [vec![], vec![append]] {
        let status = append_without_end(&served, messages).await;
        let (code, reason, _) = told(&status);
        assert_eq!((code, reason.as_str()), (Code::DeadlineExceeded, "TIMEOUT"));
    }
    assert_eq!(served.connections.statistics().ended_request, 2);
    served.stop().await;
}

#[tokio::test]
async fn a_unix_socket_is_served_like_an_address() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("grpc.sock");
    let database = quire::Database::open(folder.path().join("data")).expect("opened");
    let address = quire_access::ListenAddress::Unix(path.clone());
    let server = quire_grpc::Server::bind(database, address).await.expect("bound");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async { drop(stopped.await) }));
    let endpoint = tonic::transport::Endpoint::from_shared(format!("unix:{}", path.display())).expect("an address");
    let mut events = quire_grpc::proto::events_client::EventsClient::new(endpoint.connect().await.expect("it listens"));
    let append = AppendEventsRequest {
        store: "s".to_owned(),
        events: vec![NewEvent { r#type: "E".to_owned(), ..NewEvent::default() }],
        conditions: vec![],
        upstream: None,
    };
    assert_eq!(events.append(append).await.expect("appended").into_inner().first, Some(1));
    drop(events);
    drop(stop);
    running.await.expect("no panic").expect("it ends well");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_call_of_a_page_of_another_site_is_refused() {
    let served = Served::new().await;
    let mut events = served.events().await;
    let read = |origin: Option<String>| {
        let mut request = Request::new(ReadEventsRequest { store: "s".to_owned(), ..ReadEventsRequest::default() });
        if let Some(origin) = origin {
            request.metadata_mut().insert("origin", origin.parse().expect("a header"));
        }
        request
    };
    events.read(read(None)).await.expect("a program is served");
    events.read(read(Some(format!("http://{}", served.address)))).await.expect("a page of this server is served");
    let refused = events.read(read(Some("http://a.example".to_owned()))).await.expect_err("another page");
    assert_eq!((refused.code(), told(&refused).1.as_str()), (Code::PermissionDenied, "FOREIGN_ORIGIN"));
    assert_eq!(served.connections.statistics().requests_refused, 1);
    drop(events);
    served.stop().await;
}
