//! The samples of the last hour, in memory: one front end takes them, and all front ends show them.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::reply::HistorySample;

/// The number of samples that are kept: those of one hour.
const SAMPLES_MAX: usize = 360;

/// The samples of the last hour, oldest first.
#[derive(Debug, Default)]
pub struct MetricsHistory(Mutex<VecDeque<HistorySample>>);

impl MetricsHistory {
    /// The time between two samples.
    pub const INTERVAL: Duration = Duration::from_secs(10);

    /// Adds a sample. The oldest one leaves when there are those of an hour.
    pub fn add(&self, sample: HistorySample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns the samples after this time, in milliseconds since 1970.
    pub fn after(&self, time_ms: u64) -> Vec<HistorySample> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().filter(|sample| sample.time_ms > time_ms).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time_ms: u64) -> HistorySample {
        HistorySample { time_ms, ..HistorySample::default() }
    }

    #[test]
    fn an_hour_of_samples_is_kept() {
        let history = MetricsHistory::default();
        (1..=SAMPLES_MAX as u64 + 3).for_each(|number| history.add(sample(number * 10_000)));
        let kept = history.after(0);
        assert_eq!((kept.len(), kept[0].time_ms), (SAMPLES_MAX, 40_000));
        assert_eq!(SAMPLES_MAX as u32 * MetricsHistory::INTERVAL, Duration::from_secs(3_600));
        assert_eq!(history.after(3_620_000), [sample(3_630_000)]);
    }
}
