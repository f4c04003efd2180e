//! Settings of Kafka topics that are kept and shown, and have no effect here.
//!
//! Clients and deployment tools send them with each topic, and read them back. A value is the text
//! that the client chose. The front end checks its form.

use alloc::boxed::Box;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::Refusal;

/// Most bytes of a kept value.
pub const KEPT_BYTES_MAX: usize = 1_024;

/// A setting without effect, by its number in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum KeptSetting {
    /// Kafka's `compression.type`, except for `producer`.
    CompressionType = 1,
    /// `file.delete.delay.ms`
    FileDeleteDelayMs = 2,
    /// `flush.messages`
    FlushMessages = 3,
    /// `flush.ms`
    FlushMs = 4,
    /// `follower.replication.throttled.replicas`
    FollowerThrottle = 5,
    /// `index.interval.bytes`
    IndexIntervalBytes = 6,
    /// `leader.replication.throttled.replicas`
    LeaderThrottle = 7,
    /// `local.retention.bytes`
    LocalRetentionBytes = 8,
    /// `local.retention.ms`
    LocalRetentionMs = 9,
    /// `max.compaction.lag.ms`
    MaxCompactionLagMs = 10,
    /// `min.cleanable.dirty.ratio`
    MinCleanableDirtyRatio = 11,
    /// `preallocate`
    Preallocate = 12,
    /// `segment.bytes`
    SegmentBytes = 13,
    /// `segment.index.bytes`
    SegmentIndexBytes = 14,
    /// `segment.jitter.ms`
    SegmentJitterMs = 15,
    /// `segment.ms`
    SegmentMs = 16,
    /// `unclean.leader.election.enable`
    UncleanLeaderElection = 17,
}

impl KeptSetting {
    /// All there are, in the order of their numbers.
    pub const ALL: [KeptSetting; 17] = [
        KeptSetting::CompressionType,
        KeptSetting::FileDeleteDelayMs,
        KeptSetting::FlushMessages,
        KeptSetting::FlushMs,
        KeptSetting::FollowerThrottle,
        KeptSetting::IndexIntervalBytes,
        KeptSetting::LeaderThrottle,
        KeptSetting::LocalRetentionBytes,
        KeptSetting::LocalRetentionMs,
        KeptSetting::MaxCompactionLagMs,
        KeptSetting::MinCleanableDirtyRatio,
        KeptSetting::Preallocate,
        KeptSetting::SegmentBytes,
        KeptSetting::SegmentIndexBytes,
        KeptSetting::SegmentJitterMs,
        KeptSetting::SegmentMs,
        KeptSetting::UncleanLeaderElection,
    ];

    fn of_number(number: u8) -> Option<Self> {
        KeptSetting::ALL.into_iter().find(|setting| *setting as u8 == number)
    }
}

/// A change of a kept setting: its new value, or `None` to reset it.
pub type KeptChange<'c> = (KeptSetting, Option<&'c str>);

/// The kept settings of a topic that a client chose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeptSettings {
    /// In the order of the settings.
    values: Vec<(KeptSetting, Box<str>)>,
}

impl KeptSettings {
    /// The value of a setting, if a client chose one.
    pub fn get(&self, setting: KeptSetting) -> Option<&str> {
        self.values.iter().find(|(kept, _)| *kept == setting).map(|(_, value)| &**value)
    }

    /// Whether a client chose none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// These settings after changes, of which the last one of a setting counts.
    ///
    /// # Errors
    /// [`Refusal::InvalidSettings`] for a value of more than [`KEPT_BYTES_MAX`] bytes.
    pub fn changed(mut self, changes: &[KeptChange<'_>]) -> Result<Self, Refusal> {
        for (setting, value) in changes {
            self.values.retain(|(kept, _)| kept != setting);
            if let Some(value) = value {
                if value.len() > KEPT_BYTES_MAX {
                    return Err(Refusal::InvalidSettings { setting: "a kept setting" });
                }
                self.values.push((*setting, Box::from(*value)));
            }
        }
        self.values.sort_unstable_by_key(|(setting, _)| *setting);
        Ok(self)
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        for (setting, value) in &self.values {
            out.u8(*setting as u8).str(value);
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut values: Vec<(KeptSetting, Box<str>)> = Vec::new();
        while !from.is_empty() {
            let unknown = |from: &Decoder<'_>| CodecError {
                expected: "kept settings in their order",
                bytes_left: from.clone().rest().len(),
            };
            let setting = KeptSetting::of_number(from.u8()?).ok_or_else(|| unknown(from))?;
            if values.last().is_some_and(|(last, _)| *last >= setting) {
                return Err(unknown(from));
            }
            values.push((setting, Box::from(from.str()?)));
        }
        Ok(KeptSettings { values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(kept: &KeptSettings) -> Result<KeptSettings, CodecError> {
        let mut out = Encoder::new();
        kept.encode(&mut out);
        KeptSettings::decode(&mut Decoder::new(out.as_slice()))
    }

    #[test]
    fn kept_settings_change_one_by_one_and_come_back() {
        let (bytes, ms) = (KeptSetting::SegmentBytes, KeptSetting::FlushMs);
        let kept = KeptSettings::default().changed(&[(bytes, Some("1")), (ms, Some("2")), (bytes, Some("3"))]);
        let kept = kept.expect("short");
        assert_eq!((kept.get(bytes), kept.get(ms)), (Some("3"), Some("2")));
        assert_eq!(coded(&kept).as_ref(), Ok(&kept));
        let kept = kept.changed(&[(bytes, None)]).expect("short");
        assert_eq!((kept.get(bytes), kept.get(ms)), (None, Some("2")));
        let long = "x".repeat(KEPT_BYTES_MAX + 1);
        assert!(kept.changed(&[(ms, Some(&long))]).is_err());
    }

    #[test]
    fn each_number_is_a_setting_and_others_are_an_error() {
        for (index, setting) in KeptSetting::ALL.into_iter().enumerate() {
            assert_eq!(setting as usize, index + 1);
            let kept = KeptSettings::default().changed(&[(setting, Some("v"))]).expect("short");
            assert_eq!(coded(&kept), Ok(kept));
        }
        for bytes in [&[0, 0][..], &[18, 0], &[2, 0, 1, 0], &[1, 0, 1, 0], &[1, 5]] {
            KeptSettings::decode(&mut Decoder::new(bytes)).expect_err("no kept settings");
        }
    }
}
