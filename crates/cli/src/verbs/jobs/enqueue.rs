//! `quire jobs enqueue`: one job, with all its options.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::{given, number_or_name};
use crate::failure::Result;
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, word};

/// Arguments of `quire jobs enqueue`.
#[derive(Debug, Args)]
pub(crate) struct Enqueue {
    /// The queue; created when it does not exist
    queue: String,
    /// Payload, as text
    payload: String,
    /// Name of the handler
    #[arg(long)]
    kind: Option<String>,
    /// 0 to 255, the greater first, or critical (255), high (192), normal (128), low (64) [default:
    /// normal]
    #[arg(long, value_name = "N", value_parser = number_or_name)]
    priority: Option<Value>,
    #[command(flatten)]
    times: Times,
    /// Most attempts [default: 5]
    #[arg(long, value_name = "N")]
    attempts_max: Option<u16>,
    #[command(flatten)]
    backoff: Backoff,
    /// Group of the job; groups take turns
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    unique: Unique,
    /// Milliseconds to keep the job after it is completed or cancelled [default: the queue's
    /// setting]
    #[arg(long, value_name = "MS")]
    retention_ms: Option<u64>,
    /// A tag to find the job by; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// When the job runs, and for how long.
#[derive(Debug, Args)]
struct Times {
    /// Milliseconds from now until it may run [default: 0]
    #[arg(long, value_name = "MS", conflicts_with = "run_at_ms")]
    delay_ms: Option<u64>,
    /// Time from which it may run, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    run_at_ms: Option<u64>,
    /// Milliseconds from now within which it must start [default: unlimited]
    #[arg(long, value_name = "MS", conflicts_with = "expires_at_ms")]
    expires_in_ms: Option<u64>,
    /// Time before which it must start, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    expires_at_ms: Option<u64>,
    /// Longest time of one attempt, in milliseconds [default: as long as the lease is extended]
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
}

/// The wait between attempts.
#[derive(Debug, Args)]
struct Backoff {
    /// Growth of the wait [default: exponential]
    #[arg(long, value_enum, value_name = "SHAPE")]
    backoff: Option<Shape>,
    /// First wait, in milliseconds [default: 5000]
    #[arg(long, value_name = "MS")]
    backoff_base_ms: Option<u64>,
    /// Longest wait, in milliseconds [default: 3600000]
    #[arg(long, value_name = "MS")]
    backoff_max_ms: Option<u64>,
    /// List of waits in milliseconds, separated by commas; the last one repeats
    #[arg(long, value_name = "MS,MS", value_delimiter = ',', conflicts_with_all = ["backoff", "backoff_base_ms", "backoff_max_ms"])]
    backoff_list_ms: Option<Vec<u64>>,
    /// Largest random reduction of a wait, in percent [default: 0]
    #[arg(long, value_name = "PERCENT")]
    jitter_percent: Option<u8>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shape {
    /// No wait
    None,
    /// The same wait each time
    Fixed,
    /// Longer by the first wait each time
    Linear,
    /// Twice as long each time
    Exponential,
}

/// The unique key of the job.
#[derive(Debug, Args)]
struct Unique {
    /// Key that only one job of the queue may have at a time; a duplicate returns the id of that
    /// job
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
    /// Scope in which the key is unique [default: queue]
    #[arg(long, value_enum, value_name = "WHERE", requires = "unique")]
    unique_scope: Option<Scope>,
    /// How long the job holds the key [default: until-finished]
    #[arg(long, value_enum, value_name = "UNTIL", requires = "unique", conflicts_with = "unique_hold_ms")]
    unique_hold: Option<Hold>,
    /// Milliseconds for which the job holds the key, whatever its state
    #[arg(long, value_name = "MS", requires = "unique")]
    unique_hold_ms: Option<u64>,
    /// Action when another job holds the key [default: keep]
    #[arg(long, value_enum, value_name = "WHAT", requires = "unique")]
    unique_clash: Option<Clash>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scope {
    /// Unique in its queue
    Queue,
    /// Unique in all queues
    Everywhere,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Hold {
    /// Until the job is completed, cancelled or dead
    UntilFinished,
    /// Until a worker fetches the job
    UntilStarted,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Clash {
    /// Keep the other job, and print its id
    Keep,
    /// Refuse the new job
    Reject,
    /// Replace the other job with the new one
    Replace,
    /// Give the other job the run time and key time of the new one
    Extend,
}

/// The server's name of a choice.
fn word_of(choice: Option<impl ValueEnum>) -> Value {
    let value = choice.and_then(|choice| choice.to_possible_value());
    value.map_or(Value::Null, |value| json!(value.get_name().replace('-', "_")))
}

impl Unique {
    fn json(self) -> Value {
        let Unique { unique, unique_scope, unique_hold, unique_hold_ms, unique_clash } = self;
        let Some(key) = unique else { return Value::Null };
        given([
            ("key", json!(key)),
            ("scope", word_of(unique_scope)),
            ("hold", word_of(unique_hold)),
            ("hold_ms", json!(unique_hold_ms)),
            ("clash", word_of(unique_clash)),
        ])
        .into()
    }
}

impl Enqueue {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let Enqueue {
            queue,
            payload,
            kind,
            priority,
            times: Times { delay_ms, run_at_ms, expires_in_ms, expires_at_ms, timeout_ms },
            attempts_max,
            backoff: Backoff { backoff, backoff_base_ms, backoff_max_ms, backoff_list_ms, jitter_percent },
            group,
            unique,
            retention_ms,
            tags,
            place,
            form,
        } = self;
        let job: Map<String, Value> = given([
            ("queue", json!(queue)),
            ("payload_text", json!(payload)),
            ("kind", json!(kind)),
            ("priority", json!(priority)),
            ("delay_ms", json!(delay_ms)),
            ("run_at_ms", json!(run_at_ms)),
            ("expires_in_ms", json!(expires_in_ms)),
            ("expires_at_ms", json!(expires_at_ms)),
            ("timeout_ms", json!(timeout_ms)),
            ("attempts_max", json!(attempts_max)),
            ("backoff", word_of(backoff)),
            ("backoff_base_ms", json!(backoff_base_ms)),
            ("backoff_max_ms", json!(backoff_max_ms)),
            ("backoff_list_ms", json!(backoff_list_ms)),
            ("jitter_percent", json!(jitter_percent)),
            ("group", json!(group)),
            ("unique", unique.json()),
            ("retention_ms", json!(retention_ms)),
            ("tags", json!(tags)),
        ]);
        place.visit(|client| {
            let answer = client.post(&Path::new(&["commit"]), &json!({ "parts": [{ "enqueue": job }] }))?;
            let enqueued = &answer["replies"][0]["enqueued"];
            form.print(out, std::slice::from_ref(enqueued), |enqueued| {
                let was_there = if enqueued["duplicate"] == true { ", which was there" } else { "" };
                format!("{}{was_there}", word(enqueued, "job"))
            })
        })
    }
}
