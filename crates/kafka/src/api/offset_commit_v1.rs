//! OffsetCommit in versions 0 and 1, which librdkafka 1.0 uses, whatever the broker offers. Kafka 4
//! removed these versions, and the decoder with them, so they are read here. The offsets are
//! committed as in every other version, and the response has the format of version 2.
//!
//! ```text
//! version 0:  group │                            topics: name, partitions: number 4 │ offset 8 │          metadata
//! version 1:  group │ generation 4 │ member │    topics: name, partitions: number 4 │ offset 8 │ time 8 │ metadata
//! ```
//!
//! The request's time, from which a broker started the retention of an offset, is ignored. A
//! group's offsets are kept as long as its topic.

use bytes::{Buf, Bytes};
use kafka_protocol::messages::OffsetCommitRequest;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::protocol::StrBytes;

use crate::close_reason::CloseReason;
use crate::request::Request;

/// The version whose response format versions 0 and 1 share.
pub(super) const ANSWERED_IN: i16 = 2;

/// The first version with a generation and a member.
const MEMBER_FROM: i16 = 1;

/// Reads a request in version 0 or 1.
///
/// # Errors
/// [`CloseReason::Malformed`] for invalid UTF-8, or null where a name is required.
pub(super) fn read(request: &Request) -> Result<OffsetCommitRequest, CloseReason> {
    let mut body = request.body().clone();
    let decoded = OffsetCommitRequest::default().with_group_id(name(&mut body)?.into());
    let decoded = match request.version {
        MEMBER_FROM.. => decoded.with_generation_id_or_member_epoch(body.get_i32()).with_member_id(name(&mut body)?),
        _ => decoded,
    };
    let mut topics = Vec::new();
    for _ in 0..body.get_i32() {
        let topic = OffsetCommitRequestTopic::default().with_name(name(&mut body)?.into());
        let mut partitions = Vec::new();
        for _ in 0..body.get_i32() {
            let partition = OffsetCommitRequestPartition::default().with_partition_index(body.get_i32());
            let partition = partition.with_committed_offset(body.get_i64());
            if request.version >= MEMBER_FROM {
                let _time = body.get_i64();
            }
            partitions.push(partition.with_committed_metadata(text(&mut body)?));
        }
        topics.push(topic.with_partitions(partitions));
    }
    Ok(decoded.with_topics(topics))
}

fn name(body: &mut Bytes) -> Result<StrBytes, CloseReason> {
    text(body)?.ok_or(CloseReason::Malformed)
}

/// A text, or null. The request's shape was checked, so all its bytes are present.
fn text(body: &mut Bytes) -> Result<Option<StrBytes>, CloseReason> {
    let Ok(length) = usize::try_from(body.get_i16()) else { return Ok(None) };
    StrBytes::try_from(body.split_to(length)).map(Some).map_err(|_| CloseReason::Malformed)
}
