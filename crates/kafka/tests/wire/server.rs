//! Starting and stopping.

use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, FetchResponse, ProduceResponse};
use quire_kafka::Server;
use tokio::io::AsyncWriteExt;

use crate::support::{World, batch, fetching, producing, values};

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_the_address() {
    let world = World::new().await;
    let error = Server::bind(world.database.clone(), world.address).await.expect_err("the port is taken");
    assert_eq!(error.to_string(), format!("can't listen on {}: address already in use", world.address));
}

#[tokio::test]
async fn stopping_ends_connections_that_wait() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.send(3, &ApiVersionsRequest::default()).await;
    client.send(12, &fetching("t", 0).with_max_wait_ms(600_000).with_min_bytes(1)).await;
    client.receive::<ApiVersionsResponse>(3).await;
    let address = world.address;
    world.stop().await;
    assert!(client.is_closed().await);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn connections_and_requests_are_counted() {
    let world = World::new().await;
    let (mut one, two) = (world.client().await, world.client().await);
    one.topic("t").await;
    one.topic("t").await;
    world.counted(|counts| counts.connections_open == 2 && counts.requests == 2).await;
    drop(two);
    world.counted(|counts| counts.connections_open == 1 && counts.connections_accepted == 2).await;
}

#[tokio::test]
async fn a_client_that_closed_its_side_is_answered() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    for offset in 0..20 {
        let mut client = world.client().await;
        client.send(9, &producing("t", 0, &batch(&["a"]))).await;
        client.send(12, &fetching("t", offset)).await;
        client.stream.shutdown().await.expect("half closed");
        let (_, produced) = client.receive::<ProduceResponse>(9).await;
        let produced = &produced.responses[0].partition_responses[0];
        assert_eq!((produced.error_code, produced.base_offset), (0, offset));
        let (_, fetched) = client.receive::<FetchResponse>(12).await;
        assert_eq!(values(&fetched.responses[0].partitions[0]), [(offset, "a".to_owned())]);
        assert!(client.is_closed().await);
    }
}
