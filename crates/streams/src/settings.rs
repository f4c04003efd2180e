//! The settings of a topic.

use core::fmt;
use core::time::Duration;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::millis_of;

use crate::kept::KeptSettings;
use crate::setting_set::{Setting, SettingSet};
use crate::wire::{BATCH_BYTES_MAX, Codec};

/// The settings of a topic. The defaults keep everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TopicSettings {
    /// The time that a record is kept after its timestamp, in milliseconds. `None` keeps records
    /// forever; 0 keeps them until the next check. Kafka's `retention.ms`.
    pub retention_ms: Option<u64>,
    /// The bytes of batches that each partition keeps at least; `None`: all; 0: none after the next
    /// check. Kafka's `retention.bytes`.
    pub retention_bytes: Option<u64>,
    /// The most bytes of a record batch. Default: as much as a batch can have. Kafka's
    /// `max.message.bytes`.
    pub batch_bytes_max: u32,
    /// The codec with which embedded producers compress batches above a size that the database
    /// sets. Batches that arrive compressed are stored unchanged. Default: none. Kafka's
    /// `compression.type`.
    pub compression: Codec,
    /// How old records are removed. Kafka's `cleanup.policy`.
    pub cleanup: Cleanup,
    /// The time that a compacted topic keeps a record without a value once it is the only one of
    /// its key, in milliseconds. A consumer that reads the topic within that time sees the deletion
    /// of the key. Default: a day. Kafka's `delete.retention.ms`.
    pub delete_retention_ms: u64,
    /// The most milliseconds by which a record's time may be after the time of its commit. Default:
    /// an hour. Kafka's `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: u64,
    /// The most milliseconds by which a record's time may be before the time of its commit.
    /// Default: any time. Kafka's `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: u64,
    /// The times that records have. Kafka's `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// The settings that were explicitly set to their defaults. They change only the result of
    /// [`TopicSettings::is_said`].
    pub said_as_default: SettingSet,
}

/// The times that the records of a topic have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum TimestampType {
    /// Those that producers gave them.
    #[default]
    CreateTime = 0,
    /// Those of their commits.
    LogAppendTime = 1,
}

impl TimestampType {
    /// All there are, in the order of their numbers.
    pub const ALL: [TimestampType; 2] = [TimestampType::CreateTime, TimestampType::LogAppendTime];
}

/// The name that Kafka's setting has for it.
impl fmt::Display for TimestampType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimestampType::CreateTime => "CreateTime",
            TimestampType::LogAppendTime => "LogAppendTime",
        })
    }
}

/// How old records of a topic are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Cleanup {
    /// When they exceed the topic's retention by time or bytes.
    #[default]
    Delete = 0,
    /// When their key has a newer record, by compaction. Retention does not apply.
    Compact = 1,
    /// By both.
    CompactAndDelete = 2,
}

impl Cleanup {
    /// All there are, in the order of their numbers.
    pub const ALL: [Cleanup; 3] = [Cleanup::Delete, Cleanup::Compact, Cleanup::CompactAndDelete];

    /// The policy with this name, as in Kafka's setting. The parts of a list may have either order.
    pub fn of_name(name: &str) -> Option<Self> {
        match name.split_once(',').map_or((name.trim(), ""), |(one, other)| (one.trim(), other.trim())) {
            ("delete", "" | "delete") => Some(Cleanup::Delete),
            ("compact", "" | "compact") => Some(Cleanup::Compact),
            ("compact", "delete") | ("delete", "compact") => Some(Cleanup::CompactAndDelete),
            _ => None,
        }
    }

    /// Whether records go when their key has a newer one.
    pub const fn compacts(self) -> bool {
        matches!(self, Cleanup::Compact | Cleanup::CompactAndDelete)
    }

    /// Whether records go when they are too old or too many.
    pub const fn deletes(self) -> bool {
        matches!(self, Cleanup::Delete | Cleanup::CompactAndDelete)
    }
}

/// The name that Kafka's setting has for it.
impl fmt::Display for Cleanup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cleanup::Delete => "delete",
            Cleanup::Compact => "compact",
            Cleanup::CompactAndDelete => "compact,delete",
        })
    }
}

/// An hour.
pub(crate) const TIMESTAMP_AFTER_MAX_MS: u64 = 60 * 60 * 1000;

/// Any time: Kafka's largest number.
const ANY_MS: u64 = i64::MAX as u64;

/// A day.
const DELETE_RETENTION_MS: u64 = 24 * 60 * 60 * 1000;

impl Default for TopicSettings {
    fn default() -> Self {
        TopicSettings {
            retention_ms: None,
            retention_bytes: None,
            batch_bytes_max: BATCH_BYTES_MAX as u32,
            compression: Codec::None,
            cleanup: Cleanup::Delete,
            delete_retention_ms: DELETE_RETENTION_MS,
            timestamp_after_max_ms: TIMESTAMP_AFTER_MAX_MS,
            timestamp_before_max_ms: ANY_MS,
            timestamp_type: TimestampType::CreateTime,
            said_as_default: SettingSet::NONE,
        }
    }
}

/// Changes of settings. `None` keeps a setting, unless it is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct TopicChanges {
    /// See [`TopicSettings::retention_ms`].
    pub retention_ms: Option<Option<u64>>,
    /// See [`TopicSettings::retention_bytes`].
    pub retention_bytes: Option<Option<u64>>,
    /// See [`TopicSettings::batch_bytes_max`].
    pub batch_bytes_max: Option<u32>,
    /// See [`TopicSettings::compression`].
    pub compression: Option<Codec>,
    /// See [`TopicSettings::cleanup`].
    pub cleanup: Option<Cleanup>,
    /// See [`TopicSettings::delete_retention_ms`].
    pub delete_retention_ms: Option<u64>,
    /// See [`TopicSettings::timestamp_after_max_ms`].
    pub timestamp_after_max_ms: Option<u64>,
    /// See [`TopicSettings::timestamp_before_max_ms`].
    pub timestamp_before_max_ms: Option<u64>,
    /// See [`TopicSettings::timestamp_type`].
    pub timestamp_type: Option<TimestampType>,
    /// Settings with a single allowed value, to be set explicitly.
    pub said: SettingSet,
    /// The settings to reset first.
    pub reset: SettingSet,
}

impl TopicChanges {
    /// Sets how long a record is kept. `None` keeps records for ever.
    #[must_use]
    pub fn retention(mut self, kept: impl Into<Option<Duration>>) -> Self {
        self.retention_ms = Some(kept.into().map(millis_of));
        self
    }

    /// Sets how long a compacted topic keeps a record without a value.
    #[must_use]
    pub fn delete_retention(mut self, kept: Duration) -> Self {
        self.delete_retention_ms = Some(millis_of(kept));
        self
    }

    /// The settings that are set or reset.
    fn said(&self) -> SettingSet {
        let said = [
            (Setting::RetentionMs, self.retention_ms.is_some()),
            (Setting::RetentionBytes, self.retention_bytes.is_some()),
            (Setting::BatchBytesMax, self.batch_bytes_max.is_some()),
            (Setting::Compression, self.compression.is_some()),
            (Setting::Cleanup, self.cleanup.is_some()),
            (Setting::DeleteRetentionMs, self.delete_retention_ms.is_some()),
            (Setting::TimestampAfterMaxMs, self.timestamp_after_max_ms.is_some()),
            (Setting::TimestampBeforeMaxMs, self.timestamp_before_max_ms.is_some()),
            (Setting::TimestampType, self.timestamp_type.is_some()),
        ];
        said.into_iter().filter(|(_, is_said)| *is_said).fold(self.said, |said, (setting, _)| said.with(setting))
    }
}

impl TopicSettings {
    /// Sets how long a record is kept.
    ///
    /// # Example
    /// ```
    /// use core::time::Duration;
    /// use quire_streams::TopicSettings;
    ///
    /// let settings = TopicSettings::default().retention(Duration::from_secs(60));
    /// assert_eq!(settings.retention_ms, Some(60_000));
    /// ```
    #[must_use]
    pub fn retention(mut self, kept: Duration) -> Self {
        self.retention_ms = Some(millis_of(kept));
        self
    }

    /// Sets how long a compacted topic keeps a record without a value.
    #[must_use]
    pub fn delete_retention(mut self, kept: Duration) -> Self {
        self.delete_retention_ms = millis_of(kept);
        self
    }

    /// Whether a topic limits the times of records otherwise than by default.
    pub(crate) fn has_own_time_limits(&self) -> bool {
        self.differs(Setting::TimestampAfterMaxMs) || self.differs(Setting::TimestampBeforeMaxMs)
    }

    pub(crate) fn compresses(&self) -> bool {
        self.compression != Codec::None
    }

    /// These settings after the changes.
    #[must_use]
    pub fn changed(self, changes: TopicChanges) -> Self {
        let default = TopicSettings::default();
        let before = |setting| if changes.reset.contains(setting) { &default } else { &self };
        let ms = before(Setting::DeleteRetentionMs).delete_retention_ms;
        let after_ms = before(Setting::TimestampAfterMaxMs).timestamp_after_max_ms;
        let before_ms = before(Setting::TimestampBeforeMaxMs).timestamp_before_max_ms;
        let mut settings = TopicSettings {
            retention_ms: changes.retention_ms.unwrap_or(before(Setting::RetentionMs).retention_ms),
            retention_bytes: changes.retention_bytes.unwrap_or(before(Setting::RetentionBytes).retention_bytes),
            batch_bytes_max: changes.batch_bytes_max.unwrap_or(before(Setting::BatchBytesMax).batch_bytes_max),
            compression: changes.compression.unwrap_or(before(Setting::Compression).compression),
            cleanup: changes.cleanup.unwrap_or(before(Setting::Cleanup).cleanup),
            delete_retention_ms: changes.delete_retention_ms.unwrap_or(ms),
            timestamp_after_max_ms: changes.timestamp_after_max_ms.unwrap_or(after_ms),
            timestamp_before_max_ms: changes.timestamp_before_max_ms.unwrap_or(before_ms),
            timestamp_type: changes.timestamp_type.unwrap_or(before(Setting::TimestampType).timestamp_type),
            said_as_default: SettingSet::NONE,
        };
        let said = changes.said();
        let is_said = |setting| said.contains(setting) || before(setting).said_as_default.contains(setting);
        let said = Setting::ALL.into_iter().filter(|setting| is_said(*setting) && !settings.differs(*setting));
        settings.said_as_default = said.fold(SettingSet::NONE, SettingSet::with);
        settings
    }

    /// Whether a client chose this setting, even with its default value.
    pub fn is_said(&self, setting: Setting) -> bool {
        self.differs(setting) || self.said_as_default.contains(setting)
    }

    fn differs(&self, setting: Setting) -> bool {
        let default = TopicSettings::default();
        match setting {
            Setting::RetentionMs => self.retention_ms != default.retention_ms,
            Setting::RetentionBytes => self.retention_bytes != default.retention_bytes,
            Setting::BatchBytesMax => self.batch_bytes_max != default.batch_bytes_max,
            Setting::Compression => self.compression != default.compression,
            Setting::Cleanup => self.cleanup != default.cleanup,
            Setting::DeleteRetentionMs => self.delete_retention_ms != default.delete_retention_ms,
            Setting::TimestampAfterMaxMs => self.timestamp_after_max_ms != default.timestamp_after_max_ms,
            Setting::TimestampBeforeMaxMs => self.timestamp_before_max_ms != default.timestamp_before_max_ms,
            Setting::TimestampType => self.timestamp_type != default.timestamp_type,
            Setting::CompressionType | Setting::MinInsyncReplicas | Setting::RemoteStorage => false,
        }
    }

    /// Encodes the length of the settings in bytes, and the number and value of each setting that
    /// differs from its default. Then come the numbers of the other settings that were set
    /// explicitly, and the kept settings. A setting of a later version gets a number of its own.
    pub(crate) fn encode(&self, kept: &KeptSettings, out: &mut Encoder) {
        let mut fields = Encoder::new();
        if let Some(ms) = self.retention_ms {
            fields.u8(RETENTION_MS).varint(ms);
        }
        if let Some(bytes) = self.retention_bytes {
            fields.u8(RETENTION_BYTES).varint(bytes);
        }
        if self.differs(Setting::BatchBytesMax) {
            fields.u8(BATCH_BYTES).varint(self.batch_bytes_max.into());
        }
        if self.differs(Setting::Compression) {
            fields.u8(COMPRESSION).varint(self.compression as u64);
        }
        if self.differs(Setting::Cleanup) {
            fields.u8(CLEANUP).varint(self.cleanup as u64);
        }
        if self.differs(Setting::DeleteRetentionMs) {
            fields.u8(DELETE_RETENTION).varint(self.delete_retention_ms);
        }
        if self.differs(Setting::TimestampAfterMaxMs) {
            fields.u8(TIMESTAMP_AFTER).varint(self.timestamp_after_max_ms);
        }
        if self.differs(Setting::TimestampBeforeMaxMs) {
            fields.u8(TIMESTAMP_BEFORE).varint(self.timestamp_before_max_ms);
        }
        if self.differs(Setting::TimestampType) {
            fields.u8(TIMESTAMP_TYPE).varint(self.timestamp_type as u64);
        }
        if !self.said_as_default.is_empty() {
            fields.u8(SAID).varint(self.said_as_default.bits());
        }
        if !kept.is_empty() {
            let mut values = Encoder::new();
            kept.encode(&mut values);
            fields.u8(KEPT).bytes(values.as_slice());
        }
        out.bytes(fields.as_slice());
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<(Self, KeptSettings), CodecError> {
        let mut fields = Decoder::new(from.bytes()?);
        let (mut settings, mut kept) = (TopicSettings::default(), KeptSettings::default());
        while !fields.is_empty() {
            match fields.u8()? {
                RETENTION_MS => settings.retention_ms = Some(fields.varint()?),
                RETENTION_BYTES => settings.retention_bytes = Some(fields.varint()?),
                BATCH_BYTES => settings.batch_bytes_max = fields.varint_u32()?,
                COMPRESSION => {
                    let codec = u8::try_from(fields.varint()?).ok().and_then(Codec::of_number);
                    let unknown = CodecError { expected: "a codec", bytes_left: fields.clone().rest().len() };
                    settings.compression = codec.ok_or(unknown)?;
                }
                CLEANUP => {
                    let cleanup = usize::try_from(fields.varint()?).ok().and_then(|number| Cleanup::ALL.get(number));
                    let unknown = CodecError { expected: "a cleanup policy", bytes_left: fields.clone().rest().len() };
                    settings.cleanup = *cleanup.ok_or(unknown)?;
                }
                DELETE_RETENTION => settings.delete_retention_ms = fields.varint()?,
                TIMESTAMP_AFTER => settings.timestamp_after_max_ms = fields.varint()?,
                TIMESTAMP_BEFORE => settings.timestamp_before_max_ms = fields.varint()?,
                TIMESTAMP_TYPE => {
                    let number = usize::try_from(fields.varint()?).ok();
                    let unknown = CodecError { expected: "a type of times", bytes_left: fields.clone().rest().len() };
                    let found = number.and_then(|number| TimestampType::ALL.get(number));
                    settings.timestamp_type = *found.ok_or(unknown)?;
                }
                SAID => {
                    let said = SettingSet::of_bits(fields.varint()?);
                    let unknown = CodecError { expected: "explicit settings", bytes_left: fields.clone().rest().len() };
                    settings.said_as_default = said.ok_or(unknown)?;
                }
                KEPT => kept = KeptSettings::decode(&mut Decoder::new(fields.bytes()?))?,
                _ => return Err(CodecError { expected: "a topic's setting", bytes_left: fields.rest().len() }),
            }
        }
        Ok((settings, kept))
    }
}

const RETENTION_MS: u8 = Setting::RetentionMs as u8;
const RETENTION_BYTES: u8 = Setting::RetentionBytes as u8;
const BATCH_BYTES: u8 = Setting::BatchBytesMax as u8;
const COMPRESSION: u8 = Setting::Compression as u8;
const CLEANUP: u8 = Setting::Cleanup as u8;
const DELETE_RETENTION: u8 = Setting::DeleteRetentionMs as u8;
const SAID: u8 = 7;
const TIMESTAMP_AFTER: u8 = Setting::TimestampAfterMaxMs as u8;
const TIMESTAMP_TYPE: u8 = Setting::TimestampType as u8;
const TIMESTAMP_BEFORE: u8 = Setting::TimestampBeforeMaxMs as u8;
const KEPT: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(settings: &TopicSettings) -> Encoder {
        let mut out = Encoder::new();
        settings.encode(&KeptSettings::default(), &mut out);
        out
    }

    #[test]
    fn settings_are_read_back_and_defaults_use_no_byte() {
        assert_eq!(encoded(&TopicSettings::default()).as_slice(), [0]);
        let mut settings = TopicSettings { retention_ms: Some(0), ..TopicSettings::default() };
        assert_eq!(encoded(&settings).as_slice(), [2, 1, 0]);
        for setting in Setting::ALL {
            settings.said_as_default = settings.said_as_default.with(setting);
            let out = encoded(&settings);
            assert_eq!(
                TopicSettings::decode(&mut Decoder::new(out.as_slice())),
                Ok((settings, KeptSettings::default()))
            );
        }
        for bits in [1u64, 1 << 7, 1 << 14, 1 << 16] {
            let mut fields = Encoder::new();
            fields.u8(SAID).varint(bits);
            let mut out = Encoder::new();
            out.bytes(fields.as_slice());
            TopicSettings::decode(&mut Decoder::new(out.as_slice())).expect_err("no such setting");
        }
    }
}
