//! ListOffsets in version 0, in which librdkafka 1.x requests the ends of a partition. Kafka 4
//! removed this version, and the decoder with it, so it is read and written here. The offsets are
//! found as in every other version.
//!
//! ```text
//! request:  replica 4 │ topics: name, partitions: number 4 │ time 8 │ offsets at most 4
//! answer:               topics: name, partitions: number 4 │ error 2 │ offsets: 8 each
//! ```
//!
//! Kafka's response had one offset for each segment that began before the time. Here a response has
//! a single offset, and only the two times for the ends are supported.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::protocol::StrBytes;
use quire_access::BoundedRequest;
use quire_access::budget::BudgetCaller;

use super::list_offsets::{EARLIEST, LATEST, list};
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::errors::KafkaError;
use crate::pause::RegularPause;
use crate::request::Request;

/// Answers each partition by itself, and returns the response's frame.
///
/// # Errors
/// When a name is not UTF-8, or the response exceeds the length of a frame.
pub(crate) async fn handle(
    broker: &Arc<Broker>,
    caller: &BudgetCaller,
    request: &Request,
) -> Result<Bytes, CloseReason> {
    let mut body = request.body().clone();
    let _replica = body.get_i32();
    let mut out = BytesMut::new();
    out.put_i32(0);
    out.put_i32(request.correlation_id);
    let (bounded, mut pause) = (BoundedRequest::begin(&broker.database()), RegularPause::default());
    for _ in 0..count(&mut body, &mut out) {
        let name = name(&mut body, &mut out)?;
        for _ in 0..count(&mut body, &mut out) {
            pause.step().await;
            let wanted =
                ListOffsetsPartition::default().with_partition_index(body.get_i32()).with_timestamp(body.get_i64());
            let offsets_max = body.get_i32();
            out.put_i32(wanted.partition_index);
            match offset(broker, caller, &bounded, &name, wanted).await {
                Ok(offset) => {
                    out.put_i16(0);
                    let offsets = &[offset][..usize::from(offsets_max > 0)];
                    out.put_i32(offsets.len() as i32);
                    offsets.iter().for_each(|offset| out.put_i64(*offset));
                }
                Err(failure) => {
                    out.put_i16(failure.code.code());
                    out.put_i32(0);
                }
            }
        }
    }
    let length = i32::try_from(out.len() - 4).map_err(|_| CloseReason::Failed)?;
    out[..4].copy_from_slice(&length.to_be_bytes());
    Ok(out.freeze())
}

/// Returns one offset for the two special times of every version.
async fn offset(
    broker: &Arc<Broker>,
    caller: &BudgetCaller,
    request: &BoundedRequest,
    topic: &StrBytes,
    wanted: ListOffsetsPartition,
) -> Result<i64, KafkaError> {
    match wanted.timestamp {
        LATEST | EARLIEST => Ok(list(broker, caller, request, topic, wanted).await?.offset),
        _ => Err(KafkaError::new(
            ResponseError::UnsupportedVersion,
            "version 0 supports only the earliest and latest offsets",
        )),
    }
}

/// A count, which the response repeats. The request's shape was checked, so the elements exist.
fn count(body: &mut Bytes, out: &mut BytesMut) -> i32 {
    let count = body.get_i32().max(0);
    out.put_i32(count);
    count
}

/// The name of a topic, which the response repeats.
fn name(body: &mut Bytes, out: &mut BytesMut) -> Result<StrBytes, CloseReason> {
    let length = body.get_i16();
    let bytes = body.split_to(usize::try_from(length).map_err(|_| CloseReason::Malformed)?);
    out.put_i16(length);
    out.extend_from_slice(&bytes);
    StrBytes::try_from(bytes).map_err(|_| CloseReason::Malformed)
}
