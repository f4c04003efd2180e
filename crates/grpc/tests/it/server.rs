//! What belongs to no service: health, reflection, limits and the end.

use std::time::Duration;

use quire_grpc::proto::{AppendEventsRequest, NewEvent, ReadEventsRequest, SubscribeEventsRequest};
use tokio_stream::StreamExt;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::served::{Served, told};

#[tokio::test]
async fn health_is_reported_for_the_server_and_for_each_service() {
    let served = Served::new().await;
    let mut health = HealthClient::new(served.channel().await);
    for service in ["", "quire.v1.Events"] {
        let asked = HealthCheckRequest { service: service.to_owned() };
        let answer = health.check(asked).await.expect("it is known").into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let unknown = health.check(HealthCheckRequest { service: "quire.v1.Weather".to_owned() }).await;
    assert_eq!(unknown.expect_err("there is none").code(), Code::NotFound);
}

#[tokio::test]
async fn reflection_names_the_services_and_has_their_files() {
    let served = Served::new().await;
    let mut reflection = ServerReflectionClient::new(served.channel().await);
    let ask = |request| ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let asked = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("quire.v1.Events".to_owned())),
    ];
    let mut answers = reflection.server_reflection_info(tokio_stream::iter(asked)).await.expect("served").into_inner();
    let mut next = async || answers.next().await.expect("an answer").expect("no error").message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = next().await else { panic!("no list") };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert!(names.contains(&"quire.v1.Events") && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    let Some(MessageResponse::FileDescriptorResponse(files)) = next().await else { panic!("no file") };
    assert!(!files.file_descriptor_proto.is_empty());
}

#[tokio::test]
async fn a_request_larger_than_a_commit_is_refused_and_the_connection_continues() {
    let served = Served::new().await;
    let mut events = served.events().await;
    let event =
        |bytes: usize| NewEvent { r#type: "Big".to_owned(), data: vec![0; bytes].into(), ..NewEvent::default() };
    let append = |bytes| AppendEventsRequest {
        store: "s".to_owned(),
        events: vec![event(bytes)],
        conditions: vec![],
        upstream: None,
    };
    let refused = events.append(append(17 << 20)).await.expect_err("too large for a message");
    assert_eq!(refused.code(), Code::OutOfRange, "{refused:?}");
    let refused = events.append(append(16 << 20)).await.expect_err("too large for a record");
    assert_eq!(told(&refused).1, "TOO_LARGE");
    events.append(append((16 << 20) - 1_000)).await.expect("it fits");
}

#[tokio::test]
async fn stopping_ends_streams_and_releases_the_database_despite_connected_clients() {
    let served = Served::new().await;
    let mut events = served.events().await;
    let event = NewEvent { r#type: "E".to_owned(), data: vec![0; 1 << 20].into(), ..NewEvent::default() };
    for _ in 0..12 {
        let append = AppendEventsRequest {
            store: "s".to_owned(),
            events: vec![event.clone()],
            conditions: vec![],
            upstream: None,
        };
        events.append(append).await.expect("accepted");
    }
    let subscribe = SubscribeEventsRequest { store: "none".to_owned(), ..SubscribeEventsRequest::default() };
    let mut live = events.subscribe(subscribe).await.expect("accepted").into_inner();
    assert_eq!(live.next().await.expect("told").expect("no error").caught_up, Some(0));
    // A client that asks for much and takes nothing.
    let read = ReadEventsRequest { store: "s".to_owned(), ..ReadEventsRequest::default() };
    let stuck = events.read(Request::new(read)).await.expect("accepted").into_inner();
    let stopping = tokio::spawn(served.again());
    let ended = live.next().await.expect("told").expect_err("it ends");
    let (code, reason, _) = told(&ended);
    assert_eq!((code, reason.as_str()), (Code::Unavailable, "STOPPING"));
    let again = tokio::time::timeout(Duration::from_secs(60), stopping).await.expect("it stops").expect("it opens");
    drop(stuck);
    again.stop().await;
}
