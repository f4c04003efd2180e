//! The waits of a job between attempts.
//!
//! A pure function of the attempt and of a draw that the caller takes from the record: the same log
//! gives the same times.

/// The default wait after the first failed attempt, in microseconds.
pub const BACKOFF_FIRST_MICROS: u64 = 5_000_000;

/// The default longest wait between attempts, in microseconds.
pub const BACKOFF_MAX_MICROS: u64 = 3_600_000_000;

/// The wait of a job after a failed attempt. `L` is a list of waits: borrowed in a command, owned
/// in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff<L> {
    /// Not at all.
    None,
    /// The same after each attempt.
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
