//! Finding the first record of a time, where offsets are in the order of time.

use quire::Sequence;
use quire::streams::TimeOffset;

use crate::errors::Failure;

/// The first record from offset `start` on, before `next`, that is not earlier than this time, found by halving. `first_from` gives the
/// first record at or behind an offset.
pub(crate) fn first_at(
    (start, next): (u64, u64),
    timestamp_ms: i64,
    first_from: impl Fn(u64) -> Result<Option<TimeOffset>, Failure>,
) -> Result<Option<TimeOffset>, Failure> {
    let (mut low, mut high) = (start, next);
    let mut found = None;
    // Every record below `low` is earlier; the first record from `high` on, if there is one, is `found`.
    while low < high {
        let middle = low + (high - low) / 2;
        match first_from(middle)? {
            Some(record) if record.timestamp_ms < timestamp_ms => low = record.offset.get() + 1,
            Some(record) => {
                found = Some(record);
                high = middle;
            }
            None => high = middle,
        }
    }
    Ok(found)
}

/// The first record with the latest time.
pub(crate) fn latest(
    (start, next): (u64, u64),
    first_from: impl Fn(u64) -> Result<Option<TimeOffset>, Failure>,
) -> Result<Option<TimeOffset>, Failure> {
    if start == next {
        return Ok(None);
    }
    match first_from(next - 1)? {
        Some(last) => first_at((start, next), last.timestamp_ms, first_from),
        None => Ok(None),
    }
}

/// A record at this offset.
pub(crate) fn at(offset: u64, timestamp_ms: i64) -> TimeOffset {
    TimeOffset { offset: Sequence::new(offset), timestamp_ms }
}
