//! GraphML (<http://graphml.graphdrawing.org/specification.html>): nodes and edges with data.
//!
//! A node's `id` is the block's name, or `id:` and its 32 hexadecimal digits. The data `kind`, `source`, `tags` (a JSON array),
//! `metadata`, `content` and `content_base64` belong to nodes, `type` and `properties` to edges. Data of other names is
//! taken up into a node's metadata, or an edge's properties, when those are not given; a node without a kind is a `node`, an
//! edge without a type a `link`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roxmltree::{Document, Node};
use serde_json::{Map, Value};

use super::item::{BlockItem, EdgeItem, EndItem, Item, Lined, wrong};
use crate::error::Problem;

const ID: &str = "id:";

/// Reads a file.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Lined>, Problem> {
    let text = str::from_utf8(bytes).map_err(|error| Problem::invalid(format!("the file is not UTF-8: {error}")))?;
    let document = Document::parse(text).map_err(|error| wrong(u64::from(error.pos().row), &error))?;
    // Data names its key, and the key has the name that people know it by.
    let keys: Vec<(&str, &str)> = document
        .descendants()
        .filter(|node| node.has_tag_name_any("key"))
        .filter_map(|key| key.attribute("id").map(|id| (id, key.attribute("attr.name").unwrap_or(id))))
        .collect();
    let (mut items, mut lines) = (Vec::new(), Lines { text, at: 0, line: 1 });
    for node in document.descendants() {
        let line = lines.of(node.range().start);
        let data = || data(node, &keys);
        let item = if node.has_tag_name_any("node") {
            block(node, data())
        } else if node.has_tag_name_any("edge") {
            edge(node, data())
        } else {
            continue;
        };
        items.push(Lined { line, item: item.map_err(|message| wrong(line, message))? });
    }
    Ok(items)
}

/// The lines of places that are asked for in their order: the parser would count from the beginning for each.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    line: u64,
}

impl Lines<'_> {
    fn of(&mut self, place: usize) -> u64 {
        let between = &self.text.as_bytes()[self.at..place];
        self.line += between.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = place;
        self.line
    }
}

/// Looks at names whatever their namespace: files without one are common.
trait AnyNamespace {
    fn has_tag_name_any(&self, name: &str) -> bool;
}

impl AnyNamespace for Node<'_, '_> {
    fn has_tag_name_any(&self, name: &str) -> bool {
        self.is_element() && self.tag_name().name() == name
    }
}

fn data<'a>(node: Node<'a, '_>, keys: &[(&'a str, &'a str)]) -> Vec<(&'a str, String)> {
    let children = node.children().filter(|child| child.has_tag_name_any("data"));
    let named = children.filter_map(|child| {
        let key = child.attribute("key")?;
        let name = keys.iter().find(|(id, _)| *id == key).map_or(key, |(_, name)| name);
        let text: String = child.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect();
        Some((name, text))
    });
    named.collect()
}

fn end(id: Option<&str>, what: &str) -> Result<EndItem, String> {
    let id = id.unwrap_or_default();
    match id.strip_prefix(ID) {
        Some(digits) => EndItem::of("", digits, what),
        None => EndItem::of(id, "", what),
    }
}

fn block(node: Node<'_, '_>, data: Vec<(&str, String)>) -> Result<Item, String> {
    let block = end(node.attribute("id"), "the node's id")?;
    let mut item = BlockItem {
        block,
        kind: "node".to_owned(),
        source: String::new(),
        tags: Vec::new(),
        metadata: Vec::new(),
        content: Vec::new(),
    };
    let mut others = Map::new();
    for (name, text) in data {
        match name {
            "kind" => item.kind = text,
            "source" => item.source = text,
            "tags" => {
                let tags = serde_json::from_str(&text);
                item.tags = tags.map_err(|error| format!("tags is a JSON array of strings: {error}"))?;
            }
            "metadata" => item.metadata = text.into_bytes(),
            "content" => item.content = text.into_bytes(),
            "content_base64" => {
                item.content = STANDARD.decode(text).map_err(|error| format!("content_base64: {error}"))?;
            }
            other => drop(others.insert(other.to_owned(), Value::String(text))),
        }
    }
    if item.metadata.is_empty() && !others.is_empty() {
        item.metadata = Value::Object(others).to_string().into_bytes();
    }
    Ok(Item::Block(item))
}

fn edge(node: Node<'_, '_>, data: Vec<(&str, String)>) -> Result<Item, String> {
    let (source, target) = (end(node.attribute("source"), "source")?, end(node.attribute("target"), "target")?);
    let mut item = EdgeItem { source, edge_type: "link".to_owned(), target, properties: Vec::new() };
    let mut others = Map::new();
    for (name, text) in data {
        match name {
            "type" => item.edge_type = text,
            "properties" => item.properties = text.into_bytes(),
            other => drop(others.insert(other.to_owned(), Value::String(text))),
        }
    }
    if item.properties.is_empty() && !others.is_empty() {
        item.properties = Value::Object(others).to_string().into_bytes();
    }
    Ok(Item::Edge(item))
}

/// Writes what stands before the items.
pub(super) fn begin(graph: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
    );
    for (owner, names) in [
        ("node", &["kind", "source", "tags", "metadata", "content", "content_base64"][..]),
        ("edge", &["type", "properties"][..]),
    ] {
        for name in names {
            let key = format!("  <key id=\"{name}\" for=\"{owner}\" attr.name=\"{name}\" attr.type=\"string\"/>\n");
            out.extend_from_slice(key.as_bytes());
        }
    }
    out.extend_from_slice(format!("  <graph id=\"{}\" edgedefault=\"directed\">\n", escaped(graph)).as_bytes());
}

/// Writes what stands behind them.
pub(super) fn end_of_file(out: &mut Vec<u8>) {
    out.extend_from_slice(b"  </graph>\n</graphml>\n");
}

/// Writes an item.
pub(super) fn write(item: &Item, out: &mut Vec<u8>) {
    match item {
        Item::Block(block) => {
            out.extend_from_slice(format!("    <node id=\"{}\">", escaped(&id(&block.block))).as_bytes());
            add(out, "kind", &block.kind);
            add(out, "source", &block.source);
            if !block.tags.is_empty() {
                add(out, "tags", &serde_json::to_string(&block.tags).expect("strings are JSON"));
            }
            add(out, "metadata", &String::from_utf8_lossy(&block.metadata));
            match str::from_utf8(&block.content) {
                Ok(text) if text.chars().all(is_xml) => add(out, "content", text),
                _ => add(out, "content_base64", &STANDARD.encode(&block.content)),
            }
            out.extend_from_slice(b"</node>\n");
        }
        Item::Edge(edge) => {
            let (source, target) = (id(&edge.source), id(&edge.target));
            let head = format!("    <edge source=\"{}\" target=\"{}\">", escaped(&source), escaped(&target));
            out.extend_from_slice(head.as_bytes());
            add(out, "type", &edge.edge_type);
            add(out, "properties", &String::from_utf8_lossy(&edge.properties));
            out.extend_from_slice(b"</edge>\n");
        }
    }
}

fn id(end: &EndItem) -> String {
    match end {
        // A name that looks like an id, or that XML can't hold, is given by its id.
        EndItem::Name(name) if !name.starts_with(ID) && name.chars().all(is_xml) => name.clone(),
        EndItem::Name(name) => format!("{ID}{}", quire::graph::BlockId::of_name(name)),
        EndItem::Id(id) => format!("{ID}{id}"),
    }
}

fn add(out: &mut Vec<u8>, key: &str, text: &str) {
    if !text.is_empty() {
        out.extend_from_slice(format!("<data key=\"{key}\">{}</data>", escaped(text)).as_bytes());
    }
}

/// Whether XML 1.0 has the character, and gives it back as it was.
fn is_xml(character: char) -> bool {
    !matches!(character, '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            other if is_xml(other) => escaped.push(other),
            _ => escaped.push('\u{fffd}'),
        }
    }
    escaped
}
