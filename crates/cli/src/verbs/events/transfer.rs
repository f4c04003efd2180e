//! `quire events import` and `export`: event stores as files of one event per line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{cloud, read};
use crate::failure::{CommandError, Result};
use crate::text::counted;
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::exact;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, list};

/// The number of events, or bytes, that ends an append.
const EVENTS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 1 << 20;

/// Appends the events of a file, in order and in batches. The whole file is checked before the
/// first append. An event whose id exists with the same contents is not appended again, so an
/// interrupted or grown file can be imported again.
#[derive(Debug, Args)]
pub(crate) struct ImportEvents {
    /// The event store, like air/flights; created when it does not exist
    store: String,
    /// The file: JSON lines as `quire events export` writes them, or CloudEvents; - for standard
    /// input
    file: PathBuf,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Exports events.
#[derive(Debug, Args)]
pub(crate) struct ExportEvents {
    /// The event store, like air/flights
    store: String,
    /// Format of a line
    #[arg(long, value_enum, default_value = "jsonl")]
    format: EventFormat,
    /// Only events after this position
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    place: DatabaseArgs,
}

/// The format of a line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EventFormat {
    /// An event as the server shows it
    Jsonl,
    /// A CloudEvent 1.0
    Cloudevents,
}

/// The next append: events, each with its line number.
#[derive(Debug, Default)]
struct AppendBatch {
    events: Vec<(usize, Value)>,
    bytes: usize,
}

/// The result of an import.
#[derive(Debug, Default)]
struct ImportResult {
    events: u64,
    duplicates: u64,
}

impl ImportEvents {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let failed = |error: io::Error| CommandError::at(format_args!("read {}", self.file.display()), error);
        let open = || File::open(&self.file).map(BufReader::new).map_err(failed);
        let is_piped = self.file.as_os_str() == "-";
        if !is_piped {
            each_event(open()?, |line, event| {
                event.map(drop).map_err(|problem| at(line, &problem, &ImportResult::default()))
            })
            .map_err(failed)??;
        }
        let lines: Box<dyn BufRead> = if is_piped { Box::new(io::stdin().lock()) } else { Box::new(open()?) };
        self.place.visit(|client| {
            let store = Target { client, store: &self.store };
            let (mut batch, mut done) = (AppendBatch::default(), ImportResult::default());
            let appended = each_event(lines, |line, event| {
                let event = event.map_err(|problem| at(line, &problem, &done))?;
                batch.bytes += exact::text(&event).len();
                batch.events.push((line, event));
                if batch.events.len() >= EVENTS_AT_ONCE || batch.bytes >= BYTES_AT_ONCE {
                    store.append(std::mem::take(&mut batch), &mut done)?;
                }
                Ok(())
            });
            appended.map_err(failed)??;
            store.append(batch, &mut done)?;
            let answer = json!({ "events": done.events, "duplicates": done.duplicates });
            self.form.print(out, std::slice::from_ref(&answer), |_| {
                format!("{}, {} of them duplicates", counted(done.events, "event"), done.duplicates)
            })
        })
    }
}

/// Parses each line that is not empty, and passes its number with the event or the problem to
/// `take`. Stops at the first error of `take`.
fn each_event(
    mut lines: impl BufRead,
    mut take: impl FnMut(usize, Result<Value, String>) -> Result,
) -> io::Result<Result> {
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        if lines.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let event = match str::from_utf8(&bytes) {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => event_of(text.trim_end_matches(['\n', '\r'])),
            Err(error) => Err(format!("not UTF-8 from byte {} on", error.valid_up_to() + 1)),
        };
        if let Err(failure) = take(line, event) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

/// The target store of an import.
#[derive(Debug, Clone, Copy)]
struct Target<'a> {
    client: &'a HttpClient,
    store: &'a str,
}

impl Target<'_> {
    /// Appends the events that do not exist yet.
    fn append(self, mut batch: AppendBatch, done: &mut ImportResult) -> Result {
        while !batch.events.is_empty() {
            let count = batch.events.len() as u64;
            let events: Vec<&Value> = batch.events.iter().map(|(_, event)| event).collect();
            let path = Path::new(&["events", self.store, "append"]);
            let problem = match self.client.try_post(&path, &json!({ "events": events }))? {
                Ok(answer) => {
                    done.events += count;
                    done.duplicates += if answer["duplicate"] == true { count } else { 0 };
                    return Ok(());
                }
                Err(problem) => problem,
            };
            let (event, message) = told(&problem);
            let there = match (problem["code"].as_str(), problem["position"].as_u64()) {
                (Some("duplicate_event"), Some(position)) => self.run_there(&batch.events[event..], position)?,
                _ => 0,
            };
            if there == 0 {
                let line = batch.events.get(event).map_or(0, |(line, _)| *line);
                return Err(at(line, message, done));
            }
            batch.events.drain(event..event + there);
            done.events += there as u64;
            done.duplicates += there as u64;
        }
        Ok(())
    }

    /// Counts how many of these events the store has in sequence, starting at this position.
    fn run_there(self, events: &[(usize, Value)], position: u64) -> Result<usize> {
        let page = Path::new(&["events", self.store]);
        let page = self.client.get(&page.with("after", position - 1).with("limit", events.len()))?;
        let same =
            |(there, (_, event)): &(&Value, &(usize, Value))| says(event).is_some_and(|it| says(there) == Some(it));
        Ok(list(&page, "data").iter().zip(events).take_while(same).count())
    }
}

/// Finds the event that a problem is about, and the problem's text. The index in the request means
/// nothing to the user.
fn told(problem: &Value) -> (usize, &str) {
    let message = problem["detail"].as_str().unwrap_or_default();
    let message = message.split(" at line ").next().unwrap_or_default();
    // The server names a field from the root of the request.
    let of_field = message.strip_prefix("events[").and_then(|field| field.split_once(']'));
    if let Some((event, wrong)) = of_field
        && let Ok(event) = event.parse()
    {
        return (event, wrong.trim_start_matches(['.', ':', ' ']));
    }
    let event = problem["event"].as_u64().and_then(|event| usize::try_from(event).ok());
    (event.unwrap_or_default(), message)
}

/// The contents of an event, in any of the encodings of its bytes.
#[derive(Debug, PartialEq)]
struct EventContents<'e> {
    id: String,
    event_type: &'e str,
    tags: &'e [Value],
    metadata: Vec<u8>,
    data: Vec<u8>,
}

/// The contents of an event that has an id.
fn says(event: &Value) -> Option<EventContents<'_>> {
    let bytes = |name: &str| match &event[name] {
        Value::Null => match (&event[format!("{name}_text")], &event[format!("{name}_base64")]) {
            (Value::String(text), _) => text.clone().into_bytes(),
            (_, Value::String(base64)) => STANDARD.decode(base64).unwrap_or_default(),
            _ => Vec::new(),
        },
        value => exact::text(value).into_bytes(),
    };
    Some(EventContents {
        id: event["id"].as_str()?.to_ascii_lowercase(),
        event_type: event["type"].as_str()?,
        tags: list(event, "tags"),
        metadata: bytes("metadata"),
        data: bytes("data"),
    })
}

/// The event on a line, ready to append.
fn event_of(line: &str) -> Result<Value, String> {
    let event = exact::parse(line).map_err(|error| format!("not JSON: {error}"))?;
    if cloud::is_cloud_event(&event) {
        return cloud::to_event(&event);
    }
    if !event.is_object() {
        return Err("not a JSON object".to_owned());
    }
    Ok(to_append(event))
}

/// Whether a line holds an event. The request for it is then one JSON object.
pub(crate) fn is_event(line: &str) -> bool {
    let Ok(event) = event_of(line) else { return false };
    let sent = exact::parse(&exact::text(&event)).expect("what is sent is JSON");
    assert!(sent.is_object() && sent.get("position").is_none(), "{sent}");
    true
}

/// Converts an event as the server shows it to an event to append. Position and time are assigned
/// again.
pub(super) fn to_append(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        fields.remove("position");
        fields.remove("time_ms");
    }
    event
}

/// Describes the problem of a line, and what was done before it.
fn at(line: usize, problem: &str, done: &ImportResult) -> CommandError {
    let before = counted(done.events, "event");
    CommandError::new(format!("line {line}: {problem}; {before} before this line were appended"))
}

impl ExportEvents {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let path = Path::new(&["events", &self.store]);
            let span = read::EventRange { after: self.after, backwards: false, limit: u64::MAX };
            read::pages(client, &self.store, &path, span, |events| {
                for event in events {
                    match self.format {
                        EventFormat::Jsonl => writeln!(out, "{}", exact::line(event))?,
                        EventFormat::Cloudevents => {
                            writeln!(out, "{}", exact::text(&cloud::from_event(event, &self.store)))?
                        }
                    }
                }
                Ok(())
            })
        })
    }
}
