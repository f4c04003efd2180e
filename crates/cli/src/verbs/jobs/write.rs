//! `quire jobs`, the verbs that write: enqueue a job, change one, change many.

use std::io::Write;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::State;
use crate::failure::Result;
use crate::verbs::client::{Client, Path};
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
    /// Run it so many milliseconds from now
    #[arg(long, value_name = "MS")]
    delay_ms: Option<u64>,
    /// How many attempts it gets [default: 5]
    #[arg(long, value_name = "N")]
    attempts_max: Option<u16>,
    /// Whose job it is: groups take turns
    #[arg(long)]
    group: Option<String>,
    /// A key that one job of the queue has at a time; the job that has it is the answer
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,
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

/// A change of one job.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The job's id, like 4711-2
    job: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

/// A change of many jobs.
#[derive(Debug, Args)]
pub(crate) struct Bulk {
    /// How to change them
    #[command(subcommand)]
    change: Change,
}

/// How many jobs are changed.
#[derive(Debug, Subcommand)]
pub(crate) enum Change {
    /// Make dead jobs pending again
    Retry(Many),
    /// Cancel unfinished jobs
    Cancel(Many),
    /// Keep waiting jobs from being fetched
    Hold(Many),
    /// Make held jobs pending
    Release(Many),
    /// Remove jobs
    Delete(Many),
}

/// Which jobs.
#[derive(Debug, Args)]
pub(crate) struct Many {
    /// Those of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Those in this state; may be given several times
    #[arg(long = "state", value_enum)]
    states: Vec<State>,
    /// Those of this handler
    #[arg(long)]
    kind: Option<String>,
    /// Those with this tag; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Those whose last error holds this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

impl Enqueue {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let Enqueue {
            queue,
            payload,
            kind,
            priority,
            delay_ms,
            attempts_max,
            group,
            unique,
            retention_ms,
            tags,
            place,
            form,
        } = self;
        let mut job = given([
            ("kind", json!(kind)),
            ("priority", json!(priority)),
            ("delay_ms", json!(delay_ms)),
            ("attempts_max", json!(attempts_max)),
            ("group", json!(group)),
            ("retention_ms", json!(retention_ms)),
            ("unique", unique.map_or(Value::Null, |key| json!({ "key": key }))),
        ]);
        job.extend([("queue".to_owned(), json!(queue)), ("tags".to_owned(), json!(tags))]);
        job.insert("payload_text".to_owned(), json!(payload));
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

/// The fields that are there.
fn given<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).collect()
}

impl One {
    /// Changes the job, and prints the state that it is in.
    pub(crate) fn run(self, out: &mut dyn Write, change: &Value) -> Result {
        let One { job, place, form } = self;
        place.visit(|client| {
            let answer = client.post(&Path::new(&["jobs", &job, "change"]), change)?;
            let changed = &answer["replies"][0]["changed"];
            form.print(out, std::slice::from_ref(changed), |changed| match &changed["state"] {
                Value::Null => format!("{job} is deleted"),
                _ => format!("{job} is {}", word(changed, "state")),
            })
        })
    }
}

impl Bulk {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let (change, many) = match self.change {
            Change::Retry(many) => (json!({ "retry": {} }), many),
            Change::Cancel(many) => (json!({ "cancel": {} }), many),
            Change::Hold(many) => (json!({ "hold": {} }), many),
            Change::Release(many) => (json!({ "release": {} }), many),
            Change::Delete(many) => (json!({ "delete": {} }), many),
        };
        let Many { queue, states, kind, tags, error, place, form } = many;
        let states: Option<Vec<&str>> = (!states.is_empty()).then(|| states.into_iter().map(State::name).collect());
        let mut filter =
            given([("queue", json!(queue)), ("states", json!(states)), ("kind", json!(kind)), ("error", json!(error))]);
        filter.insert("tags".to_owned(), json!(tags));
        place.visit(|client| {
            let begun = client.post(&Path::new(&["bulk"]), &json!({ "filter": filter, "change": change }))?;
            let bulk = word(&begun["replies"][0]["bulk_begun"], "bulk");
            let done = finished(client, &bulk)?;
            form.print(out, &[done], |bulk| {
                format!("{} changed, {} refused", word(bulk, "changed"), word(bulk, "refused"))
            })
        })
    }
}

/// Waits until a bulk change is done, by asking for more of it: each asking does a part.
fn finished(client: &Client, bulk: &str) -> Result<Value> {
    loop {
        let progress = client.get(&Path::new(&["bulk", bulk]))?;
        if progress["done"] == true {
            return Ok(progress);
        }
        client.post(&Path::new(&["commit"]), &json!({ "parts": [{ "tick": {} }] }))?;
    }
}

/// A number as such, and anything else as a text that the server knows or refuses.
fn number_or_name(text: &str) -> std::result::Result<Value, std::convert::Infallible> {
    Ok(text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number)))
}
