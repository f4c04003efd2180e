//! The offered APIs and their handlers: one file an API, with the shape of its requests.

pub(crate) mod api_versions;
pub(crate) mod metadata;
pub(crate) mod sasl_authenticate;
pub(crate) mod sasl_handshake;

pub(crate) mod init_producer_id;
pub(crate) mod produce;

pub(crate) mod fetch;
pub(crate) mod list_offsets;
pub(crate) mod list_offsets_v0;

pub(crate) mod find_coordinator;
pub(crate) mod heartbeat;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod sync_group;

pub(crate) mod offset_commit;
pub(crate) mod offset_commit_v1;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;

pub(crate) mod delete_groups;
pub(crate) mod describe_groups;
pub(crate) mod list_groups;

pub(crate) mod alter_client_quotas;
pub(crate) mod alter_user_scram_credentials;
pub(crate) mod create_acls;
pub(crate) mod delete_acls;
pub(crate) mod describe_acls;
pub(crate) mod describe_client_quotas;
pub(crate) mod describe_user_scram_credentials;

pub(crate) mod alter_configs;
pub(crate) mod alter_replica_log_dirs;
pub(crate) mod create_partitions;
pub(crate) mod create_topics;
pub(crate) mod delete_records;
pub(crate) mod delete_topics;
pub(crate) mod describe_cluster;
pub(crate) mod describe_configs;
pub(crate) mod describe_log_dirs;
pub(crate) mod describe_producers;
pub(crate) mod describe_quorum;
pub(crate) mod describe_topic_partitions;
pub(crate) mod elect_leaders;
pub(crate) mod list_config_resources;
pub(crate) mod offset_for_leader_epoch;
pub(crate) mod partition_reassignments;
pub(crate) mod update_features;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use kafka_protocol::messages::ApiKey;
use quire_access::Deadline;

use crate::broker::Broker;
use crate::client::ClientState;
use crate::close_reason::CloseReason;
use crate::endpoints::Endpoints;
use crate::frame::RequestFrame;
use crate::memory::{GrowingResponse, MemoryTurn, shrink};
use crate::request::{Api, Request};
use crate::response::{self, SizedResponse};
use crate::schema::Schema;

/// An API, and the versions of it.
#[derive(Debug)]
pub(crate) struct OfferedApi {
    pub(crate) api: Api,
    pub(crate) key: ApiKey,
    /// The advertised versions.
    versions: (i16, i16),
    /// The first version that is served.
    served_from: i16,
    pub(crate) schema: &'static Schema,
}

impl OfferedApi {
    const fn new(api: Api, key: ApiKey, min: i16, max: i16, schema: &'static Schema) -> Self {
        OfferedApi { api, key, versions: (min, max), served_from: min, schema }
    }

    pub(crate) fn is_served(&self, version: i16) -> bool {
        (self.served_from..=self.versions.1).contains(&version)
    }
}

/// Which node of a cluster answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnsweringNode {
    /// The one that the client asks.
    Each,
    /// The leader. Another node answers each item with an error by which the client asks for the
    /// leader or the coordinator again.
    Leader,
    /// The leader, to which another node forwards the request: clients send it to any broker.
    Forwarded,
}

/// Returns which node of a cluster answers a request.
pub(crate) fn answering_node(api: Api) -> AnsweringNode {
    match api {
        Api::Metadata
        | Api::FindCoordinator
        | Api::Versions
        | Api::SaslHandshake
        | Api::SaslAuthenticate
        | Api::DescribeConfigs
        | Api::DescribeLogDirs
        | Api::DescribeCluster
        // The next four change nothing: every node has the whole log.
        | Api::AlterReplicaLogDirs
        | Api::ElectLeaders
        | Api::AlterPartitionReassignments
        | Api::UpdateFeatures
        | Api::ListPartitionReassignments
        | Api::DescribeQuorum
        | Api::ListConfigResources
        | Api::DescribeTopicPartitions
        // Clients ask every broker for the groups that it coordinates.
        | Api::ListGroups => AnsweringNode::Each,
        Api::Produce
        | Api::Fetch
        | Api::ListOffsets
        | Api::OffsetForLeaderEpoch
        | Api::OffsetCommit
        | Api::OffsetFetch
        | Api::JoinGroup
        | Api::Heartbeat
        | Api::LeaveGroup
        | Api::SyncGroup
        | Api::DescribeGroups
        | Api::DeleteGroups
        | Api::OffsetDelete => AnsweringNode::Leader,
        Api::InitProducerId
        | Api::DeleteRecords
        | Api::CreateTopics
        | Api::DeleteTopics
        | Api::CreatePartitions
        | Api::AlterConfigs
        | Api::IncrementalAlterConfigs
        | Api::DescribeProducers
        | Api::DescribeClientQuotas
        | Api::AlterClientQuotas
        | Api::DescribeAcls
        | Api::CreateAcls
        | Api::DeleteAcls
        | Api::DescribeUserScramCredentials
        | Api::AlterUserScramCredentials => AnsweringNode::Forwarded,
    }
}

/// All offered APIs.
///
/// Produce is advertised from version 0, because older librdkafka compresses only for brokers that
/// do (KAFKA-18659). As in Kafka 4, it is served from version 3, which every client since 2017
/// uses.
pub(crate) const OFFERED: &[OfferedApi] = &[
    OfferedApi { served_from: 3, ..OfferedApi::new(Api::Produce, ApiKey::Produce, 0, 13, &produce::SCHEMA) },
    OfferedApi::new(Api::Fetch, ApiKey::Fetch, 4, 18, &fetch::SCHEMA),
    OfferedApi::new(Api::ListOffsets, ApiKey::ListOffsets, 0, 10, &list_offsets::SCHEMA),
    OfferedApi::new(Api::Metadata, ApiKey::Metadata, 0, 13, &metadata::SCHEMA),
    OfferedApi::new(Api::OffsetCommit, ApiKey::OffsetCommit, 0, 9, &offset_commit::SCHEMA),
    OfferedApi::new(Api::OffsetFetch, ApiKey::OffsetFetch, 1, 9, &offset_fetch::SCHEMA),
    OfferedApi::new(Api::FindCoordinator, ApiKey::FindCoordinator, 0, 6, &find_coordinator::SCHEMA),
    OfferedApi::new(Api::JoinGroup, ApiKey::JoinGroup, 0, 9, &join_group::SCHEMA),
    OfferedApi::new(Api::Heartbeat, ApiKey::Heartbeat, 0, 4, &heartbeat::SCHEMA),
    OfferedApi::new(Api::LeaveGroup, ApiKey::LeaveGroup, 0, 5, &leave_group::SCHEMA),
    OfferedApi::new(Api::SyncGroup, ApiKey::SyncGroup, 0, 5, &sync_group::SCHEMA),
    OfferedApi::new(Api::DescribeGroups, ApiKey::DescribeGroups, 0, 6, &describe_groups::SCHEMA),
    OfferedApi::new(Api::ListGroups, ApiKey::ListGroups, 0, 5, &list_groups::SCHEMA),
    OfferedApi::new(Api::Versions, ApiKey::ApiVersions, 0, 4, &api_versions::SCHEMA),
    OfferedApi::new(Api::SaslHandshake, ApiKey::SaslHandshake, 0, 1, &sasl_handshake::SCHEMA),
    OfferedApi::new(Api::SaslAuthenticate, ApiKey::SaslAuthenticate, 0, 2, &sasl_authenticate::SCHEMA),
    OfferedApi::new(Api::InitProducerId, ApiKey::InitProducerId, 0, 5, &init_producer_id::SCHEMA),
    OfferedApi::new(Api::DeleteGroups, ApiKey::DeleteGroups, 0, 2, &delete_groups::SCHEMA),
    OfferedApi::new(Api::OffsetDelete, ApiKey::OffsetDelete, 0, 0, &offset_delete::SCHEMA),
    OfferedApi::new(Api::DeleteRecords, ApiKey::DeleteRecords, 0, 2, &delete_records::SCHEMA),
    OfferedApi::new(Api::CreateTopics, ApiKey::CreateTopics, 2, 7, &create_topics::SCHEMA),
    OfferedApi::new(Api::DeleteTopics, ApiKey::DeleteTopics, 1, 6, &delete_topics::SCHEMA),
    OfferedApi::new(Api::CreatePartitions, ApiKey::CreatePartitions, 0, 3, &create_partitions::SCHEMA),
    OfferedApi::new(Api::OffsetForLeaderEpoch, ApiKey::OffsetForLeaderEpoch, 2, 4, &offset_for_leader_epoch::SCHEMA),
    OfferedApi::new(Api::DescribeConfigs, ApiKey::DescribeConfigs, 1, 4, &describe_configs::SCHEMA),
    OfferedApi::new(Api::AlterConfigs, ApiKey::AlterConfigs, 0, 2, &alter_configs::SCHEMA),
    OfferedApi::new(
        Api::IncrementalAlterConfigs,
        ApiKey::IncrementalAlterConfigs,
        0,
        1,
        &alter_configs::INCREMENTAL_SCHEMA,
    ),
    OfferedApi::new(Api::DescribeLogDirs, ApiKey::DescribeLogDirs, 1, 4, &describe_log_dirs::SCHEMA),
    OfferedApi::new(Api::DescribeCluster, ApiKey::DescribeCluster, 0, 2, &describe_cluster::SCHEMA),
    OfferedApi::new(Api::DescribeProducers, ApiKey::DescribeProducers, 0, 0, &describe_producers::SCHEMA),
    OfferedApi::new(Api::AlterReplicaLogDirs, ApiKey::AlterReplicaLogDirs, 1, 2, &alter_replica_log_dirs::SCHEMA),
    OfferedApi::new(Api::ElectLeaders, ApiKey::ElectLeaders, 0, 2, &elect_leaders::SCHEMA),
    OfferedApi::new(
        Api::AlterPartitionReassignments,
        ApiKey::AlterPartitionReassignments,
        0,
        1,
        &partition_reassignments::SCHEMA,
    ),
    OfferedApi::new(
        Api::ListPartitionReassignments,
        ApiKey::ListPartitionReassignments,
        0,
        0,
        &partition_reassignments::LIST_SCHEMA,
    ),
    OfferedApi::new(Api::DescribeQuorum, ApiKey::DescribeQuorum, 0, 2, &describe_quorum::SCHEMA),
    OfferedApi::new(Api::UpdateFeatures, ApiKey::UpdateFeatures, 0, 2, &update_features::SCHEMA),
    OfferedApi::new(Api::ListConfigResources, ApiKey::ListConfigResources, 0, 1, &list_config_resources::SCHEMA),
    OfferedApi::new(
        Api::DescribeTopicPartitions,
        ApiKey::DescribeTopicPartitions,
        0,
        0,
        &describe_topic_partitions::SCHEMA,
    ),
    OfferedApi::new(Api::DescribeClientQuotas, ApiKey::DescribeClientQuotas, 0, 1, &describe_client_quotas::SCHEMA),
    OfferedApi::new(Api::AlterClientQuotas, ApiKey::AlterClientQuotas, 0, 1, &alter_client_quotas::SCHEMA),
    OfferedApi::new(Api::DescribeAcls, ApiKey::DescribeAcls, 1, 3, &describe_acls::SCHEMA),
    OfferedApi::new(Api::CreateAcls, ApiKey::CreateAcls, 1, 3, &create_acls::SCHEMA),
    OfferedApi::new(Api::DeleteAcls, ApiKey::DeleteAcls, 1, 3, &delete_acls::SCHEMA),
    OfferedApi::new(
        Api::DescribeUserScramCredentials,
        ApiKey::DescribeUserScramCredentials,
        0,
        0,
        &describe_user_scram_credentials::SCHEMA,
    ),
    OfferedApi::new(
        Api::AlterUserScramCredentials,
        ApiKey::AlterUserScramCredentials,
        0,
        0,
        &alter_user_scram_credentials::SCHEMA,
    ),
];

/// The protocol's name of an API.
pub(crate) fn name_of(api: Api) -> &'static str {
    static NAMES: LazyLock<Vec<(Api, String)>> =
        LazyLock::new(|| OFFERED.iter().map(|offered| (offered.api, format!("{:?}", offered.key))).collect());
    NAMES.iter().find(|(offered, _)| *offered == api).map_or("unknown", |(_, name)| name)
}

/// How long a response waits for memory. After that, a fetch returns the ends of the partitions
/// without records, well before its client considers the server dead. The Java client does so after
/// 30 s, librdkafka after 60. For any other request the connection is closed.
pub(crate) const SHORT_OF_MEMORY: Duration = Duration::from_secs(20);

/// Handles a request, and returns the response's frame, with the memory of a large one.
///
/// # Errors
/// The reason for closing the connection instead.
pub(crate) async fn handle(
    broker: &Arc<Broker>,
    ends: Endpoints,
    state: &mut ClientState,
    request: Request,
) -> Result<RequestFrame, CloseReason> {
    let patience = SHORT_OF_MEMORY.min(Duration::from_millis(broker.settings().idle_timeout_ms));
    let caller = state.caller.clone();
    let mut memory = MemoryTurn::new(&caller, patience);
    if request.api == Api::Fetch {
        let Request { version, correlation_id, .. } = request;
        let left = state.left.clone();
        let (response, held) = fetch::handle(broker, &mut state.session, request, left, memory).await?;
        return Ok(RequestFrame { bytes: response::frame(correlation_id, version, &response)?, held });
    }
    loop {
        let mut response = handle_once(broker, ends, state, patience, &request).await?;
        let frame_bytes = response.frame_bytes;
        let held = match response.held.take() {
            Some(held) => Some(held),
            None => {
                let reserved = memory.take_up_to(0);
                memory.cover(reserved, frame_bytes)
            }
        };
        if let Some(held) = held {
            return Ok(RequestFrame { bytes: response.encode().await?, held: shrink(held, frame_bytes) });
        }
        if memory.is_over() {
            return Err(CloseReason::Idle(Deadline::Response));
        }
        // The state is read again later, so it takes no memory while the response waits.
        let done = (!request.api.only_reads()).then_some(response);
        memory.wait(frame_bytes).await;
        if let Some(response) = done {
            return if memory.is_over() {
                Err(CloseReason::Idle(Deadline::Response))
            } else {
                Ok(RequestFrame { bytes: response.encode().await?, held: Some(memory.take_up_to(0)) })
            };
        }
    }
}

/// Handles a request other than a fetch, and returns the response, whatever its size.
async fn handle_once(
    broker: &Arc<Broker>,
    ends: Endpoints,
    state: &mut ClientState,
    patience: Duration,
    request: &Request,
) -> Result<SizedResponse, CloseReason> {
    let Request { version, correlation_id, .. } = *request;
    if answering_node(request.api) == AnsweringNode::Forwarded && !broker.serves() {
        // The leader is unknown now. The client asks for metadata again, and finds it later.
        return Err(CloseReason::Failed);
    }
    match request.api {
        Api::Produce => unreachable!("a produce request is committed on arrival and answered when durable"),
        Api::Fetch => unreachable!("a fetch has a session and is handled earlier"),
        Api::ListOffsets if version == 0 => {
            list_offsets_v0::handle(broker, &state.caller, request).await.map(SizedResponse::of_frame)
        }
        Api::ListOffsets => {
            SizedResponse::of(correlation_id, version, list_offsets::handle(broker, &state.caller, request).await?)
        }
        Api::Metadata => {
            let mut held = state.caller.claim();
            let memory = &mut GrowingResponse::of_list(&mut held, patience);
            let response = metadata::handle(broker, ends, request, memory).await?;
            Ok(SizedResponse::of(correlation_id, version, response)?.holding(held))
        }
        Api::Versions => SizedResponse::of(correlation_id, version, api_versions::handle(request)),
        Api::SaslHandshake => {
            let response = sasl_handshake::handle(broker, &mut state.authentication, request)?;
            SizedResponse::of(correlation_id, version, response)
        }
        Api::SaslAuthenticate => {
            SizedResponse::of(correlation_id, version, sasl_authenticate::handle(broker, ends, state, request).await?)
        }
        Api::FindCoordinator => {
            SizedResponse::of(correlation_id, version, find_coordinator::handle(broker, ends, request)?)
        }
        Api::JoinGroup => {
            SizedResponse::of(correlation_id, version, join_group::handle(broker, ends, state, request).await?)
        }
        Api::SyncGroup => SizedResponse::of(correlation_id, version, sync_group::handle(broker, state, request).await?),
        Api::Heartbeat => SizedResponse::of(correlation_id, version, heartbeat::handle(broker, request).await?),
        Api::LeaveGroup => SizedResponse::of(correlation_id, version, leave_group::handle(broker, request).await?),
        Api::OffsetCommit => {
            let version = offset_commit::answered_in(version);
            SizedResponse::of(correlation_id, version, offset_commit::handle(broker, request).await?)
        }
        Api::OffsetFetch => {
            let mut held = state.caller.claim();
            let memory = &mut GrowingResponse::new(&mut held, patience);
            let response = offset_fetch::handle(broker, request, memory).await?;
            Ok(SizedResponse::of(correlation_id, version, response)?.holding(held))
        }
        Api::OffsetDelete => SizedResponse::of(correlation_id, version, offset_delete::handle(broker, request).await?),
        Api::ListGroups => {
            let mut held = state.caller.claim();
            let memory = &mut GrowingResponse::of_list(&mut held, patience);
            let response = list_groups::handle(broker, request, memory).await?;
            Ok(SizedResponse::of(correlation_id, version, response)?.holding(held))
        }
        Api::DescribeGroups => {
            let mut held = state.caller.claim();
            let memory = &mut GrowingResponse::new(&mut held, patience);
            let response = describe_groups::handle(broker, request, memory).await?;
            Ok(SizedResponse::of(correlation_id, version, response)?.holding(held))
        }
        Api::DeleteGroups => SizedResponse::of(correlation_id, version, delete_groups::handle(broker, request).await?),
        Api::InitProducerId => {
            SizedResponse::of(correlation_id, version, init_producer_id::handle(broker, request).await?)
        }
        Api::DeleteRecords => {
            SizedResponse::of(correlation_id, version, delete_records::handle(broker, request).await?)
        }
        Api::CreateTopics => {
            let mut held = state.caller.claim();
            let response = create_topics::handle(broker, request, &mut held).await?;
            Ok(SizedResponse::of(correlation_id, version, response)?.holding(held))
        }
        Api::DeleteTopics => SizedResponse::of(correlation_id, version, delete_topics::handle(broker, request).await?),
        Api::CreatePartitions => {
            SizedResponse::of(correlation_id, version, create_partitions::handle(broker, request).await?)
        }
        Api::OffsetForLeaderEpoch => {
            SizedResponse::of(correlation_id, version, offset_for_leader_epoch::handle(broker, request).await?)
        }
        Api::DescribeConfigs => {
            let mut held = state.caller.claim();
            let memory = &mut GrowingResponse::new(&mut held, patience);
            let response = describe_configs::handle(broker, ends, request, memory).await?;
            Ok(SizedResponse::of(correlation_id, version, response)?.holding(held))
        }
        Api::AlterConfigs => SizedResponse::of(correlation_id, version, alter_configs::handle(broker, request).await?),
        Api::IncrementalAlterConfigs => {
            SizedResponse::of(correlation_id, version, alter_configs::handle_incremental(broker, request).await?)
        }
        Api::DescribeLogDirs => {
            let mut held = state.caller.claim();
            let memory = &mut GrowingResponse::new(&mut held, patience);
            let response = describe_log_dirs::handle(broker, request, memory).await?;
            Ok(SizedResponse::of(correlation_id, version, response)?.holding(held))
        }
        Api::DescribeCluster => {
            SizedResponse::of(correlation_id, version, describe_cluster::handle(broker, ends, request)?)
        }
        Api::DescribeProducers => {
            let mut held = state.caller.claim();
            let memory = &mut GrowingResponse::new(&mut held, patience);
            let response = describe_producers::handle(broker, request, memory).await?;
            Ok(SizedResponse::of(correlation_id, version, response)?.holding(held))
        }
        Api::AlterReplicaLogDirs => {
            SizedResponse::of(correlation_id, version, alter_replica_log_dirs::handle(broker, request).await?)
        }
        Api::ElectLeaders => SizedResponse::of(correlation_id, version, elect_leaders::handle(broker, request).await?),
        Api::AlterPartitionReassignments => {
            SizedResponse::of(correlation_id, version, partition_reassignments::handle(broker, request).await?)
        }
        Api::ListPartitionReassignments => {
            SizedResponse::of(correlation_id, version, partition_reassignments::handle_list(broker, request)?)
        }
        Api::DescribeQuorum => {
            SizedResponse::of(correlation_id, version, describe_quorum::handle(broker, ends, request)?)
        }
        Api::UpdateFeatures => SizedResponse::of(correlation_id, version, update_features::handle(broker, request)?),
        Api::ListConfigResources => {
            let mut held = state.caller.claim();
            let memory = &mut GrowingResponse::of_list(&mut held, patience);
            let response = list_config_resources::handle(broker, request, memory).await?;
            Ok(SizedResponse::of(correlation_id, version, response)?.holding(held))
        }
        Api::DescribeTopicPartitions => {
            SizedResponse::of(correlation_id, version, describe_topic_partitions::handle(broker, ends, request).await?)
        }
        Api::DescribeClientQuotas => {
            SizedResponse::of(correlation_id, version, describe_client_quotas::handle(broker, ends, request).await?)
        }
        Api::AlterClientQuotas => {
            SizedResponse::of(correlation_id, version, alter_client_quotas::handle(broker, ends, request).await?)
        }
        Api::DescribeAcls => {
            SizedResponse::of(correlation_id, version, describe_acls::handle(broker, ends, request).await?)
        }
        Api::CreateAcls => {
            SizedResponse::of(correlation_id, version, create_acls::handle(broker, ends, request).await?)
        }
        Api::DeleteAcls => {
            SizedResponse::of(correlation_id, version, delete_acls::handle(broker, ends, request).await?)
        }
        Api::DescribeUserScramCredentials => {
            let response = describe_user_scram_credentials::handle(broker, ends, request).await?;
            SizedResponse::of(correlation_id, version, response)
        }
        Api::AlterUserScramCredentials => {
            let response = alter_user_scram_credentials::handle(broker, ends, request).await?;
            SizedResponse::of(correlation_id, version, response)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::OFFERED;

    #[test]
    fn the_page_for_users_lists_what_is_served_and_nothing_else() {
        let served = |offered: &super::OfferedApi| match (offered.served_from, offered.versions.1) {
            (only, max) if only == max => only.to_string(),
            (min, max) => format!("{min}–{max}"),
        };
        let served: BTreeMap<String, String> =
            OFFERED.iter().map(|offered| (format!("{:?}", offered.key), served(offered))).collect();
        let page = include_str!("../../../../docs/kafka.md");
        let table = page.split("|---|---|---|\n").nth(1).expect("the page begins with a table");
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let row = |line: &str| {
            let mut cells = line.split('|').map(|cell| cell.trim().to_owned()).skip(1);
            (cells.next().expect("a name"), cells.next().expect("versions"))
        };
        let listed: BTreeMap<String, String> = rows.map(row).collect();
        assert_eq!(listed, served, "docs/kafka.md lists on the left what the server serves on the right");
    }
}
