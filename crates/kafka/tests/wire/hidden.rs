//! Access control is enabled: a client learns nothing about objects that it may not describe, and
//! changes nothing that it may not change.

use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::incremental_alter_configs_request as incremental;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::*;
use quire::events::{NewEvent, Query, ReadOptions};
use quire::system::{AccessRule, RulePattern};
use quire::{AUDIT_STORE, Operation, ResourceKind};
use quire_kafka::Settings;
use uuid::Uuid;

use crate::groups::{joining, syncing};
use crate::permissions::{
    GROUP, TOPIC, UNKNOWN_TOPIC_ID, about_id, allow, connected, delete_id, enabled, fetch, has_topic, id_of, name,
    produce, user,
};
use crate::support::{World, about, text};

use Operation::{AlterConfigs, Create, Describe};
use ResourceKind::{Cluster, Store, Topic};

const POLICY_VIOLATION: i16 = 44;

/// An id tells neither the name of a topic nor that it exists.
#[tokio::test]
async fn an_id_of_a_hidden_topic_has_the_answer_of_an_unknown_id() {
    let world = enabled().await;
    let database = &world.database;
    database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    database.queue("air/delays").enqueue(quire::NewJob::new("job")).expect("a job");
    let key = user(database, "admin", &["admin"], &[]);
    let mut admin = connected(&world, "admin", &key).await;
    let key = user(database, "nobody", &[], &[]);
    let mut nobody = connected(&world, "nobody", &key).await;
    let mut ids = vec![id_of(database, "t"), Uuid::from_u128(7), Uuid::from_u128(database.id() ^ 1_000)];
    for topic in ["air.flights", "jobs.air.delays"] {
        ids.push(admin.call(12, &about(topic)).await.topics[0].topic_id);
    }
    for id in ids {
        let described = nobody.call(12, &about_id(id)).await.topics.remove(0);
        assert_eq!((described.error_code, described.name, described.topic_id), (UNKNOWN_TOPIC_ID, None, id));
        assert!(described.partitions.is_empty());
        let deleted = nobody.call(6, &delete_id(id)).await.responses.remove(0);
        assert_eq!((deleted.error_code, deleted.name, deleted.topic_id), (UNKNOWN_TOPIC_ID, None, id));
        assert_eq!(deleted.error_message.as_deref(), Some("unknown topic id"));
        let fetched = nobody.call(13, &fetch(id)).await.responses.remove(0);
        assert_eq!((fetched.partitions[0].error_code, fetched.partitions[0].high_watermark), (UNKNOWN_TOPIC_ID, -1));
        let produced = nobody.call(13, &produce(id, false)).await.responses.remove(0).partition_responses.remove(0);
        assert_eq!(produced.error_code, UNKNOWN_TOPIC_ID);
        assert_eq!(produced.error_message.as_deref(), Some("unknown topic id"));
    }
    assert!(has_topic(database, "t"));
}

/// A group whose members are in memory only.
#[tokio::test]
async fn a_client_without_permission_does_nothing_with_the_members_of_a_group() {
    let world = enabled().await;
    let key = user(&world.database, "admin", &["admin"], &[]);
    let mut admin = connected(&world, "admin", &key).await;
    let joined = admin.call(3, &joining("")).await;
    assert_eq!(joined.error_code, 0);
    let assignment = [(joined.member_id.as_str(), "partition 0")];
    assert_eq!(admin.call(3, &syncing(&joined, &assignment)).await.error_code, 0);

    let key = user(&world.database, "nobody", &[], &[allow((Topic, "t", Operation::Read))]);
    let mut nobody = connected(&world, "nobody", &key).await;
    let heartbeat = HeartbeatRequest::default()
        .with_group_id(text("g").into())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone());
    let leave = LeaveGroupRequest::default()
        .with_group_id(text("g").into())
        .with_members(vec![MemberIdentity::default().with_member_id(joined.member_id.clone())]);
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(1);
    let topic = OffsetCommitRequestTopic::default().with_name(name("t")).with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(text("g").into())
        .with_generation_id_or_member_epoch(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_topics(vec![topic]);
    let describe = DescribeGroupsRequest::default().with_groups(vec![text("g").into()]);
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![text("g").into()]);
    assert_eq!(nobody.call(3, &joining(&joined.member_id)).await.error_code, GROUP);
    assert_eq!(nobody.call(3, &joining("")).await.error_code, GROUP);
    assert_eq!(nobody.call(3, &syncing(&joined, &assignment)).await.error_code, GROUP);
    assert_eq!(nobody.call(3, &heartbeat).await.error_code, GROUP);
    assert_eq!(nobody.call(3, &leave).await.error_code, GROUP);
    assert_eq!(nobody.call(7, &commit).await.topics[0].partitions[0].error_code, GROUP);
    let described = nobody.call(5, &describe).await.groups.remove(0);
    assert_eq!((described.error_code, described.members.len(), described.group_state.as_str()), (GROUP, 0, ""));
    assert_eq!(nobody.call(2, &delete).await.results[0].error_code, GROUP);
    assert_eq!(nobody.call(4, &ListGroupsRequest::default()).await.groups, []);

    assert_eq!(admin.call(3, &heartbeat).await.error_code, 0, "nothing has changed");
    let described = admin.call(5, &describe).await.groups.remove(0);
    assert_eq!((described.members.len(), described.group_state.as_str()), (1, "Stable"));
}

#[tokio::test]
async fn a_validation_of_a_topic_with_kept_settings_is_refused_as_its_creation() {
    let world = enabled().await;
    let database = &world.database;
    let key = user(database, "creator", &[], &[allow((Topic, "new", Create))]);
    let mut creator = connected(&world, "creator", &key).await;
    let key = user(database, "both", &[], &[allow((Topic, "new", Create)), allow((Topic, "new", AlterConfigs))]);
    let mut both = connected(&world, "both", &key).await;
    let request = |only_validate: bool| {
        let config = CreatableTopicConfig::default().with_name(text("segment.ms")).with_value(Some(text("1000000")));
        let topic = CreatableTopic::default().with_name(name("new")).with_num_partitions(1).with_replication_factor(1);
        CreateTopicsRequest::default()
            .with_topics(vec![topic.with_configs(vec![config])])
            .with_validate_only(only_validate)
    };
    for only_validate in [true, false] {
        assert_eq!(creator.call(5, &request(only_validate)).await.topics[0].error_code, TOPIC);
    }
    assert!(!has_topic(database, "new"));
    for only_validate in [true, false] {
        assert_eq!(both.call(5, &request(only_validate)).await.topics[0].error_code, 0);
    }
    assert!(has_topic(database, "new"));
}

#[tokio::test]
async fn the_settings_of_a_store_are_refused_by_a_reason_and_not_for_a_permission() {
    let world = enabled().await;
    let database = &world.database;
    database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    let key = user(database, "ann", &[], &[allow((Store, "air/flights", AlterConfigs))]);
    let mut ann = connected(&world, "ann", &key).await;
    for operation in [0, 2, 3] {
        let config = incremental::AlterableConfig::default()
            .with_name(text("cleanup.policy"))
            .with_config_operation(operation)
            .with_value(Some(text("delete")));
        let resource = incremental::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("air.flights"))
            .with_configs(vec![config]);
        for only_validate in [true, false] {
            let request = IncrementalAlterConfigsRequest::default()
                .with_resources(vec![resource.clone()])
                .with_validate_only(only_validate);
            let refused = ann.call(1, &request).await.responses.remove(0);
            assert_eq!(refused.error_code, POLICY_VIOLATION, "operation {operation}");
            assert!(refused.error_message.expect("a message").contains("event store air/flights"));
        }
    }
    let config = AlterableConfig::default().with_name(text("cleanup.policy")).with_value(Some(text("delete")));
    let resource = AlterConfigsResource::default().with_resource_type(2).with_resource_name(text("air.flights"));
    let request = AlterConfigsRequest::default().with_resources(vec![resource.with_configs(vec![config])]);
    assert_eq!(ann.call(2, &request).await.responses[0].error_code, POLICY_VIOLATION);
}

#[tokio::test]
async fn a_client_that_may_not_create_a_topic_takes_nothing_of_the_rate_of_the_others() {
    let settings = Settings { auto_create_topics: Some(true), auto_create_per_second: 1, ..Settings::default() };
    let world = World::with(settings).await;
    let database = &world.database;
    database.access().init("root").expect("enabled");
    let describes = AccessRule::allow(Describe, Topic, RulePattern::Any);
    let key = user(database, "bob", &[], std::slice::from_ref(&describes));
    let mut bob = connected(&world, "bob", &key).await;
    let creates = allow((Cluster, "kafka-cluster", Create));
    let key = user(database, "ann", &[], &[describes, creates]);
    let mut ann = connected(&world, "ann", &key).await;
    for topic in ["u", "v", "w"] {
        assert_eq!(bob.topic(topic).await.error_code, TOPIC);
    }
    assert_eq!(ann.topic("t").await.error_code, 0);
    assert_eq!(world.counters.statistics().topics_auto_refused, 0);
}

/// The first client that authenticates with SASL gives the database its secret.
#[tokio::test]
async fn the_secret_of_the_database_is_audited_and_shown_nowhere() {
    let world = enabled().await;
    let key = user(&world.database, "ann", &[], &[]);
    connected(&world, "ann", &key).await;
    let read = world.database.events(AUDIT_STORE).read(&Query::all(), ReadOptions::default()).expect("readable");
    let secrets = read.events.into_iter().map(|event| String::from_utf8(event.data).expect("text"));
    let secrets: Vec<String> = secrets.filter(|text| text.contains("put_secret")).collect();
    assert_eq!(
        secrets,
        [
            r#"{"principal":"owner","protocol":"embedded","operation":"put_secret","thing":"secret of the database","outcome":"done"}"#
        ]
    );
}
