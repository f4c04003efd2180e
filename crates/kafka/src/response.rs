//! A response, as a frame: length, correlation id, body.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ResponseHeader;
use kafka_protocol::protocol::{Encodable, HeaderVersion};

use crate::close_reason::CloseReason;

/// The frame of a response.
///
/// # Errors
/// [`CloseReason::Failed`] when the response can't be encoded in this version, or exceeds the
/// length of a frame.
pub(crate) fn frame<R: Encodable + HeaderVersion>(
    correlation_id: i32,
    version: i16,
    response: &R,
) -> Result<Bytes, CloseReason> {
    let header = ResponseHeader::default().with_correlation_id(correlation_id);
    let header_version = R::header_version(version);
    let header_bytes = header.compute_size(header_version).map_err(failed)?;
    let body_bytes = response.compute_size(version).map_err(failed)?;
    let length = i32::try_from(header_bytes + body_bytes).map_err(failed)?;
    let mut out = BytesMut::with_capacity(4 + header_bytes + body_bytes);
    out.put_i32(length);
    header.encode(&mut out, header_version).map_err(failed)?;
    response.encode(&mut out, version).map_err(failed)?;
    assert_eq!(out.len(), 4 + header_bytes + body_bytes, "a response has the length that was computed");
    Ok(out.freeze())
}

fn failed<E>(_: E) -> CloseReason {
    CloseReason::Failed
}
