//! `quire groups`: consumer groups, how far they are behind, and where they go on.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::client::{Client, Path};
use super::place::Place;
use super::print::{Form, list, word};
use super::topics::{commit, offset_at_time, partitions};
use crate::failure::{Failure, Result};
use crate::text::counted;

/// What `quire groups` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Groups {
    /// List the groups
    List {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
    /// Show where a group goes on, and how much it has still to read
    Describe {
        /// The group
        group: String,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
    /// Have a group go on elsewhere in a topic; members that are reading notice only when they join again
    Reset(Reset),
}

/// What `quire groups reset` takes.
#[derive(Debug, Args)]
pub(crate) struct Reset {
    /// The group
    group: String,
    /// The topic
    topic: String,
    /// Only this partition [default: all]
    #[arg(long, value_name = "N")]
    partition: Option<u64>,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

/// Where a group is to go on.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct To {
    /// At the first message there is
    #[arg(long)]
    to_start: bool,
    /// Behind the last message
    #[arg(long)]
    to_end: bool,
    /// At this offset
    #[arg(long, value_name = "OFFSET", requires = "partition")]
    to_offset: Option<u64>,
    /// At the first message that is not earlier, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    to_time: Option<i64>,
}

impl Groups {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            Groups::List { place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["groups"]))?;
                form.print(out, list(&answer, "groups"), |group| {
                    let partitions = counted(group["partitions"].as_u64().unwrap_or_default(), "partition");
                    format!("{:<32} {partitions}", word(group, "group"))
                })
            }),
            Groups::Describe { group, place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["groups", &group]))?;
                form.print(out, list(&answer, "offsets"), line)
            }),
            Groups::Reset(reset) => reset.run(out),
        }
    }
}

impl Reset {
    fn run(self, out: &mut dyn Write) -> Result {
        let Reset { group, topic, partition, to, place, form } = self;
        place.visit(|client| {
            let all = partitions(client, &topic)?;
            let wanted = |it: &&Value| partition.is_none() || partition == it["partition"].as_u64();
            let parts = all.iter().filter(wanted).map(|it| {
                let offset = to.offset(client, &topic, it)?;
                let partition = &it["partition"];
                Ok(json!({ "commit_offset": { "group": group, "topic": topic, "partition": partition, "offset": offset } }))
            });
            let parts = parts.collect::<Result<Vec<_>>>()?;
            if parts.is_empty() {
                return Err(Failure::new(format!("{topic} has {}", counted(all.len() as u64, "partition"))));
            }
            commit(client, &parts)?;
            let answer = client.get(&Path::new(&["groups", &group]))?;
            let of_topic: Vec<Value> =
                list(&answer, "offsets").iter().filter(|offset| offset["topic"] == topic.as_str()).cloned().collect();
            form.print(out, &of_topic, line)
        })
    }
}

impl To {
    /// The offset in a partition, of which it is known where it begins and ends.
    fn offset(&self, client: &Client, topic: &str, partition: &Value) -> Result<u64> {
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
    let (topic, partition) = (word(offset, "topic"), word(offset, "partition"));
    let (at, next, lag) = (word(offset, "offset"), word(offset, "next"), word(offset, "lag"));
    format!("{topic:<32} partition {partition:>5}  at offset {at:>10}  next {next:>10}  lag {lag:>10}")
}
