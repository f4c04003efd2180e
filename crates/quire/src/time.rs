//! Times and durations in standard types, converted to the units of the log.

use std::time::{Duration, SystemTime};

use quire_model::{Timestamp, micros_of};

use crate::jobs::Retry;

/// A point in time: a [`SystemTime`], or a [`Timestamp`] as the database returns it. Commands of
/// the models take a [`Timestamp`]:
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use quire::jobs::Change;
/// use quire::{IntoTimestamp, NewJob};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let job = db.queue("mails").enqueue(NewJob::new("order 17").run_at(Duration::from_secs(60)))?;
/// let tomorrow = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
/// db.queue("mails").change(job, Change::Reschedule { run_at: tomorrow.into_timestamp() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
        Timestamp::from_micros(micros_of(self.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()))
    }
}

/// A time in the future: a point in time ([`SystemTime`] or [`Timestamp`]), or a [`Duration`] after
/// the commit that contains it.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use quire::NewJob;
///
/// let in_a_minute = NewJob::new("order 17").run_at(Duration::from_secs(60));
/// let at_a_time = NewJob::new("order 17").run_at(SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueTime {
    /// This point in time.
    At(Timestamp),
    /// This duration after the commit.
    After(Duration),
}

impl DueTime {
    /// Returns the point in time, for a commit at `now`.
    pub(crate) fn at(self, now: Timestamp) -> Timestamp {
        match self {
            DueTime::At(time) => time,
            DueTime::After(duration) => now.plus_micros(micros_of(duration)),
        }
    }
}

impl<T: IntoTimestamp> From<T> for DueTime {
    fn from(time: T) -> Self {
        DueTime::At(time.into_timestamp())
    }
}

impl From<Duration> for DueTime {
    fn from(duration: Duration) -> Self {
        DueTime::After(duration)
    }
}

/// When a failed job is tried again. A [`Retry`], a [`SystemTime`], a [`Timestamp`] and a
/// [`Duration`] convert to it.
///
/// ```
/// use std::time::Duration;
///
/// use quire::NewJob;
/// use quire::jobs::Retry;
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let queue = db.queue("mails");
/// for order in [17, 18] {
///     queue.enqueue(NewJob::new(format!("order {order}")))?;
/// }
/// let [first, second] = queue.fetch("worker-1", 2)?.try_into().expect("two jobs");
/// queue.fail(first.job, first.token, "the mail server is busy", Duration::from_secs(60))?;
/// queue.fail(second.job, second.token, "the address is unknown", Retry::Never)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryTime {
    /// After the job's backoff.
    Backoff,
    /// At this time; at once when it is past.
    At(DueTime),
    /// Never: the job is dead.
    Never,
}

impl RetryTime {
    /// Returns the retry as the model takes it, for a commit at `now`.
    pub(crate) fn at(self, now: Timestamp) -> Retry {
        match self {
            RetryTime::Backoff => Retry::Backoff,
            RetryTime::At(time) => Retry::At(time.at(now)),
            RetryTime::Never => Retry::Never,
        }
    }
}

impl<T: Into<DueTime>> From<T> for RetryTime {
    fn from(time: T) -> Self {
        RetryTime::At(time.into())
    }
}

impl From<Retry> for RetryTime {
    fn from(retry: Retry) -> Self {
        match retry {
            Retry::Backoff => RetryTime::Backoff,
            Retry::At(time) => RetryTime::At(DueTime::At(time)),
            Retry::Never => RetryTime::Never,
        }
    }
}

/// Returns a time in the unit of record batches as a standard time.
pub(crate) fn time_of_milliseconds(millis: i64) -> SystemTime {
    let distance = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance }
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
        for millis in [i64::MIN, -1_500, 0, 7, i64::MAX] {
            assert_eq!(milliseconds_of(time_of_milliseconds(millis)), millis);
        }
    }

    #[test]
    fn a_duration_counts_from_the_commit() {
        let now = Timestamp::from_millis(5_000);
        let (due, later) = (DueTime::from(Duration::from_secs(2)), Timestamp::from_millis(7_000));
        assert_eq!(due.at(now), later);
        assert_eq!(RetryTime::from(Duration::from_secs(2)).at(now), Retry::At(later));
        assert_eq!(
            DueTime::from(SystemTime::UNIX_EPOCH + Duration::from_secs(2)).at(now),
            Timestamp::from_millis(2_000)
        );
        assert_eq!(DueTime::from(Duration::MAX).at(now), Timestamp::MAX);
    }
}
