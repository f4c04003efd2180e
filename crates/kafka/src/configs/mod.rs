//! Settings under Kafka's names: those of topics, which can be changed, and those of the broker,
//! which are read-only.
//!
//! A topic has settings of three classes:
//! * honoured: they do as Kafka documents;
//! * kept ([`KEPT`]): they are checked, stored and shown, and have no effect. Their documentation
//!   says so;
//! * unknown: they are refused, as in Kafka.

use kafka_protocol::ResponseError;
use quire::streams::{
    Cleanup, KEPT_BYTES_MAX, KeptChange, KeptSetting, KeptSettings, Setting, SettingSet, TimestampType, TopicChanges,
    TopicSettings,
};

use self::kept::{KEPT, KeptConfig};
use crate::Settings;
use crate::broker::BrokerListener;
use crate::errors::KafkaError;

mod kept;

/// A setting, for an answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigEntry {
    pub(crate) name: &'static str,
    /// Its name among the broker's settings, where Kafka keeps a topic's default.
    pub(crate) of_broker: &'static str,
    pub(crate) value: String,
    /// Its value by default.
    pub(crate) default: String,
    /// Whether it was set explicitly, even to the default value. A broker setting counts as set
    /// only if its value differs from the default.
    pub(crate) is_said: bool,
    pub(crate) kind: ConfigType,
    pub(crate) documentation: &'static str,
}

/// The type of a value, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigType {
    Boolean = 1,
    Text = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// The change of a setting, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigOperation<'c> {
    Set(&'c str),
    Reset,
}

/// A setting of topics with a single possible value, which a client may state but not change.
struct FixedConfig {
    name: &'static str,
    of_broker: &'static str,
    value: &'static str,
    kind: ConfigType,
    documentation: &'static str,
    setting: Setting,
}

const FIXED: [FixedConfig; 2] = [
    FixedConfig {
        name: "min.insync.replicas",
        of_broker: "min.insync.replicas",
        value: "1",
        kind: ConfigType::Int,
        documentation: "There is one copy.",
        setting: Setting::MinInsyncReplicas,
    },
    FixedConfig {
        name: "remote.storage.enable",
        of_broker: "remote.storage.enable",
        value: "false",
        kind: ConfigType::Boolean,
        documentation: "There is no remote storage.",
        setting: Setting::RemoteStorage,
    },
];

/// Changes of the settings of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ConfigChanges {
    pub(crate) honoured: TopicChanges,
    kept: Vec<(KeptSetting, Option<String>)>,
}

impl ConfigChanges {
    /// The changes of kept settings, as a command has them.
    pub(crate) fn kept(&self) -> Vec<KeptChange<'_>> {
        self.kept.iter().map(|(setting, value)| (*setting, value.as_deref())).collect()
    }
}

/// The settings of a topic, in a database whose batches have at most `batch_bytes_max` bytes.
pub(crate) fn of_topic(settings: &TopicSettings, kept: &KeptSettings, batch_bytes_most: u32) -> Vec<ConfigEntry> {
    let default = TopicSettings::default();
    let or_none = |limit: Option<u64>| limit.map_or_else(|| String::from("-1"), |limit| limit.to_string());
    let most = |bytes: u32| bytes.min(batch_bytes_most).to_string();
    let mut shown = vec![
        ConfigEntry {
            name: "cleanup.policy",
            of_broker: "log.cleanup.policy",
            value: settings.cleanup.to_string(),
            default: default.cleanup.to_string(),
            is_said: settings.is_said(Setting::Cleanup),
            kind: ConfigType::List,
            documentation: "How records are deleted: by age and size (delete), when their key has a newer record (compact), or both.",
        },
        ConfigEntry {
            name: "delete.retention.ms",
            of_broker: "log.cleaner.delete.retention.ms",
            value: settings.delete_retention_ms.to_string(),
            default: default.delete_retention_ms.to_string(),
            is_said: settings.is_said(Setting::DeleteRetentionMs),
            kind: ConfigType::Long,
            documentation: "How long a compacted topic keeps the deletion marker of a key.",
        },
        ConfigEntry {
            name: "max.message.bytes",
            of_broker: "message.max.bytes",
            value: most(settings.batch_bytes_max),
            default: most(default.batch_bytes_max),
            is_said: settings.is_said(Setting::BatchBytesMax),
            kind: ConfigType::Int,
            documentation: "Maximum size of a record batch in bytes. At most the size of a commit, which is the default.",
        },
        ConfigEntry {
            name: "message.timestamp.after.max.ms",
            of_broker: "log.message.timestamp.after.max.ms",
            value: settings.timestamp_after_max_ms.to_string(),
            default: default.timestamp_after_max_ms.to_string(),
            is_said: settings.is_said(Setting::TimestampAfterMaxMs),
            kind: ConfigType::Long,
            documentation: "How far the time of a record may be after that of its arrival, in milliseconds.",
        },
        ConfigEntry {
            name: "message.timestamp.before.max.ms",
            of_broker: "log.message.timestamp.before.max.ms",
            value: settings.timestamp_before_max_ms.to_string(),
            default: default.timestamp_before_max_ms.to_string(),
            is_said: settings.is_said(Setting::TimestampBeforeMaxMs),
            kind: ConfigType::Long,
            documentation: "How far the time of a record may be before that of its arrival, in milliseconds.",
        },
        ConfigEntry {
            name: "message.timestamp.type",
            of_broker: "log.message.timestamp.type",
            value: settings.timestamp_type.to_string(),
            default: default.timestamp_type.to_string(),
            is_said: settings.is_said(Setting::TimestampType),
            kind: ConfigType::Text,
            documentation: "Whether records have the times that their producers gave them (CreateTime) or those of their arrival (LogAppendTime).",
        },
        ConfigEntry {
            name: "retention.bytes",
            of_broker: "log.retention.bytes",
            value: or_none(settings.retention_bytes),
            default: or_none(default.retention_bytes),
            is_said: settings.is_said(Setting::RetentionBytes),
            kind: ConfigType::Long,
            documentation: "Minimum number of bytes that each partition keeps; -1: no limit.",
        },
        ConfigEntry {
            name: "retention.ms",
            of_broker: "log.retention.ms",
            value: or_none(settings.retention_ms),
            default: or_none(default.retention_ms),
            is_said: settings.is_said(Setting::RetentionMs),
            kind: ConfigType::Long,
            documentation: "How long records are kept, in milliseconds; -1: without limit.",
        },
    ];
    shown.extend(FIXED.map(|FixedConfig { name, of_broker, value, kind, documentation, setting }| ConfigEntry {
        name,
        of_broker,
        value: value.to_owned(),
        default: value.to_owned(),
        is_said: settings.is_said(setting),
        kind,
        documentation,
    }));
    shown.extend(KEPT.map(|KeptConfig { setting, name, of_broker, default, kind, documentation, .. }| {
        // Earlier versions stored only that a client set this setting to its single allowed value.
        let is_said = setting == KeptSetting::CompressionType && settings.is_said(Setting::CompressionType);
        ConfigEntry {
            name,
            of_broker,
            value: kept.get(setting).unwrap_or(default).to_owned(),
            default: default.to_owned(),
            is_said: is_said || kept.get(setting).is_some(),
            kind,
            documentation,
        }
    }));
    shown.sort_unstable_by_key(|shown| shown.name);
    shown
}

/// Reads the value of a setting that requires one.
///
/// # Errors
/// When there is no value. As in Kafka, a missing value does not mean the default.
pub(crate) fn set<'v>(name: &str, value: Option<&'v str>) -> Result<ConfigOperation<'v>, KafkaError> {
    let message = || format!("{name} has no value: leave the setting out for its default");
    value.map(ConfigOperation::Set).ok_or_else(|| KafkaError::new(ResponseError::InvalidConfig, message()))
}

/// Adds a change of one topic setting to `to`.
///
/// # Errors
/// When there is no such setting, or the value is not allowed for batches of at most
/// `batch_bytes_max` bytes.
pub(crate) fn change(
    changes: &mut ConfigChanges,
    name: &str,
    change: ConfigOperation<'_>,
    batch_bytes_most: u32,
) -> Result<(), KafkaError> {
    let invalid = |message: String| KafkaError::new(ResponseError::InvalidConfig, message);
    if let Some(kept) = KEPT.iter().find(|kept| kept.name == name) {
        let value = match change {
            ConfigOperation::Reset => None,
            ConfigOperation::Set(value) if !kept.form.allows(value) || value.len() > KEPT_BYTES_MAX => {
                return Err(invalid(format!("{name} must be {}, got {value:?}", kept.form.description())));
            }
            ConfigOperation::Set(value) => Some(value.to_owned()),
        };
        if kept.setting == KeptSetting::CompressionType {
            changes.honoured.reset = changes.honoured.reset.with(Setting::CompressionType);
        }
        changes.kept.push((kept.setting, value));
        return Ok(());
    }
    let changes = &mut changes.honoured;
    let fixed = FIXED.iter().find(|fixed| fixed.name == name);
    let setting = match (fixed, name) {
        (Some(fixed), _) => fixed.setting,
        (None, "cleanup.policy") => Setting::Cleanup,
        (None, "delete.retention.ms") => Setting::DeleteRetentionMs,
        (None, "max.message.bytes") => Setting::BatchBytesMax,
        (None, "retention.bytes") => Setting::RetentionBytes,
        (None, "retention.ms") => Setting::RetentionMs,
        (None, "message.timestamp.type") => Setting::TimestampType,
        (None, "message.timestamp.after.max.ms") => Setting::TimestampAfterMaxMs,
        (None, "message.timestamp.before.max.ms") => Setting::TimestampBeforeMaxMs,
        _ => return Err(invalid(format!("unknown topic setting {name}"))),
    };
    let ConfigOperation::Set(value) = change else {
        changes.reset = changes.reset.with(setting);
        return Ok(());
    };
    let limit = || match value.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(limit @ 0..) => Ok(Some(limit as u64)),
        _ => Err(invalid(format!("{name} must be -1 for no limit, or at least 0, got {value:?}"))),
    };
    let duration = || {
        let ms = value.parse::<i64>().ok().and_then(|ms| u64::try_from(ms).ok());
        ms.ok_or_else(|| invalid(format!("{name} must be at least 0, got {value:?}")))
    };
    match (setting, fixed) {
        (Setting::RetentionMs, _) => changes.retention_ms = Some(limit()?),
        (Setting::RetentionBytes, _) => changes.retention_bytes = Some(limit()?),
        (Setting::Cleanup, _) => changes.cleanup = Some(cleanup(name, value)?),
        (Setting::DeleteRetentionMs, _) => changes.delete_retention_ms = Some(duration()?),
        (Setting::TimestampType, _) => {
            let found = TimestampType::ALL.into_iter().find(|known| known.to_string() == value);
            let wrong = || invalid(format!("{name} must be CreateTime or LogAppendTime, got {value:?}"));
            changes.timestamp_type = Some(found.ok_or_else(wrong)?);
        }
        (Setting::TimestampAfterMaxMs, _) => changes.timestamp_after_max_ms = Some(duration()?),
        (Setting::TimestampBeforeMaxMs, _) => changes.timestamp_before_max_ms = Some(duration()?),
        (Setting::BatchBytesMax, _) => {
            let most = TopicSettings::default().batch_bytes_max.min(batch_bytes_most);
            let bytes = value.parse::<u32>().ok().filter(|bytes| (1..=most).contains(bytes));
            let wrong = || invalid(format!("{name} must be 1 to {most}, the maximum size of a commit, got {value:?}"));
            changes.batch_bytes_max = Some(bytes.ok_or_else(wrong)?);
        }
        (_, Some(fixed)) if value != fixed.value => {
            return Err(invalid(format!("{name} must be {}, got {value:?}", fixed.value)));
        }
        (_, _) => changes.said = changes.said.with(setting),
    }
    Ok(())
}

/// A change of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListOperation {
    /// Appends the missing entries.
    Append,
    /// Removes the given entries.
    Subtract,
}

/// Adds a change of one topic's list to `to`. `cleanup.policy` is the only list, and `policy` its
/// current value.
///
/// # Errors
/// When the setting is not a list, or the resulting policy does not exist.
pub(crate) fn change_list(
    changes: &mut ConfigChanges,
    name: &str,
    change: ListOperation,
    values: &str,
    now: Cleanup,
) -> Result<(), KafkaError> {
    if name != "cleanup.policy" {
        let verb = match change {
            ListOperation::Append => "append to",
            ListOperation::Subtract => "subtract from",
        };
        let message = format!("can't {verb} {name}: it is not a list");
        return Err(KafkaError::new(ResponseError::InvalidConfig, message));
    }
    let now = now.to_string();
    let mut list: Vec<&str> = now.split(',').collect();
    for value in values.split(',').map(str::trim) {
        match change {
            ListOperation::Append if list.contains(&value) => {}
            ListOperation::Append => list.push(value),
            ListOperation::Subtract => list.retain(|&there| there != value),
        }
    }
    changes.honoured.cleanup = Some(cleanup(name, &list.join(","))?);
    Ok(())
}

fn cleanup(name: &str, value: &str) -> Result<Cleanup, KafkaError> {
    let wrong = || {
        let message = format!("{name} must be delete, compact or both, got {value:?}");
        KafkaError::new(ResponseError::InvalidConfig, message)
    };
    Cleanup::of_name(value).ok_or_else(wrong)
}

/// Resets every Kafka setting of a topic. The compression codec of embedded producers is not a
/// Kafka setting and stays.
pub(crate) fn reset() -> ConfigChanges {
    let honoured = TopicChanges { reset: SettingSet::all().without(Setting::Compression), ..TopicChanges::default() };
    ConfigChanges { honoured, kept: KeptSetting::ALL.map(|setting| (setting, None)).into() }
}

/// The addresses of the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listeners<'b> {
    /// The listeners, in their order.
    pub(crate) own: &'b [BrokerListener],
    /// The listener that the client uses.
    pub(crate) used: usize,
    /// The host and port that the client is given to connect to.
    pub(crate) advertised: (String, u16),
}

/// The settings of the broker.
pub(crate) fn of_broker(settings: &Settings, creates_topics: bool, listeners: &Listeners<'_>) -> Vec<ConfigEntry> {
    let default = Settings::default();
    let (host, port) = &listeners.advertised;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let scheme = |listener: &BrokerListener| if listener.has_tls { "SSL" } else { "PLAINTEXT" };
    let advertised = format!("{}://{host}:{port}", scheme(&listeners.own[listeners.used]));
    let own = listeners.own.iter().map(|listener| format!("{}://{}", scheme(listener), listener.address));
    let own = own.collect::<Vec<_>>().join(",");
    let shown = |name, value: &dyn ToString, default: &dyn ToString, kind, documentation| {
        let (value, default) = (value.to_string(), default.to_string());
        let is_said = value != default;
        ConfigEntry { name, of_broker: name, value, default, is_said, kind, documentation }
    };
    vec![
        shown(
            "advertised.listeners",
            &advertised,
            &own,
            ConfigType::Text,
            "The address that this client is given to connect to.",
        ),
        shown(
            "auto.create.topics.enable",
            &creates_topics,
            &true,
            ConfigType::Boolean,
            "Whether a metadata request creates missing topics.",
        ),
        shown(
            "connections.max.idle.ms",
            &settings.idle_timeout_ms,
            &default.idle_timeout_ms,
            ConfigType::Long,
            "Idle time after which a connection is closed.",
        ),
        shown(
            "fetch.max.bytes",
            &settings.fetch_bytes_max,
            &default.fetch_bytes_max,
            ConfigType::Int,
            "Maximum size of the record batches in a fetch response, in bytes.",
        ),
        shown(
            "group.initial.rebalance.delay.ms",
            &settings.group_initial_delay_ms,
            &default.group_initial_delay_ms,
            ConfigType::Int,
            "How long an empty group waits for further members after the first joins.",
        ),
        shown(
            "group.max.session.timeout.ms",
            &settings.session_timeout_ms_max,
            &default.session_timeout_ms_max,
            ConfigType::Int,
            "Maximum session timeout of a group member.",
        ),
        shown(
            "group.max.size",
            &settings.group_members_max,
            &default.group_members_max,
            ConfigType::Int,
            "Maximum number of members in a group.",
        ),
        shown(
            "group.min.session.timeout.ms",
            &settings.session_timeout_ms_min,
            &default.session_timeout_ms_min,
            ConfigType::Int,
            "Minimum session timeout of a group member.",
        ),
        shown("listeners", &own, &"", ConfigType::Text, "The addresses that the broker listens on."),
        shown(
            "max.connections",
            &settings.connections_max,
            &default.connections_max,
            ConfigType::Int,
            "Maximum number of open connections.",
        ),
        shown(
            "num.partitions",
            &settings.auto_create_partitions,
            &default.auto_create_partitions,
            ConfigType::Int,
            "Default number of partitions of a topic.",
        ),
        shown(
            "queued.max.request.bytes",
            &settings.memory_bytes_max,
            &default.memory_bytes_max,
            ConfigType::Long,
            "Maximum memory of all large requests and responses, in bytes.",
        ),
        shown(
            "socket.request.max.bytes",
            &settings.frame_bytes_max,
            &default.frame_bytes_max,
            ConfigType::Int,
            "Maximum size of a request in bytes.",
        ),
    ]
}
