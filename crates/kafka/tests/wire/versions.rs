//! Every offered version works, and the server reports one that is not offered.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};
use quire::events::NewEvent;

use crate::offsets::listing;
use crate::support::{World, about, batch, fetching, producing, values};

/// The APIs in the table of `docs/kafka.md` with their versions, by API key.
fn page() -> Vec<(ApiKey, i16, i16)> {
    const PAGE: &str = include_str!("../../../../docs/kafka.md");
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| API |")).skip(2);
    let mut apis: Vec<_> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|row| {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let (name, versions) = (cells.next().expect("a name"), cells.next().expect("versions"));
            let key = ApiKey::iter().find(|key| format!("{key:?}") == name).unwrap_or_else(|| panic!("{name}"));
            let (min, max) = versions.split_once('–').unwrap_or((versions, versions));
            (key, min.parse().expect("a version"), max.parse().expect("a version"))
        })
        .collect();
    apis.sort_unstable_by_key(|(key, ..)| *key as i16);
    apis
}

#[tokio::test]
async fn every_version_of_apiversions_lists_the_offered_apis() {
    let world = World::new().await;
    let mut client = world.client().await;
    for version in 0..=4 {
        let response = client.call(version, &ApiVersionsRequest::default()).await;
        assert_eq!(response.error_code, 0);
        let mut told: Vec<_> =
            response.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version)).collect();
        told.sort_unstable();
        let page: Vec<_> = page().into_iter().map(|(key, min, max)| (key as i16, min, max)).collect();
        // Produce is advertised from version 0, for older librdkafka, and served from version 3.
        told[0].1 = 3;
        assert_eq!(told, page);
    }
}

#[tokio::test]
async fn a_version_of_api_versions_that_is_not_offered_is_answered_in_version_0() {
    let world = World::new().await;
    let mut client = world.client().await;
    for version in [5, i16::MAX, -1] {
        let mut frame = crate::support::frame(77, 3, &ApiVersionsRequest::default());
        frame[6..8].copy_from_slice(&version.to_be_bytes());
        tokio::io::AsyncWriteExt::write_all(&mut client.stream, &frame).await.expect("taken");
        let (correlation_id, response) = client.receive::<ApiVersionsResponse>(0).await;
        assert_eq!((correlation_id, response.error_code), (77, ResponseError::UnsupportedVersion.code()));
        assert!(response.api_keys.iter().any(|api| api.api_key == ApiKey::ApiVersions as i16 && api.max_version == 4));
    }
}

#[tokio::test]
async fn every_version_of_every_api_is_served() {
    let world = World::new().await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    let mut client = world.client().await;
    for version in 0..=13 {
        let known = client.call(version, &about("t")).await;
        assert_eq!((known.topics[0].error_code, known.topics[0].partitions.len()), (0, 1), "Metadata {version}");
    }
    let topic_id = client.topic("t").await.topic_id;
    for version in 3..=13 {
        let mut request = producing("t", 0, &batch(&["a"]));
        if version >= 13 {
            request.topic_data[0].topic_id = topic_id;
            request.topic_data[0].name = Default::default();
        }
        let response = client.call(version, &request).await;
        let partition = &response.responses[0].partition_responses[0];
        let expected = (0, i64::from(version - 3));
        assert_eq!((partition.error_code, partition.base_offset), expected, "Produce {version}");
        // A refusal has to fit into every version, too.
        let mut request = producing("nowhere", 0, &batch(&["a"]));
        if version >= 13 {
            request.topic_data[0].topic_id = uuid::Uuid::from_u128(9);
            request.topic_data[0].name = Default::default();
        }
        let response = client.call(version, &request).await;
        assert_ne!(response.responses[0].partition_responses[0].error_code, 0, "Produce {version}");
    }
    for version in 4..=18 {
        let mut request = fetching("t", 0);
        if version >= 13 {
            request.topics[0].topic_id = topic_id;
            request.topics[0].topic = Default::default();
        }
        let response = client.call(version, &request).await;
        assert_eq!(values(&response.responses[0].partitions[0]).len(), 11, "Fetch {version}");
        let mut request = fetching("nowhere", 0).with_isolation_level(1);
        if version >= 13 {
            request.topics[0].topic_id = uuid::Uuid::from_u128(9);
            request.topics[0].topic = Default::default();
        }
        let response = client.call(version, &request).await;
        assert_ne!(response.responses[0].partitions[0].error_code, 0, "Fetch {version}");
    }
    for version in 1..=10 {
        for (topic, offset) in [("t", 11), ("air.flights", 2), ("nowhere", -1)] {
            let response = client.call(version, &listing(topic, 0, -1)).await;
            assert_eq!(response.topics[0].partitions[0].offset, offset, "ListOffsets {version}");
        }
    }
}
