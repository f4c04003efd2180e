//! The explicitly set settings of a topic. A value that differs from its default was set; for the
//! others, a set of bits says whether they were. A client that asks for the configuration of a
//! topic gets all of them.

/// A setting of a topic, by its number in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Setting {
    /// [`TopicSettings::retention_ms`](crate::TopicSettings::retention_ms).
    RetentionMs = 1,
    /// [`TopicSettings::retention_bytes`](crate::TopicSettings::retention_bytes).
    RetentionBytes = 2,
    /// [`TopicSettings::batch_bytes_max`](crate::TopicSettings::batch_bytes_max).
    BatchBytesMax = 3,
    /// [`TopicSettings::compression`](crate::TopicSettings::compression).
    Compression = 4,
    /// [`TopicSettings::cleanup`](crate::TopicSettings::cleanup).
    Cleanup = 5,
    /// [`TopicSettings::delete_retention_ms`](crate::TopicSettings::delete_retention_ms).
    DeleteRetentionMs = 6,
    /// Kafka's `compression.type` with its default value, from topics of earlier versions. Only the
    /// fact that it was set is known.
    CompressionType = 8,
    /// [`TopicSettings::timestamp_type`](crate::TopicSettings::timestamp_type).
    TimestampType = 9,
    /// Kafka's `min.insync.replicas`.
    MinInsyncReplicas = 10,
    /// Kafka's `remote.storage.enable`.
    RemoteStorage = 11,
    /// [`TopicSettings::timestamp_after_max_ms`](crate::TopicSettings::timestamp_after_max_ms).
    TimestampAfterMaxMs = 12,
    /// [`TopicSettings::timestamp_before_max_ms`](crate::TopicSettings::timestamp_before_max_ms).
    TimestampBeforeMaxMs = 13,
}

impl Setting {
    /// All there are.
    pub const ALL: [Setting; 12] = [
        Setting::RetentionMs,
        Setting::RetentionBytes,
        Setting::BatchBytesMax,
        Setting::Compression,
        Setting::Cleanup,
        Setting::DeleteRetentionMs,
        Setting::CompressionType,
        Setting::TimestampType,
        Setting::MinInsyncReplicas,
        Setting::RemoteStorage,
        Setting::TimestampAfterMaxMs,
        Setting::TimestampBeforeMaxMs,
    ];
}

/// Some of the settings of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct SettingSet {
    /// Bit *n* for the setting with the number *n*.
    bits: u16,
}

impl SettingSet {
    /// The empty set.
    pub const NONE: SettingSet = SettingSet { bits: 0 };

    /// All of them.
    pub fn all() -> Self {
        Setting::ALL.into_iter().fold(SettingSet::NONE, SettingSet::with)
    }

    /// These and this one.
    #[must_use]
    pub const fn with(self, setting: Setting) -> Self {
        SettingSet { bits: self.bits | 1 << setting as u8 }
    }

    /// This set without one setting.
    #[must_use]
    pub const fn without(self, setting: Setting) -> Self {
        SettingSet { bits: self.bits & !(1 << setting as u8) }
    }

    /// Whether this is one of them.
    pub const fn contains(self, setting: Setting) -> bool {
        self.bits & 1 << setting as u8 != 0
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    pub(crate) const fn bits(self) -> u64 {
        self.bits as u64
    }

    /// The settings of these bits; `None` when there is one that is no setting's.
    pub(crate) fn of_bits(bits: u64) -> Option<Self> {
        let set = SettingSet { bits: u16::try_from(bits).ok()? };
        (set.bits & !SettingSet::all().bits == 0).then_some(set)
    }
}
