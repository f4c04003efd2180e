//! GraphML (<http://graphml.graphdrawing.org/specification.html>): nodes and edges with data.
//!
//! A block has one text everywhere, as a node's `id` and as an edge's `source` and `target`, so
//! that any tool joins them. It is the block's name, if it has a suitable one. Otherwise it is
//! `id:` and the 32 hexadecimal digits of its id. A name is unsuitable if XML can't represent it or
//! if it begins with `id:`; the node then also has the data `name`.
//!
//! The data `kind`, `source`, `tags` (a JSON array), `metadata` and `content` belong to nodes,
//! `type` and `properties` to edges. Bytes that XML can't represent are in base64, under the name
//! with the suffix `_base64`.
//!
//! For files of other tools: data with other names is added to a node's metadata, or an edge's
//! properties, with the type of its key. A node without a kind is a `node`, an edge without a type
//! a `link`. An undirected edge becomes one each way. Elements that a graph can't represent are
//! refused: hyperedges, ports, two edges of one type from a node to another.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use roxmltree::{Document, Node};
use serde_json::value::RawValue;

use super::item::{BlockItem, EdgeItem, EndItem, Item, NumberedItem, wrong};
use crate::error::Problem;

const ID: &str = "id:";

/// Reads a file.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<NumberedItem>, Problem> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        wrong(line as u64, format_args!("the file is not UTF-8: {error}"))
    })?;
    let document = Document::parse(text).map_err(|error| wrong(u64::from(error.pos().row), &error))?;
    let keys = KeyTable::of(&document);
    let (mut items, mut lines) = (Vec::new(), LineNumbers { text, at: 0, line: 1 });
    let mut seen = SeenElements::default();
    let root = document.root_element();
    check_root(root).map_err(|message| wrong(u64::from(document.text_pos_at(root.range().start).row), message))?;
    for node in document.descendants() {
        let line = lines.of(node.range().start);
        let made = match node.tag_name().name() {
            "node" => block(node, &keys).and_then(|block| {
                seen.node(&block, line)?;
                Ok(vec![Item::Block(block)])
            }),
            "edge" => edge(node, &keys).and_then(|edge| {
                let edges = both_ways(node, edge)?;
                edges.iter().try_for_each(|edge| seen.edge(edge, line))?;
                Ok(edges.into_iter().map(Item::Edge).collect())
            }),
            "graph" => is_directed(node).map(|_| Vec::new()),
            unheld @ ("hyperedge" | "port") => Err(format!("{unheld} elements are not supported")),
            _ => continue,
        };
        let made = made.map_err(|message| wrong(line, message))?;
        items.extend(made.into_iter().map(|item| NumberedItem { line, item }));
    }
    Ok(items)
}

/// Checks that the root is GraphML: in its namespace, which older tools write differently, or in
/// none.
fn check_root(root: Node<'_, '_>) -> Result<(), String> {
    let name = root.tag_name();
    if name.name() != "graphml" {
        return Err(format!("the root element must be \"graphml\", got {:?}", name.name()));
    }
    match name.namespace().filter(|namespace| !namespace.contains("graphml.graphdrawing.org")) {
        Some(namespace) => Err(format!("the namespace must be that of GraphML, got {namespace:?}")),
        None => Ok(()),
    }
}

/// The line numbers of ascending places: the parser would count from the start for each.
struct LineNumbers<'t> {
    text: &'t str,
    at: usize,
    line: u64,
}

impl LineNumbers<'_> {
    fn of(&mut self, place: usize) -> u64 {
        let between = &self.text.as_bytes()[self.at..place];
        self.line += between.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.at = place;
        self.line
    }
}

/// The lines of nodes and edges: a duplicate is reported, not merged.
#[derive(Debug, Default)]
struct SeenElements {
    nodes: HashMap<[u8; 16], u64>,
    edges: HashMap<([u8; 16], String, [u8; 16]), u64>,
}

impl SeenElements {
    fn node(&mut self, block: &BlockItem, line: u64) -> Result<(), String> {
        match self.nodes.entry(*block.block.id().as_bytes()) {
            Entry::Occupied(first) => Err(format!("duplicate node: also on line {}", first.get())),
            Entry::Vacant(free) => {
                free.insert(line);
                Ok(())
            }
        }
    }

    fn edge(&mut self, edge: &EdgeItem, line: u64) -> Result<(), String> {
        let id = |end: &EndItem| *end.id().as_bytes();
        match self.edges.entry((id(&edge.source), edge.edge_type.clone(), id(&edge.target))) {
            Entry::Occupied(first) => {
                let first = first.get();
                Err(format!("duplicate edge of type {:?} between these nodes: also on line {first}", edge.edge_type))
            }
            Entry::Vacant(free) => {
                free.insert(line);
                Ok(())
            }
        }
    }
}

/// The keys of data: each has an id, a name, a type and a default.
#[derive(Debug, Default)]
struct KeyTable<'a> {
    by_id: HashMap<&'a str, GraphmlKey<'a>>,
    /// The keys with a default: whose data it is, and the default.
    defaults: Vec<(&'a str, GraphmlKey<'a>, String)>,
}

#[derive(Debug, Clone, Copy)]
struct GraphmlKey<'a> {
    name: &'a str,
    value_type: &'a str,
}

/// The value of a key of a node or an edge.
struct Datum<'a> {
    key: GraphmlKey<'a>,
    text: String,
}

impl<'a> KeyTable<'a> {
    fn of(document: &'a Document<'_>) -> Self {
        let mut keys = KeyTable::default();
        for node in document.descendants().filter(|node| is(node, "key")) {
            let Some(id) = node.attribute("id") else { continue };
            let (name, value_type) = (node.attribute("attr.name").unwrap_or(id), node.attribute("attr.type"));
            let key = GraphmlKey { name, value_type: value_type.unwrap_or("string") };
            keys.by_id.insert(id, key);
            if let Some(default) = node.children().find(|child| is(child, "default")) {
                keys.defaults.push((node.attribute("for").unwrap_or("all"), key, text_of(default)));
            }
        }
        keys
    }

    /// The data of a node or an edge, each name once.
    fn data(&self, node: Node<'a, '_>) -> Result<Vec<Datum<'a>>, String> {
        let mut data: Vec<Datum<'a>> = Vec::new();
        for child in node.children().filter(|child| is(child, "data")) {
            let Some(id) = child.attribute("key") else { return Err("a data element has no key".to_owned()) };
            let key = self.by_id.get(id).copied().unwrap_or(GraphmlKey { name: id, value_type: "string" });
            if data.iter().any(|datum| datum.key.name == key.name) {
                return Err(format!("duplicate data {:?}", key.name));
            }
            data.push(Datum { key, text: text_of(child) });
        }
        let owner = node.tag_name().name();
        for (of, key, text) in &self.defaults {
            if (*of == owner || *of == "all") && !data.iter().any(|datum| datum.key.name == key.name) {
                data.push(Datum { key: *key, text: text.clone() });
            }
        }
        Ok(data)
    }
}

/// Whether an element has this name, whatever its namespace: files without one are common.
fn is(node: &Node<'_, '_>, name: &str) -> bool {
    node.is_element() && node.tag_name().name() == name
}

fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// Data of other tools, converted for metadata and properties.
#[derive(Debug, Default)]
struct ForeignData(BTreeMap<String, Box<RawValue>>);

impl ForeignData {
    fn add(&mut self, datum: &Datum<'_>) -> Result<(), String> {
        let Datum { key: GraphmlKey { name, value_type }, text } = datum;
        let json =
            value(value_type, text).ok_or_else(|| format!("data {name:?} must be {value_type}, got {text:?}"))?;
        let json = RawValue::from_string(json).expect("values are JSON");
        self.0.insert((*name).to_owned(), json);
        Ok(())
    }

    /// All of it, in the bytes of our own field, unless that field is empty.
    fn beside(self, given: Vec<u8>, field: &str) -> Result<Vec<u8>, String> {
        match self.0.first_key_value() {
            None => Ok(given),
            Some((name, _)) if !given.is_empty() => Err(format!("data {name:?} can't be combined with {field}")),
            Some(_) => Ok(serde_json::to_vec(&self.0).expect("values are JSON")),
        }
    }
}

/// Converts a value of a GraphML type to JSON.
fn value(value_type: &str, text: &str) -> Option<String> {
    let word = text.trim();
    match value_type {
        "boolean" => match word.to_ascii_lowercase().as_str() {
            "true" | "1" => Some("true".to_owned()),
            "false" | "0" => Some("false".to_owned()),
            _ => None,
        },
        "int" | "long" => word.parse::<i64>().ok().map(|number| number.to_string()),
        "float" | "double" => {
            let number = word.parse::<f64>().ok()?;
            match serde_json::from_str::<&RawValue>(word) {
                Ok(as_it_is) => Some(as_it_is.get().to_owned()),
                Err(_) if number.is_finite() => Some(serde_json::json!(number).to_string()),
                // JSON has no such numbers.
                Err(_) => Some(serde_json::json!(word).to_string()),
            }
        }
        _ => Some(serde_json::json!(text).to_string()),
    }
}

fn end(id: Option<&str>, name: &str, what: &str) -> Result<EndItem, String> {
    let id = id.unwrap_or_default();
    match id.strip_prefix(ID) {
        Some(digits) => EndItem::of(name, digits, what),
        None => EndItem::of(id, "", what),
    }
}

/// ExactlyOne of our own fields, and its bytes.
type OwnField<'d> = (&'static str, Cow<'d, [u8]>);

/// The bytes of one of our own fields: as text or, under the name with the suffix `_base64`, in
/// base64.
fn field<'d>(datum: &'d Datum<'_>, names: &[&'static str]) -> Result<Option<OwnField<'d>>, String> {
    let (name, is_base64) = match datum.key.name.strip_suffix(BASE64) {
        Some(name) => (name, true),
        None => (datum.key.name, false),
    };
    let Some(name) = names.iter().find(|known| **known == name) else { return Ok(None) };
    let bytes = match is_base64 {
        true => Cow::Owned(STANDARD.decode(&datum.text).map_err(|error| format!("{name}{BASE64}: {error}"))?),
        false => Cow::Borrowed(datum.text.as_bytes()),
    };
    Ok(Some((name, bytes)))
}

fn text(name: &str, bytes: Cow<'_, [u8]>) -> Result<String, String> {
    String::from_utf8(bytes.into_owned()).map_err(|error| format!("{name} is not UTF-8: {error}"))
}

fn block(node: Node<'_, '_>, keys: &KeyTable<'_>) -> Result<BlockItem, String> {
    let id = node.attribute("id");
    // The name of a node that is given by its id. For other nodes the id is the name, and data of
    // that name belongs to other tools.
    let is_by_id = id.is_some_and(|id| id.starts_with(ID));
    let names = if is_by_id { &NODE_FIELDS[..] } else { &NODE_FIELDS[1..] };
    let (mut kind, mut source, mut tags, mut metadata, mut content) = (None, None, None, Vec::new(), Vec::new());
    let (mut block_name, mut others) = (String::new(), ForeignData::default());
    for datum in keys.data(node)? {
        match field(&datum, names)? {
            Some(("name", bytes)) => block_name = text("name", bytes)?,
            Some(("kind", bytes)) => kind = Some(text("kind", bytes)?),
            Some(("source", bytes)) => source = Some(text("source", bytes)?),
            Some(("tags", bytes)) => {
                let list = serde_json::from_slice(&bytes);
                tags = Some(list.map_err(|error| format!("tags is a JSON array of strings: {error}"))?);
            }
            Some(("metadata", bytes)) => metadata = bytes.into_owned(),
            Some((_, bytes)) => content = bytes.into_owned(),
            None => others.add(&datum)?,
        }
    }
    Ok(BlockItem {
        block: end(id, &block_name, "the node's id")?,
        kind: kind.unwrap_or_else(|| "node".to_owned()),
        source: source.unwrap_or_default(),
        tags: tags.unwrap_or_default(),
        metadata: others.beside(metadata, "metadata")?,
        content,
    })
}

fn edge(node: Node<'_, '_>, keys: &KeyTable<'_>) -> Result<EdgeItem, String> {
    let end = |what| end(node.attribute(what), "", what);
    let (source, target) = (end("source")?, end("target")?);
    let (mut edge_type, mut properties, mut others) = (None, Vec::new(), ForeignData::default());
    for datum in keys.data(node)? {
        match field(&datum, &EDGE_FIELDS)? {
            Some(("type", bytes)) => edge_type = Some(text("type", bytes)?),
            Some((_, bytes)) => properties = bytes.into_owned(),
            None => others.add(&datum)?,
        }
    }
    let edge_type = edge_type.unwrap_or_else(|| "link".to_owned());
    Ok(EdgeItem { source, edge_type, target, properties: others.beside(properties, "properties")? })
}

/// Whether the edges of a graph are directed by default.
fn is_directed(graph: Node<'_, '_>) -> Result<bool, String> {
    match graph.attribute("edgedefault") {
        None | Some("directed") => Ok(true),
        Some("undirected") => Ok(false),
        Some(other) => Err(format!("edgedefault must be \"directed\" or \"undirected\", got {other:?}")),
    }
}

/// A directed edge, or, for an undirected one, one each way.
fn both_ways(node: Node<'_, '_>, edge: EdgeItem) -> Result<Vec<EdgeItem>, String> {
    let is_directed = match node.attribute("directed") {
        Some("true" | "1") => true,
        Some("false" | "0") => false,
        Some(other) => return Err(format!("directed must be \"true\" or \"false\", got {other:?}")),
        None => node.ancestors().find(|outer| is(outer, "graph")).map_or(Ok(true), is_directed)?,
    };
    if is_directed || edge.source.id() == edge.target.id() {
        return Ok(vec![edge]);
    }
    let back = EdgeItem { source: edge.target.clone(), target: edge.source.clone(), ..edge.clone() };
    Ok(vec![edge, back])
}

/// The fields of a node, each as text or in base64; the first only when its id is not the name.
const NODE_FIELDS: [&str; 6] = ["name", "kind", "source", "tags", "metadata", "content"];

/// The fields of an edge.
const EDGE_FIELDS: [&str; 2] = ["type", "properties"];

const BASE64: &str = "_base64";

/// Writes the part before the items.
pub(super) fn begin(graph: &str, out: &mut Vec<u8>) {
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
pub(super) fn end_of_file(out: &mut Vec<u8>) {
    out.extend_from_slice(b"  </graph>\n</graphml>\n");
}

/// Writes an item.
pub(super) fn write(item: &Item, out: &mut Vec<u8>) {
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
