//! CSV (RFC 4180): a file of blocks, or a file of edges, each with a line that names its columns.
//!
//! ```text
//! blocks: name,id,kind,source,tags,metadata,content,content_base64     tags: a JSON array
//! edges:  source,source_id,type,target,target_id,properties
//! ```
//! Columns may be in any order, and those that are not needed may be left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::item::{BlockItem, EdgeItem, EndItem, Item, Lined, wrong};
use crate::error::Problem;

const BLOCK_COLUMNS: [&str; 8] = ["name", "id", "kind", "source", "tags", "metadata", "content", "content_base64"];
const EDGE_COLUMNS: [&str; 6] = ["source", "source_id", "type", "target", "target_id", "properties"];

/// Reads a file of blocks.
pub(super) fn read_blocks(bytes: &[u8]) -> Result<Vec<Lined>, Problem> {
    read(bytes, &BLOCK_COLUMNS, |row| {
        let field = |name: &str| row.field(name);
        let tags = field("tags");
        let tags = if tags.is_empty() { Ok(Vec::new()) } else { serde_json::from_str(tags) };
        let content = match field("content_base64") {
            "" => field("content").as_bytes().to_vec(),
            base64 => STANDARD.decode(base64).map_err(|error| format!("content_base64: {error}"))?,
        };
        Ok(Item::Block(BlockItem {
            block: EndItem::of(field("name"), field("id"), "name or id")?,
            kind: field("kind").to_owned(),
            source: field("source").to_owned(),
            tags: tags.map_err(|error| format!("tags is a JSON array of strings: {error}"))?,
            metadata: field("metadata").as_bytes().to_vec(),
            content,
        }))
    })
}

/// Reads a file of edges.
pub(super) fn read_edges(bytes: &[u8]) -> Result<Vec<Lined>, Problem> {
    read(bytes, &EDGE_COLUMNS, |row| {
        let field = |name: &str| row.field(name);
        Ok(Item::Edge(EdgeItem {
            source: EndItem::of(field("source"), field("source_id"), "source")?,
            edge_type: field("type").to_owned(),
            target: EndItem::of(field("target"), field("target_id"), "target")?,
            properties: field("properties").as_bytes().to_vec(),
        }))
    })
}

/// A line of a file, by the names of its columns.
struct Row<'r> {
    header: &'r csv::StringRecord,
    record: &'r csv::StringRecord,
}

impl<'r> Row<'r> {
    /// A field; empty when there is no such column.
    fn field(&self, name: &str) -> &'r str {
        let column = self.header.iter().position(|column| column == name);
        column.and_then(|column| self.record.get(column)).unwrap_or_default()
    }
}

fn read(
    bytes: &[u8],
    columns: &[&str],
    make: impl Fn(&Row<'_>) -> Result<Item, String>,
) -> Result<Vec<Lined>, Problem> {
    let mut reader = csv::Reader::from_reader(bytes);
    let line_of = |error: &csv::Error| error.position().map_or(1, csv::Position::line);
    let header = reader.headers().map_err(|error| wrong(line_of(&error), &error))?.clone();
    if let Some(unknown) = header.iter().find(|name| !columns.contains(name)) {
        return Err(wrong(1, format_args!("there is no column {unknown:?}; there are {}", columns.join(", "))));
    }
    let mut items = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| wrong(line_of(&error), &error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let item = make(&Row { header: &header, record: &record }).map_err(|message| wrong(line, message))?;
        items.push(Lined { line, item });
    }
    Ok(items)
}

/// Writes blocks, or edges, and passes over the other.
#[derive(Debug)]
pub(super) struct Writer {
    rows: csv::Writer<Vec<u8>>,
    of_blocks: bool,
}

impl Writer {
    pub(super) fn new(of_blocks: bool) -> Self {
        let mut rows = csv::Writer::from_writer(Vec::new());
        let header = if of_blocks { &BLOCK_COLUMNS[..] } else { &EDGE_COLUMNS[..] };
        rows.write_record(header).expect("memory takes everything");
        Writer { rows, of_blocks }
    }

    pub(super) fn add(&mut self, item: &Item) {
        match item {
            Item::Block(block) if self.of_blocks => {
                let (name, id) = parts(&block.block);
                let tags = serde_json::to_string(&block.tags).expect("strings are JSON");
                let metadata = String::from_utf8_lossy(&block.metadata);
                let (content, base64) = match str::from_utf8(&block.content) {
                    Ok(text) => (text, String::new()),
                    Err(_) => ("", STANDARD.encode(&block.content)),
                };
                let row = [&name, &id, &block.kind, &block.source, &tags, &*metadata, content, &base64];
                self.rows.write_record(row).expect("memory takes everything");
            }
            Item::Edge(edge) if !self.of_blocks => {
                let ((source, source_id), (target, target_id)) = (parts(&edge.source), parts(&edge.target));
                let properties = String::from_utf8_lossy(&edge.properties);
                let row = [&source, &source_id, &edge.edge_type, &target, &target_id, &*properties];
                self.rows.write_record(row).expect("memory takes everything");
            }
            _ => {}
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.rows.into_inner().expect("memory takes everything")
    }
}

fn parts(end: &EndItem) -> (String, String) {
    match end {
        EndItem::Name(name) => (name.clone(), String::new()),
        EndItem::Id(id) => (String::new(), id.to_string()),
    }
}
