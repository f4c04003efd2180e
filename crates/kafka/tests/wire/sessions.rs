//! Fetch sessions: a partition that was named once is fetched again and again, and only changes are
//! returned.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse, TopicName};
use quire_kafka::Settings;

use crate::support::{Client, World, batch, producing, text, values};

/// Partitions of a topic, with the offset to read from in each.
fn naming(topic: &str, partitions: &[(i32, i64)]) -> FetchRequest {
    let partition = |&(number, offset): &(i32, i64)| {
        FetchPartition::default().with_partition(number).with_fetch_offset(offset).with_partition_max_bytes(1 << 20)
    };
    let partitions = partitions.iter().map(partition).collect();
    let topics = match topic {
        "" => Vec::new(),
        topic => vec![FetchTopic::default().with_topic(TopicName(text(topic))).with_partitions(partitions)],
    };
    FetchRequest::default().with_max_bytes(1 << 20).with_topics(topics)
}

/// The partitions that were answered, with how many records.
fn answered(response: &FetchResponse) -> Vec<(i32, usize)> {
    assert_eq!(response.error_code, 0);
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|data| (data.partition_index, values(data).len())).collect()
}

async fn produce(client: &mut Client, partition: i32) {
    client.call(9, &producing("t", partition, &batch(&["a"]))).await;
}

async fn with_partitions() -> (World, Client) {
    let world = World::with(Settings { auto_create_partitions: 3, ..Settings::default() }).await;
    let mut client = world.client().await;
    client.topic("t").await;
    (world, client)
}

#[tokio::test]
async fn a_session_returns_new_records_of_the_partitions_named_at_its_start() {
    let (world, mut client) = with_partitions().await;
    let begun = client.call(12, &naming("t", &[(0, 0), (1, 0), (2, 0)]).with_session_epoch(0)).await;
    assert_eq!(answered(&begun), [(0, 0), (1, 0), (2, 0)]);
    let id = begun.session_id;
    assert_ne!(id, 0);
    let next = |request: FetchRequest, epoch| request.with_session_id(id).with_session_epoch(epoch);
    let mut writer = world.client().await;

    assert_eq!(answered(&client.call(12, &next(naming("", &[]), 1)).await), []);
    produce(&mut writer, 1).await;
    let response = client.call(12, &next(naming("", &[]), 2)).await;
    assert_eq!((answered(&response), response.session_id), (vec![(1, 1)], id));
    // The response is repeated until the client sends the next epoch.
    assert_eq!(answered(&client.call(12, &next(naming("", &[]), 3)).await), [(1, 1)]);
    assert_eq!(answered(&client.call(12, &next(naming("t", &[(1, 1)]), 4)).await), []);

    let forgotten = ForgottenTopic::default().with_topic(TopicName(text("t"))).with_partitions(vec![2]);
    let forget = naming("", &[]).with_forgotten_topics_data(vec![forgotten]);
    assert_eq!(answered(&client.call(12, &next(forget, 5)).await), []);
    produce(&mut writer, 2).await;
    produce(&mut writer, 0).await;
    assert_eq!(answered(&client.call(12, &next(naming("", &[]), 6)).await), [(0, 1)]);
    // A partition that is named again is in the response, even without records.
    assert_eq!(answered(&client.call(12, &next(naming("t", &[(0, 1), (2, 1)]), 7)).await), [(2, 0)]);
}

#[tokio::test]
async fn a_request_of_another_session_or_epoch_has_an_error_code() {
    let (world, mut client) = with_partitions().await;
    let first = client.call(12, &naming("t", &[(0, 0)]).with_session_epoch(0)).await.session_id;
    let mut code = async |id, epoch| {
        let request = naming("", &[]).with_session_id(id).with_session_epoch(epoch);
        client.call(12, &request).await.error_code
    };
    assert_eq!(code(first, 2).await, ResponseError::InvalidFetchSessionEpoch.code());
    assert_eq!(code(first, 1).await, 0);
    assert_eq!(code(first, 1).await, ResponseError::InvalidFetchSessionEpoch.code());
    assert_eq!(code(first + 1, 1).await, ResponseError::FetchSessionIdNotFound.code());
    let begin = naming("t", &[(0, 0)]).with_session_id(first).with_session_epoch(0);
    let second = client.call(12, &begin).await.session_id;
    assert_ne!(second, first, "the first has ended");
    let end = naming("t", &[(0, 0)]).with_session_id(second).with_session_epoch(-1);
    assert_eq!(client.call(12, &end).await.session_id, 0);
    let after = naming("", &[]).with_session_id(second).with_session_epoch(1);
    assert_eq!(client.call(12, &after).await.error_code, ResponseError::FetchSessionIdNotFound.code());
    let mut other = world.client().await;
    assert_eq!(other.call(12, &after).await.error_code, ResponseError::FetchSessionIdNotFound.code());
}

#[tokio::test]
async fn every_partition_of_a_session_has_its_turn_however_small_the_response() {
    let (_world, mut client) = with_partitions().await;
    for partition in [0, 1, 2] {
        produce(&mut client, partition).await;
    }
    let begin = naming("t", &[(0, 0), (1, 0), (2, 0)]).with_session_epoch(0).with_max_bytes(1);
    let begun = client.call(12, &begin).await;
    let mut took = vec![answered(&begun).into_iter().find(|(_, records)| *records > 0).expect("a record").0];
    for epoch in 1..6 {
        // The client does not advance: each partition still returns its record.
        let request = naming("", &[]).with_session_id(begun.session_id).with_session_epoch(epoch).with_max_bytes(1);
        took.extend(answered(&client.call(12, &request).await).iter().map(|(partition, _)| *partition));
    }
    assert_eq!(took, [0, 1, 2, 0, 1, 2]);
}
