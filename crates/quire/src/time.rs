//! Times and durations in standard types, converted to the units of the log.

use std::time::{Duration, SystemTime};

use quire_model::Timestamp;

/// A point in time: a [`SystemTime`], a [`Duration`] since 1970, or a [`Timestamp`] as the database
/// returns it.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use quire::jobs::Retry;
/// use quire::{IntoTimestamp, Timestamp};
///
/// let in_a_minute = SystemTime::now() + Duration::from_secs(60);
/// let retry = Retry::At(in_a_minute.into_timestamp());
/// assert_eq!(Duration::from_secs(1).into_timestamp(), Timestamp::from_millis(1_000));
/// ```
pub trait IntoTimestamp {
    /// Returns the time in microseconds since 1970. Earlier times become 1970.
    fn into_timestamp(self) -> Timestamp;
}

impl IntoTimestamp for Timestamp {
    fn into_timestamp(self) -> Timestamp {
        self
    }
}

impl IntoTimestamp for SystemTime {
    fn into_timestamp(self) -> Timestamp {
        self.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().into_timestamp()
    }
}

impl IntoTimestamp for Duration {
    fn into_timestamp(self) -> Timestamp {
        Timestamp::from_micros(microseconds_of(self))
    }
}

/// Returns a duration in microseconds; saturates.
pub(crate) fn microseconds_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a time in the unit of record batches: milliseconds since 1970.
pub(crate) fn milliseconds_of(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_negative_in_batches_and_1970_elsewhere() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
        assert_eq!(milliseconds_of(before), -1_500);
        assert_eq!(before.into_timestamp(), Timestamp::ZERO);
        assert_eq!(milliseconds_of(SystemTime::UNIX_EPOCH + Duration::from_millis(7)), 7);
    }
}
