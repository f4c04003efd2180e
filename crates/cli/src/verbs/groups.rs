//! `quire groups`: consumer groups, their lag and their offsets.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{HttpClient, Path};
use super::consume::offset_at_time;
use super::names::check_store;
use super::place::DatabaseArgs;
use super::print::{OutputForm, list, word};
use super::topics::{commit, partitions};
use crate::failure::{CommandError, Result};
use crate::text::counted;

/// The commands of `quire groups`.
#[derive(Debug, Subcommand)]
pub(crate) enum Groups {
    /// List the groups
    List {
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// Show the leased members of a group, its offsets and its lag
    Describe {
        /// The group
        group: String,
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// Delete a group and its offsets
    Delete {
        /// The group
        group: String,
        /// Delete it also when it has members, or when its coordinator was killed while it had some
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: DatabaseArgs,
    },
    /// Reset a consumer group's offsets. Stop its members first; running ones do not notice
    Reset(Reset),
}

/// Arguments of `quire groups reset`.
#[derive(Debug, Args)]
pub(crate) struct Reset {
    /// The group
    group: String,
    /// The topic; with --store, the event store; with --queue, the queue
    topic: String,
    /// Reset the group's position in an event store, as Kafka clients read it
    #[arg(long, conflicts_with_all = ["partition", "to_time"])]
    store: bool,
    /// Reset the group's position in a queue's life-cycle events, as Kafka clients read them
    #[arg(long, conflicts_with_all = ["partition", "to_time", "store"])]
    queue: bool,
    /// Reset only this partition [default: all]
    #[arg(long, value_name = "N")]
    partition: Option<u64>,
    #[command(flatten)]
    to: NewOffset,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// The new offset of a group.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct NewOffset {
    /// The first message
    #[arg(long)]
    to_start: bool,
    /// The end, after the last message
    #[arg(long)]
    to_end: bool,
    /// This offset, in one partition, an event store or a queue
    #[arg(long, value_name = "OFFSET")]
    to_offset: Option<u64>,
    /// The first message that is not earlier than this time, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    to_time: Option<i64>,
}

impl Groups {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            Groups::List { place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["groups"]))?;
                form.print(out, list(&answer, "data"), |group| {
                    let partitions = counted(group["partitions"].as_u64().unwrap_or_default(), "partition");
                    let members = counted(group["members"].as_u64().unwrap_or_default(), "member");
                    format!("{:<32} {partitions}, {members} by lease", word(group, "group"))
                })
            }),
            Groups::Delete { group, force, place } => place.visit(|client| {
                commit(client, &[json!({ "delete_group": { "group": group, "force": force } })])?;
                Ok(writeln!(out, "deleted {group}")?)
            }),
            Groups::Describe { group, place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["groups", &group]))?;
                form.print(out, list(&answer, "members"), |member| {
                    let partitions = counted(list(member, "partitions").len() as u64, "partition");
                    let (number, name) = (word(member, "member"), word(member, "name"));
                    format!("{:<32} member {number} {name} reads {partitions}", word(member, "topic"))
                })?;
                form.print(out, list(&answer, "offsets"), line)
            }),
            Groups::Reset(reset) => reset.run(out),
        }
    }
}

impl Reset {
    fn run(self, out: &mut dyn Write) -> Result {
        let Reset { group, topic, store, queue, partition, to, place, form } = self;
        if to.to_offset.is_some() && partition.is_none() && !store && !queue {
            return Err(CommandError::new("--to-offset needs --partition"));
        }
        place.visit(|client| {
            if store {
                let head = client.get(&Path::new(&["events", &topic, "head"]))?;
                if head["head"] == 0 {
                    check_store(client, &topic)?;
                }
                let next = head["head"].as_u64().unwrap_or_default() + 1;
                let offset = to.to_offset.unwrap_or(if to.to_start { 1 } else { next });
                client.post(&Path::new(&["groups", &group, "stores", &topic]), &json!({ "offset": offset }))?;
                return print_offsets(client, &group, ("store", &topic), form, out);
            }
            if queue {
                let end = if to.to_start { "start" } else { "end" };
                let next = to.to_offset.map_or_else(|| json!({ "to": end }), |offset| json!({ "offset": offset }));
                client.post(&Path::new(&["groups", &group, "queues", &topic]), &next)?;
                return print_offsets(client, &group, ("queue", &topic), form, out);
            }
            let all = partitions(client, &topic)?;
            let wanted = |it: &&Value| partition.is_none() || partition == it["partition"].as_u64();
            let parts = all.iter().filter(wanted).map(|it| {
                let offset = to.offset(client, &topic, it)?;
                let partition = &it["partition"];
                Ok(json!({ "commit_offset": { "group": group, "topic": topic, "partition": partition, "offset": offset } }))
            });
            let parts = parts.collect::<Result<Vec<_>>>()?;
            if parts.is_empty() {
                return Err(CommandError::new(format!("{topic} has {}", counted(all.len() as u64, "partition"))));
            }
            commit(client, &parts)?;
            print_offsets(client, &group, ("topic", &topic), form, out)
        })
    }
}

/// Prints the new offset in a topic or store.
fn print_offsets(
    client: &HttpClient,
    group: &str,
    (kind, name): (&str, &str),
    form: OutputForm,
    out: &mut dyn Write,
) -> Result {
    let answer = client.get(&Path::new(&["groups", group]))?;
    let of_source = list(&answer, "offsets").iter().filter(|offset| offset[kind] == name);
    form.print(out, &of_source.cloned().collect::<Vec<_>>(), line)
}

impl NewOffset {
    /// The new offset in a partition with known bounds.
    fn offset(&self, client: &HttpClient, topic: &str, partition: &Value) -> Result<u64> {
        let end = if self.to_start { "start" } else { "next" };
        match (self.to_offset, self.to_time) {
            (Some(offset), _) => Ok(offset),
            (None, Some(time_ms)) => {
                offset_at_time(client, topic, partition["partition"].as_u64().unwrap_or_default(), time_ms)
            }
            (None, None) => Ok(partition[end].as_u64().unwrap_or_default()),
        }
    }
}

fn line(offset: &Value) -> String {
    let kind = ["topic", "store"].into_iter().find(|kind| !offset[kind].is_null()).unwrap_or("queue");
    let (topic, partition) = (word(offset, kind), word(offset, "partition"));
    let (at, next, lag) = (word(offset, "offset"), word(offset, "next"), word(offset, "lag"));
    let mut line = format!("{topic:<32} partition {partition:>5}  at offset {at:>10}  next {next:>10}  lag {lag:>10}");
    let number = |name: &str| offset[name].as_u64().unwrap_or_default();
    let lost = number("start").saturating_sub(number("offset"));
    if lost > 0 && kind == "topic" {
        line += &format!("  deleted before it was read {lost:>10}");
    }
    line
}
