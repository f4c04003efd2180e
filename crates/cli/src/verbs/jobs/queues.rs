//! `quire jobs queues`: the queues, and changes to a whole queue.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::failure::{CommandError, Result};
use crate::text::counted;
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, list, word};

/// Arguments of `quire jobs queues`. Without any, it lists the queues.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Queues {
    #[command(subcommand)]
    change: Option<QueueCommand>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// The changes to a whole queue.
#[derive(Debug, Subcommand)]
enum QueueCommand {
    /// Pause: give no jobs to workers. Running jobs continue
    Pause(Queue),
    /// Drain: reject new jobs, and keep giving out the present ones
    Drain(Queue),
    /// Resume after a pause or a drain
    Resume(Queue),
    /// Change the given limits
    Limit {
        #[command(flatten)]
        limits: Limits,
        #[command(flatten)]
        queue: Queue,
    },
    /// Cancel every job that is not leased
    Clear(Queue),
    /// Delete the queue and its settings, and cancel all its jobs
    Destroy(Queue),
}

/// The queue, and the output format.
#[derive(Debug, Args)]
struct Queue {
    /// The queue, like air/delays
    queue: String,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// The limits of a queue; `none` removes one.
#[derive(Debug, Args)]
struct Limits {
    /// Most unfinished jobs; further ones are refused
    #[arg(long, value_name = "N", value_parser = number)]
    jobs_max: Option<Value>,
    /// Most active jobs at a time
    #[arg(long, value_name = "N", value_parser = number)]
    active_max: Option<Value>,
    /// Most active jobs of one group at a time
    #[arg(long, value_name = "N", value_parser = number)]
    group_active_max: Option<Value>,
    /// Rate at which jobs start: `COUNT/MS` in any window of that length, or `COUNT/MS/BURST`
    /// evenly with bursts after a rest
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Value>,
    /// Rate at which jobs of one group start, in the same forms
    #[arg(long, value_name = "RATE", value_parser = rate)]
    group_rate: Option<Value>,
    /// Milliseconds to keep a job after it is completed or cancelled
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    retention_ms: Option<Value>,
}

fn number(text: &str) -> Result<Value, String> {
    match text {
        "none" => Ok(Value::Null),
        number => {
            number.parse::<u32>().map(Value::from).map_err(|error| format!("{error}; expected a number or `none`"))
        }
    }
}

fn milliseconds(text: &str) -> Result<Value, String> {
    match text {
        "none" => Ok(Value::Null),
        number => {
            number.parse::<u64>().map(Value::from).map_err(|error| format!("{error}; expected a number or `none`"))
        }
    }
}

fn rate(text: &str) -> Result<Value, String> {
    if text == "none" {
        return Ok(Value::Null);
    }
    let numbers: Result<Vec<u64>, _> = text.split('/').map(str::parse).collect();
    match numbers.as_deref() {
        Ok([count, window_ms]) => Ok(json!({ "sliding_window": { "count": count, "window_ms": window_ms } })),
        Ok([count, per_ms, burst]) => {
            Ok(json!({ "token_bucket": { "count": count, "per_ms": per_ms, "burst": burst } }))
        }
        _ => Err("expected `COUNT/MS`, `COUNT/MS/BURST` or `none`".to_owned()),
    }
}

impl Limits {
    /// The limits in the form of the server: null for none, and no field for an option that was not
    /// given.
    fn json(self) -> Result<Value> {
        let Limits { jobs_max, active_max, group_active_max, rate, group_rate, retention_ms } = self;
        let said = [
            ("jobs_max", jobs_max),
            ("active_max", active_max),
            ("group_active_max", group_active_max),
            ("rate", rate),
            ("group_rate", group_rate),
            ("retention_ms", retention_ms),
        ];
        let said: Map<_, _> = said.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?))).collect();
        if said.is_empty() {
            return Err(CommandError::new("no limit given; `quire jobs queues limit --help` lists the limits"));
        }
        Ok(said.into())
    }
}

impl Queues {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Queues { change, place, form } = self;
        match change {
            None => place.visit(|client| {
                let answer = client.get(&Path::new(&["queues"]))?;
                form.print(out, list(&answer, "data"), line)
            }),
            Some(QueueCommand::Pause(queue)) => queue.set_existing(out, &json!({ "paused": true })),
            Some(QueueCommand::Drain(queue)) => queue.set_existing(out, &json!({ "draining": true })),
            Some(QueueCommand::Resume(queue)) => {
                queue.set_existing(out, &json!({ "paused": false, "draining": false }))
            }
            Some(QueueCommand::Limit { limits, queue }) => queue.set(out, &limits.json()?),
            Some(QueueCommand::Clear(queue)) => {
                queue.cancel(out, |client, name| client.post(&Path::new(&["queues", name, "clear"]), &json!({})))
            }
            Some(QueueCommand::Destroy(queue)) => {
                queue.cancel(out, |client, name| client.delete(&Path::new(&["queues", name])))
            }
        }
    }
}

impl Queue {
    /// Changes settings, and prints the queue. A queue may have limits before its first job.
    fn set(self, out: &mut dyn Write, settings: &Value) -> Result {
        self.set_after(out, settings, |_, _| Ok(()))
    }

    /// As [`Queue::set`]. An unknown queue is an error, and is not created.
    fn set_existing(self, out: &mut dyn Write, settings: &Value) -> Result {
        self.set_after(out, settings, |client, queue| client.get(&Path::new(&["queues", queue])).map(drop))
    }

    fn set_after(
        self,
        out: &mut dyn Write,
        settings: &Value,
        check: impl FnOnce(&HttpClient, &str) -> Result,
    ) -> Result {
        let Queue { queue, place, form } = self;
        place.visit(|client| {
            check(client, &queue)?;
            client.post(&Path::new(&["queues", &queue, "settings"]), settings)?;
            let queue = client.get(&Path::new(&["queues", &queue]))?;
            form.print(out, &[queue], line)
        })
    }

    /// Cancels jobs, and prints their number.
    fn cancel(self, out: &mut dyn Write, cancel: impl FnOnce(&HttpClient, &str) -> Result<Value>) -> Result {
        let Queue { queue, place, form } = self;
        place.visit(|client| {
            let answer = cancel(client, &queue)?;
            form.print(out, &[answer["replies"][0]["cleared"].clone()], |cleared| {
                format!("{} cancelled", counted(cleared["jobs"].as_u64().unwrap_or_default(), "job"))
            })
        })
    }
}

fn line(queue: &Value) -> String {
    let counts = ["scheduled", "pending", "active", "retrying", "held", "completed", "cancelled", "dead"];
    let mut words: Vec<String> = counts.iter().map(|state| format!("{state} {}", word(queue, state))).collect();
    if let Some(settings) = queue["settings"].as_object() {
        words.extend(settings.iter().map(|(name, value)| match value {
            Value::Bool(_) => name.clone(),
            value => format!("{name} {value}"),
        }));
    }
    format!("{:<24} {}", word(queue, "queue"), words.join("  "))
}
