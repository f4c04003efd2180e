//! A sparse index of a partition: the bytes and times up to some of its batches.
//!
//! Every `stride`-th batch is sampled. At [`SAMPLES_MAX`] samples, every second one is dropped and
//! the stride doubles. So a search always begins near its end, and the index stays bounded, however
//! long the partition is. The choice of samples follows from the entries alone, so every replay
//! makes the same samples.
//!
//! Producers choose times freely. The latest time *up to a batch* only ascends, so a binary search
//! works: the first batch at or after a time is the first whose latest time is not below that time.

use alloc::vec::Vec;

use quire_model::Sequence;
use quire_model::codec::{CodecError, Decoder, Encoder};

/// The most samples of a partition.
const SAMPLES_MAX: usize = 64;

/// The samples of a partition, and its sums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Samples {
    samples: Vec<Sample>,
    stride: u64,
    /// The number of appended batches.
    batches: u64,
    bytes: u64,
    /// The latest time of all, and the batch that brought it.
    pub(crate) latest: Option<Latest>,
}

/// The batch with the latest time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latest {
    pub(crate) timestamp_ms: i64,
    pub(crate) base_offset: Sequence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    base_offset: Sequence,
    /// The bytes of all batches before this one.
    bytes_before: u64,
    latest_ms_before: i64,
}

impl Default for Samples {
    fn default() -> Self {
        Samples { samples: Vec::new(), stride: 1, batches: 0, bytes: 0, latest: None }
    }
}

impl Samples {
    /// A batch was appended.
    pub(crate) fn add(&mut self, base_offset: Sequence, bytes: usize, max_timestamp_ms: i64) {
        if self.batches.is_multiple_of(self.stride) {
            if self.samples.len() == SAMPLES_MAX {
                self.thin_out();
            }
            let latest_ms_before = self.latest.map_or(i64::MIN, |latest| latest.timestamp_ms);
            self.samples.push(Sample { base_offset, bytes_before: self.bytes, latest_ms_before });
        }
        self.batches += 1;
        self.bytes += bytes as u64;
        if self.latest.is_none_or(|latest| latest.timestamp_ms < max_timestamp_ms) {
            self.latest = Some(Latest { timestamp_ms: max_timestamp_ms, base_offset });
        }
    }

    fn thin_out(&mut self) {
        let mut index = 0;
        self.samples.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.stride *= 2;
    }

    /// Everything before this offset was deleted. Of the earlier samples, only the nearest is still
    /// needed.
    pub(crate) fn drop_before(&mut self, start: Sequence) {
        let before = self.samples.partition_point(|sample| sample.base_offset <= start);
        self.samples.drain(..before.saturating_sub(1));
        if self.samples.len() < SAMPLES_MAX / 8 {
            self.stride = (self.stride / 2).max(1);
        }
    }

    /// The offset of the last batch that is known.
    pub(crate) fn last_offset(&self) -> Option<Sequence> {
        let latest = self.latest.map(|latest| latest.base_offset);
        self.samples.last().map(|sample| sample.base_offset).max(latest)
    }

    /// Returns the bytes of all batches that were ever appended.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes of batches from this offset on, by the samples. The result is at most one stride
    /// too large.
    pub(crate) fn bytes_from(&self, start: Sequence) -> u64 {
        let before = self.samples.partition_point(|sample| sample.base_offset <= start);
        let bytes_before = before.checked_sub(1).map_or(0, |index| self.samples[index].bytes_before);
        self.bytes - bytes_before
    }

    /// The last sampled offset from which at least `bytes` bytes remain.
    pub(crate) fn offset_with_bytes_behind(&self, bytes: u64) -> Option<Sequence> {
        let with = self.samples.partition_point(|sample| self.bytes - sample.bytes_before >= bytes);
        Some(self.samples[with.checked_sub(1)?].base_offset)
    }

    /// An offset up to which every record is earlier than this time: where a search for the first
    /// that is not begins.
    pub(crate) fn offset_before_time(&self, timestamp_ms: i64) -> Option<Sequence> {
        let earlier = self.samples.partition_point(|sample| sample.latest_ms_before < timestamp_ms);
        Some(self.samples[earlier.checked_sub(1)?].base_offset)
    }

    /// `stride, batches, bytes, latest (0, or 1 time u64 offset), n, n × (offset, bytes before,
    /// latest before u64)`
    pub(crate) fn save(&self, out: &mut Encoder) {
        out.varint(self.stride).varint(self.batches).varint(self.bytes);
        match self.latest {
            None => out.u8(0),
            Some(latest) => out.u8(1).u64(latest.timestamp_ms as u64).varint(latest.base_offset.get()),
        };
        out.varint(self.samples.len() as u64);
        for sample in &self.samples {
            out.varint(sample.base_offset.get()).varint(sample.bytes_before).u64(sample.latest_ms_before as u64);
        }
    }

    pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let (stride, batches, bytes) = (from.varint()?, from.varint()?, from.varint()?);
        let wrong = |expected| Err(CodecError { expected, bytes_left: from.clone().rest().len() });
        if stride == 0 {
            return wrong("a stride");
        }
        let latest = match from.u8()? {
            0 => None,
            _ => Some(Latest { timestamp_ms: from.u64()? as i64, base_offset: Sequence::new(from.varint()?) }),
        };
        let count = from.varint()?;
        let mut samples: Vec<Sample> = Vec::new();
        for _ in 0..count {
            let sample = Sample {
                base_offset: Sequence::new(from.varint()?),
                bytes_before: from.varint()?,
                latest_ms_before: from.u64()? as i64,
            };
            if sample.bytes_before > bytes || samples.len() == SAMPLES_MAX {
                return Err(CodecError {
                    expected: "the samples of a partition",
                    bytes_left: from.clone().rest().len(),
                });
            }
            samples.push(sample);
        }
        Ok(Samples { samples, stride, batches, bytes, latest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples of a partition whose batches have these bytes and times, one offset each.
    fn samples(batches: &[(usize, i64)]) -> Samples {
        let mut samples = Samples::default();
        for (offset, &(bytes, time_ms)) in (0..).zip(batches) {
            samples.add(Sequence::new(offset), bytes, time_ms);
        }
        samples
    }

    #[test]
    fn a_search_begins_before_what_it_looks_for_and_near_it() {
        let batches: Vec<_> = (0..10_000).map(|at: i64| (100, at ^ 7)).collect();
        let samples = samples(&batches);
        assert!(samples.samples.len() <= SAMPLES_MAX);
        for time_ms in (-10..10_100).step_by(31) {
            let first = batches.iter().position(|(_, time)| *time >= time_ms).unwrap_or(batches.len());
            let begin = samples.offset_before_time(time_ms).map_or(0, |begin| begin.get() as usize);
            assert!(begin <= first, "{begin} is behind {first}");
            assert!(first - begin <= batches.len() * 2 / SAMPLES_MAX + 1, "{begin} is far from {first}");
        }
    }

    #[test]
    fn bytes_are_kept_and_not_many_more() {
        let batches: Vec<_> = (0..5_000).map(|at| (50 + at % 90, 0)).collect();
        let all: usize = batches.iter().map(|(bytes, _)| bytes).sum();
        let mut samples = samples(&batches);
        for keep in (1..=all).rev().step_by(97) {
            let start = samples.offset_with_bytes_behind(keep as u64).expect("there are so many");
            let kept: usize = batches[start.get() as usize..].iter().map(|(bytes, _)| bytes).sum();
            assert!(kept >= keep && kept - keep <= all * 2 / SAMPLES_MAX + 140, "{keep} of {kept}");
            samples.drop_before(start);
            assert_eq!(samples.bytes_from(start), kept as u64);
        }
        assert_eq!(samples.offset_with_bytes_behind(all as u64), None);
    }
}
