//! Requests about a cluster, answered by a single broker: quorum, features, reassignments,
//! elections, log directories, pages of topics, addresses.

use kafka_protocol::ResponseError::{self, *};
use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterReplicaLogDirsRequest, ApiVersionsRequest, BrokerId,
    DescribeConfigsRequest, DescribeQuorumRequest, DescribeTopicPartitionsRequest, ElectLeadersRequest,
    ListConfigResourcesRequest, ListPartitionReassignmentsRequest, MetadataRequest, TopicName, UpdateFeaturesRequest,
};
use quire::Database;
use quire_kafka::{AdvertisedAddress, Server, Settings};

use crate::support::{Client, World, text};

fn code(code: i16) -> Option<ResponseError> {
    ResponseError::try_from_code(code)
}

fn name(name: &str) -> TopicName {
    TopicName(text(name))
}

#[tokio::test]
async fn features_have_their_levels_and_keep_them() {
    let world = World::new().await;
    let mut client = world.client().await;
    for version in 0..=4 {
        let response = client.call(version, &ApiVersionsRequest::default()).await;
        let features: Vec<_> = response
            .supported_features
            .iter()
            .map(|feature| (feature.name.as_str(), feature.min_version, feature.max_version))
            .collect();
        let expected = [("group.version", 0, 0), ("transaction.version", 0, 0)];
        assert_eq!(features, if version >= 4 { &expected[..] } else { &[] }, "{version}");
        assert_eq!(response.finalized_features_epoch, if version >= 4 { 0 } else { -1 });
        assert!(response.finalized_features.is_empty(), "no level is above 0");
    }
    let update = |feature, level| {
        let key = FeatureUpdateKey::default().with_feature(text(feature)).with_max_version_level(level);
        UpdateFeaturesRequest::default().with_feature_updates(vec![key])
    };
    for (feature, level, expected) in [
        ("transaction.version", 0, None),
        ("transaction.version", 2, Some(InvalidUpdateVersion)),
        ("no.such.feature", 1, Some(InvalidUpdateVersion)),
    ] {
        let one = client.call(1, &update(feature, level)).await;
        assert_eq!((one.error_code, code(one.results[0].error_code)), (0, expected), "{feature}");
        let all = client.call(2, &update(feature, level)).await;
        assert_eq!(code(all.error_code), expected, "{feature}");
        assert_eq!(all.error_message.is_some(), expected.is_some(), "{feature}");
    }
}

#[tokio::test]
async fn the_only_broker_is_the_quorum() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let asked = |topic| {
        let topic = TopicData::default().with_topic_name(name(topic)).with_partitions(vec![PartitionData::default()]);
        DescribeQuorumRequest::default().with_topics(vec![topic])
    };
    for version in 0..=2 {
        let response = client.call(version, &asked("__cluster_metadata")).await;
        let partition = &response.topics[0].partitions[0];
        assert_eq!((response.error_code, partition.error_code, partition.leader_id.0), (0, 0, 0), "{version}");
        assert!(partition.high_watermark > 0 && partition.current_voters.len() == 1, "{partition:?}");
        assert_eq!(response.nodes.len(), usize::from(version >= 2));
        let other = client.call(version, &asked("t")).await;
        assert_eq!(code(other.topics[0].partitions[0].error_code), Some(UnknownTopicOrPartition));
    }
}

#[tokio::test]
async fn elections_reassignments_and_moves_have_nothing_to_do() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    for version in 0..=2 {
        let topic = TopicPartitions::default().with_topic(name("t")).with_partitions(vec![0, 1]);
        let request = ElectLeadersRequest::default().with_topic_partitions(Some(vec![topic]));
        let response = client.call(version, &request).await;
        let results = &response.replica_election_results[0].partition_result;
        let codes = [code(results[0].error_code), code(results[1].error_code)];
        assert_eq!(codes, [Some(ElectionNotNeeded), Some(UnknownTopicOrPartition)], "{version}");
        let all = client.call(version, &ElectLeadersRequest::default().with_topic_partitions(None)).await;
        assert!(all.replica_election_results.is_empty());
    }
    for version in 0..=1 {
        for (partition, replicas, expected) in [
            (0, Some(vec![0]), None),
            (0, Some(vec![1]), Some(InvalidReplicaAssignment)),
            (0, Some(vec![0, 1]), Some(InvalidReplicaAssignment)),
            (0, None, Some(NoReassignmentInProgress)),
            (1, Some(vec![0]), Some(UnknownTopicOrPartition)),
        ] {
            let replicas = replicas.map(|replicas| replicas.into_iter().map(BrokerId).collect());
            let partition = ReassignablePartition::default().with_partition_index(partition).with_replicas(replicas);
            let topic = ReassignableTopic::default().with_name(name("t")).with_partitions(vec![partition]);
            let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topic]);
            let response = client.call(version, &request).await;
            let result = &response.responses[0].partitions[0];
            assert_eq!((response.error_code, code(result.error_code)), (0, expected), "{version}");
        }
    }
    let listed = client.call(0, &ListPartitionReassignmentsRequest::default().with_topics(None)).await;
    assert_eq!((listed.error_code, listed.topics.len()), (0, 0));
    for version in 1..=2 {
        for (path, partition, expected) in [
            ("shard-0000", 0, None),
            ("/elsewhere", 0, Some(LogDirNotFound)),
            ("shard-0000", 1, Some(UnknownTopicOrPartition)),
        ] {
            let topic = AlterReplicaLogDirTopic::default().with_name(name("t")).with_partitions(vec![partition]);
            let dir = AlterReplicaLogDir::default().with_path(text(path)).with_topics(vec![topic]);
            let response = client.call(version, &AlterReplicaLogDirsRequest::default().with_dirs(vec![dir])).await;
            assert_eq!(code(response.results[0].partitions[0].error_code), expected, "{version} {path}");
        }
    }
}

#[tokio::test]
async fn topics_are_described_a_page_at_a_time() {
    let world = World::new().await;
    let mut client = world.client().await;
    for (topic, partitions) in [("a", 3), ("b", 1), ("c", 4)] {
        world.database.topic(topic).create(partitions).expect("created");
    }
    for limit in [1, 2, 3, 5, 8, 2_000] {
        let (mut found, mut cursor, mut pages) = (Vec::new(), None::<Cursor>, 0);
        loop {
            let request = DescribeTopicPartitionsRequest::default()
                .with_response_partition_limit(limit)
                .with_cursor(cursor.take());
            let response = client.call(0, &request).await;
            let page: Vec<_> = response
                .topics
                .iter()
                .flat_map(|topic| {
                    let name = topic.name.as_ref().expect("a name").to_string();
                    topic.partitions.iter().map(move |partition| {
                        assert_eq!(partition.eligible_leader_replicas.as_deref(), Some(&[][..]));
                        (name.clone(), partition.partition_index)
                    })
                })
                .collect();
            assert!(page.len() <= limit as usize && !page.is_empty(), "{limit}: {page:?}");
            found.extend(page);
            pages += 1;
            match response.next_cursor {
                Some(next) => {
                    let position = Cursor::default().with_topic_name(next.topic_name);
                    cursor = Some(position.with_partition_index(next.partition_index));
                }
                None => break,
            }
        }
        let expected: Vec<_> = [("a", 3), ("b", 1), ("c", 4)]
            .into_iter()
            .flat_map(|(name, partitions)| (0..partitions).map(move |partition| (name.to_owned(), partition)))
            .collect();
        assert_eq!(found, expected, "{limit}");
        assert!(pages <= 8, "{limit}: {pages} pages");
    }
    let named = ["b", "nowhere"].map(|topic| TopicRequest::default().with_name(name(topic)));
    let request = DescribeTopicPartitionsRequest::default().with_topics(named.into()).with_response_partition_limit(9);
    let response = client.call(0, &request).await;
    let codes: Vec<_> = response.topics.iter().map(|topic| code(topic.error_code)).collect();
    assert_eq!(codes, [None, Some(UnknownTopicOrPartition)]);
    assert!(response.next_cursor.is_none());
}

#[tokio::test]
async fn resources_with_settings_are_listed() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    assert!(client.call(0, &ListConfigResourcesRequest::default()).await.config_resources.is_empty());
    for (types, expected) in [(vec![], vec![(2, "t"), (4, "0")]), (vec![2], vec![(2, "t")]), (vec![16], vec![])] {
        let response = client.call(1, &ListConfigResourcesRequest::default().with_resource_types(types)).await;
        let resources: Vec<_> = response
            .config_resources
            .iter()
            .map(|resource| (resource.resource_type, resource.resource_name.as_str()))
            .collect();
        assert_eq!(resources, expected);
    }
}

#[tokio::test]
async fn the_addresses_are_settings_of_the_broker() {
    let advertised = AdvertisedAddress { host: "broker.example".to_owned(), port: 19_092 };
    let world = World::with(Settings { advertised: vec![advertised], ..Settings::default() }).await;
    let mut client = world.client().await;
    let own = format!("PLAINTEXT://{}", client.stream.peer_addr().expect("connected"));
    let resource = DescribeConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(text("0"))
        .with_configuration_keys(Some(vec![text("listeners"), text("advertised.listeners")]));
    let response = client.call(4, &DescribeConfigsRequest::default().with_resources(vec![resource])).await;
    let found: Vec<_> = response.results[0]
        .configs
        .iter()
        .map(|config| (config.name.as_str(), config.value.as_deref().expect("a value")))
        .collect();
    assert_eq!(found, [("advertised.listeners", "PLAINTEXT://broker.example:19092"), ("listeners", &own)]);
}

#[tokio::test]
async fn the_client_of_each_listener_gets_its_own_advertised_address() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(directory.path()).expect("a database");
    let hosts = ["inside.example", "outside.example"];
    let advertised = hosts.map(|host| AdvertisedAddress { host: host.to_owned(), port: 19_092 }).to_vec();
    let settings = Settings { advertised, ..Settings::default() };
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind_with(database.clone(), any, settings.clone()).await.expect("a free port");
    let server = server.and_on(any, None).await.expect("a free port");
    let addresses = server.addresses();
    let handle = server.settings_handle();
    let world = World::serving(directory, database, settings.clone(), server);
    for (address, host) in addresses.into_iter().zip(hosts) {
        let response = Client::at(address).await.call(12, &MetadataRequest::default()).await;
        assert_eq!(response.brokers[0].host.as_str(), host);
    }
    let one = Settings { advertised: settings.advertised[..1].to_vec(), ..settings };
    let error = handle.replace(one).expect_err("an address is missing").to_string();
    assert!(error.contains("one for each of the 2 listeners"), "{error}");
    world.stop().await;
}
