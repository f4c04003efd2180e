//! A request: its header, and its body after a check of its shape.

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Decodable;
use quire_access::budget::ByteClaim;

use crate::api::{self, OfferedApi};
use crate::close_reason::CloseReason;
use crate::frame::RequestFrame;
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
    _held: Option<ByteClaim>,
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
                _held: None,
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
        offered.schema.check(version, &body).map_err(|_| CloseReason::Malformed)?;
        Ok(Request { api: offered.api, version, correlation_id, client, version_unknown: false, body, _held: held })
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
