//! A response, as a frame: length, correlation id, body.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ResponseHeader;
use kafka_protocol::protocol::{Encodable, HeaderVersion};
use quire_access::budget::ByteClaim;

use crate::close_reason::CloseReason;

/// A longer frame is encoded on another thread, in about a millisecond for each 100 KiB.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Runs work that takes some milliseconds on another thread.
///
/// # Errors
/// [`CloseReason::Failed`] while the server stops.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, CloseReason> {
    quire_access::aside(work).await.map_err(|_| CloseReason::Failed)
}

/// A response that is not encoded yet, and the size of its frame: the memory of the frame is
/// claimed first.
pub(crate) struct SizedResponse {
    pub(crate) frame_bytes: usize,
    /// The memory of the response and its frame, when the handler has claimed both.
    pub(crate) held: Option<ByteClaim>,
    encode: Box<dyn FnOnce() -> Result<Bytes, CloseReason> + Send>,
}

impl SizedResponse {
    /// Measures a response.
    ///
    /// # Errors
    /// Like [`frame`].
    pub(crate) fn of<R>(correlation_id: i32, version: i16, response: R) -> Result<Self, CloseReason>
    where
        R: Encodable + HeaderVersion + Send + 'static,
    {
        let (header_bytes, body_bytes) = sizes(correlation_id, version, &response)?;
        Ok(SizedResponse {
            frame_bytes: 4 + header_bytes + body_bytes,
            held: None,
            encode: Box::new(move || encoded(correlation_id, version, &response, (header_bytes, body_bytes))),
        })
    }

    /// A response that is its frame already.
    pub(crate) fn of_frame(frame: Bytes) -> Self {
        SizedResponse { frame_bytes: frame.len(), held: None, encode: Box::new(move || Ok(frame)) }
    }

    /// Adds the memory of the response and its frame.
    pub(crate) fn holding(self, held: ByteClaim) -> Self {
        SizedResponse { held: Some(held), ..self }
    }

    /// Encodes the frame: a long one on another thread, so that other connections are served.
    ///
    /// # Errors
    /// Like [`frame`].
    pub(crate) async fn encode(self) -> Result<Bytes, CloseReason> {
        if self.frame_bytes <= INLINE_BYTES_MAX {
            return (self.encode)();
        }
        aside(self.encode).await?
    }
}

impl fmt::Debug for SizedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SizedResponse").field("frame_bytes", &self.frame_bytes).finish_non_exhaustive()
    }
}

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
    encoded(correlation_id, version, response, sizes(correlation_id, version, response)?)
}

/// The sizes of the header and the body.
fn sizes<R: Encodable + HeaderVersion>(
    correlation_id: i32,
    version: i16,
    response: &R,
) -> Result<(usize, usize), CloseReason> {
    let header = ResponseHeader::default().with_correlation_id(correlation_id);
    let header_bytes = header.compute_size(R::header_version(version)).map_err(failed)?;
    Ok((header_bytes, response.compute_size(version).map_err(failed)?))
}

fn encoded<R: Encodable + HeaderVersion>(
    correlation_id: i32,
    version: i16,
    response: &R,
    (header_bytes, body_bytes): (usize, usize),
) -> Result<Bytes, CloseReason> {
    let header = ResponseHeader::default().with_correlation_id(correlation_id);
    let header_version = R::header_version(version);
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
