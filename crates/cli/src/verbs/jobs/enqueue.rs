//! `quire jobs enqueue`: one job, with all that can be said of it.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::{given, number_or_name};
use crate::failure::Result;
use crate::verbs::client::Path;
use crate::verbs::place::Place;
use crate::verbs::print::{Form, word};

/// What `quire jobs enqueue` takes.
#[derive(Debug, Args)]
pub(crate) struct Enqueue {
    /// The queue; one that is not there is created
    queue: String,
    /// The payload, as text
    payload: String,
    /// The name of the handler
    #[arg(long)]
    kind: Option<String>,
    /// 0 to 255, the greater goes first, or critical (255), high (192), normal (128), low (64) [default: normal]
    #[arg(long, value_name = "N", value_parser = number_or_name)]
    priority: Option<Value>,
    #[command(flatten)]
    times: Times,
    /// How many attempts it gets [default: 5]
    #[arg(long, value_name = "N")]
    attempts_max: Option<u16>,
    #[command(flatten)]
    backoff: Backoff,
    /// Whose job it is: groups take turns
    #[arg(long)]
    group: Option<String>,
    #[command(flatten)]
    unique: Unique,
    /// How long it is found once it is completed or cancelled, in milliseconds [default: as its queue says]
    #[arg(long, value_name = "MS")]
    retention_ms: Option<u64>,
    /// A word to find it by; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

/// When it runs, and for how long.
#[derive(Debug, Args)]
struct Times {
    /// Run it so many milliseconds from now [default: at once]
    #[arg(long, value_name = "MS", conflicts_with = "run_at_ms")]
    delay_ms: Option<u64>,
    /// Run it at this time, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    run_at_ms: Option<u64>,
    /// Begin it no later than so many milliseconds from now [default: whenever]
    #[arg(long, value_name = "MS", conflicts_with = "expires_at_ms")]
    expires_in_ms: Option<u64>,
    /// Begin it before this time, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    expires_at_ms: Option<u64>,
    /// How long one attempt may take, in milliseconds [default: as long as its lease is kept]
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
}

/// How long it waits between attempts.
#[derive(Debug, Args)]
struct Backoff {
    /// How the wait between attempts grows [default: exponential]
    #[arg(long, value_enum, value_name = "SHAPE")]
    backoff: Option<Shape>,
    /// The first wait, in milliseconds [default: 5000]
    #[arg(long, value_name = "MS")]
    backoff_base_ms: Option<u64>,
    /// The longest wait, in milliseconds [default: 3600000]
    #[arg(long, value_name = "MS")]
    backoff_max_ms: Option<u64>,
    /// The waits one by one, in milliseconds, with commas between; the last goes on
    #[arg(long, value_name = "MS,MS", value_delimiter = ',', conflicts_with_all = ["backoff", "backoff_base_ms", "backoff_max_ms"])]
    backoff_list_ms: Option<Vec<u64>>,
    /// By up to how many percent a wait is shorter, by chance [default: 0]
    #[arg(long, value_name = "PERCENT")]
    jitter_percent: Option<u8>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shape {
    /// No wait
    None,
    /// The same
    Fixed,
    /// By the first wait each time
    Linear,
    /// Twice as long each time
    Exponential,
}

/// The key that it has, and what that means.
#[derive(Debug, Args)]
struct Unique {
    /// A key that one job of the queue has at a time; the job that has it is the answer
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
    /// Where one job has the key at a time [default: queue]
    #[arg(long, value_enum, value_name = "WHERE", requires = "unique")]
    unique_scope: Option<Scope>,
    /// How long the job has the key [default: until-finished]
    #[arg(long, value_enum, value_name = "UNTIL", requires = "unique", conflicts_with = "unique_hold_ms")]
    unique_hold: Option<Hold>,
    /// The job has the key for so many milliseconds, whatever becomes of it
    #[arg(long, value_name = "MS", requires = "unique")]
    unique_hold_ms: Option<u64>,
    /// What to do when a job has the key [default: keep]
    #[arg(long, value_enum, value_name = "WHAT", requires = "unique")]
    unique_clash: Option<Clash>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Scope {
    /// In its queue
    Queue,
    /// In all queues
    Everywhere,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Hold {
    /// Until it is completed, cancelled or dead
    UntilFinished,
    /// Until a worker has it
    UntilStarted,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Clash {
    /// Leave that one, and print its id
    Keep,
    /// Refuse this one
    Reject,
    /// Put this one in its place
    Replace,
    /// Give that one the time and the key's time of this one
    Extend,
}

/// The word that the server knows for a choice.
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
