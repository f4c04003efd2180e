//! JSON lines: one object a line, `{"block": {...}}` or `{"edge": {...}}`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::caller::ImportClient;
use super::item::{BlockItem, EdgeItem, EndItem, Item, ItemList, wrong};
use crate::bytes::value;
use crate::error::Problem;
use crate::json::{self, Misread};
use quire_api::reply::{ShownBytes, names};
use quire_api::request::{Base64, Text, given};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum JsonLine<'r> {
    #[serde(borrow)]
    Block(Box<BlockLine<'r>>),
    #[serde(borrow)]
    Edge(Box<EdgeLine<'r>>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockLine<'r> {
    #[serde(borrow)]
    name: Option<Text<'r>>,
    #[serde(borrow)]
    id: Option<Text<'r>>,
    #[serde(borrow)]
    kind: Text<'r>,
    #[serde(borrow)]
    source: Option<Text<'r>>,
    #[serde(borrow, default)]
    tags: Vec<Text<'r>>,
    #[serde(borrow)]
    metadata: Option<&'r RawValue>,
    #[serde(borrow)]
    metadata_text: Option<Text<'r>>,
    metadata_base64: Option<Base64>,
    #[serde(borrow)]
    content: Option<&'r RawValue>,
    #[serde(borrow)]
    content_text: Option<Text<'r>>,
    content_base64: Option<Base64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EdgeLine<'r> {
    #[serde(borrow)]
    source: Option<Text<'r>>,
    #[serde(borrow)]
    source_id: Option<Text<'r>>,
    #[serde(rename = "type", borrow)]
    edge_type: Text<'r>,
    #[serde(borrow)]
    target: Option<Text<'r>>,
    #[serde(borrow)]
    target_id: Option<Text<'r>>,
    #[serde(borrow)]
    properties: Option<&'r RawValue>,
    #[serde(borrow)]
    properties_text: Option<Text<'r>>,
    properties_base64: Option<Base64>,
}

/// Reads a file.
pub(super) fn read(bytes: &[u8], caller: &ImportClient, items: &mut ItemList<'_>) -> Result<(), Problem> {
    for (line, text) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if text.trim_ascii().is_empty() {
            continue;
        }
        caller.check()?;
        if !text.trim_ascii_start().starts_with(b"{") {
            let message = r#"a line is {"block": {...}} or {"edge": {...}}: is this a file of another format?"#;
            return Err(wrong(line, message));
        }
        let parsed = items.parsed(line, text, || json::read::<JsonLine<'_>>(text))?;
        let parsed = parsed.map_err(|misread| wrong(line, of_line(&misread)))?;
        let item = match &parsed {
            JsonLine::Block(block) => Item::Block(block_item(block).map_err(|problem| problem.at_line(line))?),
            JsonLine::Edge(edge) => Item::Edge(edge_item(edge).map_err(|problem| problem.at_line(line))?),
        };
        items.push(line, item)?;
    }
    Ok(())
}

/// An error on a line; of the parser's place only the column is right.
fn of_line(misread: &Misread) -> String {
    let Misread { field, message, column, .. } = misread;
    match field {
        Some(field) => format!("column {column}: {field}: {message}"),
        None => format!("column {column}: {message}"),
    }
}

fn text<'t>(text: &'t Option<Text<'_>>) -> &'t str {
    text.as_deref().unwrap_or_default()
}

fn block_item(block: &BlockLine<'_>) -> Result<BlockItem, Problem> {
    let metadata = given("metadata", block.metadata, block.metadata_text.as_ref(), block.metadata_base64.as_ref())?;
    let content = given("content", block.content, block.content_text.as_ref(), block.content_base64.as_ref())?;
    Ok(BlockItem {
        block: EndItem::of(text(&block.name), text(&block.id), "the block's name or id").map_err(Problem::invalid)?,
        kind: block.kind.to_string(),
        source: text(&block.source).to_owned(),
        tags: block.tags.iter().map(|tag| tag.to_string()).collect(),
        metadata: metadata.unwrap_or_default().to_vec(),
        content: content.unwrap_or_default().to_vec(),
    })
}

fn edge_item(edge: &EdgeLine<'_>) -> Result<EdgeItem, Problem> {
    let (json, as_text) = (edge.properties, edge.properties_text.as_ref());
    let properties = given("properties", json, as_text, edge.properties_base64.as_ref())?;
    let end = |name: &Option<Text<'_>>, id: &Option<Text<'_>>, what: &str| {
        EndItem::of(text(name), text(id), what).map_err(Problem::invalid)
    };
    Ok(EdgeItem {
        source: end(&edge.source, &edge.source_id, "source")?,
        edge_type: edge.edge_type.to_string(),
        target: end(&edge.target, &edge.target_id, "target")?,
        properties: properties.unwrap_or_default().to_vec(),
    })
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum ItemLine<'a> {
    Block {
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        kind: &'a str,
        source: &'a str,
        tags: &'a [String],
        #[serde(flatten)]
        metadata: ShownBytes<'a, names::Metadata>,
        #[serde(flatten)]
        content: ShownBytes<'a, names::Content>,
    },
    Edge {
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        source_id: Option<String>,
        #[serde(rename = "type")]
        edge_type: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        target_id: Option<String>,
        #[serde(flatten)]
        properties: ShownBytes<'a, names::Properties>,
    },
}

/// Writes an item as a line.
pub(super) fn write(item: &Item, out: &mut Vec<u8>) {
    let parts = |end: &EndItem| match end {
        EndItem::Name(_) => None,
        EndItem::Id(id) => Some(id.to_string()),
    };
    fn name(end: &EndItem) -> Option<&str> {
        match end {
            EndItem::Name(name) => Some(name),
            EndItem::Id(_) => None,
        }
    }
    let written = match item {
        Item::Block(block) => ItemLine::Block {
            name: name(&block.block),
            id: parts(&block.block),
            kind: &block.kind,
            source: &block.source,
            tags: &block.tags,
            metadata: value(&block.metadata[..]).on_a_line(),
            content: value(&block.content[..]).on_a_line(),
        },
        Item::Edge(edge) => ItemLine::Edge {
            source: name(&edge.source),
            source_id: parts(&edge.source),
            edge_type: &edge.edge_type,
            target: name(&edge.target),
            target_id: parts(&edge.target),
            properties: value(&edge.properties[..]).on_a_line(),
        },
    };
    serde_json::to_writer(&mut *out, &written).expect("memory takes everything");
    out.push(b'\n');
}
