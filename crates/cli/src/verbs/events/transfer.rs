//! `quire events import` and `export`: stores as files of one event a line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{cloud, read};
use crate::failure::{Failure, Result};
use crate::text::counted;
use crate::verbs::client::{Client, Path};
use crate::verbs::exact;
use crate::verbs::place::Place;
use crate::verbs::print::Form;

/// An append ends with the event that takes it to so many events, or bytes.
const EVENTS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 1 << 20;

/// Appends the events of a file, many at a time, in their order. Those with an id that are there already are not appended again, so
/// an import that was interrupted is repeated as it was.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The event store, like air/flights; created when it is not there
    store: String,
    /// The file: JSON lines as `quire events export` writes them, or CloudEvents; - for standard input
    file: PathBuf,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    form: Form,
}

/// Writes events.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The event store, like air/flights
    store: String,
    /// In which form
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
    /// Only events behind this position
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    place: Place,
}

/// The form of a line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// An event as the server shows it
    Jsonl,
    /// A CloudEvent 1.0
    Cloudevents,
}

/// An append in the making.
#[derive(Debug, Default)]
struct Batch {
    events: Vec<Value>,
    bytes: usize,
    /// The line that each of them stands on.
    lines: Vec<usize>,
}

/// What an import came to.
#[derive(Debug, Default)]
struct Done {
    events: u64,
    duplicates: u64,
}

impl Import {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let failed = |error: io::Error| Failure::at(format_args!("read {}", self.file.display()), error);
        let lines: Box<dyn BufRead> = match self.file.as_os_str() == "-" {
            true => Box::new(io::stdin().lock()),
            false => Box::new(BufReader::new(File::open(&self.file).map_err(failed)?)),
        };
        self.place.visit(|client| {
            let path = Path::new(&["events", &self.store, "append"]);
            let (mut batch, mut done) = (Batch::default(), Done::default());
            for (number, line) in (1..).zip(lines.lines()) {
                let line = line.map_err(failed)?;
                if line.trim().is_empty() {
                    continue;
                }
                let event = event_of(&line).map_err(|problem| at(number, &problem, &done))?;
                batch.lines.push(number);
                batch.bytes += line.len();
                batch.events.push(event);
                if batch.events.len() >= EVENTS_AT_ONCE || batch.bytes >= BYTES_AT_ONCE {
                    std::mem::take(&mut batch).append(client, &path, &mut done)?;
                }
            }
            if !batch.events.is_empty() {
                batch.append(client, &path, &mut done)?;
            }
            let answer = json!({ "events": done.events, "duplicates": done.duplicates });
            self.form.print(out, std::slice::from_ref(&answer), |_| {
                format!("{}, of which {} were there already", counted(done.events, "event"), done.duplicates)
            })
        })
    }
}

impl Batch {
    fn append(self, client: &Client, path: &Path, done: &mut Done) -> Result {
        let count = self.events.len() as u64;
        let answer = client.try_post(path, &json!({ "events": self.events }))?;
        let answer = answer.map_err(|problem| {
            let event = problem["event"].as_u64().and_then(|event| usize::try_from(event).ok()).unwrap_or_default();
            let line = self.lines.get(event).copied().unwrap_or_default();
            at(line, problem["message"].as_str().unwrap_or_default(), done)
        })?;
        done.events += count;
        done.duplicates += if answer["duplicate"] == true { count } else { 0 };
        Ok(())
    }
}

/// The event on a line, to be appended.
fn event_of(line: &str) -> Result<Value, String> {
    let event = exact::parse(line).map_err(|error| format!("it is no JSON: {error}"))?;
    if cloud::is_cloud_event(&event) {
        return cloud::to_event(&event);
    }
    if !event.is_object() {
        return Err("it is no JSON object".to_owned());
    }
    Ok(to_append(event))
}

/// Whether a line holds an event; what is sent of it then is one object of JSON.
pub(crate) fn is_event(line: &str) -> bool {
    let Ok(event) = event_of(line) else { return false };
    let sent = exact::parse(&exact::text(&event)).expect("what is sent is JSON");
    assert!(sent.is_object() && sent.get("position").is_none(), "{sent}");
    true
}

/// An event as the server shows it, as one to be appended: position and time are given anew.
pub(super) fn to_append(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        fields.remove("position");
        fields.remove("time_ms");
    }
    event
}

/// What is wrong with a line, and what was done before.
fn at(line: usize, problem: &str, done: &Done) -> Failure {
    let before = counted(done.events, "event");
    Failure::new(format!("line {line}: {problem}; {before} before it were appended"))
}

impl Export {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let path = Path::new(&["events", &self.store]);
            let span = read::Span { after: self.after, backwards: false, limit: u64::MAX };
            read::pages(client, &self.store, &path, span, |events| {
                for event in events {
                    match self.format {
                        Format::Jsonl => writeln!(out, "{}", exact::text(event))?,
                        Format::Cloudevents => {
                            writeln!(out, "{}", exact::text(&cloud::from_event(event, &self.store)))?
                        }
                    }
                }
                Ok(())
            })
        })
    }
}
