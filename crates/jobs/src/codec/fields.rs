//! The fields that entries and checkpoints share: ids, places, times, numbers.

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Place, Position, Timestamp};

use crate::id::QueueId;

pub(crate) fn write_id(place: Place, out: &mut Encoder) {
    out.varint(place.position.get()).varint(u64::from(place.index));
}

pub(crate) fn read_id(from: &mut Decoder<'_>) -> Result<Place, CodecError> {
    Ok(Place::new(Position::new(from.varint()?), from.varint_u32()?))
}

pub(crate) const fn expected(what: &'static str) -> CodecError {
    CodecError { expected: what, bytes_left: 0 }
}

pub(crate) fn time(from: &mut Decoder<'_>) -> Result<Timestamp, CodecError> {
    from.u64().map(Timestamp::from_micros)
}

pub(crate) fn queue(from: &mut Decoder<'_>) -> Result<QueueId, CodecError> {
    from.varint_u32().map(QueueId)
}

pub(crate) fn varint_u16(from: &mut Decoder<'_>) -> Result<u16, CodecError> {
    u16::try_from(from.varint()?).map_err(|_| expected("a varint of at most 16 bits"))
}

/// A place at or after a known place.
pub(crate) fn write_later(from: Place, place: Place, out: &mut Encoder) -> &mut Encoder {
    out.varint(place.position.get() - from.position.get()).varint(u64::from(place.index))
}

pub(crate) fn read_later(before: Place, from: &mut Decoder<'_>) -> Result<Place, CodecError> {
    let position = before.position.get().checked_add(from.varint()?).ok_or(expected("a position"))?;
    Ok(Place::new(Position::new(position), from.varint_u32()?))
}
