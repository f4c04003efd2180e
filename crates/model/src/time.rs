//! The time of a record.
//!
//! The log reads the clock once per record, and never lets it run backwards from one record to the
//! next; a model knows no other time.

use core::fmt;
use core::time::Duration;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The epoch.
    pub const ZERO: Timestamp = Timestamp(0);
    /// Later than every record.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// This many microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Timestamp(micros)
    }

    /// This many milliseconds after the epoch; saturates.
    pub const fn from_millis(millis: u64) -> Self {
        Timestamp(millis.saturating_mul(1_000))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the duration since the epoch. `SystemTime::UNIX_EPOCH` plus this duration is the
    /// time as the standard library has it.
    pub const fn since_epoch(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// This time plus `micros`; saturates.
    #[must_use]
    pub const fn plus_micros(self, micros: u64) -> Self {
        Timestamp(self.0.saturating_add(micros))
    }
}

/// Returns a duration in microseconds; saturates.
pub fn micros_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a duration in milliseconds; saturates.
pub fn millis_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
