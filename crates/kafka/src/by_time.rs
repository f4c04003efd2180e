//! Finds the first record of a time, where records are ordered by time.

use quire::Sequence;
use quire::streams::TimeOffset;

use crate::errors::KafkaError;

/// Finds the first record at or after offset `start`, before `next`, whose time is not earlier. It
/// bisects the offsets. `first_from` returns the first record at or after an offset.
pub(crate) fn first_at(
    (start, next): (u64, u64),
    timestamp_ms: i64,
    first_from: impl Fn(u64) -> Result<Option<TimeOffset>, KafkaError>,
) -> Result<Option<TimeOffset>, KafkaError> {
    let (mut low, mut high) = (start, next);
    let mut found = None;
    // Every record below `low` is earlier. `found` is the first record at or after `high`, if there
    // is one.
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

/// Returns the first record with the latest time.
pub(crate) fn latest(
    (start, next): (u64, u64),
    first_from: impl Fn(u64) -> Result<Option<TimeOffset>, KafkaError>,
) -> Result<Option<TimeOffset>, KafkaError> {
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
