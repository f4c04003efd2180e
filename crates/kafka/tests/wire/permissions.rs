//! The matrix: each offered API in each version, by clients with no, wrong, insufficient and right
//! credentials. An API without a row in [`rows`] fails.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_producers_request::TopicRequest as ProducersTopic;
use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::incremental_alter_configs_request as incremental;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request;
use quire::events::NewEvent;
use quire::streams::{Command, TopicRef};
use quire::system::{AccessRule, RulePattern, RuleSubject};
use quire::{Commit, Database, Message, NewApiKey, NewJob, Operation, Part, Resource, ResourceKind, Sequence};
use quire_kafka::Settings;
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

use crate::offsets::listing;
use crate::support::{Client, World, about, batch, fetching, producing, text, values};

use Operation::{Alter, AlterConfigs, Create, Delete, Describe, DescribeConfigs, IdempotentWrite, Read, Write};
use ResourceKind::{Admin, Cluster, Group, Store, Topic, TransactionalId};

/// The error codes for missing permissions.
pub(crate) const TOPIC: i16 = 29;
pub(crate) const GROUP: i16 = 30;
const CLUSTER: i16 = 31;
const TRANSACTIONAL_ID: i16 = 53;

/// The code for an id of a topic that the client may not describe.
pub(crate) const UNKNOWN_TOPIC_ID: i16 = 100;

const SASL_AUTHENTICATION_FAILED: i16 = 58;

/// A client may send these before it is authenticated.
const OPEN: [i16; 3] = [17, 18, 36];

/// The kind and the name of a resource, and an operation.
pub(crate) type Permission = (ResourceKind, &'static str, Operation);

/// A permission that a request needs, or any one of several, and the error code without it.
type Need = (&'static [Permission], i16);

/// Sends a request in a version, and returns the error code of its item.
type Ask = Box<dyn for<'c> Fn(&'c mut Client, i16) -> Pin<Box<dyn Future<Output = i16> + 'c>>>;

struct Row {
    key: ApiKey,
    needs: Vec<Need>,
    /// The codes with all needed permissions.
    done: &'static [i16],
    /// The first version that names the topic by its id.
    by_id_from: i16,
    ask: Ask,
}

impl Row {
    fn by_id_from(self, version: i16) -> Self {
        Row { by_id_from: version, ..self }
    }

    /// The code without a permission on a topic that the client may describe, or may not.
    fn refused(&self, code: i16, version: i16, is_shown: bool) -> i16 {
        if code == TOPIC && version >= self.by_id_from && !is_shown { UNKNOWN_TOPIC_ID } else { code }
    }
}

fn row<R: Request + 'static>(
    needs: impl Into<Vec<Need>>,
    done: &'static [i16],
    request: impl Fn(i16) -> R + 'static,
    code: impl Fn(R::Response) -> i16 + 'static,
) -> Row {
    let shared = Arc::new((request, code));
    let ask: Ask = Box::new(move |client, version| {
        let shared = Arc::clone(&shared);
        Box::pin(async move { shared.1(client.call(version, &shared.0(version)).await) })
    });
    let key = ApiKey::try_from(R::KEY).expect("an API");
    Row { key, needs: needs.into(), done, by_id_from: i16::MAX, ask }
}

/// The first code that is not 0.
fn first(codes: impl IntoIterator<Item = i16>) -> i16 {
    codes.into_iter().find(|code| *code != 0).unwrap_or(0)
}

pub(crate) fn name(name: &str) -> TopicName {
    TopicName(text(name))
}

fn group(name: &str) -> GroupId {
    GroupId(text(name))
}

/// Sends a request in a version that has no decoder. Its response has one topic `t` with one
/// partition, whose error code is returned.
async fn old(client: &mut Client, key: i16, version: i16, body: &[u8]) -> i16 {
    let mut frame = BytesMut::new();
    frame.put_i16(key);
    frame.put_i16(version);
    frame.put_slice(&[0, 0, 0, 9, 0, 2, b'm', b'e']);
    frame.put_slice(body);
    client.stream.write_u32(frame.len() as u32).await.expect("sent");
    client.stream.write_all(&frame).await.expect("sent");
    let mut answer: Bytes = client.receive_frame().await.expect("an answer");
    answer.advance(19);
    answer.get_i16()
}

fn offset_commit() -> Row {
    let new = row::<OffsetCommitRequest>(
        [(&[(Group, "g", Read)][..], GROUP), (&[(Topic, "t", Read)][..], TOPIC)],
        &[0],
        |_| {
            let partition = OffsetCommitRequestPartition::default().with_committed_offset(1);
            let topic = OffsetCommitRequestTopic::default().with_name(name("t")).with_partitions(vec![partition]);
            OffsetCommitRequest::default().with_group_id(group("g")).with_topics(vec![topic])
        },
        |response| response.topics[0].partitions[0].error_code,
    );
    let Row { key, needs, done, by_id_from, ask } = new;
    let ask: Ask = Box::new(move |client, version| match version {
        2.. => ask(client, version),
        _ => Box::pin(async move {
            let mut body = BytesMut::from(&b"\0\x01g"[..]);
            if version == 1 {
                body.put_slice(&[0xff, 0xff, 0xff, 0xff, 0, 0]);
            }
            body.put_slice(b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x01");
            if version == 1 {
                body.put_i64(-1);
            }
            body.put_i16(-1);
            old(client, 8, version, &body).await
        }),
    });
    Row { key, needs, done, by_id_from, ask }
}

fn list_offsets() -> Row {
    let new = row::<ListOffsetsRequest>(
        [(&[(Topic, "t", Describe)][..], TOPIC)],
        &[0],
        |_| listing("t", 0, -1),
        |response| response.topics[0].partitions[0].error_code,
    );
    let Row { key, needs, done, by_id_from, ask } = new;
    let ask: Ask = Box::new(move |client, version| match version {
        1.. => ask(client, version),
        _ => Box::pin(async move {
            let mut body = BytesMut::from(&b"\xff\xff\xff\xff\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0"[..]);
            body.put_i64(-1);
            body.put_i32(1);
            old(client, 2, version, &body).await
        }),
    });
    Row { key, needs, done, by_id_from, ask }
}

/// The id of a topic, as the server gives it.
pub(crate) fn id_of(database: &Database, topic: &str) -> Uuid {
    let id = database.read_published(|view| view.streams.topic_named(topic).expect("it exists").id).expect("read");
    Uuid::from_u128(database.id() ^ (u128::from(id.get()) + 1))
}

pub(crate) fn produce(id: Uuid, transactional: bool) -> ProduceRequest {
    let mut request = producing("t", 0, &batch(&["a"]));
    if !id.is_nil() {
        request.topic_data[0].topic_id = id;
        request.topic_data[0].name = TopicName::default();
    }
    request.with_transactional_id(transactional.then(|| text("x").into()))
}

/// Every API, with what Apache Kafka requires for it.
fn rows(database: &Database) -> Vec<Row> {
    let ids = || {
        let database = database.clone();
        move |topic: &str| id_of(&database, topic)
    };
    let by_id = || {
        let id = ids();
        move |version: i16, from: i16| if version >= from { id("t") } else { Uuid::nil() }
    };
    let cluster = |operation: &'static [Permission]| [(operation, CLUSTER)];
    vec![
        row::<ProduceRequest>(
            [(&[(Topic, "t", Write)][..], TOPIC)],
            &[0],
            {
                let by_id = by_id();
                move |version| produce(by_id(version, 13), false)
            },
            |response| response.responses[0].partition_responses[0].error_code,
        )
        .by_id_from(13),
        row::<ProduceRequest>(
            [(&[(TransactionalId, "x", Write)][..], TRANSACTIONAL_ID), (&[(Topic, "t", Write)][..], TOPIC)],
            &[0],
            {
                let by_id = by_id();
                move |version| produce(by_id(version, 13), true)
            },
            |response| response.responses[0].partition_responses[0].error_code,
        )
        .by_id_from(13),
        row::<FetchRequest>(
            [(&[(Topic, "t", Read)][..], TOPIC)],
            &[0],
            {
                let by_id = by_id();
                move |version| fetch(by_id(version, 13))
            },
            |response| response.responses[0].partitions[0].error_code,
        )
        .by_id_from(13),
        list_offsets(),
        row::<MetadataRequest>(
            [(&[(Topic, "t", Describe)][..], TOPIC)],
            &[0],
            |_| about("t"),
            |response| response.topics[0].error_code,
        ),
        row::<MetadataRequest>(
            [(&[(Topic, "t", Describe)][..], TOPIC)],
            &[0],
            {
                let by_id = by_id();
                move |version| about_id(by_id(version, 12))
            },
            |response| response.topics[0].error_code,
        )
        .by_id_from(12),
        offset_commit(),
        row::<OffsetFetchRequest>(
            [(&[(Group, "g", Describe)][..], GROUP), (&[(Topic, "t", Describe)][..], TOPIC)],
            &[0],
            |version| {
                if version >= 8 {
                    let topic =
                        OffsetFetchRequestTopics::default().with_name(name("t")).with_partition_indexes(vec![0]);
                    let of = OffsetFetchRequestGroup::default().with_group_id(group("g"));
                    return OffsetFetchRequest::default().with_groups(vec![of.with_topics(Some(vec![topic]))]);
                }
                let topic = OffsetFetchRequestTopic::default().with_name(name("t")).with_partition_indexes(vec![0]);
                OffsetFetchRequest::default().with_group_id(group("g")).with_topics(Some(vec![topic]))
            },
            |response| {
                let one = response.topics.iter().flat_map(|topic| &topic.partitions).map(|it| it.error_code);
                let of_groups = response.groups.iter().flat_map(|group| {
                    let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
                    [group.error_code].into_iter().chain(partitions.map(|partition| partition.error_code))
                });
                first([response.error_code].into_iter().chain(one).chain(of_groups))
            },
        ),
        row::<FindCoordinatorRequest>(
            [(&[(Group, "g", Describe)][..], GROUP)],
            &[0],
            |version| match version {
                4.. => FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]),
                _ => FindCoordinatorRequest::default().with_key(text("g")),
            },
            |response| {
                first([response.error_code].into_iter().chain(response.coordinators.iter().map(|c| c.error_code)))
            },
        ),
        row::<JoinGroupRequest>(
            [(&[(Group, "g", Read)][..], GROUP)],
            // It has no protocol type.
            &[23],
            |_| JoinGroupRequest::default().with_group_id(group("g")).with_session_timeout_ms(10_000),
            |response| response.error_code,
        ),
        row::<HeartbeatRequest>(
            [(&[(Group, "g", Read)][..], GROUP)],
            &[25],
            |_| HeartbeatRequest::default().with_group_id(group("g")).with_member_id(text("nobody")),
            |response| response.error_code,
        ),
        row::<LeaveGroupRequest>(
            [(&[(Group, "g", Read)][..], GROUP)],
            &[25],
            |version| {
                let request = LeaveGroupRequest::default().with_group_id(group("g"));
                match version {
                    3.. => request.with_members(vec![MemberIdentity::default().with_member_id(text("nobody"))]),
                    _ => request.with_member_id(text("nobody")),
                }
            },
            |response| first([response.error_code].into_iter().chain(response.members.iter().map(|it| it.error_code))),
        ),
        row::<SyncGroupRequest>(
            [(&[(Group, "g", Read)][..], GROUP)],
            &[25],
            |_| SyncGroupRequest::default().with_group_id(group("g")).with_member_id(text("nobody")),
            |response| response.error_code,
        ),
        row::<DescribeGroupsRequest>(
            [(&[(Group, "g", Describe)][..], GROUP)],
            &[0],
            |_| DescribeGroupsRequest::default().with_groups(vec![group("g")]),
            |response| response.groups[0].error_code,
        ),
        row::<ListGroupsRequest>(
            [(&[(Group, "g", Describe), (Cluster, "kafka-cluster", Describe)][..], GROUP)],
            &[0],
            |_| ListGroupsRequest::default(),
            // An error is not reported: the group is omitted.
            |response| if response.groups.iter().any(|it| it.group_id.as_str() == "g") { 0 } else { GROUP },
        ),
        row::<ApiVersionsRequest>(Vec::new(), &[0], |_| ApiVersionsRequest::default(), |response| response.error_code),
        row::<SaslHandshakeRequest>(
            Vec::new(),
            // A connection is authenticated again in requests of their own only.
            &[0, 34],
            |_| SaslHandshakeRequest::default().with_mechanism(text("SCRAM-SHA-256")),
            |response| response.error_code,
        ),
        row::<SaslAuthenticateRequest>(
            Vec::new(),
            &[34, 58],
            |_| SaslAuthenticateRequest::default(),
            |response| response.error_code,
        ),
        row::<InitProducerIdRequest>(
            [(&[(Cluster, "kafka-cluster", IdempotentWrite), (Topic, "t", Write)][..], CLUSTER)],
            &[0],
            |_| InitProducerIdRequest::default().with_transactional_id(None),
            |response| response.error_code,
        ),
        row::<InitProducerIdRequest>(
            [(&[(TransactionalId, "x", Write)][..], TRANSACTIONAL_ID)],
            // There are no transactions.
            &[42],
            |_| InitProducerIdRequest::default().with_transactional_id(Some(text("x").into())),
            |response| response.error_code,
        ),
        row::<DeleteGroupsRequest>(
            [(&[(Group, "old", Delete)][..], GROUP)],
            &[0],
            |_| DeleteGroupsRequest::default().with_groups_names(vec![group("old")]),
            |response| response.results[0].error_code,
        ),
        row::<OffsetDeleteRequest>(
            [(&[(Group, "g", Delete)][..], GROUP), (&[(Topic, "u", Read)][..], TOPIC)],
            &[0],
            |_| {
                let partition = OffsetDeleteRequestPartition::default();
                let topic = OffsetDeleteRequestTopic::default().with_name(name("u")).with_partitions(vec![partition]);
                OffsetDeleteRequest::default().with_group_id(group("g")).with_topics(vec![topic])
            },
            |response| {
                let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
                first([response.error_code].into_iter().chain(partitions.map(|partition| partition.error_code)))
            },
        ),
        row::<DeleteRecordsRequest>(
            [(&[(Topic, "u", Delete)][..], TOPIC)],
            &[0],
            |_| {
                let partition = DeleteRecordsPartition::default().with_offset(-1);
                let topic = DeleteRecordsTopic::default().with_name(name("u")).with_partitions(vec![partition]);
                DeleteRecordsRequest::default().with_topics(vec![topic])
            },
            |response| response.topics[0].partitions[0].error_code,
        ),
        row::<CreateTopicsRequest>(
            [(&[(Topic, "new", Create), (Cluster, "kafka-cluster", Create)][..], TOPIC)],
            &[0],
            |_| {
                let topic = CreatableTopic::default().with_name(name("new")).with_num_partitions(1);
                CreateTopicsRequest::default().with_topics(vec![topic.with_replication_factor(1)])
            },
            |response| response.topics[0].error_code,
        ),
        row::<DeleteTopicsRequest>(
            [(&[(Topic, "old", Delete)][..], TOPIC)],
            &[0],
            |version| match version {
                6.. => DeleteTopicsRequest::default()
                    .with_topics(vec![DeleteTopicState::default().with_name(Some(name("old")))]),
                _ => DeleteTopicsRequest::default().with_topic_names(vec![name("old")]),
            },
            |response| response.responses[0].error_code,
        ),
        row::<DeleteTopicsRequest>(
            [(&[(Topic, "old", Delete)][..], TOPIC)],
            &[0],
            {
                let id = ids();
                move |version| match version {
                    6.. => delete_id(id("old")),
                    _ => DeleteTopicsRequest::default().with_topic_names(vec![name("old")]),
                }
            },
            |response| response.responses[0].error_code,
        )
        .by_id_from(6),
        row::<CreatePartitionsRequest>(
            [(&[(Topic, "old", Alter)][..], TOPIC)],
            &[0],
            |_| {
                let topic = CreatePartitionsTopic::default().with_name(name("old")).with_count(2);
                CreatePartitionsRequest::default().with_topics(vec![topic.with_assignments(None)])
            },
            |response| response.results[0].error_code,
        ),
        row::<OffsetForLeaderEpochRequest>(
            [(&[(Topic, "t", Describe)][..], TOPIC)],
            &[0],
            |_| {
                let partition = OffsetForLeaderPartition::default();
                let topic = OffsetForLeaderTopic::default().with_topic(name("t")).with_partitions(vec![partition]);
                OffsetForLeaderEpochRequest::default().with_topics(vec![topic])
            },
            |response| response.topics[0].partitions[0].error_code,
        ),
        describe_configs((2, "t"), (&[(Topic, "t", DescribeConfigs)], TOPIC)),
        describe_configs((4, "0"), (&[(Cluster, "kafka-cluster", DescribeConfigs)], CLUSTER)),
        alter_configs((2, "t"), (&[(Topic, "t", AlterConfigs)], TOPIC), &[0]),
        // The settings of the broker do not change.
        alter_configs((4, "0"), (&[(Cluster, "kafka-cluster", AlterConfigs)], CLUSTER), &[42]),
        alter_some_configs((2, "t"), (&[(Topic, "t", AlterConfigs)], TOPIC), &[0]),
        alter_some_configs((4, "0"), (&[(Cluster, "kafka-cluster", AlterConfigs)], CLUSTER), &[42]),
        row::<DescribeLogDirsRequest>(
            cluster(&[(Cluster, "kafka-cluster", Describe)]),
            &[0],
            |_| DescribeLogDirsRequest::default().with_topics(None),
            // Earlier versions have no error.
            |response| if response.results.is_empty() { CLUSTER } else { response.error_code },
        ),
        row::<DescribeClusterRequest>(
            Vec::new(),
            &[0],
            |_| DescribeClusterRequest::default(),
            |response| response.error_code,
        ),
        row::<DescribeProducersRequest>(
            [(&[(Topic, "t", Read)][..], TOPIC)],
            &[0],
            |_| {
                let topic = ProducersTopic::default().with_name(name("t")).with_partition_indexes(vec![0]);
                DescribeProducersRequest::default().with_topics(vec![topic])
            },
            |response| response.topics[0].partitions[0].error_code,
        ),
        row::<AlterReplicaLogDirsRequest>(
            cluster(&[(Cluster, "kafka-cluster", Alter)]),
            &[0],
            |_| {
                let topic = AlterReplicaLogDirTopic::default().with_name(name("t")).with_partitions(vec![0]);
                let dir = AlterReplicaLogDir::default().with_path(text("shard-0000")).with_topics(vec![topic]);
                AlterReplicaLogDirsRequest::default().with_dirs(vec![dir])
            },
            |response| response.results[0].partitions[0].error_code,
        ),
        row::<ElectLeadersRequest>(
            cluster(&[(Cluster, "kafka-cluster", Alter)]),
            &[84],
            |_| {
                let topic = TopicPartitions::default().with_topic(name("t")).with_partitions(vec![0]);
                ElectLeadersRequest::default().with_topic_partitions(Some(vec![topic]))
            },
            |response| {
                let results = response.replica_election_results[0].partition_result.iter();
                first([response.error_code].into_iter().chain(results.map(|result| result.error_code)))
            },
        ),
        row::<AlterPartitionReassignmentsRequest>(
            cluster(&[(Cluster, "kafka-cluster", Alter)]),
            &[0],
            |_| {
                let partition = ReassignablePartition::default().with_replicas(Some(vec![BrokerId(0)]));
                let topic = ReassignableTopic::default().with_name(name("t")).with_partitions(vec![partition]);
                AlterPartitionReassignmentsRequest::default().with_topics(vec![topic])
            },
            |response| response.error_code,
        ),
        row::<ListPartitionReassignmentsRequest>(
            cluster(&[(Cluster, "kafka-cluster", Describe)]),
            &[0],
            |_| ListPartitionReassignmentsRequest::default().with_topics(None),
            |response| response.error_code,
        ),
        row::<DescribeQuorumRequest>(
            cluster(&[(Cluster, "kafka-cluster", Describe)]),
            &[0],
            |_| {
                let topic = TopicData::default().with_topic_name(name("__cluster_metadata"));
                DescribeQuorumRequest::default()
                    .with_topics(vec![topic.with_partitions(vec![PartitionData::default()])])
            },
            |response| response.error_code,
        ),
        row::<UpdateFeaturesRequest>(
            cluster(&[(Cluster, "kafka-cluster", Alter)]),
            &[0],
            |_| UpdateFeaturesRequest::default(),
            |response| response.error_code,
        ),
        row::<ListConfigResourcesRequest>(
            cluster(&[(Cluster, "kafka-cluster", DescribeConfigs)]),
            &[0],
            |_| ListConfigResourcesRequest::default(),
            |response| response.error_code,
        ),
        row::<DescribeTopicPartitionsRequest>(
            [(&[(Topic, "t", Describe)][..], TOPIC)],
            &[0],
            |_| {
                let topic = TopicRequest::default().with_name(name("t"));
                DescribeTopicPartitionsRequest::default().with_topics(vec![topic]).with_response_partition_limit(9)
            },
            |response| response.topics[0].error_code,
        ),
        row::<DescribeClientQuotasRequest>(
            cluster(&[(Admin, "access", Describe)]),
            &[0],
            |_| DescribeClientQuotasRequest::default(),
            |response| response.error_code,
        ),
        row::<AlterClientQuotasRequest>(
            cluster(&[(Admin, "access", Alter)]),
            &[0],
            |_| limiting("nobody", "producer_byte_rate", Some(1e9)),
            |response| response.entries[0].error_code,
        ),
        row::<DescribeAclsRequest>(
            cluster(&[(Admin, "access", Describe)]),
            &[0],
            |_| listing_acls(),
            |response| response.error_code,
        ),
        row::<CreateAclsRequest>(
            cluster(&[(Admin, "access", Alter)]),
            &[0],
            |_| CreateAclsRequest::default().with_creations(vec![acl("User:ann", "t")]),
            |response| response.results[0].error_code,
        ),
        row::<DeleteAclsRequest>(
            cluster(&[(Admin, "access", Alter)]),
            &[0],
            |_| {
                let filter = DeleteAclsFilter::default()
                    .with_resource_type_filter(1)
                    .with_resource_name_filter(Some(text("nothing")))
                    .with_pattern_type_filter(1)
                    .with_principal_filter(None)
                    .with_host_filter(None)
                    .with_operation(1)
                    .with_permission_type(1);
                DeleteAclsRequest::default().with_filters(vec![filter])
            },
            |response| response.filter_results[0].error_code,
        ),
        row::<DescribeUserScramCredentialsRequest>(
            cluster(&[(Admin, "access", Describe)]),
            &[0],
            |_| DescribeUserScramCredentialsRequest::default().with_users(None),
            |response| response.error_code,
        ),
        row::<AlterUserScramCredentialsRequest>(
            cluster(&[(Admin, "access", Alter)]),
            // The connection has no TLS.
            &[44],
            |_| {
                let deletion = ScramCredentialDeletion::default().with_name(text("ann")).with_mechanism(1);
                AlterUserScramCredentialsRequest::default().with_deletions(vec![deletion])
            },
            |response| response.results[0].error_code,
        ),
    ]
}

/// An ACL that allows reading a topic.
pub(crate) fn acl(principal: &str, topic: &str) -> AclCreation {
    AclCreation::default()
        .with_resource_type(2)
        .with_resource_name(text(topic))
        .with_resource_pattern_type(3)
        .with_principal(text(principal))
        .with_host(text("*"))
        .with_operation(3)
        .with_permission_type(3)
}

/// Sets or removes a quota of a user.
pub(crate) fn limiting(user: &str, key: &str, value: Option<f64>) -> AlterClientQuotasRequest {
    let entity = EntityData::default().with_entity_type(text("user")).with_entity_name(Some(text(user)));
    let operation =
        OpData::default().with_key(text(key)).with_value(value.unwrap_or_default()).with_remove(value.is_none());
    let entry = EntryData::default().with_entity(vec![entity]).with_ops(vec![operation]);
    AlterClientQuotasRequest::default().with_entries(vec![entry])
}

/// Lists every ACL.
pub(crate) fn listing_acls() -> DescribeAclsRequest {
    DescribeAclsRequest::default()
        .with_resource_type_filter(1)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(1)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(1)
        .with_permission_type(1)
}

fn describe_configs((of, named): (i8, &'static str), need: (&'static [Permission], i16)) -> Row {
    row::<DescribeConfigsRequest>(
        [need],
        &[0],
        move |_| {
            let resource = DescribeConfigsResource::default().with_resource_type(of).with_resource_name(text(named));
            DescribeConfigsRequest::default().with_resources(vec![resource.with_configuration_keys(None)])
        },
        |response| response.results[0].error_code,
    )
}

fn alter_configs((of, named): (i8, &'static str), need: (&'static [Permission], i16), done: &'static [i16]) -> Row {
    row::<AlterConfigsRequest>(
        [need],
        done,
        move |_| {
            let config = AlterableConfig::default().with_name(text("retention.ms")).with_value(Some(text("1000000")));
            let resource = AlterConfigsResource::default().with_resource_type(of).with_resource_name(text(named));
            AlterConfigsRequest::default().with_resources(vec![resource.with_configs(vec![config])])
        },
        |response| response.responses[0].error_code,
    )
}

fn alter_some_configs(
    (of, named): (i8, &'static str),
    need: (&'static [Permission], i16),
    done: &'static [i16],
) -> Row {
    row::<IncrementalAlterConfigsRequest>(
        [need],
        done,
        move |_| {
            // An append reads the present value.
            let config = incremental::AlterableConfig::default()
                .with_name(text("cleanup.policy"))
                .with_config_operation(2)
                .with_value(Some(text("delete")));
            let resource =
                incremental::AlterConfigsResource::default().with_resource_type(of).with_resource_name(text(named));
            IncrementalAlterConfigsRequest::default().with_resources(vec![resource.with_configs(vec![config])])
        },
        |response| response.responses[0].error_code,
    )
}

/// Fetches from the topic with this id, or else from `t`.
pub(crate) fn fetch(id: Uuid) -> FetchRequest {
    let mut request = fetching("t", 0);
    if !id.is_nil() {
        request.topics[0].topic_id = id;
        request.topics[0].topic = TopicName::default();
    }
    request
}

/// Asks about the topic with this id, or else about `t`.
pub(crate) fn about_id(id: Uuid) -> MetadataRequest {
    let mut request = about("t");
    if let (false, Some(topics)) = (id.is_nil(), &mut request.topics) {
        topics[0].topic_id = id;
        topics[0].name = None;
    }
    request
}

pub(crate) fn delete_id(id: Uuid) -> DeleteTopicsRequest {
    let topic = DeleteTopicState::default().with_name(None).with_topic_id(id);
    DeleteTopicsRequest::default().with_topics(vec![topic])
}

pub(crate) fn has_topic(database: &Database, name: &str) -> bool {
    database.read_published(|view| view.streams.topic_named(name).is_some()).expect("read")
}

/// Makes what the requests need, and undoes what they did.
fn fill(database: &Database) {
    for topic in ["new", "old"] {
        let delete = Command::DeleteTopic { topic: TopicRef::Name(topic) };
        // It is refused while there is no such topic.
        let _ = database.commit(&Commit::new().part(Part::Streams(delete))).expect("decided");
    }
    for topic in ["t", "u", "old"] {
        if topic == "old" || !has_topic(database, topic) {
            database.topic(topic).create(1).expect("created");
            database.topic(topic).produce(Message::new("m")).expect("produced");
        }
    }
    for group in ["g", "old"] {
        for topic in ["t", "u"] {
            database.topic(topic).commit_offset(group, 0, Sequence::new(0)).expect("committed");
        }
    }
}

const DAY: Option<Duration> = Some(Duration::from_secs(24 * 3600));

/// Creates a user with these roles and rules, and returns its key.
pub(crate) fn user(database: &Database, user: &str, roles: &[&str], rules: &[AccessRule]) -> String {
    let access = database.access();
    access.create_user(user, roles).expect("created");
    for rule in rules {
        access.add_rule(&RuleSubject::Principal(user.to_owned()), rule).expect("added");
    }
    let key = access.create_key(user, NewApiKey { lifetime: DAY, ..NewApiKey::default() }).expect("created");
    key.reveal().to_owned()
}

fn literal(name: &str) -> RulePattern {
    RulePattern::Literal(name.to_owned())
}

pub(crate) fn allow((kind, name, operation): Permission) -> AccessRule {
    AccessRule::allow(operation, kind, literal(name))
}

fn deny((kind, name, operation): Permission) -> AccessRule {
    AccessRule::deny(operation, kind, literal(name))
}

/// A connection, authenticated with this key; the error code of the authentication.
async fn connect(world: &World, user: &str, key: &str) -> (Client, i16) {
    let mut client = world.client().await;
    let handshake = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
    assert_eq!(client.call(1, &handshake).await.error_code, 0);
    let message = format!("\0{user}\0{key}");
    let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into_bytes().into());
    let code = client.call(2, &request).await.error_code;
    (client, code)
}

pub(crate) async fn connected(world: &World, user: &str, key: &str) -> Client {
    let (client, code) = connect(world, user, key).await;
    assert_eq!(code, 0);
    client
}

/// A server over a database with access control enabled, and what the rows need.
pub(crate) async fn enabled() -> World {
    let world = World::with(Settings::default()).await;
    fill(&world.database);
    world.database.access().init("root").expect("enabled");
    world
}

/// The offered APIs with the versions that are served.
async fn offered(world: &World) -> Vec<(ApiKey, i16, i16)> {
    let apis = world.client().await.call(3, &ApiVersionsRequest::default()).await.api_keys;
    let served = |api: &api_versions_response::ApiVersion| {
        let key = ApiKey::try_from(api.api_key).expect("an API");
        // Produce is advertised from version 0, for older librdkafka.
        let from = if key == ApiKey::Produce { 3 } else { api.min_version };
        (key, from, api.max_version)
    };
    apis.iter().map(served).collect()
}

#[tokio::test]
async fn each_api_has_a_row() {
    let world = World::new().await;
    let offered: BTreeSet<i16> = offered(&world).await.into_iter().map(|(key, ..)| key as i16).collect();
    let rows: BTreeSet<i16> = rows(&world.database).iter().map(|row| row.key as i16).collect();
    assert_eq!(rows, offered, "each offered API needs a row in this file");
}

#[tokio::test]
async fn no_api_is_served_without_a_right_credential() {
    let world = enabled().await;
    let rows = rows(&world.database);
    user(&world.database, "first", &["admin"], &[]);
    for (key, from, to) in offered(&world).await {
        let row = rows.iter().find(|row| row.key == key).expect("a row");
        for version in from..=to {
            let mut client = world.client().await;
            if OPEN.contains(&(key as i16)) {
                // Without a handshake there is nothing to authenticate with.
                let expected = if key == ApiKey::SaslAuthenticate { 34 } else { 0 };
                assert_eq!((row.ask)(&mut client, version).await, expected, "{key:?} {version}");
                continue;
            }
            let mut frame = BytesMut::new();
            frame.put_i16(key as i16);
            frame.put_i16(version);
            frame.put_slice(&[0, 0, 0, 9, 0xff, 0xff]);
            client.stream.write_u32(frame.len() as u32).await.expect("sent");
            client.stream.write_all(&frame).await.expect("sent");
            assert!(client.is_closed().await, "{key:?} {version}");
        }
    }
    for (user, key) in [("first", "qk_wrong"), ("first", ""), ("nobody", "qk_wrong")] {
        let (mut client, code) = connect(&world, user, key).await;
        assert_eq!(code, SASL_AUTHENTICATION_FAILED);
        assert!(client.is_closed().await, "no request is read after a wrong credential");
    }
}

#[tokio::test]
async fn each_api_in_each_version_needs_exactly_its_permissions() {
    let world = enabled().await;
    let database = &world.database;
    let versions = offered(&world).await;
    let none = user(database, "none", &[], &[]);
    let mut without_any = connected(&world, "none", &none).await;
    for (number, row) in rows(database).into_iter().enumerate() {
        let (key, from, to) = *versions.iter().find(|(key, ..)| *key == row.key).expect("offered");
        let mut refused = Vec::new();
        for (index, (need, code)) in row.needs.iter().enumerate() {
            let name = format!("lacks-{number}-{index}");
            let rules: Vec<AccessRule> = need.iter().copied().map(deny).collect();
            let secret = user(database, &name, &["admin"], &rules);
            let is_shown = need.iter().all(|(.., operation)| *operation != Describe);
            refused.push((connected(&world, &name, &secret).await, *code, is_shown));
        }
        // One user for each choice among alternatives.
        let choices = row.needs.iter().map(|(need, _)| need.len()).max().unwrap_or(1);
        let mut permitted = Vec::new();
        for choice in 0..choices {
            let name = format!("has-{number}-{choice}");
            let rules = row.needs.iter().map(|(need, _)| allow(need[choice.min(need.len() - 1)]));
            let secret = user(database, &name, &[], &rules.collect::<Vec<_>>());
            permitted.push(connected(&world, &name, &secret).await);
        }
        for version in from..=to {
            fill(database);
            let before = database.published();
            if let Some((_, code)) = row.needs.first() {
                let code = row.refused(*code, version, false);
                assert_eq!((row.ask)(&mut without_any, version).await, code, "{key:?} {version} without any");
            }
            for (client, code, is_shown) in &mut refused {
                let code = row.refused(*code, version, *is_shown);
                assert_eq!((row.ask)(client, version).await, code, "{key:?} {version} without one");
            }
            assert_eq!(database.published(), before, "{key:?} {version}: a refused request changed something");
            for client in &mut permitted {
                if OPEN.contains(&(key as i16)) {
                    // These begin to authenticate the connection again.
                    continue;
                }
                fill(database);
                let code = (row.ask)(client, version).await;
                assert!(row.done.contains(&code), "{key:?} {version}: {code} with the needed permissions");
            }
        }
    }
}

#[tokio::test]
async fn lists_omit_topics_and_other_topics_of_a_request_are_answered() {
    let world = enabled().await;
    let database = &world.database;
    database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    database.queue("air/delays").enqueue(NewJob::new("job")).expect("a job");
    let rules = [allow((Topic, "t", Describe)), allow((Store, "air/flights", Describe))];
    let key = user(database, "ann", &[], &rules);
    let mut client = connected(&world, "ann", &key).await;
    let all = client.call(12, &MetadataRequest::default().with_topics(None)).await;
    let shown: Vec<_> = all.topics.iter().map(|topic| topic.name.as_ref().expect("a name").to_string()).collect();
    assert_eq!(shown, ["t", "air.flights"]);
    let pages = DescribeTopicPartitionsRequest::default().with_response_partition_limit(9);
    let shown: Vec<_> = client.call(0, &pages).await.topics.into_iter().map(|topic| topic.name).collect();
    assert_eq!(shown, [Some(name("air.flights")), Some(name("t"))]);

    let mut both = about("u");
    both.topics.as_mut().expect("topics").extend(about("t").topics.expect("topics"));
    let answered = client.call(12, &both.with_include_topic_authorized_operations(true)).await.topics;
    assert_eq!(answered.iter().map(|topic| topic.error_code).collect::<Vec<_>>(), [TOPIC, 0]);
    assert!(answered[0].topic_id.is_nil() && answered[0].partitions.is_empty());
    assert_eq!(answered[1].topic_authorized_operations, 1 << 8, "describe only");
    // A client learns nothing about a topic that it may not describe.
    let unknown = client.call(12, &about("nowhere")).await.topics.remove(0);
    assert_eq!((unknown.error_code, unknown.partitions.len()), (TOPIC, 0));
}

#[tokio::test]
async fn a_topic_that_shows_a_store_is_checked_as_the_store() {
    let world = enabled().await;
    let database = &world.database;
    database.events("air/flights").append([NewEvent::new("Departed")]).expect("an event");
    let of_topic = [allow((Topic, "air.flights", Operation::All))];
    let key = user(database, "by-topic", &[], &of_topic);
    let mut by_topic = connected(&world, "by-topic", &key).await;
    assert_eq!(by_topic.call(12, &fetching("air.flights", 0)).await.responses[0].partitions[0].error_code, TOPIC);
    assert_eq!(by_topic.call(12, &about("air.flights")).await.topics[0].error_code, TOPIC);
    assert_eq!(by_topic.produce("air.flights", &batch(&["a"])).await.error_code, TOPIC);

    let key = user(database, "by-store", &[], &[allow((Store, "air/flights", Read))]);
    let mut by_store = connected(&world, "by-store", &key).await;
    assert_eq!(values(&by_store.fetch("air.flights", 0).await).len(), 1);
    assert_eq!(by_store.produce("air.flights", &batch(&["a"])).await.error_code, TOPIC);

    let key = user(database, "writer", &[], &[allow((Store, "air/flights", Write))]);
    let mut writer = connected(&world, "writer", &key).await;
    assert_eq!(writer.produce("air.flights", &batch(&["a"])).await.error_code, 44, "it is read-only over Kafka");
}

#[tokio::test]
async fn topics_are_created_automatically_only_if_the_setting_allows_it() {
    for (auto_create_topics, created) in [(None, false), (Some(true), true)] {
        let world = World::with(Settings { auto_create_topics, ..Settings::default() }).await;
        let database = &world.database;
        database.access().init("root").expect("enabled");
        let key = user(database, "ann", &[], &[allow((Topic, "t", Describe)), allow((Topic, "t", Create))]);
        let mut client = connected(&world, "ann", &key).await;
        assert_eq!(client.topic("t").await.error_code, if created { 0 } else { 3 });
        assert_eq!(has_topic(database, "t"), created);
        let key = user(database, "bob", &[], &[allow((Topic, "u", Describe))]);
        let mut client = connected(&world, "bob", &key).await;
        assert_eq!(client.topic("u").await.error_code, if created { TOPIC } else { 3 });
        assert!(!has_topic(database, "u"));
    }
}

#[tokio::test]
async fn the_configuration_of_a_new_topic_is_described_to_clients_that_may_read_it() {
    let world = enabled().await;
    let key = user(&world.database, "ann", &[], &[allow((Topic, "new", Create))]);
    let mut client = connected(&world, "ann", &key).await;
    let topic = CreatableTopic::default().with_name(name("new")).with_num_partitions(2).with_replication_factor(1);
    let created = client.call(7, &CreateTopicsRequest::default().with_topics(vec![topic])).await.topics.remove(0);
    assert_eq!((created.error_code, created.topic_config_error_code, created.num_partitions), (0, TOPIC, -1));
    assert_eq!(created.configs.map(|configs| configs.len()), Some(0));
}

/// A fetch that waits, and the connection of a client whose key is dropped.
#[tokio::test]
async fn a_waiting_fetch_ends_with_the_session_of_its_client() {
    let world = enabled().await;
    let access = world.database.access();
    let key = user(&world.database, "ann", &["reader"], &[]);
    let mut client = connected(&world, "ann", &key).await;
    assert_eq!(values(&client.fetch("t", 0).await).len(), 1);
    client.send(12, &fetching("t", 1).with_max_wait_ms(i32::MAX).with_min_bytes(1)).await;
    world.counted(|counts| counts.fetch_looks >= 2).await;
    let id = quire::system::KeyText::parse(&key).expect("a key").id();
    access.drop_key(id).expect("dropped");
    assert!(client.is_closed().await);
    world.counted(|counts| counts.closed_unauthenticated == 1).await;
}

#[tokio::test]
async fn a_changed_rule_counts_from_the_next_request_on() {
    let world = enabled().await;
    let access = world.database.access();
    let key = user(&world.database, "ann", &["reader"], &[]);
    let mut client = connected(&world, "ann", &key).await;
    assert_eq!(client.fetch("t", 0).await.error_code, 0);
    let ann = RuleSubject::Principal("ann".to_owned());
    access.add_rule(&ann, &deny((Topic, "t", Read))).expect("added");
    assert_eq!(client.fetch("t", 0).await.error_code, TOPIC);
    access.remove_rule(&ann, &deny((Topic, "t", Read))).expect("removed");
    assert_eq!(client.fetch("t", 0).await.error_code, 0);
    assert_eq!(Resource::CLUSTER.name, "kafka-cluster", "the rows name it");
}
