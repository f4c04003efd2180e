//! The samples of the last hour, in memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quire_api::reply::HistorySample;

/// The time between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(10);

/// The number of samples that are kept: those of one hour.
const SAMPLES_MAX: usize = 360;

/// The samples, oldest first.
#[derive(Debug, Default)]
pub(crate) struct MetricsHistory(Mutex<VecDeque<HistorySample>>);

impl MetricsHistory {
    pub(crate) fn add(&self, sample: HistorySample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// The samples after this time, in milliseconds since 1970.
    pub(crate) fn after(&self, time_ms: u64) -> Vec<HistorySample> {
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
        assert_eq!(SAMPLES_MAX as u32 * INTERVAL, Duration::from_secs(3_600));
        assert_eq!(history.after(3_620_000), [sample(3_630_000)]);
    }
}
