//! Writes a graph as GraphML.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::item::{EndItem, Item};
use super::{BASE64, EDGE_FIELDS, ID, NODE_FIELDS};

/// Writes the part before the items.
pub(in super::super) fn begin(graph: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
    );
    for (owner, names) in [("node", &NODE_FIELDS[..]), ("edge", &EDGE_FIELDS[..])] {
        for (name, form) in names.iter().flat_map(|name| [(name, ""), (name, BASE64)]) {
            let id = format!("{name}{form}");
            let key = format!("  <key id=\"{id}\" for=\"{owner}\" attr.name=\"{id}\" attr.type=\"string\"/>\n");
            out.extend_from_slice(key.as_bytes());
        }
    }
    out.extend_from_slice(format!("  <graph id=\"{}\" edgedefault=\"directed\">\n", escaped(graph)).as_bytes());
}

/// Writes the part after the items.
pub(in super::super) fn end_of_file(out: &mut Vec<u8>) {
    out.extend_from_slice(b"  </graph>\n</graphml>\n");
}

/// Writes an item.
pub(in super::super) fn write(item: &Item, out: &mut Vec<u8>) {
    match item {
        Item::Block(block) => {
            let id = id(&block.block);
            out.extend_from_slice(format!("    <node id=\"{}\">", escaped(&id)).as_bytes());
            if let EndItem::Name(name) = &block.block
                && *name != id
            {
                add(out, "name", name.as_bytes());
            }
            add(out, "kind", block.kind.as_bytes());
            add(out, "source", block.source.as_bytes());
            if !block.tags.is_empty() {
                add(out, "tags", &serde_json::to_vec(&block.tags).expect("strings are JSON"));
            }
            add(out, "metadata", &block.metadata);
            add(out, "content", &block.content);
            out.extend_from_slice(b"</node>\n");
        }
        Item::Edge(edge) => {
            let (source, target) = (id(&edge.source), id(&edge.target));
            let head = format!("    <edge source=\"{}\" target=\"{}\">", escaped(&source), escaped(&target));
            out.extend_from_slice(head.as_bytes());
            add(out, "type", edge.edge_type.as_bytes());
            add(out, "properties", &edge.properties);
            out.extend_from_slice(b"</edge>\n");
        }
    }
}

fn id(end: &EndItem) -> String {
    match end {
        EndItem::Name(name) if !name.starts_with(ID) && name.chars().all(is_xml) => name.clone(),
        _ => format!("{ID}{}", end.id()),
    }
}

fn add(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let (form, text) = match str::from_utf8(bytes) {
        Ok(text) if text.chars().all(is_xml) => ("", escaped(text)),
        _ => (BASE64, STANDARD.encode(bytes)),
    };
    out.extend_from_slice(format!("<data key=\"{name}{form}\">{text}</data>").as_bytes());
}

/// Whether XML 1.0 can represent the character and returns it unchanged.
fn is_xml(character: char) -> bool {
    !matches!(character, '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Escapes text for attributes and elements.
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
            other => escaped.push(other),
        }
    }
    escaped
}
