//! `quire topics`: topics, their settings and the bounds of their partitions.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{HttpClient, Path};
use super::place::DatabaseArgs;
use super::print::{OutputForm, list, word};
use crate::failure::{CommandError, Result};
use crate::text::counted;

/// The commands of `quire topics`.
#[derive(Debug, Subcommand)]
pub(crate) enum Topics {
    /// List the topics
    List {
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// Show the settings of a topic and the bounds of its partitions
    Describe {
        /// The topic
        topic: String,
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// Create a topic
    Create {
        /// The topic
        topic: String,
        /// Number of partitions
        #[arg(long, value_name = "N", default_value = "1")]
        partitions: u32,
        #[command(flatten)]
        settings: Settings,
        /// Keep messages that this group has not read, whatever the retention; may be given several
        /// times
        #[arg(long, value_name = "GROUP")]
        protect: Vec<String>,
        #[command(flatten)]
        place: DatabaseArgs,
    },
    /// Change the settings of a topic, or add partitions
    Alter {
        /// The topic
        topic: String,
        /// New number of partitions
        #[arg(long, value_name = "N")]
        partitions: Option<u32>,
        #[command(flatten)]
        settings: Settings,
        /// Keep messages that this group has not read, whatever the retention; may be given several
        /// times
        #[arg(long, value_name = "GROUP")]
        protect: Vec<String>,
        /// Stop keeping messages that this group has not read; may be given several times
        #[arg(long, value_name = "GROUP")]
        unprotect: Vec<String>,
        #[command(flatten)]
        place: DatabaseArgs,
    },
    /// Delete a topic, its messages and the offsets of its groups
    Delete {
        /// The topic
        topic: String,
        #[command(flatten)]
        place: DatabaseArgs,
    },
}

/// The settings of a topic.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// Retention time in milliseconds; `none` keeps messages forever. Checked once a minute
    #[arg(long, value_name = "MS", value_parser = limit)]
    retention_ms: Option<LimitValue>,
    /// Retention size of each partition in bytes; `none` keeps all messages. Checked once a minute
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    retention_bytes: Option<LimitValue>,
    /// Largest batch in bytes; `none` for the default
    #[arg(long, value_name = "BYTES", value_parser = limit)]
    batch_bytes_max: Option<LimitValue>,
    /// Codec for batches of producers that do not compress: Quire's own and those over HTTP
    #[arg(long, value_name = "CODEC", value_parser = ["none", "gzip", "snappy", "lz4", "zstd"])]
    compression: Option<String>,
    /// Delete messages by retention, compact them by key, or both
    #[arg(long, value_name = "HOW", value_parser = ["delete", "compact", "compact,delete"])]
    cleanup: Option<String>,
    /// Milliseconds that a compacted topic keeps a tombstone; `none` for the default
    #[arg(long, value_name = "MS", value_parser = limit)]
    delete_retention_ms: Option<LimitValue>,
    /// Milliseconds that the time of a message may be ahead; `none` for the default, an hour
    #[arg(long, value_name = "MS", value_parser = limit)]
    timestamp_after_max_ms: Option<LimitValue>,
    /// Milliseconds that the time of a message may be in the past; `none` for any
    #[arg(long, value_name = "MS", value_parser = limit)]
    timestamp_before_max_ms: Option<LimitValue>,
}

/// A number, or none.
#[derive(Debug, Clone, Copy)]
struct LimitValue(Option<u64>);

fn limit(text: &str) -> Result<LimitValue, String> {
    match text {
        "none" => Ok(LimitValue(None)),
        number => number
            .parse()
            .map(|number| LimitValue(Some(number)))
            .map_err(|error| format!("{error}; expected a number or `none`")),
    }
}

impl Settings {
    /// The settings in the form of the server: null for none, and no field for an option that was
    /// not given.
    fn json(&self) -> Value {
        let said = [
            ("retention_ms", self.retention_ms),
            ("retention_bytes", self.retention_bytes),
            ("batch_bytes_max", self.batch_bytes_max),
            ("delete_retention_ms", self.delete_retention_ms),
            ("timestamp_after_max_ms", self.timestamp_after_max_ms),
            ("timestamp_before_max_ms", self.timestamp_before_max_ms),
        ];
        let named = [("compression", &self.compression), ("cleanup", &self.cleanup)];
        let named = named.into_iter().filter_map(|(name, chosen)| Some((name.to_owned(), json!(chosen.as_ref()?))));
        said.into_iter()
            .filter_map(|(name, limit)| Some((name.to_owned(), json!(limit?.0))))
            .chain(named)
            .collect::<Map<_, _>>()
            .into()
    }
}

impl Topics {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            Topics::List { place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["topics"]))?;
                form.print(out, list(&answer, "data"), |topic| {
                    let partitions = counted(topic["partitions"].as_u64().unwrap_or_default(), "partition");
                    format!("{:<32} {partitions}", word(topic, "topic"))
                })
            }),
            Topics::Describe { topic, place, form } => place.visit(|client| {
                let mut answer = client.get(&Path::new(&["topics", &topic]))?;
                let partitions = answer["partitions"].take();
                form.print(out, std::slice::from_ref(&answer), shown)?;
                form.print(out, partitions.as_array().map_or(&[], Vec::as_slice), |partition| {
                    let [number, start, next, bytes] =
                        ["partition", "start", "next", "bytes"].map(|name| word(partition, name));
                    let unreadable = match &partition["unreadable"] {
                        Value::String(why) => format!("  unreadable: {why}"),
                        _ => String::new(),
                    };
                    format!(
                        "partition {number:>5}  from offset {start:>10}  next {next:>10}  bytes {bytes:>12}{unreadable}"
                    )
                })
            }),
            Topics::Create { topic, partitions, settings, protect, place } => place.visit(|client| {
                let created = json!({ "name": topic, "partitions": partitions, "settings": settings.json() });
                let kept = protect.iter().map(|group| protection(&topic, group, true));
                let parts: Vec<Value> = [json!({ "create_topic": created })].into_iter().chain(kept).collect();
                commit(client, &parts)?;
                Ok(writeln!(out, "created {topic} with {}", counted(partitions.into(), "partition"))?)
            }),
            Topics::Alter { topic, partitions, settings, protect, unprotect, place } => place.visit(|client| {
                let settings = settings.json();
                let more = partitions.map(|partitions| json!({ "topic": topic, "partitions": partitions }));
                let set = (settings != json!({})).then(|| json!({ "topic": topic, "settings": settings }));
                let kept = protect.iter().map(|group| protection(&topic, group, true));
                let kept = kept.chain(unprotect.iter().map(|group| protection(&topic, group, false)));
                let altered = [more, set].into_iter().flatten().map(|part| json!({ "alter_topic": part }));
                let parts: Vec<Value> = altered.chain(kept).collect();
                if parts.is_empty() {
                    return Err(CommandError::new(
                        "there is nothing to change: say --partitions, --protect, --unprotect or a setting",
                    ));
                }
                commit(client, &parts)?;
                Ok(writeln!(out, "altered {topic}")?)
            }),
            Topics::Delete { topic, place } => place.visit(|client| {
                commit(client, &[json!({ "delete_topic": { "topic": topic } })])?;
                Ok(writeln!(out, "deleted {topic}")?)
            }),
        }
    }
}

/// The part of a commit that protects unread messages of a group, or stops protecting them.
fn protection(topic: &str, group: &str, protects: bool) -> Value {
    json!({ "protect_unread": { "group": group, "topic": topic, "protects": protects } })
}

/// Commits the parts, all or none.
pub(super) fn commit(client: &HttpClient, parts: &[Value]) -> Result<Value> {
    client.post(&Path::new(&["commit"]), &json!({ "parts": parts }))
}

pub(super) fn partitions(client: &HttpClient, topic: &str) -> Result<Vec<Value>> {
    let mut answer = client.get(&Path::new(&["topics", topic]))?;
    match answer["partitions"].take() {
        Value::Array(partitions) => Ok(partitions),
        _ => Ok(Vec::new()),
    }
}

/// The settings of a topic, for people.
fn shown(topic: &Value) -> String {
    let settings = &topic["settings"];
    let said = |name: &str| match &settings[name] {
        Value::Null => format!("{name} none"),
        _ => format!("{name} {}", word(settings, name)),
    };
    let names = ["retention_ms", "retention_bytes", "batch_bytes_max", "compression", "cleanup", "delete_retention_ms"];
    let settings = names.map(said).join("  ");
    let groups: Vec<&str> = list(topic, "protected_for").iter().filter_map(Value::as_str).collect();
    let kept = if groups.is_empty() { String::new() } else { format!("  kept for {}", groups.join(", ")) };
    format!("{settings}{kept}")
}
