//! OffsetCommit in versions 0 and 1, which librdkafka 1.0 asks in, whatever the broker offers. Kafka 4 dropped them, and the decoder with it,
//! so they are read here; what is asked is committed as in every other version, and answered like version 2.
//!
//! ```text
//! version 0:  group │                            topics: name, partitions: number 4 │ offset 8 │          metadata
//! version 1:  group │ generation 4 │ member │    topics: name, partitions: number 4 │ offset 8 │ time 8 │ metadata
//! ```
//!
//! The time, from which a broker kept the offset for as long as it keeps any, counts for nothing: a group's offsets are kept as long as
//! its topic.

use bytes::{Buf, Bytes};
use kafka_protocol::messages::OffsetCommitRequest;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::protocol::StrBytes;

use crate::connection::Closed;
use crate::request::Request;

/// The version whose answers look like those of versions 0 and 1.
pub(super) const ANSWERED_IN: i16 = 2;

/// From which version on a request says who commits.
const MEMBER_FROM: i16 = 1;

/// Reads a request in version 0 or 1.
///
/// # Errors
/// [`Closed::Malformed`] for a text that is none, or nothing where a name must be.
pub(super) fn read(request: &Request) -> Result<OffsetCommitRequest, Closed> {
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

fn name(body: &mut Bytes) -> Result<StrBytes, Closed> {
    text(body)?.ok_or(Closed::Malformed)
}

/// A text, or nothing. The shape of the request was checked, so there are as many bytes as it says.
fn text(body: &mut Bytes) -> Result<Option<StrBytes>, Closed> {
    let Ok(length) = usize::try_from(body.get_i16()) else { return Ok(None) };
    StrBytes::try_from(body.split_to(length)).map(Some).map_err(|_| Closed::Malformed)
}
