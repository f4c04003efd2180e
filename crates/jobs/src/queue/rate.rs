//! The meter of a rate limit: the number of jobs that may start now.
//!
//! A token bucket is the generic cell rate algorithm (ITU-T I.371): one number, the time at which
//! the bucket is full again, in units of `1 / count` microseconds so that nothing is rounded. A
//! sliding window remembers the times of its last `count` starts, so it is exact.

use alloc::collections::VecDeque;

use quire_model::Timestamp;
use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::Rate;

/// The memory of a rate. Follows from the starts and the setting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Meter {
    /// When a token bucket is full again, in `1 / count` microseconds.
    full_at: u128,
    /// The starts within a sliding window, oldest first.
    starts: VecDeque<Timestamp>,
}

impl Meter {
    /// A meter without starts.
    pub(crate) const fn new() -> Self {
        Meter { full_at: 0, starts: VecDeque::new() }
    }

    /// Returns the number of jobs that may start at this time.
    pub(crate) fn available(&self, rate: Rate, now: Timestamp) -> u32 {
        match rate {
            Rate::TokenBucket { count, per_micros, burst } => {
                let missing = self.full_at.saturating_sub(u128::from(now.as_micros()) * u128::from(count));
                let room = (u128::from(burst) * u128::from(per_micros)).saturating_sub(missing);
                u32::try_from(room / u128::from(per_micros)).unwrap_or(u32::MAX)
            }
            Rate::SlidingWindow { count, window_micros } => {
                let gone = self.starts.partition_point(|start| start.plus_micros(window_micros) <= now);
                count.saturating_sub(u32::try_from(self.starts.len() - gone).unwrap_or(u32::MAX))
            }
        }
    }

    /// The first time at which a job may start.
    pub(crate) fn opens_at(&self, rate: Rate) -> Timestamp {
        match rate {
            Rate::TokenBucket { count, per_micros, burst } => {
                let full = self.full_at.saturating_sub(u128::from(burst - 1) * u128::from(per_micros));
                Timestamp::from_micros(u64::try_from(full.div_ceil(u128::from(count))).unwrap_or(u64::MAX))
            }
            Rate::SlidingWindow { count, window_micros } => match self.starts.len().checked_sub(count as usize) {
                Some(oldest) => self.starts[oldest].plus_micros(window_micros),
                None => Timestamp::ZERO,
            },
        }
    }

    /// Notes that a job started.
    pub(crate) fn start(&mut self, rate: Rate, now: Timestamp) {
        match rate {
            Rate::TokenBucket { count, per_micros, .. } => {
                let begin = self.full_at.max(u128::from(now.as_micros()) * u128::from(count));
                self.full_at = begin + u128::from(per_micros);
            }
            Rate::SlidingWindow { count, window_micros } => {
                while self.starts.front().is_some_and(|start| start.plus_micros(window_micros) <= now)
                    || self.starts.len() >= count as usize
                {
                    self.starts.pop_front();
                }
                self.starts.push_back(now);
            }
        }
    }

    /// Returns the time before which starts no longer count.
    pub(crate) fn idle_at(&self, rate: Rate) -> Timestamp {
        match rate {
            Rate::TokenBucket { count, .. } => {
                let full = self.full_at.div_ceil(u128::from(count));
                Timestamp::from_micros(u64::try_from(full).unwrap_or(u64::MAX))
            }
            Rate::SlidingWindow { window_micros, .. } => {
                self.starts.back().map_or(Timestamp::ZERO, |start| start.plus_micros(window_micros))
            }
        }
    }

    pub(crate) fn save(&self, out: &mut Encoder) {
        out.u64((self.full_at >> 64) as u64).u64(self.full_at as u64).varint(self.starts.len() as u64);
        for start in &self.starts {
            out.u64(start.as_micros());
        }
    }

    pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let full_at = u128::from(from.u64()?) << 64 | u128::from(from.u64()?);
        let mut starts = VecDeque::new();
        for _ in 0..from.varint()? {
            starts.push_back(Timestamp::from_micros(from.u64()?));
        }
        Ok(Meter { full_at, starts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// Starts as many jobs as the rate allows, every microsecond, and returns the times of the
    /// starts.
    fn greedy(rate: Rate, micros: u64) -> alloc::vec::Vec<u64> {
        let mut meter = Meter::default();
        let mut starts = alloc::vec::Vec::new();
        for now in 1_000..1_000 + micros {
            let available = meter.available(rate, at(now));
            assert_eq!(available > 0, meter.opens_at(rate) <= at(now), "what opens is open, at {now}");
            for _ in 0..available {
                meter.start(rate, at(now));
                starts.push(now);
            }
            assert_eq!(meter.available(rate, at(now)), 0);
        }
        starts
    }

    #[test]
    fn a_window_never_holds_more_than_its_count_and_gets_full() {
        let starts = greedy(Rate::SlidingWindow { count: 3, window_micros: 10 }, 100);
        for first in &starts {
            let within = starts.iter().filter(|start| (*first..*first + 10).contains(start)).count();
            assert!(within <= 3);
        }
        assert_eq!(starts.len(), 30);
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate_to_the_microsecond() {
        let starts = greedy(Rate::TokenBucket { count: 3, per_micros: 10, burst: 5 }, 1_000);
        assert_eq!(starts[..6], [1_000, 1_000, 1_000, 1_000, 1_000, 1_004]);
        assert_eq!(starts.len(), 5 + 299, "three in ten microseconds, nothing lost to rounding");
    }

    #[test]
    fn a_meter_is_idle_when_it_no_longer_counts() {
        for rate in [
            Rate::TokenBucket { count: 1, per_micros: 10, burst: 1 },
            Rate::SlidingWindow { count: 1, window_micros: 10 },
        ] {
            let mut meter = Meter::default();
            meter.start(rate, at(5));
            assert_eq!(meter.idle_at(rate), at(15));
        }
    }
}
