//! Administration on the wire: topics and their settings, partitions, records, and their
//! descriptions.

use kafka_protocol::ResponseError::{self, *};
use kafka_protocol::messages::alter_configs_request as plain;
use kafka_protocol::messages::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::incremental_alter_configs_request as incremental;
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::{
    AlterConfigsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeLogDirsRequest, DescribeProducersRequest,
    IncrementalAlterConfigsRequest, OffsetForLeaderEpochRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use quire::events::NewEvent;
use quire_kafka::Settings;

use quire::streams::wire::{BatchBuilder, HEADER_BYTES};

use crate::support::{Client, World, about, batch, producing, resealed, text, values};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

fn code(code: i16) -> Option<ResponseError> {
    ResponseError::try_from_code(code)
}

fn name(name: &str) -> TopicName {
    TopicName(text(name))
}

fn creating(topic: &str, partitions: i32, configs: &[(&str, &str)]) -> CreateTopicsRequest {
    let configs = configs
        .iter()
        .map(|(name, value)| CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value))));
    let topic = CreatableTopic::default()
        .with_name(name(topic))
        .with_num_partitions(partitions)
        .with_replication_factor(-1)
        .with_configs(configs.collect());
    CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(1000)
}

impl Client {
    async fn create(&mut self, request: &CreateTopicsRequest) -> Option<ResponseError> {
        let result = self.call(7, request).await.topics.remove(0);
        assert_eq!(result.error_message.is_some(), result.error_code != 0);
        code(result.error_code)
    }

    async fn config(&mut self, topic: &str, key: &str) -> (String, i8) {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text(topic))
            .with_configuration_keys(Some(vec![text(key)]));
        let result = self.call(4, &DescribeConfigsRequest::default().with_resources(vec![resource])).await;
        let config = &result.results[0].configs[0];
        (config.value.as_deref().expect("a value").to_owned(), config.config_source)
    }

    async fn alter(&mut self, topic: &str, changes: &[(i8, &str, &str)], validate: bool) -> Option<ResponseError> {
        let configs = changes.iter().map(|(operation, name, value)| {
            let config = incremental::AlterableConfig::default().with_name(text(name)).with_value(Some(text(value)));
            config.with_config_operation(*operation)
        });
        let resource = incremental::AlterConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text(topic))
            .with_configs(configs.collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        code(self.call(1, &request.with_validate_only(validate)).await.responses[0].error_code)
    }

    async fn partitions(&mut self, topic: &str) -> usize {
        self.call(12, &about(topic).with_allow_auto_topic_creation(false)).await.topics[0].partitions.len()
    }

    async fn delete_records(&mut self, topic: &str, offset: i64) -> (i64, Option<ResponseError>) {
        let partition = DeleteRecordsPartition::default().with_offset(offset);
        let topic = DeleteRecordsTopic::default().with_name(name(topic)).with_partitions(vec![partition]);
        let response = self.call(2, &DeleteRecordsRequest::default().with_topics(vec![topic])).await;
        let partition = &response.topics[0].partitions[0];
        (partition.low_watermark, code(partition.error_code))
    }
}

#[tokio::test]
async fn a_topic_is_created_as_requested_or_only_validated() {
    let world = World::new().await;
    let mut client = world.client().await;
    let asked = creating("t", 3, &[("retention.ms", "60000"), ("cleanup.policy", "delete")]);
    assert_eq!(client.create(&asked.clone().with_validate_only(true)).await, None);
    assert_eq!(client.partitions("t").await, 0);
    assert_eq!(client.create(&asked).await, None);
    assert_eq!(client.create(&asked).await, Some(TopicAlreadyExists));
    assert_eq!(client.create(&asked.with_validate_only(true)).await, Some(TopicAlreadyExists));
    assert_eq!(client.partitions("t").await, 3);
    assert_eq!(client.create(&creating("u", -1, &[])).await, None);
    assert_eq!(client.partitions("u").await, 1);
    let mut without_value = creating("v", 1, &[("retention.ms", "")]);
    without_value.topics[0].configs[0].value = None;
    for (request, expected) in [
        (without_value, InvalidConfig),
        (creating("a/b", 1, &[]), InvalidTopicException),
        (creating("v", 0, &[]), InvalidPartitions),
        (creating("v", -2, &[]), InvalidPartitions),
        (creating("v", 1, &[("cleanup.policy", "tidy")]), InvalidConfig),
        (creating("v", 1, &[("delete.retention.ms", "-1")]), InvalidConfig),
        (creating("v", 1, &[("retention.ms", "soon")]), InvalidConfig),
        (creating("v", 1, &[("no.such.setting", "1")]), InvalidConfig),
    ] {
        assert_eq!(client.create(&request).await, Some(expected));
    }
    let mut copies = creating("v", 1, &[]);
    copies.topics[0].replication_factor = 3;
    assert_eq!(client.create(&copies).await, Some(InvalidReplicationFactor));

    let world = world.restart().await;
    let mut client = world.client().await;
    assert_eq!(client.config("t", "retention.ms").await, (String::from("60000"), 1));
    assert_eq!(client.config("u", "retention.ms").await, (String::from("-1"), 5));
}

#[tokio::test]
async fn names_that_occur_twice_in_a_request_are_refused_and_the_others_handled() {
    let world = World::new().await;
    let mut client = world.client().await;
    let mut request = creating("t", 1, &[]);
    for (topic, partitions) in [("u", 1), ("t", 2)] {
        request.topics.extend(creating(topic, partitions, &[]).topics);
    }
    let created = client.call(7, &request).await.topics;
    let codes: Vec<_> = created.iter().map(|topic| code(topic.error_code)).collect();
    assert_eq!(codes, [Some(InvalidRequest), None, Some(InvalidRequest)]);
    assert_eq!((client.partitions("t").await, client.partitions("u").await), (0, 1));

    let more = |count: i32| CreatePartitionsTopic::default().with_name(name("u")).with_count(count);
    let request = CreatePartitionsRequest::default().with_topics(vec![more(2).with_assignments(None), more(3)]);
    let results = client.call(3, &request).await.results;
    assert!(results.iter().all(|result| code(result.error_code) == Some(InvalidRequest)), "{results:?}");
    assert_eq!(client.partitions("u").await, 1);

    let twice = [(0, "retention.ms", "1000"), (0, "retention.ms", "2000")];
    assert_eq!(client.alter("u", &twice, false).await, Some(InvalidRequest));
    let twice = [("retention.ms", "1000"), ("retention.ms", "2000")];
    assert_eq!(client.create(&creating("w", 1, &twice)).await, Some(InvalidRequest));
    let set = |key: &str| incremental::AlterableConfig::default().with_name(text(key)).with_value(Some(text("1000")));
    let resource = |key: &str| {
        let of = incremental::AlterConfigsResource::default().with_resource_type(TOPIC);
        of.with_resource_name(text("u")).with_configs(vec![set(key)])
    };
    let resources = vec![resource("retention.ms"), resource("retention.bytes")];
    let responses =
        client.call(1, &IncrementalAlterConfigsRequest::default().with_resources(resources)).await.responses;
    let codes: Vec<_> = responses.iter().map(|response| code(response.error_code)).collect();
    assert_eq!(codes, [Some(InvalidRequest); 2]);

    let set = |key: &str| plain::AlterableConfig::default().with_name(text(key)).with_value(Some(text("1000")));
    let resource = |keys: &[&str]| {
        let of = plain::AlterConfigsResource::default().with_resource_type(TOPIC).with_resource_name(text("u"));
        of.with_configs(keys.iter().map(|key| set(key)).collect())
    };
    for resources in [
        vec![resource(&["retention.ms"]), resource(&["retention.bytes"])],
        vec![resource(&["retention.ms", "retention.ms"])],
    ] {
        let responses = client.call(2, &AlterConfigsRequest::default().with_resources(resources)).await.responses;
        assert!(responses.iter().all(|it| code(it.error_code) == Some(InvalidRequest)), "{responses:?}");
    }
    for key in ["retention.ms", "retention.bytes"] {
        assert_eq!(client.config("u", key).await.1, 5, "{key} has its default");
    }
}

#[tokio::test]
async fn a_changed_setting_takes_effect() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let large = batch(&[&"x".repeat(200)]);
    assert_eq!(client.alter("t", &[(0, "max.message.bytes", "100")], true).await, None);
    assert_eq!(client.produce("t", &large).await.error_code, 0);
    assert_eq!(client.alter("t", &[(0, "max.message.bytes", "100"), (0, "retention.ms", "1000")], false).await, None);
    assert_eq!(code(client.produce("t", &large).await.error_code), Some(MessageTooLarge));
    assert_eq!(client.alter("t", &[(1, "max.message.bytes", "")], false).await, None);
    assert_eq!(client.produce("t", &large).await.error_code, 0);
    assert_eq!(client.config("t", "retention.ms").await, (String::from("1000"), 1));
    assert_eq!(client.alter("nowhere", &[(0, "retention.ms", "1")], false).await, Some(UnknownTopicOrPartition));

    // AlterConfigs sets all: a setting that is not named gets its default.
    let config = plain::AlterableConfig::default().with_name(text("retention.bytes")).with_value(Some(text("5000")));
    let resource = plain::AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text("t"))
        .with_configs(vec![config]);
    for version in 0..=2 {
        let request = AlterConfigsRequest::default().with_resources(vec![resource.clone()]);
        assert_eq!(client.call(version, &request).await.responses[0].error_code, 0);
    }
    let without_value = plain::AlterableConfig::default().with_name(text("retention.ms")).with_value(None);
    let refused = resource.clone().with_configs(vec![without_value]);
    let request = AlterConfigsRequest::default().with_resources(vec![refused]);
    assert_eq!(code(client.call(2, &request).await.responses[0].error_code), Some(InvalidConfig));
    assert_eq!(client.config("t", "retention.bytes").await.0, "5000");
    assert_eq!(client.config("t", "retention.ms").await.0, "-1");
    let of_broker = resource.with_resource_type(BROKER).with_resource_name(text("0"));
    let request = AlterConfigsRequest::default().with_resources(vec![of_broker]);
    assert_eq!(code(client.call(2, &request).await.responses[0].error_code), Some(InvalidRequest));
}

#[tokio::test]
async fn a_list_is_appended_to_and_subtracted_from_as_long_as_it_can_be() {
    const APPEND: i8 = 2;
    const SUBTRACT: i8 = 3;
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    for (operation, values, met, policy) in [
        (APPEND, "delete", None, "delete"),
        (SUBTRACT, "compact", None, "delete"),
        (SUBTRACT, "delete", Some(InvalidConfig), "delete"),
        (APPEND, "compact", None, "compact,delete"),
        (APPEND, "delete, compact", None, "compact,delete"),
        (APPEND, "tidy", Some(InvalidConfig), "compact,delete"),
        (SUBTRACT, "compact,delete", Some(InvalidConfig), "compact,delete"),
        (SUBTRACT, "delete,tidy", None, "compact"),
        (4, "delete", Some(InvalidRequest), "compact"),
    ] {
        for validate in [true, false] {
            let changes = [(operation, "cleanup.policy", values)];
            assert_eq!(client.alter("t", &changes, validate).await, met, "{operation} {values}");
        }
        assert_eq!(client.config("t", "cleanup.policy").await.0, policy, "{operation} {values}");
    }
    for operation in [APPEND, SUBTRACT] {
        for name in ["retention.ms", "compression.type", "no.such.setting"] {
            assert_eq!(client.alter("t", &[(operation, name, "1")], false).await, Some(InvalidConfig), "{name}");
        }
        let unknown = client.alter("nowhere", &[(operation, "cleanup.policy", "compact")], false).await;
        assert_eq!(unknown, Some(UnknownTopicOrPartition));
    }
}

#[tokio::test]
async fn no_topic_shows_a_larger_batch_limit_than_that_of_a_commit() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let most: usize = client.config("t", "max.message.bytes").await.0.parse().expect("a number");
    let beside = batch(&[&"x".repeat(most / 2)]).len() - most / 2;
    let largest = batch(&[&"x".repeat(most - beside)]);
    // Whether the inner lengths take a byte more or less, the advertised limit is exact to a byte
    // or nearly so.
    assert!((most - 8..=most).contains(&largest.len()), "{} of {most}", largest.len());
    assert_eq!(client.produce("t", &largest).await.error_code, 0);
    // The default limit holds, too: a commit would accept a few bytes more.
    let larger = batch(&[&"x".repeat(most - beside + 9)]);
    assert_eq!(code(client.produce("t", &larger).await.error_code), Some(MessageTooLarge));
    let (told, more) = (most.to_string(), (most + 1).to_string());
    assert_eq!(client.alter("t", &[(0, "max.message.bytes", &told)], false).await, None);
    assert_eq!(client.alter("t", &[(0, "max.message.bytes", &more)], false).await, Some(InvalidConfig));
    assert_eq!(client.create(&creating("v", 1, &[("max.message.bytes", &more)])).await, Some(InvalidConfig));
}

#[tokio::test]
async fn a_setting_that_is_set_to_its_default_is_shown_as_set() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("u").await;
    let most = client.config("u", "max.message.bytes").await.0;
    let said = [
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("delete.retention.ms", "86400000"),
        ("max.message.bytes", &*most),
        ("message.timestamp.type", "CreateTime"),
        ("min.insync.replicas", "1"),
        ("retention.bytes", "-1"),
        ("retention.ms", "-1"),
    ];
    assert_eq!(client.create(&creating("t", 1, &said)).await, None);
    let set = said.map(|(name, value)| (0, name, value));
    assert_eq!(client.alter("u", &set, false).await, None);
    let world = world.restart().await;
    let mut client = world.client().await;
    for (name, value) in said {
        for topic in ["t", "u"] {
            assert_eq!(client.config(topic, name).await, (value.to_owned(), 1), "{name}");
        }
        // A deleted setting is no longer listed, and no other is.
        assert_eq!(client.alter("t", &[(1, name, "")], false).await, None);
        assert_eq!(client.config("t", name).await.1, 5, "{name}");
    }
    // AlterConfigs sets all: a setting that is not named is no longer listed.
    let config = plain::AlterableConfig::default().with_name(text("retention.ms")).with_value(Some(text("-1")));
    let of = plain::AlterConfigsResource::default().with_resource_type(TOPIC).with_resource_name(text("u"));
    let request = AlterConfigsRequest::default().with_resources(vec![of.with_configs(vec![config])]);
    assert_eq!(client.call(2, &request).await.responses[0].error_code, 0);
    for (name, _) in said {
        let source = if name == "retention.ms" { 1 } else { 5 };
        assert_eq!(client.config("u", name).await.1, source, "{name}");
    }
}

/// The settings without effect: name, default, another value, and one that is refused.
const KEPT: [(&str, &str, &str, &str); 17] = [
    ("compression.type", "producer", "zstd", "brotli"),
    ("file.delete.delay.ms", "60000", "0", "-1"),
    ("flush.messages", "9223372036854775807", "1", "0"),
    ("flush.ms", "9223372036854775807", "1000", "soon"),
    ("follower.replication.throttled.replicas", "", "0:0,1:0", "0"),
    ("index.interval.bytes", "4096", "1024", "2147483648"),
    ("leader.replication.throttled.replicas", "", "*", "*:*"),
    ("local.retention.bytes", "-2", "-1", "-3"),
    ("local.retention.ms", "-2", "1000", "-3"),
    ("max.compaction.lag.ms", "9223372036854775807", "1", "0"),
    ("min.cleanable.dirty.ratio", "0.5", "0.01", "1.5"),
    ("preallocate", "false", "true", "yes"),
    ("segment.bytes", "1073741824", "52428800", "1048575"),
    ("segment.index.bytes", "10485760", "4", "3"),
    ("segment.jitter.ms", "0", "10", "-1"),
    ("segment.ms", "604800000", "1", "0"),
    ("unclean.leader.election.enable", "false", "true", "maybe"),
];

#[tokio::test]
async fn settings_without_effect_are_kept_and_shown_and_unknown_ones_are_refused() {
    let world = World::new().await;
    let mut client = world.client().await;
    let set = KEPT.map(|(name, _, value, _)| (name, value));
    assert_eq!(client.create(&creating("created", 1, &set)).await, None);
    client.topic("altered").await;
    for (name, default, value, wrong) in KEPT {
        assert_eq!(client.config("altered", name).await, (default.to_owned(), 5), "{name}");
        assert_eq!(client.create(&creating("wrong", 1, &[(name, wrong)])).await, Some(InvalidConfig), "{name}");
        assert_eq!(client.alter("altered", &[(0, name, wrong)], false).await, Some(InvalidConfig), "{name}");
        assert_eq!(client.alter("altered", &[(0, name, value)], true).await, None, "{name}");
        assert_eq!(client.config("altered", name).await, (default.to_owned(), 5), "only validated: {name}");
        assert_eq!(client.alter("altered", &[(0, name, value)], false).await, None, "{name}");
    }
    for unknown in ["segment.byte", "message.format.version", "no.such.setting"] {
        assert_eq!(client.create(&creating("wrong", 1, &[(unknown, "1")])).await, Some(InvalidConfig), "{unknown}");
    }
    let world = world.restart().await;
    let mut client = world.client().await;
    for (name, default, value, _) in KEPT {
        for topic in ["created", "altered"] {
            assert_eq!(client.config(topic, name).await, (value.to_owned(), 1), "{name}");
        }
        assert_eq!(client.alter("altered", &[(1, name, "")], false).await, None, "{name}");
        assert_eq!(client.config("altered", name).await, (default.to_owned(), 5), "{name}");
    }
    // AlterConfigs replaces all settings: a setting that it does not name returns to its default.
    let of = plain::AlterConfigsResource::default().with_resource_type(TOPIC).with_resource_name(text("created"));
    let request = AlterConfigsRequest::default().with_resources(vec![of.with_configs(Vec::new())]);
    assert_eq!(client.call(2, &request).await.responses[0].error_code, 0);
    assert_eq!(client.config("created", "segment.bytes").await, (String::from("1073741824"), 5));
}

#[tokio::test]
async fn a_topic_may_keep_nothing_longer_than_it_has_to() {
    let world = World::new().await;
    let mut client = world.client().await;
    assert_eq!(client.create(&creating("t", 1, &[("retention.ms", "0")])).await, None);
    assert_eq!(client.alter("t", &[(0, "retention.bytes", "0")], false).await, None);
    for (name, value) in [("retention.ms", "-2"), ("retention.bytes", "some")] {
        assert_eq!(client.alter("t", &[(0, name, value)], false).await, Some(InvalidConfig));
    }
    let world = world.restart().await;
    let mut client = world.client().await;
    for name in ["retention.ms", "retention.bytes"] {
        assert_eq!(client.config("t", name).await, (String::from("0"), 1));
    }
}

#[tokio::test]
async fn a_topic_that_compacts_is_described_as_such_and_refuses_records_without_a_key() {
    let world = World::new().await;
    let mut client = world.client().await;
    let settings = [("cleanup.policy", "compact,delete"), ("delete.retention.ms", "1000")];
    assert_eq!(client.create(&creating("t", 1, &settings)).await, None);
    let mut builder = BatchBuilder::new();
    builder.add(None, Some(b"no key"), &[], 1_000).expect("room");
    let keyless = builder.finish().expect("a record").bytes().to_vec();
    let compressed = resealed(keyless.clone(), |batch| {
        // Snappy: the length, and one literal of `count` bytes.
        let length = (batch.len() - HEADER_BYTES) as u8;
        batch[22] = 2;
        batch.splice(HEADER_BYTES..HEADER_BYTES, [length, (length - 1) << 2]);
    });
    for keyless in [&keyless, &compressed] {
        assert_eq!(code(client.produce("t", keyless).await.error_code), Some(InvalidRecord));
    }
    // KIP-467: the response names the invalid records, so a client knows that the others are valid.
    let mut builder = BatchBuilder::new();
    for record in 0..100 {
        let key = (record % 10 != 3).then_some(&b"key"[..]);
        builder.add(key, Some(b"value"), &[], 1_000).expect("room");
    }
    let mixed = builder.finish().expect("records").bytes().to_vec();
    for version in [7, 8, 12] {
        let response = client.call(version, &producing("t", 0, &mixed)).await;
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!(code(partition.error_code), Some(InvalidRecord));
        let named: Vec<_> = partition.record_errors.iter().map(|error| error.batch_index).collect();
        let expected: Vec<_> = (0..100).filter(|record| record % 10 == 3).collect();
        assert_eq!(named, if version >= 8 { expected } else { Vec::new() }, "{version}");
    }
    assert_eq!(client.produce("t", &batch(&["a key"])).await.error_code, 0);
    assert_eq!(client.alter("t", &[(1, "cleanup.policy", "")], false).await, None);
    assert_eq!(client.produce("t", &keyless).await.error_code, 0);
    assert_eq!(client.produce("t", &compressed).await.error_code, 0);
    assert_eq!(client.alter("t", &[(0, "cleanup.policy", "compact")], false).await, None);
    let world = world.restart().await;
    let mut client = world.client().await;
    assert_eq!(client.config("t", "cleanup.policy").await, (String::from("compact"), 1));
    assert_eq!(client.config("t", "delete.retention.ms").await, (String::from("1000"), 1));
}

#[tokio::test]
async fn every_setting_of_topic_and_broker_is_shown_in_every_version() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    for version in 1..=4 {
        let resource = |of, name| {
            DescribeConfigsResource::default()
                .with_resource_type(of)
                .with_resource_name(text(name))
                .with_configuration_keys(None)
        };
        let resources = vec![resource(TOPIC, "t"), resource(BROKER, "0"), resource(TOPIC, "nowhere"), resource(8, "")];
        let mut request = DescribeConfigsRequest::default().with_resources(resources);
        if version >= 3 {
            request = request.with_include_documentation(true);
        }
        let results = client.call(version, &request).await.results;
        let names: Vec<&str> = results[0].configs.iter().map(|config| &*config.name).collect();
        let honoured = [
            "cleanup.policy",
            "delete.retention.ms",
            "max.message.bytes",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "message.timestamp.type",
            "min.insync.replicas",
            "remote.storage.enable",
            "retention.bytes",
            "retention.ms",
        ];
        let mut expected: Vec<_> = honoured.into_iter().chain(KEPT.map(|(name, ..)| name)).collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
        if version >= 3 {
            for config in &results[0].configs {
                let is_kept = KEPT.iter().any(|(name, ..)| *name == &*config.name);
                let documentation = config.documentation.as_deref().expect("a text");
                assert_eq!(documentation.contains("without effect"), is_kept, "{}", config.name);
            }
        }
        assert!(results[1].configs.iter().any(|config| &*config.name == "num.partitions" && config.read_only));
        let codes = [code(results[2].error_code), code(results[3].error_code)];
        assert_eq!(codes, [Some(UnknownTopicOrPartition), Some(InvalidRequest)]);
    }
}

#[tokio::test]
async fn source_and_documentation_of_a_setting_are_returned_on_request() {
    let settings = Settings { auto_create_partitions: 3, ..Settings::default() };
    let world = World::with(settings).await;
    let mut client = world.client().await;
    assert_eq!(client.create(&creating("t", 1, &[("retention.ms", "1000")])).await, None);
    for version in 1..=4 {
        let resource = |of, named, keys: &[&str]| {
            DescribeConfigsResource::default()
                .with_resource_type(of)
                .with_resource_name(text(named))
                .with_configuration_keys(Some(keys.iter().map(|key| text(key)).collect()))
        };
        let resources = vec![
            resource(TOPIC, "t", &["retention.ms", "cleanup.policy"]),
            resource(BROKER, "0", &["num.partitions", "fetch.max.bytes"]),
            resource(BROKER, "", &[]),
        ];
        for told in [true, false] {
            let request = DescribeConfigsRequest::default().with_resources(resources.clone());
            let request = request.with_include_synonyms(told).with_include_documentation(told && version >= 3);
            let results = client.call(version, &request).await.results;
            let shown = |at: usize| {
                let configs = results[at].configs.iter().map(|config| {
                    let is_documented = config.documentation.as_ref().is_some_and(|text| !text.is_empty());
                    assert_eq!(is_documented, told && version >= 3, "{}", config.name);
                    let value = |value: &Option<StrBytes>| value.as_deref().expect("a value").to_owned();
                    let synonyms =
                        config.synonyms.iter().map(|it| format!(" {}={}@{}", it.name, value(&it.value), it.source));
                    let synonyms: String = synonyms.collect();
                    format!("{}={}@{}{synonyms}", config.name, value(&config.value), config.config_source)
                });
                configs.collect::<Vec<_>>()
            };
            let synonyms = |synonyms: &'static str| if told { synonyms } else { "" };
            assert_eq!(
                shown(0),
                [
                    format!("cleanup.policy=delete@5{}", synonyms(" log.cleanup.policy=delete@5")),
                    format!("retention.ms=1000@1{}", synonyms(" retention.ms=1000@1 log.retention.ms=-1@5")),
                ]
            );
            assert_eq!(
                shown(1),
                [
                    format!("fetch.max.bytes=57671680@5{}", synonyms(" fetch.max.bytes=57671680@5")),
                    format!("num.partitions=3@4{}", synonyms(" num.partitions=3@4 num.partitions=1@5")),
                ]
            );
            assert_eq!((results[2].error_code, shown(2)), (0, Vec::new()));
        }
    }
}

#[tokio::test]
async fn partitions_are_added() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    let adding = |count| {
        let topic = CreatePartitionsTopic::default().with_name(name("t")).with_count(count).with_assignments(None);
        CreatePartitionsRequest::default().with_topics(vec![topic])
    };
    let tried = client.call(3, &adding(5).with_validate_only(true)).await;
    assert_eq!((tried.results[0].error_code, client.partitions("t").await), (0, 1));
    for version in 0..=3 {
        let added = client.call(version, &adding(i32::from(version) + 2)).await;
        assert_eq!(added.results[0].error_code, 0);
    }
    assert_eq!(client.partitions("t").await, 5);
    for count in [5, 4, -1] {
        assert_eq!(code(client.call(3, &adding(count)).await.results[0].error_code), Some(InvalidPartitions));
    }
}

#[tokio::test]
async fn partitions_are_added_when_each_is_assigned_to_this_broker() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    for (brokers, expected) in [
        (&[][..], Some(InvalidReplicaAssignment)),
        (&[0], Some(InvalidReplicaAssignment)),
        (&[0, 0, 0], Some(InvalidReplicaAssignment)),
        (&[0, 1], Some(InvalidReplicaAssignment)),
        (&[0, 0], None),
    ] {
        let on = |&broker: &i32| CreatePartitionsAssignment::default().with_broker_ids(vec![broker.into()]);
        let topic = CreatePartitionsTopic::default().with_name(name("t")).with_count(3);
        let topic = topic.with_assignments(Some(brokers.iter().map(on).collect()));
        let added = client.call(3, &CreatePartitionsRequest::default().with_topics(vec![topic])).await;
        assert_eq!(code(added.results[0].error_code), expected, "{brokers:?}");
    }
    assert_eq!(client.partitions("t").await, 3);
}

#[tokio::test]
async fn readers_miss_deleted_records_at_once() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.produce("t", &batch(&["a", "b", "c"])).await;
    assert_eq!(client.delete_records("t", 2).await, (2, None));
    assert_eq!(client.delete_records("t", 1).await, (2, None));
    assert_eq!(client.delete_records("t", 4).await, (-1, Some(OffsetOutOfRange)));
    assert_eq!(client.delete_records("t", -2).await, (-1, Some(OffsetOutOfRange)));
    assert_eq!(client.delete_records("nowhere", 0).await, (-1, Some(UnknownTopicOrPartition)));
    let data = client.fetch("t", 0).await;
    assert_eq!(code(data.error_code), Some(OffsetOutOfRange));
    // A batch is sent whole: the client skips records before the requested offset.
    assert_eq!(client.fetch("t", 2).await.log_start_offset, 2);
    assert_eq!(client.delete_records("t", -1).await, (3, None));
    client.produce("t", &batch(&["d"])).await;

    let world = world.restart().await;
    let mut client = world.client().await;
    assert_eq!(values(&client.fetch("t", 3).await), [(3, String::from("d"))]);
    assert_eq!(code(client.fetch("t", 2).await.error_code), Some(OffsetOutOfRange));
}

#[tokio::test]
async fn topics_are_deleted_by_name_and_by_id_and_event_stores_are_not() {
    let world = World::new().await;
    world.database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    let mut client = world.client().await;
    for version in 1..=6 {
        let id = client.topic("t").await.topic_id;
        client.produce("t", &batch(&["a"])).await;
        let request = DeleteTopicsRequest::default();
        let request = match version {
            6 => request.with_topics(vec![DeleteTopicState::default().with_name(None).with_topic_id(id)]),
            _ => request.with_topic_names(vec![name("t")]),
        };
        let deleted = client.call(version, &request).await.responses.remove(0);
        assert_eq!((deleted.error_code, deleted.name), (0, Some(name("t"))));
        assert_ne!(client.call(version, &request).await.responses[0].error_code, 0);
        assert_eq!(client.partitions("t").await, 0);
    }
    let store = DeleteTopicsRequest::default().with_topic_names(vec![name("air.flights")]);
    assert_eq!(code(client.call(5, &store).await.responses[0].error_code), Some(PolicyViolation));
    // A topic of the same name is another one, and empty.
    client.topic("t").await;
    assert_eq!(client.fetch("t", 0).await.high_watermark, 0);
}

#[tokio::test]
async fn sizes_producers_epochs_and_the_cluster_are_described() {
    let world = World::new().await;
    let mut client = world.client().await;
    client.topic("t").await;
    client.produce("t", &batch(&["a"])).await;
    let bytes = batch(&["a"]).len() as i64;
    for version in 1..=4 {
        let all = client.call(version, &DescribeLogDirsRequest::default().with_topics(None)).await;
        assert_eq!(all.results[0].topics[0].partitions[0].partition_size, bytes);
        let topic = DescribableLogDirTopic::default().with_topic(name("t")).with_partitions(vec![0, 1]);
        let some = client.call(version, &DescribeLogDirsRequest::default().with_topics(Some(vec![topic]))).await;
        assert_eq!(some.results[0].topics[0].partitions.len(), 1);
    }
    let topic = TopicRequest::default().with_name(name("t")).with_partition_indexes(vec![0, 1]);
    let told = client.call(0, &DescribeProducersRequest::default().with_topics(vec![topic])).await;
    let partitions = &told.topics[0].partitions;
    assert_eq!((partitions[0].error_code, partitions[0].active_producers.len()), (0, 0));
    assert_eq!(code(partitions[1].error_code), Some(UnknownTopicOrPartition));
    for version in 2..=4 {
        let asked = |epoch| OffsetForLeaderPartition::default().with_leader_epoch(epoch).with_current_leader_epoch(-1);
        let partitions = vec![asked(0), asked(1), asked(0).with_current_leader_epoch(1)];
        let topic = OffsetForLeaderTopic::default().with_topic(name("t")).with_partitions(partitions);
        let told = client.call(version, &OffsetForLeaderEpochRequest::default().with_topics(vec![topic])).await;
        let ends: Vec<_> = told.topics[0].partitions.iter().map(|end| (end.leader_epoch, end.end_offset)).collect();
        assert_eq!(ends, [(0, 1), (-1, -1), (-1, -1)]);
        assert_eq!(code(told.topics[0].partitions[2].error_code), Some(UnknownLeaderEpoch));
    }
    for version in 0..=2 {
        let cluster = client.call(version, &DescribeClusterRequest::default()).await;
        assert_eq!((cluster.brokers.len(), cluster.brokers[0].port), (1, i32::from(world.address.port())));
    }
    for version in 2..=7 {
        let topic = format!("of-{version}");
        let created = client.call(version, &creating(&topic, 2, &[("retention.ms", "5")])).await;
        assert_eq!((created.topics[0].error_code, client.partitions(&topic).await), (0, 2));
        assert_ne!(client.call(version, &creating(&topic, 2, &[])).await.topics[0].error_code, 0);
    }
    for version in 0..=2 {
        let partition = DeleteRecordsPartition::default().with_offset(0);
        let topic = DeleteRecordsTopic::default().with_name(name("t")).with_partitions(vec![partition]);
        let deleted = client.call(version, &DeleteRecordsRequest::default().with_topics(vec![topic])).await;
        assert_eq!(deleted.topics[0].partitions[0].low_watermark, 0);
    }
    assert_eq!(client.alter("t", &[], false).await, None);
}
