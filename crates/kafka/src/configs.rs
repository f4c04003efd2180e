//! Settings under Kafka's names: those of topics, which can be changed, and those of the broker, which can be looked at.

use kafka_protocol::ResponseError;
use quire::streams::{Cleanup, Setting, SettingSet, TopicChanges, TopicSettings};

use crate::Settings;
use crate::errors::Failure;

/// A setting as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) name: &'static str,
    /// Its name among the broker's settings, where Kafka has the default of a topic's.
    pub(crate) of_broker: &'static str,
    pub(crate) value: String,
    /// What it is when nothing is said.
    pub(crate) default: String,
    /// Whether somebody chose it, be it as it is by default. Of the broker's, only one that differs is known to be chosen.
    pub(crate) is_said: bool,
    pub(crate) kind: Kind,
    pub(crate) documentation: &'static str,
}

/// What a value is, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean = 1,
    Text = 2,
    Int = 3,
    Long = 5,
    List = 7,
}

/// How a setting is to change, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'c> {
    Set(&'c str),
    Reset,
}

/// A setting of topics that has one value here, which may be said and not changed.
struct Fixed {
    name: &'static str,
    of_broker: &'static str,
    value: &'static str,
    kind: Kind,
    documentation: &'static str,
    setting: Setting,
}

const FIXED: [Fixed; 3] = [
    Fixed {
        name: "compression.type",
        of_broker: "compression.type",
        value: "producer",
        kind: Kind::Text,
        documentation: "Batches are stored as their producers compressed them.",
        setting: Setting::CompressionType,
    },
    Fixed {
        name: "message.timestamp.type",
        of_broker: "log.message.timestamp.type",
        value: "CreateTime",
        kind: Kind::Text,
        documentation: "Records have the times that their producers gave them.",
        setting: Setting::TimestampType,
    },
    Fixed {
        name: "min.insync.replicas",
        of_broker: "min.insync.replicas",
        value: "1",
        kind: Kind::Int,
        documentation: "There is one copy.",
        setting: Setting::MinInsyncReplicas,
    },
];

/// The settings of a topic, in a database whose batches have so many bytes at most.
pub(crate) fn of_topic(settings: &TopicSettings, batch_bytes_most: u32) -> Vec<Shown> {
    let default = TopicSettings::default();
    let or_none = |limit: Option<u64>| limit.map_or_else(|| String::from("-1"), |limit| limit.to_string());
    let most = |bytes: u32| bytes.min(batch_bytes_most).to_string();
    let mut shown = vec![
        Shown {
            name: "cleanup.policy",
            of_broker: "log.cleanup.policy",
            value: settings.cleanup.to_string(),
            default: default.cleanup.to_string(),
            is_said: settings.is_said(Setting::Cleanup),
            kind: Kind::List,
            documentation: "Whether records go by age and size (delete), when their key has a newer one (compact), or by both.",
        },
        Shown {
            name: "delete.retention.ms",
            of_broker: "log.cleaner.delete.retention.ms",
            value: settings.delete_retention_ms.to_string(),
            default: default.delete_retention_ms.to_string(),
            is_said: settings.is_said(Setting::DeleteRetentionMs),
            kind: Kind::Long,
            documentation: "For how long a compacted topic tells that a key is gone.",
        },
        Shown {
            name: "max.message.bytes",
            of_broker: "message.max.bytes",
            value: most(settings.batch_bytes_max),
            default: most(default.batch_bytes_max),
            is_said: settings.is_said(Setting::BatchBytesMax),
            kind: Kind::Int,
            documentation: "The most bytes of a record batch; no more than a commit of the database takes, which is the default.",
        },
        Shown {
            name: "retention.bytes",
            of_broker: "log.retention.bytes",
            value: or_none(settings.retention_bytes),
            default: or_none(default.retention_bytes),
            is_said: settings.is_said(Setting::RetentionBytes),
            kind: Kind::Long,
            documentation: "How many bytes each partition keeps at least; -1: all.",
        },
        Shown {
            name: "retention.ms",
            of_broker: "log.retention.ms",
            value: or_none(settings.retention_ms),
            default: or_none(default.retention_ms),
            is_said: settings.is_said(Setting::RetentionMs),
            kind: Kind::Long,
            documentation: "For how many milliseconds records are kept; -1: for ever.",
        },
    ];
    shown.extend(FIXED.map(|Fixed { name, of_broker, value, kind, documentation, setting }| Shown {
        name,
        of_broker,
        value: value.to_owned(),
        default: value.to_owned(),
        is_said: settings.is_said(setting),
        kind,
        documentation,
    }));
    shown.sort_unstable_by_key(|shown| shown.name);
    shown
}

/// What is asked for by this value of a setting, where every setting that is named has one.
///
/// # Errors
/// When it has none; as in Kafka, that does not stand for the default.
pub(crate) fn set<'v>(name: &str, value: Option<&'v str>) -> Result<Change<'v>, Failure> {
    let message = || format!("{name} has no value; left out, it has its default");
    value.map(Change::Set).ok_or_else(|| Failure::new(ResponseError::InvalidConfig, message()))
}

/// Adds a change of a topic's setting to others.
///
/// # Errors
/// When there is no such setting, or it can't have this value where batches have so many bytes at most.
pub(crate) fn change(
    changes: &mut TopicChanges,
    name: &str,
    change: Change<'_>,
    batch_bytes_most: u32,
) -> Result<(), Failure> {
    let invalid = |message: String| Failure::new(ResponseError::InvalidConfig, message);
    let fixed = FIXED.iter().find(|fixed| fixed.name == name);
    let setting = match (fixed, name) {
        (Some(fixed), _) => fixed.setting,
        (None, "cleanup.policy") => Setting::Cleanup,
        (None, "delete.retention.ms") => Setting::DeleteRetentionMs,
        (None, "max.message.bytes") => Setting::BatchBytesMax,
        (None, "retention.bytes") => Setting::RetentionBytes,
        (None, "retention.ms") => Setting::RetentionMs,
        _ => return Err(invalid(format!("topics have no setting {name} here"))),
    };
    let Change::Set(value) = change else {
        changes.reset = changes.reset.with(setting);
        return Ok(());
    };
    let limit = || match value.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(limit @ 0..) => Ok(Some(limit as u64)),
        _ => Err(invalid(format!("{name} is -1 for no limit or at least 0, and can't be {value:?}"))),
    };
    match (setting, fixed) {
        (Setting::RetentionMs, _) => changes.retention_ms = Some(limit()?),
        (Setting::RetentionBytes, _) => changes.retention_bytes = Some(limit()?),
        (Setting::Cleanup, _) => changes.cleanup = Some(cleanup(name, value)?),
        (Setting::DeleteRetentionMs, _) => {
            let ms = value.parse::<i64>().ok().and_then(|ms| u64::try_from(ms).ok());
            let wrong = || invalid(format!("{name} is at least 0, and can't be {value:?}"));
            changes.delete_retention_ms = Some(ms.ok_or_else(wrong)?);
        }
        (Setting::BatchBytesMax, _) => {
            let most = TopicSettings::default().batch_bytes_max.min(batch_bytes_most);
            let bytes = value.parse::<u32>().ok().filter(|bytes| (1..=most).contains(bytes));
            let wrong = || {
                invalid(format!(
                    "{name} is 1 to {most}, as much as a commit of this database takes, and can't be {value:?}"
                ))
            };
            changes.batch_bytes_max = Some(bytes.ok_or_else(wrong)?);
        }
        (_, Some(fixed)) if value != fixed.value => {
            return Err(invalid(format!("{name} is {} here, and can't be {value:?}", fixed.value)));
        }
        (_, _) => changes.said = changes.said.with(setting),
    }
    Ok(())
}

/// How what a list holds is to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListChange {
    /// What is missing is appended.
    Append,
    /// What is there is taken out.
    Subtract,
}

/// Adds a change of a topic's list to others: `cleanup.policy` is the only one, and this the topic's.
///
/// # Errors
/// When the setting is not a list, or there is no such policy as it would come to.
pub(crate) fn change_list(
    changes: &mut TopicChanges,
    name: &str,
    change: ListChange,
    values: &str,
    now: Cleanup,
) -> Result<(), Failure> {
    if name != "cleanup.policy" {
        let verb = match change {
            ListChange::Append => "append to",
            ListChange::Subtract => "subtract from",
        };
        let message = format!("can't {verb} {name}, which is not a list");
        return Err(Failure::new(ResponseError::InvalidConfig, message));
    }
    let now = now.to_string();
    let mut list: Vec<&str> = now.split(',').collect();
    for value in values.split(',').map(str::trim) {
        match change {
            ListChange::Append if list.contains(&value) => {}
            ListChange::Append => list.push(value),
            ListChange::Subtract => list.retain(|&there| there != value),
        }
    }
    changes.cleanup = Some(cleanup(name, &list.join(","))?);
    Ok(())
}

fn cleanup(name: &str, value: &str) -> Result<Cleanup, Failure> {
    let wrong = || {
        let message = format!("{name} is delete, compact or both, and can't be {value:?}");
        Failure::new(ResponseError::InvalidConfig, message)
    };
    Cleanup::of_name(value).ok_or_else(wrong)
}

/// Changes that have nothing be said of any of Kafka's settings. What embedded producers compress with is none of these.
pub(crate) fn reset() -> TopicChanges {
    TopicChanges { reset: SettingSet::all().without(Setting::Compression), ..TopicChanges::default() }
}

/// The settings of the broker.
pub(crate) fn of_broker(settings: &Settings) -> Vec<Shown> {
    let default = Settings::default();
    let shown = |name, value: &dyn ToString, default: &dyn ToString, kind, documentation| {
        let (value, default) = (value.to_string(), default.to_string());
        let is_said = value != default;
        Shown { name, of_broker: name, value, default, is_said, kind, documentation }
    };
    vec![
        shown(
            "auto.create.topics.enable",
            &settings.auto_create_topics,
            &default.auto_create_topics,
            Kind::Boolean,
            "Whether a topic that is asked about is created.",
        ),
        shown(
            "connections.max.idle.ms",
            &settings.idle_timeout_ms,
            &default.idle_timeout_ms,
            Kind::Long,
            "After how long a silent connection is closed.",
        ),
        shown(
            "fetch.max.bytes",
            &settings.fetch_bytes_max,
            &default.fetch_bytes_max,
            Kind::Int,
            "The most bytes of record batches in an answer.",
        ),
        shown(
            "group.initial.rebalance.delay.ms",
            &settings.group_initial_delay_ms,
            &default.group_initial_delay_ms,
            Kind::Int,
            "How long an empty group waits for others when one joins.",
        ),
        shown(
            "group.max.session.timeout.ms",
            &settings.session_timeout_ms_max,
            &default.session_timeout_ms_max,
            Kind::Int,
            "The longest time that a member may be silent.",
        ),
        shown(
            "group.max.size",
            &settings.group_members_max,
            &default.group_members_max,
            Kind::Int,
            "The most members of a group.",
        ),
        shown(
            "group.min.session.timeout.ms",
            &settings.session_timeout_ms_min,
            &default.session_timeout_ms_min,
            Kind::Int,
            "The shortest time that a member may choose to be silent.",
        ),
        shown(
            "max.connections",
            &settings.connections_max,
            &default.connections_max,
            Kind::Int,
            "The most connections at a time.",
        ),
        shown(
            "num.partitions",
            &settings.auto_create_partitions,
            &default.auto_create_partitions,
            Kind::Int,
            "How many partitions a topic has when it is not said.",
        ),
        shown(
            "queued.max.request.bytes",
            &settings.memory_bytes_max,
            &default.memory_bytes_max,
            Kind::Long,
            "The most bytes that large requests and answers take together.",
        ),
        shown(
            "socket.request.max.bytes",
            &settings.frame_bytes_max,
            &default.frame_bytes_max,
            Kind::Int,
            "The most bytes of a request.",
        ),
    ]
}
