//! The waits of a job between attempts.
//!
//! A pure function of the attempt and of a draw that the caller takes from the record: the same log
//! gives the same times.

use core::time::Duration;

use quire_model::micros_of;

/// The default wait after the first failed attempt, in microseconds.
pub const BACKOFF_FIRST_MICROS: u64 = 5_000_000;

/// The default longest wait between attempts, in microseconds.
pub const BACKOFF_MAX_MICROS: u64 = 3_600_000_000;

/// The wait of a job after a failed attempt. `L` is a list of waits: borrowed in a command, owned
/// in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backoff<L> {
    /// No wait: a failed job may run again at once.
    None,
    /// The same wait after each attempt.
    Fixed {
        /// The wait, in microseconds.
        micros: u64,
    },
    /// `base × attempt`, at most the maximum.
    Linear {
        /// The wait after the first failed attempt, in microseconds.
        base_micros: u64,
        /// The longest wait, in microseconds.
        max_micros: u64,
    },
    /// `base × 2^(attempt − 1)`, at most the maximum.
    Exponential {
        /// The wait after the first failed attempt, in microseconds.
        base_micros: u64,
        /// The longest wait, in microseconds.
        max_micros: u64,
    },
    /// A list of 1 to 64 waits, in microseconds. The last one repeats.
    List(L),
}

impl<L> Backoff<L> {
    /// Returns the same wait after each attempt.
    ///
    /// # Example
    /// ```
    /// use core::time::Duration;
    /// use quire_jobs::Backoff;
    ///
    /// let (first, longest) = (Duration::from_secs(1), Duration::from_secs(3));
    /// let waits = |backoff: Backoff<Vec<u64>>| [1, 2, 3].map(|attempt| backoff.delay_micros(attempt) / 1_000_000);
    /// assert_eq!(waits(Backoff::fixed(first)), [1, 1, 1]);
    /// assert_eq!(waits(Backoff::linear(first, longest)), [1, 2, 3]);
    /// assert_eq!(waits(Backoff::exponential(first, longest)), [1, 2, 3]);
    /// assert_eq!(waits(Backoff::list([first, longest])), [1, 3, 3]);
    /// ```
    pub fn fixed(wait: Duration) -> Self {
        Backoff::Fixed { micros: micros_of(wait) }
    }

    /// Returns waits that grow by `first` with each attempt, up to `longest`.
    pub fn linear(first: Duration, longest: Duration) -> Self {
        Backoff::Linear { base_micros: micros_of(first), max_micros: micros_of(longest) }
    }

    /// Returns waits that double with each attempt, from `first` up to `longest`.
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        Backoff::Exponential { base_micros: micros_of(first), max_micros: micros_of(longest) }
    }
}

impl<L: FromIterator<u64>> Backoff<L> {
    /// Returns 1 to 64 waits, in order. The last one repeats.
    pub fn list(waits: impl IntoIterator<Item = Duration>) -> Self {
        Backoff::List(waits.into_iter().map(micros_of).collect())
    }
}

impl<L> Default for Backoff<L> {
    /// Exponential from 5 seconds up to 1 hour.
    fn default() -> Self {
        Backoff::Exponential { base_micros: BACKOFF_FIRST_MICROS, max_micros: BACKOFF_MAX_MICROS }
    }
}

impl<L: AsRef<[u64]>> Backoff<L> {
    /// The wait after attempt number `attempt` (from 1) failed, in microseconds.
    pub fn delay_micros(&self, attempt: u16) -> u64 {
        let before = u64::from(attempt.saturating_sub(1));
        match self {
            Backoff::None => 0,
            Backoff::Fixed { micros } => *micros,
            Backoff::Linear { base_micros, max_micros } => base_micros.saturating_mul(before + 1).min(*max_micros),
            Backoff::Exponential { base_micros, max_micros } => {
                let factor = 1u64.checked_shl(u32::try_from(before).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
                base_micros.saturating_mul(factor).min(*max_micros)
            }
            Backoff::List(waits) => {
                let waits = waits.as_ref();
                let index = usize::try_from(before).unwrap_or(usize::MAX).min(waits.len().saturating_sub(1));
                waits.get(index).copied().unwrap_or(0)
            }
        }
    }
}

/// A wait made shorter by up to `percent` of itself, by a number drawn evenly from all of them.
pub(crate) fn jittered(micros: u64, percent: u8, draw: u64) -> u64 {
    let most = u128::from(micros) * u128::from(percent.min(100)) / 100;
    let less = (most * u128::from(draw)) >> 64;
    micros - u64::try_from(less).expect("at most the wait itself")
}

/// An even draw that these two numbers, and nothing else, decide (the finaliser of SplitMix64,
/// Steele et al. 2014).
pub(crate) fn draw(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(b).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
