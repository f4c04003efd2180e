//! `quire events append`: one event, optionally under a condition.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};

use crate::failure::{CommandError, Result};
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, word};

/// Appends an event.
#[derive(Debug, Args)]
pub(crate) struct Append {
    /// The event store, like air/flights; created when it does not exist
    store: String,
    /// Data of the event, as text
    #[arg(conflicts_with = "file")]
    text: Option<String>,
    /// Type of the event
    #[arg(long = "type", value_name = "TYPE")]
    event_type: String,
    /// A tag; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Id of the event, a UUID; an event with this id is appended only once
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
    /// File with the data
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Metadata of the event
    #[arg(long, value_name = "TEXT")]
    metadata: Option<String>,
    /// Refuse when an event of this type exists; given several times, of any of them
    #[arg(long, value_name = "TYPE")]
    unless_type: Vec<String>,
    /// Refuse when an event with this tag exists (and with a type of --unless-type); given several
    /// times, with all of them
    #[arg(long, value_name = "TAG")]
    unless_tag: Vec<String>,
    /// Ignore events up to this position in the condition
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    unless_after: u64,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Largest file for an event's data, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Reads a file, unless it is larger than any event or endless.
fn read_at_most(file: &std::path::Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

impl Append {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let data = match &self.file {
            Some(file) => {
                let bytes = read_at_most(file);
                Some(bytes.map_err(|error| CommandError::at(format_args!("read {}", file.display()), error))?)
            }
            None => self.text.map(String::into_bytes),
        };
        let mut event = json!({ "type": self.event_type, "tags": self.tags });
        if let Some(id) = self.id {
            event["id"] = Value::from(id);
        }
        if let Some(metadata) = self.metadata {
            event["metadata_text"] = Value::from(metadata);
        }
        match data.map(String::from_utf8) {
            Some(Ok(text)) => event["data_text"] = Value::from(text),
            Some(Err(bytes)) => event["data_base64"] = Value::from(STANDARD.encode(bytes.as_bytes())),
            None => {}
        }
        let mut append = json!({ "events": [event] });
        if !self.unless_type.is_empty() || !self.unless_tag.is_empty() {
            let item = json!({ "types": self.unless_type, "tags": self.unless_tag });
            append["conditions"] = json!([{ "fail_if_events_match": { "items": [item] }, "after": self.unless_after }]);
        } else if self.unless_after > 0 {
            return Err(CommandError::new("--unless-after needs --unless-type or --unless-tag"));
        }
        self.place.visit(|client| {
            let answer = client.post(&Path::new(&["events", &self.store, "append"]), &append)?;
            self.form.print(out, std::slice::from_ref(&answer), |answer| {
                let already = if answer["duplicate"] == true { ", where it was already" } else { "" };
                format!("position {}{already}", word(answer, "last"))
            })
        })
    }
}
