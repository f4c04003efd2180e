//! A request: its header, and its body after a check of its shape.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Decodable;
use quire_access::Deadline;
use quire_access::budget::{BudgetCaller, ByteClaim};
use tokio::time::timeout;

use crate::api::{self, OfferedApi};
use crate::close_reason::CloseReason;
use crate::frame::RequestFrame;
use crate::memory::SMALL_BYTES;
use crate::schema::ShapeWalk;

/// The offered APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Produce,
    Fetch,
    ListOffsets,
    Metadata,
    OffsetCommit,
    OffsetFetch,
    FindCoordinator,
    JoinGroup,
    Heartbeat,
    LeaveGroup,
    SyncGroup,
    DescribeGroups,
    ListGroups,
    Versions,
    SaslHandshake,
    SaslAuthenticate,
    InitProducerId,
    DeleteGroups,
    OffsetDelete,
    DeleteRecords,
    CreateTopics,
    DeleteTopics,
    CreatePartitions,
    OffsetForLeaderEpoch,
    DescribeConfigs,
    AlterConfigs,
    IncrementalAlterConfigs,
    DescribeLogDirs,
    DescribeCluster,
    DescribeProducers,
    AlterReplicaLogDirs,
    ElectLeaders,
    AlterPartitionReassignments,
    ListPartitionReassignments,
    DescribeQuorum,
    UpdateFeatures,
    ListConfigResources,
    DescribeTopicPartitions,
    DescribeClientQuotas,
    AlterClientQuotas,
    DescribeAcls,
    CreateAcls,
    DeleteAcls,
    DescribeUserScramCredentials,
    AlterUserScramCredentials,
}

impl Api {
    /// Whether the request is safe to handle twice.
    pub(crate) fn only_reads(self) -> bool {
        match self {
            Api::ListOffsets
            | Api::Metadata
            | Api::OffsetFetch
            | Api::FindCoordinator
            | Api::DescribeGroups
            | Api::ListGroups
            | Api::Versions
            | Api::OffsetForLeaderEpoch
            | Api::DescribeConfigs
            | Api::DescribeLogDirs
            | Api::DescribeCluster
            | Api::DescribeProducers
            // The next four change nothing: there is one broker with one log.
            | Api::AlterReplicaLogDirs
            | Api::ElectLeaders
            | Api::AlterPartitionReassignments
            | Api::UpdateFeatures
            | Api::ListPartitionReassignments
            | Api::DescribeQuorum
            | Api::ListConfigResources
            | Api::DescribeTopicPartitions
            | Api::DescribeClientQuotas
            | Api::DescribeAcls
            | Api::DescribeUserScramCredentials => true,
            Api::Produce
            | Api::Fetch
            | Api::SaslHandshake
            | Api::SaslAuthenticate
            | Api::OffsetCommit
            | Api::JoinGroup
            | Api::Heartbeat
            | Api::LeaveGroup
            | Api::SyncGroup
            | Api::InitProducerId
            | Api::DeleteGroups
            | Api::OffsetDelete
            | Api::DeleteRecords
            | Api::CreateTopics
            | Api::DeleteTopics
            | Api::CreatePartitions
            | Api::AlterConfigs
            | Api::IncrementalAlterConfigs
            | Api::AlterClientQuotas
            | Api::CreateAcls
            | Api::DeleteAcls
            | Api::AlterUserScramCredentials => false,
        }
    }
}

/// A request of an offered API and version, with a body of the right shape.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) api: Api,
    /// The version for encoding the response.
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// The client's name for itself.
    pub(crate) client: String,
    /// Whether this is ApiVersions in a version that is not offered: the only such request that
    /// gets a response.
    pub(crate) version_unknown: bool,
    body: Bytes,
    /// The memory of a large request, released when it is handled.
    held: Option<ByteClaim>,
    /// The memory of the decoded items in bytes.
    decoded_bytes: usize,
}

impl Request {
    /// The offered API of a frame, of any version. It reads nothing else of the frame.
    pub(crate) fn api_of(frame: &RequestFrame) -> Option<Api> {
        let key = i16::from_be_bytes(*frame.bytes.first_chunk()?);
        Some(offered_by(key)?.api)
    }

    /// Reads the header of a frame and checks the body.
    ///
    /// # Errors
    /// [`CloseReason::Unsupported`] for an API or version that is not offered;
    /// [`CloseReason::Malformed`].
    pub(crate) fn read(frame: RequestFrame) -> Result<Self, CloseReason> {
        let RequestFrame { bytes: mut frame, held } = frame;
        let header = frame.first_chunk::<8>().ok_or(CloseReason::Malformed)?;
        let [k0, k1, v0, v1, c0, c1, c2, c3] = *header;
        let api_key = i16::from_be_bytes([k0, k1]);
        let version = i16::from_be_bytes([v0, v1]);
        let correlation_id = i32::from_be_bytes([c0, c1, c2, c3]);
        let offered = offered_by(api_key).ok_or(CloseReason::Unsupported)?;
        if !offered.is_served(version) {
            if offered.key != ApiKey::ApiVersions {
                return Err(CloseReason::Unsupported);
            }
            // KIP-511: the response has version 0, which every client reads, and lists the offered
            // versions.
            return Ok(Request {
                api: offered.api,
                version: 0,
                correlation_id,
                client: String::new(),
                version_unknown: true,
                body: Bytes::new(),
                held: None,
                decoded_bytes: 0,
            });
        }
        let mut walk = ShapeWalk::header(&frame[header.len()..]);
        let before = walk.rest;
        walk.text().map_err(|_| CloseReason::Malformed)?;
        // After the length of two bytes.
        let client = &before[2..before.len() - walk.rest.len()];
        let client = String::from_utf8_lossy(client).into_owned();
        if offered.schema.is_flexible(version) {
            walk.tags(&[], version).map_err(|_| CloseReason::Malformed)?;
        }
        let body = frame.split_off(frame.len() - walk.rest.len());
        let decoded_bytes = offered.schema.check(version, &body).map_err(|_| CloseReason::Malformed)?;
        let api = offered.api;
        Ok(Request { api, version, correlation_id, client, version_unknown: false, body, held, decoded_bytes })
    }

    /// Claims the memory of the decoded items, unless it is small. They and the frame are one
    /// claim. A request whose frame is claimed does not wait: another one might wait for it. Any
    /// other request waits at most `patience`.
    ///
    /// # Errors
    /// [`CloseReason::Idle`] when there is too little memory.
    pub(crate) async fn claim_items(&mut self, caller: &BudgetCaller, patience: Duration) -> Result<(), CloseReason> {
        const SHORT: CloseReason = CloseReason::Idle(Deadline::Request);
        if self.decoded_bytes <= SMALL_BYTES {
            return Ok(());
        }
        match &mut self.held {
            Some(held) => held.grow(self.decoded_bytes).map_err(|_| SHORT),
            None => {
                let mut held = caller.claim();
                if timeout(patience, held.grow_patiently(self.body.len() + self.decoded_bytes)).await.is_err() {
                    caller.count_refusal();
                    return Err(SHORT);
                }
                self.held = Some(held);
                Ok(())
            }
        }
    }

    /// The body; its shape was checked for its version.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Decodes the body. Its byte fields share the frame's memory.
    ///
    /// # Errors
    /// [`CloseReason::Malformed`]: a text that is not UTF-8, or null where a value is required.
    pub(crate) fn decode<R: Decodable>(&self) -> Result<R, CloseReason> {
        R::decode(&mut self.body.clone(), self.version).map_err(|_| CloseReason::Malformed)
    }
}

fn offered_by(key: i16) -> Option<&'static OfferedApi> {
    api::OFFERED.iter().find(|offered| offered.key as i16 == key)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages as api;
    use quire_access::budget::{ByteBudget, FrontEnd};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// DeleteGroups version 0 of `count` groups without a name: two bytes each.
    fn request(count: u32) -> Request {
        let mut bytes = vec![0, 42, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
        bytes.extend(count.to_be_bytes());
        bytes.resize(bytes.len() + 2 * count as usize, 0);
        Request::read(RequestFrame { bytes: bytes.into(), held: None }).expect("a request")
    }

    #[tokio::test]
    async fn the_items_of_a_small_frame_are_claimed_when_their_memory_is_large() {
        let budget = ByteBudget::new(64 << 20);
        let caller = budget.caller(FrontEnd::Kafka, None);
        let mut few = request(100);
        few.claim_items(&caller, HOUR).await.expect("it is small");
        assert!(few.held.is_none());
        let mut many = request(20_000);
        many.claim_items(&caller, HOUR).await.expect("it is free");
        let decoded: api::DeleteGroupsRequest = many.decode().expect("decoded");
        let item =
            size_of_val(&decoded.groups_names[0]) + size_of::<api::delete_groups_response::DeletableGroupResult>();
        assert!(many.held.as_ref().expect("claimed").bytes() > 20_000 * item);
        assert!(budget.usage().bytes_used as usize > 20_000 * item - SMALL_BYTES);
        drop(many);
        assert_eq!(budget.usage().bytes_used, 0);
    }

    #[tokio::test]
    async fn a_claimed_frame_does_not_wait_for_the_memory_of_its_items() {
        let budget = ByteBudget::new(16 << 20);
        let callers = [(); 2].map(|()| budget.caller(FrontEnd::Kafka, None));
        let mut requests = callers.clone().map(|caller| {
            let mut held = caller.claim();
            held.grow(7 << 20).expect("it is free");
            Request { held: Some(held), ..request(20_000) }
        });
        // Each would wait for the other one.
        for (request, caller) in requests.iter_mut().zip(&callers) {
            let claimed = request.claim_items(caller, HOUR).await;
            assert_eq!(claimed, Err(CloseReason::Idle(Deadline::Request)));
        }
        let [first, mut second] = requests;
        drop(first);
        second.claim_items(&callers[1], HOUR).await.expect("it is free now");
    }
}
