//! A request: its header, and its body once it has the shape that its API and version say.

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Decodable;

use crate::api;
use crate::connection::Closed;
use crate::frame::Frame;
use crate::memory::Held;
use crate::schema::Walk;

/// The APIs that are offered.
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
}

impl Api {
    /// Whether to handle it once more changes nothing, and answers as well.
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
            | Api::DescribeProducers => true,
            Api::Produce
            | Api::Fetch
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
            | Api::IncrementalAlterConfigs => false,
        }
    }
}

/// A request of an API and a version that are offered, with a body of the right shape.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) api: Api,
    /// What the answer is to be encoded in.
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// What the client calls itself.
    pub(crate) client: String,
    /// Whether ApiVersions was asked in a version that is not offered: the only such request that gets an answer.
    pub(crate) version_unknown: bool,
    body: Bytes,
    /// The memory that a large request takes, given back when it is handled.
    _held: Option<Held>,
}

impl Request {
    /// Reads the header of a frame and checks the body.
    ///
    /// # Errors
    /// [`Closed::Unsupported`] for what is not offered; [`Closed::Malformed`].
    pub(crate) fn read(frame: Frame) -> Result<Self, Closed> {
        let Frame { bytes: mut frame, held } = frame;
        let header = frame.first_chunk::<8>().ok_or(Closed::Malformed)?;
        let [k0, k1, v0, v1, c0, c1, c2, c3] = *header;
        let api_key = i16::from_be_bytes([k0, k1]);
        let version = i16::from_be_bytes([v0, v1]);
        let correlation_id = i32::from_be_bytes([c0, c1, c2, c3]);
        let offered = api::OFFERED.iter().find(|offered| offered.key as i16 == api_key).ok_or(Closed::Unsupported)?;
        if !offered.is_served(version) {
            if offered.key != ApiKey::ApiVersions {
                return Err(Closed::Unsupported);
            }
            // KIP-511: answered in version 0, which every client reads, and says which versions there are.
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
        let mut walk = Walk::header(&frame[header.len()..]);
        let before = walk.rest;
        walk.text().map_err(|_| Closed::Malformed)?;
        // Behind the length of two bytes.
        let client = &before[2..before.len() - walk.rest.len()];
        let client = String::from_utf8_lossy(client).into_owned();
        if offered.schema.is_flexible(version) {
            walk.tags(&[], version).map_err(|_| Closed::Malformed)?;
        }
        let body = frame.split_off(frame.len() - walk.rest.len());
        offered.schema.check(version, &body).map_err(|_| Closed::Malformed)?;
        Ok(Request { api: offered.api, version, correlation_id, client, version_unknown: false, body, _held: held })
    }

    /// The body, of the shape that its version says.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body, decoded. Its byte fields share the frame's memory.
    ///
    /// # Errors
    /// [`Closed::Malformed`]: a text that is not UTF-8, or nothing where something must be.
    pub(crate) fn decode<R: Decodable>(&self) -> Result<R, Closed> {
        R::decode(&mut self.body.clone(), self.version).map_err(|_| Closed::Malformed)
    }
}
