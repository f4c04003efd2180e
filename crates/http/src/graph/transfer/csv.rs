//! CSV (RFC 4180): a file of blocks, or a file of edges, each with a header line.
//!
//! ```text
//! blocks: name,id,kind,source,tags,metadata,metadata_base64,content,content_base64     tags: a JSON array
//! edges:  source,source_id,type,target,target_id,properties,properties_base64
//! ```
//! Columns may be in any order, and optional ones may be missing. An export has every id, so that
//! edges and blocks can be joined by `source_id`, `target_id` and `id`. It also has the names of
//! blocks. Of a column and its `_base64` one is filled: the latter for bytes that are not text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::caller::ImportClient;
use super::item::{BlockItem, EdgeItem, EndItem, Item, ItemList, wrong};
use crate::error::Problem;

const BLOCK_COLUMNS: [&str; 9] =
    ["name", "id", "kind", "source", "tags", "metadata", "metadata_base64", "content", "content_base64"];
const EDGE_COLUMNS: [&str; 7] =
    ["source", "source_id", "type", "target", "target_id", "properties", "properties_base64"];

/// Reads a file of blocks.
pub(super) fn read_blocks(bytes: &[u8], caller: &ImportClient, items: &mut ItemList<'_>) -> Result<(), Problem> {
    read(bytes, caller, items, &BLOCK_COLUMNS, &[&["name", "id"], &["kind"]], |row| {
        let field = |name: &str| row.field(name);
        let tags = field("tags");
        let tags = if tags.is_empty() { Ok(Vec::new()) } else { serde_json::from_str(tags) };
        Ok(Item::Block(BlockItem {
            block: EndItem::of(field("name"), field("id"), "name or id")?,
            kind: field("kind").to_owned(),
            source: field("source").to_owned(),
            tags: tags.map_err(|error| format!("tags is a JSON array of strings: {error}"))?,
            metadata: row.bytes("metadata", "metadata_base64")?,
            content: row.bytes("content", "content_base64")?,
        }))
    })
}

/// Reads a file of edges.
pub(super) fn read_edges(bytes: &[u8], caller: &ImportClient, items: &mut ItemList<'_>) -> Result<(), Problem> {
    read(bytes, caller, items, &EDGE_COLUMNS, &[&["source", "source_id"], &["type"], &["target", "target_id"]], |row| {
        let field = |name: &str| row.field(name);
        Ok(Item::Edge(EdgeItem {
            source: EndItem::of(field("source"), field("source_id"), "source")?,
            edge_type: field("type").to_owned(),
            target: EndItem::of(field("target"), field("target_id"), "target")?,
            properties: row.bytes("properties", "properties_base64")?,
        }))
    })
}

/// A line of a file, by column name.
struct CsvRow<'r> {
    header: &'r csv::StringRecord,
    record: &'r csv::StringRecord,
}

impl<'r> CsvRow<'r> {
    /// A field; empty when the column is missing.
    fn field(&self, name: &str) -> &'r str {
        let column = self.header.iter().position(|column| column == name);
        column.and_then(|column| self.record.get(column)).unwrap_or_default()
    }

    /// The bytes in one of two fields.
    fn bytes(&self, text: &str, base64: &str) -> Result<Vec<u8>, String> {
        match (self.field(text), self.field(base64)) {
            (given, "") => Ok(given.as_bytes().to_vec()),
            ("", given) => STANDARD.decode(given).map_err(|error| format!("{base64}: {error}")),
            _ => Err(format!("give {text} or {base64}, not both")),
        }
    }
}

/// Reads a file with some of these columns, and one of each required pair.
fn read(
    bytes: &[u8],
    caller: &ImportClient,
    items: &mut ItemList<'_>,
    columns: &[&str],
    needed: &[&[&str]],
    make: impl Fn(&CsvRow<'_>) -> Result<Item, String>,
) -> Result<(), Problem> {
    if let Some(line) = open_quote(bytes) {
        return Err(wrong(line, "a quote is not closed"));
    }
    let mut reader = csv::Reader::from_reader(bytes);
    let header = reader.headers().map_err(|error| refused(&error))?.clone();
    if let Some(unknown) = header.iter().find(|name| !columns.contains(name)) {
        return Err(wrong(1, format_args!("unknown column {unknown:?}: use {}", columns.join(", "))));
    }
    if let Some(name) = header.iter().enumerate().find(|(at, name)| header.iter().take(*at).any(|other| other == *name))
    {
        return Err(wrong(1, format_args!("the column {} occurs twice", name.1)));
    }
    for names in needed {
        if !names.iter().any(|name| header.iter().any(|column| column == *name)) {
            return Err(wrong(1, format_args!("the column {} is missing", names.join(" or "))));
        }
    }
    for record in reader.records() {
        caller.check()?;
        let record = record.map_err(|error| refused(&error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let made =
            items.parsed(line, record.as_slice().as_bytes(), || make(&CsvRow { header: &header, record: &record }));
        items.push(line, made?.map_err(|message| wrong(line, message))?)?;
    }
    Ok(())
}

fn refused(error: &csv::Error) -> Problem {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            wrong(line, format_args!("{len} fields in {expected_len} columns"))
        }
        csv::ErrorKind::Utf8 { err, .. } => wrong(line, err),
        _ => wrong(line, error),
    }
}

/// The line of an unclosed quote: a reader treats the rest of the file as one field.
fn open_quote(bytes: &[u8]) -> Option<u64> {
    let (mut line, mut opened, mut is_begin) = (1, None, true);
    for byte in bytes {
        match (byte, opened) {
            // A quote within a quoted field opens the field again right after it closed it.
            (b'"', Some(_)) => (opened, is_begin) = (None, true),
            (b'"', None) if is_begin => opened = Some(line),
            (b',' | b'\n' | b'\r', None) => is_begin = true,
            (_, None) => is_begin = false,
            (_, Some(_)) => {}
        }
        line += u64::from(*byte == b'\n');
    }
    opened
}

/// Writes blocks, or edges, and skips the other.
#[derive(Debug)]
pub(super) struct CsvWriter {
    rows: csv::Writer<Vec<u8>>,
    of_blocks: bool,
}

impl CsvWriter {
    pub(super) fn new(of_blocks: bool) -> Self {
        let mut rows = csv::Writer::from_writer(Vec::new());
        let header = if of_blocks { &BLOCK_COLUMNS[..] } else { &EDGE_COLUMNS[..] };
        rows.write_record(header).expect("writing to memory can't fail");
        CsvWriter { rows, of_blocks }
    }

    pub(super) fn add(&mut self, item: &Item) {
        match item {
            Item::Block(block) if self.of_blocks => {
                let (name, id) = parts(&block.block);
                let tags = serde_json::to_string(&block.tags).expect("strings are JSON");
                let (metadata, metadata_base64) = text_or_base64(&block.metadata);
                let (content, content_base64) = text_or_base64(&block.content);
                let (kind, source) = (&block.kind, &block.source);
                let row = [name, &id, kind, source, &tags, metadata, &metadata_base64, content, &content_base64];
                self.rows.write_record(row).expect("writing to memory can't fail");
            }
            Item::Edge(edge) if !self.of_blocks => {
                let ((source, source_id), (target, target_id)) = (parts(&edge.source), parts(&edge.target));
                let (properties, base64) = text_or_base64(&edge.properties);
                let row = [source, &source_id, &edge.edge_type, target, &target_id, properties, &base64];
                self.rows.write_record(row).expect("writing to memory can't fail");
            }
            _ => {}
        }
    }

    /// The memory of the file so far, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.rows.get_ref().capacity()
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.rows.into_inner().expect("writing to memory can't fail")
    }
}

/// The name of a block, if it has one, and its id.
fn parts(end: &EndItem) -> (&str, String) {
    let name = match end {
        EndItem::Name(name) => name.as_str(),
        EndItem::Id(_) => "",
    };
    (name, end.id().to_string())
}

fn text_or_base64(bytes: &[u8]) -> (&str, String) {
    match str::from_utf8(bytes) {
        Ok(text) => (text, String::new()),
        Err(_) => ("", STANDARD.encode(bytes)),
    }
}
