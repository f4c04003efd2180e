//! Event stores as topics.

use std::sync::Arc;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, FetchResponse};
use quire::events::{EventId, NewEvent};
use quire::{Database, Durability, ManualClock, Timestamp};
use quire_kafka::Settings;

use crate::offsets::list;
use crate::support::{World, batch, batches, fetching, values};

#[tokio::test]
async fn an_event_is_a_record_with_type_tags_id_and_metadata_as_headers() {
    let world = World::new().await;
    let id = EventId::from_bytes(*b"sixteen bytes id");
    let departed = NewEvent::new("Departed").tag("flight:UA1545").tag("plane:N14228").data(b"{}").metadata(b"who");
    world.database.events("air/flights").append([departed.id(id), NewEvent::new("Arrived")]).expect("events");
    let mut client = world.client().await;
    let fetched = client.fetch("air.flights", 1).await;
    assert_eq!((fetched.error_code, fetched.high_watermark, fetched.log_start_offset), (0, 3, 1));
    let [(1, batch)] = &batches(fetched.records.as_deref().expect("records"))[..] else { panic!("one batch from 1") };
    let records: Vec<_> = batch.records().expect("not compressed").map(|record| record.expect("a record")).collect();
    let headers = |at: usize| -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        records[at].headers.iter().map(|it| (text(it.key), text(it.value.expect("a value")))).collect()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        headers(0),
        [
            pair("type", "Departed"),
            pair("tag", "flight:UA1545"),
            pair("tag", "plane:N14228"),
            pair("id", &id.to_string()),
            pair("metadata", "who"),
        ]
    );
    assert_eq!((records[0].key, records[0].value), (None, Some(&b"{}"[..])));
    assert_eq!(headers(1)[0], pair("type", "Arrived"));
    assert_eq!(headers(1).len(), 2, "no tags, no metadata: {:?}", headers(1));
    assert_eq!((records[1].offset_delta, records[1].value), (1, Some(&b""[..])));
}

#[tokio::test]
async fn the_topic_of_a_store_begins_at_1_and_ends_after_the_last_event() {
    let world = World::new().await;
    let mut client = world.client().await;
    world.database.events("air/flights").append([NewEvent::new("A"), NewEvent::new("B")]).expect("events");
    assert_eq!(list(&mut client, "air.flights", -2).await, (0, 1, -1));
    assert_eq!(list(&mut client, "air.flights", -1).await, (0, 3, -1));
    assert_eq!(values(&client.fetch("air.flights", 3).await), []);
    for offset in [-1, 4] {
        let code = client.fetch("air.flights", offset).await.error_code;
        assert_eq!(code, ResponseError::OffsetOutOfRange.code(), "{offset}");
    }
}

#[tokio::test]
async fn a_consumer_that_begins_at_0_gets_every_event() {
    let world = World::new().await;
    let mut client = world.client().await;
    let flights = world.database.events("air/flights");
    flights.append([NewEvent::new("A").data(b"first"), NewEvent::new("B").data(b"second")]).expect("events");
    let fetched = client.fetch("air.flights", 0).await;
    assert_eq!((fetched.error_code, fetched.high_watermark, fetched.log_start_offset), (0, 3, 1));
    assert_eq!(values(&fetched), [(1, "first".to_owned()), (2, "second".to_owned())]);
}

#[tokio::test]
async fn events_are_found_by_their_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
    let builder = Database::builder(directory.path()).durability(Durability::Os).clock(clock.clone());
    let world = World::over(directory, builder.open().expect("a database"), Settings::default()).await;
    // Positions 1 to 20, two at each of 1000, 2000, ... 10000 ms.
    for millis in (1_000..=10_000).step_by(1_000) {
        clock.set(Timestamp::from_millis(millis));
        world.database.events("s").append([NewEvent::new("A"), NewEvent::new("B")]).expect("events");
    }
    let mut client = world.client().await;
    for time in 0..=11_000 / 250 {
        let time = time * 250;
        let expected = match (time + 999) / 1_000 {
            0 | 1 => (0, 1, 1_000),
            second @ 2..=10 => (0, 2 * second - 1, 1_000 * second),
            _ => (0, -1, -1),
        };
        assert_eq!(list(&mut client, "s", time).await, expected, "from {time} ms on");
    }
}

#[tokio::test]
async fn a_fetch_that_waits_is_answered_by_the_append() {
    let world = World::new().await;
    let mut client = world.client().await;
    let flights = world.database.events("air/flights");
    flights.append([NewEvent::new("A")]).expect("an event");
    client.send(3, &ApiVersionsRequest::default()).await;
    client.send(12, &fetching("air.flights", 2).with_max_wait_ms(600_000).with_min_bytes(1)).await;
    client.receive::<ApiVersionsResponse>(3).await;
    flights.append([NewEvent::new("B").data(b"second")]).expect("an event");
    let (_, response) = client.receive::<FetchResponse>(12).await;
    assert_eq!(values(&response.responses[0].partitions[0]), [(2, "second".to_owned())]);
}

#[tokio::test]
async fn a_fetch_returns_at_most_the_requested_bytes_but_always_one_event() {
    let world = World::new().await;
    let data = "x".repeat(1000);
    let tags: Vec<String> = (0..64).map(|number| format!("tag:{number:04}")).collect();
    let event = || tags.iter().fold(NewEvent::new("Happened").data(&data), |event, tag| event.tag(tag));
    world.database.events("s").append((0..50).map(|_| event())).expect("events");
    let mut client = world.client().await;
    let mut next = 1;
    for max_bytes in [0, 1, 3_000, 10_000, 30_000, 1 << 20] {
        let response = client.call(12, &fetching("s", next).with_max_bytes(max_bytes)).await;
        let data = &response.responses[0].partitions[0];
        let bytes = data.records.as_ref().expect("records").len();
        let fetched = values(data);
        assert!(bytes <= max_bytes as usize || fetched.len() == 1, "{} events, {bytes} bytes", fetched.len());
        assert_eq!(fetched.len() > 1, max_bytes >= 10_000, "{} events for {max_bytes} bytes", fetched.len());
        assert_eq!(fetched[0].0, next);
        next += fetched.len() as i64;
    }
    assert_eq!(next, 51, "the last fetch took all that was left");
}

#[tokio::test]
async fn producing_to_it_is_refused_for_good() {
    let world = World::new().await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    let mut client = world.client().await;
    let id = client.topic("air.flights").await.topic_id;
    let produced = client.produce("air.flights", &batch(&["a"])).await;
    assert_eq!(produced.error_code, ResponseError::PolicyViolation.code());
    assert!(produced.error_message.expect("words").contains("event store air/flights"));

    let mut by_id = crate::support::producing("", 0, &batch(&["a"]));
    by_id.topic_data[0].topic_id = id;
    let response = client.call(13, &by_id).await;
    assert_eq!(response.responses[0].partition_responses[0].error_code, ResponseError::PolicyViolation.code());
    assert_eq!(list(&mut client, "air.flights", -1).await, (0, 2, -1));
}

/// In a database from an earlier version.
#[tokio::test]
async fn a_topic_of_the_same_name_hides_it() {
    let world = World::earlier().await;
    let mut client = world.client().await;
    assert_eq!(client.topic("pay.orders").await.partitions.len(), 2);
    assert_eq!(client.produce("pay.orders", &batch(&["a"])).await.base_offset, 1);
    assert_eq!(values(&client.fetch("pay.orders", 1).await), [(1, "a".to_owned())]);
    assert_eq!(values(&client.fetch("air.flights", 1).await), [(1, r#"{"n":4}"#.to_owned())], "the first by name");
}
