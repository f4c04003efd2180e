//! A record in printed form: one line and one for each entry, or one JSON object.

use std::io::{self, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quire::tools::{self, InspectedRecord};
use serde::Serialize;

use crate::calendar;

/// Bytes of a body in the text form.
const BODY_SHOWN: usize = 60;

/// The JSON form.
#[derive(Debug, Serialize)]
pub(super) struct RecordForm {
    position: u64,
    time_us: u64,
    file: String,
    offset: u64,
    bytes: u32,
    crc: String,
    entries: Vec<EntryForm>,
}

/// An entry; its body is text when it is UTF-8, and base64 otherwise.
#[derive(Debug, Serialize)]
struct EntryForm {
    model: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    #[serde(skip_serializing_if = "is_zero")]
    count: u32,
    tags: Vec<String>,
    body_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    #[serde(skip)]
    shown: String,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl RecordForm {
    pub(super) fn of(path: &Path, record: &InspectedRecord<'_>) -> Self {
        let entry = |entry: tools::Entry<'_>| {
            let text = std::str::from_utf8(entry.body).ok().map(str::to_owned);
            let shown = &entry.body[..entry.body.len().min(BODY_SHOWN)];
            let more = if shown.len() < entry.body.len() { "…" } else { "" };
            EntryForm {
                model: tools::model_name(entry.kind.model),
                kind: tools::kind_name(entry.kind),
                sequence: entry.sequence.map(|sequence| sequence.get()),
                count: entry.count,
                tags: entry.tags.iter().map(tools::tag_text).collect(),
                body_bytes: entry.body.len(),
                body_base64: text.is_none().then(|| STANDARD.encode(entry.body)),
                body_text: text,
                shown: format!("{}{more}", shown.escape_ascii()),
            }
        };
        RecordForm {
            position: record.position().get(),
            time_us: record.time().as_micros(),
            file: path.to_string_lossy().into_owned(),
            offset: record.offset,
            bytes: record.length(),
            crc: format!("{:08x}", record.mark().chain),
            entries: record.entries().map(entry).collect(),
        }
    }

    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", serde_json::to_string(self).expect("numbers and text are JSON"))
    }

    pub(super) fn text(&self, out: &mut dyn Write, with_entries: bool) -> io::Result<()> {
        let time = i64::try_from(self.time_us / 1000).map_or_else(|_| "-".to_owned(), calendar::rfc3339);
        let kinds: Vec<_> = self.entries.iter().map(|entry| entry.kind.as_str()).collect();
        let summary = if with_entries { String::new() } else { format!("  {}", kinds.join(", ")) };
        let Self { position, offset, bytes, crc, .. } = self;
        writeln!(out, "{position:>12}  {time}  at {offset:>10}  {bytes:>8} bytes  crc {crc}{summary}")?;
        if with_entries {
            for EntryForm { model, kind, sequence, count, tags, body_bytes, shown, .. } in &self.entries {
                let numbers = sequence.map_or_else(String::new, |sequence| format!(" numbers {sequence}+{count}"));
                writeln!(out, "              {model}: {kind}{numbers}, {body_bytes} bytes: {shown}")?;
                for tag in tags {
                    writeln!(out, "                {tag}")?;
                }
            }
        }
        Ok(())
    }
}
