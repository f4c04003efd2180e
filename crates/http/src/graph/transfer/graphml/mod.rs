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

mod export;

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

pub(super) use export::{begin, end_of_file, write};

use super::IMPORT_BYTES_MAX;
use super::caller::ImportClient;
use super::item::{BlockItem, EdgeItem, EndItem, Item, ItemList, allocated, wrong};
use super::xml::{Element, XmlEvent, XmlReader};
use crate::error::Problem;

const ID: &str = "id:";

/// Maximum number of keys of a file.
const KEYS_MAX: usize = 256;

/// Events between two checks whether the client is still there.
const EVENTS_AT_ONCE: usize = 4096;

/// Reads a file, in two passes: a key may stand after its use.
pub(super) fn read(bytes: &[u8], caller: &ImportClient, items: &mut ItemList<'_>) -> Result<(), Problem> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        wrong(line as u64, format_args!("the file is not UTF-8: {error}"))
    })?;
    let keys = KeyTable::read(text, caller)?;
    let mut elements = ElementReader {
        keys: &keys,
        open: Vec::new(),
        slots: Vec::new(),
        budget: WriteBudget { left: IMPORT_BYTES_MAX },
        items,
    };
    each_event(text, caller, |event, line| elements.take(event, line))?;
    let mut seen = SeenElements::default();
    let ElementReader { slots, items, .. } = elements;
    for slot in slots {
        for item in slot.items {
            let checked = match &item {
                Item::Block(block) => seen.node(block, slot.line),
                Item::Edge(edge) => seen.edge(edge, slot.line),
            };
            checked.map_err(|message| wrong(slot.line, message))?;
            items.push(slot.line, item)?;
        }
    }
    Ok(())
}

/// Passes every event of a document to `take`, with its line.
fn each_event<'t>(
    text: &'t str,
    caller: &ImportClient,
    mut take: impl FnMut(XmlEvent<'t>, u64) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let (mut reader, mut lines) = (XmlReader::new(text), LineNumbers { text, at: 0, line: 1 });
    let mut events = 0_usize;
    loop {
        let next = reader.next().map_err(|error| wrong(lines.of(error.at.max(lines.at)), error.message))?;
        let Some((at, event)) = next else { return Ok(()) };
        events += 1;
        if events.is_multiple_of(EVENTS_AT_ONCE) {
            caller.check()?;
        }
        take(event, lines.of(at))?;
    }
}

/// Checks that the root is GraphML: in its namespace, which older tools write differently, or in
/// none.
fn check_root(root: &Element) -> Result<(), String> {
    if root.name != "graphml" {
        return Err(format!("the root element must be \"graphml\", got {:?}", root.name));
    }
    match root.namespace().filter(|namespace| !namespace.contains("graphml.graphdrawing.org")) {
        Some(namespace) => Err(format!("the namespace must be that of GraphML, got {namespace:?}")),
        None => Ok(()),
    }
}

/// The line numbers of ascending places: counting from the start for each would be quadratic.
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

/// The bytes that the items may still take. A key's name and default are written once for each
/// element that they apply to, so a small file can ask for much.
struct WriteBudget {
    left: usize,
}

impl WriteBudget {
    fn take(&mut self, bytes: usize, line: u64) -> Result<(), Problem> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let message = format!(
                    "the data of the file, with the names and defaults of its keys, exceeds {} MiB: import it in parts",
                    IMPORT_BYTES_MAX >> 20
                );
                Err(Problem::too_large(message).at_line(line).fact("most", IMPORT_BYTES_MAX))
            }
        }
    }
}

/// The items of a node or an edge.
struct Slot {
    line: u64,
    items: Vec<Item>,
}

/// An open element.
enum OpenElement {
    /// A graph, and whether its edges are directed by default.
    Graph(bool),
    /// A node or an edge, and the number of its slot.
    Item(OpenItem, usize),
    /// The data of the node or edge around it: its key, and its text.
    Data(Option<String>, String),
    Other,
}

/// The bytes that an element takes until its node or edge is an item: a node or an edge takes a
/// slot and is remembered as seen; data takes its place, and a key that is unknown.
fn element_bytes(element: &Element) -> usize {
    match element.name.as_str() {
        "node" | "edge" => SEEN_BYTES + 2 * size_of::<Slot>() + 2 * size_of::<Item>(),
        "data" => DATA_BYTES + 2 * element.attribute("key").map_or(0, |key| allocated(key.len())),
        _ => 0,
    }
}

/// The bytes of a node or an edge in [`SeenElements`], both ways and with the free places of its
/// table.
const SEEN_BYTES: usize = 4 * size_of::<(([u8; 16], String, [u8; 16]), u64)>();

/// The bytes of data in an open item and in the list of its values.
const DATA_BYTES: usize = 2 * (size_of::<(Option<String>, String)>() + size_of::<Datum<'_>>() + 64);

/// A node or an edge whose data is being read.
struct OpenItem {
    element: Element,
    /// Whether the graph around an edge is directed.
    directed: bool,
    data: Vec<(Option<String>, String)>,
}

/// Builds items from the events of a document. Items are in the order of their start tags.
struct ElementReader<'k, 'c> {
    keys: &'k KeyTable,
    open: Vec<OpenElement>,
    slots: Vec<Slot>,
    budget: WriteBudget,
    /// Claims what the elements take until they are items, and then the items.
    items: &'k mut ItemList<'c>,
}

impl ElementReader<'_, '_> {
    fn take(&mut self, event: XmlEvent<'_>, line: u64) -> Result<(), Problem> {
        match event {
            XmlEvent::Start(element) => {
                self.items.claim(line, element_bytes(&element))?;
                let begun = self.start(element, line).map_err(|message| wrong(line, message))?;
                self.open.push(begun);
            }
            XmlEvent::Text(text) => {
                let innermost = self.open.iter_mut().rev().find_map(|open| match open {
                    OpenElement::Data(_, of) => Some(of),
                    _ => None,
                });
                if let Some(of) = innermost {
                    self.items.claim(line, text.len())?;
                    of.push_str(&text);
                }
            }
            XmlEvent::End => match self.open.pop() {
                Some(OpenElement::Data(key, text)) => {
                    if let Some(OpenElement::Item(owner, _)) = self.open.last_mut() {
                        owner.data.push((key, text));
                    }
                }
                Some(OpenElement::Item(owner, slot)) => self.end(owner, slot)?,
                _ => {}
            },
        }
        Ok(())
    }

    fn start(&mut self, element: Element, line: u64) -> Result<OpenElement, String> {
        if self.open.is_empty() {
            check_root(&element)?;
        }
        let is_owned = matches!(self.open.last(), Some(OpenElement::Item(..)));
        Ok(match element.name.as_str() {
            "node" | "edge" => {
                let directed = self.open.iter().rev().find_map(|open| match open {
                    OpenElement::Graph(directed) => Some(*directed),
                    _ => None,
                });
                self.slots.push(Slot { line, items: Vec::new() });
                let owner = OpenItem { element, directed: directed.unwrap_or(true), data: Vec::new() };
                OpenElement::Item(owner, self.slots.len() - 1)
            }
            "graph" => OpenElement::Graph(is_directed(&element)?),
            "data" if is_owned => OpenElement::Data(element.attribute("key").map(str::to_owned), String::new()),
            unheld @ ("hyperedge" | "port") => return Err(format!("{unheld} elements are not supported")),
            _ => OpenElement::Other,
        })
    }

    /// Builds the items of a node or an edge.
    fn end(&mut self, mut owner: OpenItem, slot: usize) -> Result<(), Problem> {
        let line = self.slots[slot].line;
        let of_line = |message: String| wrong(line, message);
        let data = self.keys.data(&owner.element.name, std::mem::take(&mut owner.data)).map_err(of_line)?;
        let is_node = owner.element.name == "node";
        let copies = if is_node || owner.directed { 1 } else { 2 };
        for datum in &data {
            self.budget.take((datum.key.name.len() + datum.text.len()) * copies, line)?;
        }
        let tags =
            data.iter().find(|datum| datum.key.name.starts_with("tags")).map_or(&b""[..], |tags| tags.text.as_bytes());
        let items = self.items.parsed(line, tags, || match is_node {
            true => Ok(vec![Item::Block(block(&owner.element, &data)?)]),
            false => {
                let edges = both_ways(&owner, edge(&owner.element, &data)?)?;
                Ok(edges.into_iter().map(Item::Edge).collect())
            }
        });
        self.slots[slot].items = items?.map_err(of_line)?;
        Ok(())
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
struct KeyTable {
    by_id: HashMap<String, GraphmlKey>,
    /// The keys with a default for nodes, and for edges.
    of_nodes: Vec<(GraphmlKey, String)>,
    of_edges: Vec<(GraphmlKey, String)>,
}

#[derive(Debug, Clone)]
struct GraphmlKey {
    name: Arc<str>,
    value_type: Arc<str>,
}

/// The value of a key of a node or an edge.
struct Datum<'d> {
    key: GraphmlKey,
    text: Cow<'d, str>,
}

/// A key that is being read, and its default.
struct OpenKey {
    depth: usize,
    id: Option<String>,
    of: String,
    key: GraphmlKey,
    default: Option<String>,
}

impl KeyTable {
    /// Reads the keys of a document.
    fn read(text: &str, caller: &ImportClient) -> Result<Self, Problem> {
        let mut keys = KeyTable::default();
        let (mut depth, mut count) = (0, 0);
        let mut open: Option<OpenKey> = None;
        // The depth of the default that is being read.
        let mut in_default = None;
        each_event(text, caller, |event, line| {
            match event {
                XmlEvent::Start(element) => {
                    depth += 1;
                    if element.name == "key" && open.is_none() {
                        count += 1;
                        if count > KEYS_MAX {
                            return Err(wrong(line, format_args!("the file has more than {KEYS_MAX} keys")));
                        }
                        open = Some(OpenKey::of(&element, depth));
                    } else if let Some(key) = &mut open
                        && element.name == "default"
                        && depth == key.depth + 1
                        && key.default.is_none()
                    {
                        (key.default, in_default) = (Some(String::new()), Some(depth));
                    }
                }
                XmlEvent::Text(text) => {
                    let default = open.as_mut().filter(|_| in_default.is_some()).and_then(|key| key.default.as_mut());
                    default.into_iter().for_each(|default| default.push_str(&text));
                }
                XmlEvent::End => {
                    if in_default == Some(depth) {
                        in_default = None;
                    }
                    if let Some(key) = open.take_if(|key| key.depth == depth) {
                        keys.add(key);
                    }
                    depth -= 1;
                }
            }
            Ok(())
        })?;
        Ok(keys)
    }

    fn add(&mut self, OpenKey { id, of, key, default, .. }: OpenKey) {
        let Some(id) = id else { return };
        if let Some(default) = default {
            if of == "node" || of == "all" {
                self.of_nodes.push((key.clone(), default.clone()));
            }
            if of == "edge" || of == "all" {
                self.of_edges.push((key.clone(), default));
            }
        }
        self.by_id.insert(id, key);
    }

    /// The data of a node or an edge, each name once, with the defaults.
    fn data<'d>(&'d self, owner: &str, given: Vec<(Option<String>, String)>) -> Result<Vec<Datum<'d>>, String> {
        let mut names = HashSet::new();
        let mut data = Vec::with_capacity(given.len());
        for (id, text) in given {
            let Some(id) = id else { return Err("a data element has no key".to_owned()) };
            let unknown = || GraphmlKey { name: id.as_str().into(), value_type: "string".into() };
            let key = self.by_id.get(&id).cloned().unwrap_or_else(unknown);
            if !names.insert(Arc::clone(&key.name)) {
                return Err(format!("duplicate data {:?}", key.name));
            }
            data.push(Datum { key, text: Cow::Owned(text) });
        }
        for (key, text) in if owner == "node" { &self.of_nodes } else { &self.of_edges } {
            if names.insert(Arc::clone(&key.name)) {
                data.push(Datum { key: key.clone(), text: Cow::Borrowed(text) });
            }
        }
        Ok(data)
    }
}

impl OpenKey {
    fn of(element: &Element, depth: usize) -> Self {
        let id = element.attribute("id");
        let name = element.attribute("attr.name").or(id).unwrap_or_default();
        let value_type = element.attribute("attr.type").unwrap_or("string");
        OpenKey {
            depth,
            id: id.map(str::to_owned),
            of: element.attribute("for").unwrap_or("all").to_owned(),
            key: GraphmlKey { name: name.into(), value_type: value_type.into() },
            default: None,
        }
    }
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
        self.0.insert(name.to_string(), json);
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

/// One of our own fields, and its bytes.
type OwnField<'d> = (&'static str, Cow<'d, [u8]>);

/// The bytes of one of our own fields: as text or, under the name with the suffix `_base64`, in
/// base64.
fn field<'d>(datum: &'d Datum<'_>, names: &[&'static str]) -> Result<Option<OwnField<'d>>, String> {
    let (name, is_base64) = match datum.key.name.strip_suffix(BASE64) {
        Some(name) => (name, true),
        None => (&*datum.key.name, false),
    };
    let Some(name) = names.iter().find(|known| **known == name) else { return Ok(None) };
    let bytes = match is_base64 {
        true => Cow::Owned(STANDARD.decode(&*datum.text).map_err(|error| format!("{name}{BASE64}: {error}"))?),
        false => Cow::Borrowed(datum.text.as_bytes()),
    };
    Ok(Some((name, bytes)))
}

fn text(name: &str, bytes: Cow<'_, [u8]>) -> Result<String, String> {
    String::from_utf8(bytes.into_owned()).map_err(|error| format!("{name} is not UTF-8: {error}"))
}

fn block(node: &Element, data: &[Datum<'_>]) -> Result<BlockItem, String> {
    let id = node.attribute("id");
    // The name of a node that is given by its id. For other nodes the id is the name, and data of
    // that name belongs to other tools.
    let is_by_id = id.is_some_and(|id| id.starts_with(ID));
    let names = if is_by_id { &NODE_FIELDS[..] } else { &NODE_FIELDS[1..] };
    let (mut kind, mut source, mut tags, mut metadata, mut content) = (None, None, None, Vec::new(), Vec::new());
    let (mut block_name, mut others) = (String::new(), ForeignData::default());
    for datum in data {
        match field(datum, names)? {
            Some(("name", bytes)) => block_name = text("name", bytes)?,
            Some(("kind", bytes)) => kind = Some(text("kind", bytes)?),
            Some(("source", bytes)) => source = Some(text("source", bytes)?),
            Some(("tags", bytes)) => {
                let list = serde_json::from_slice(&bytes);
                tags = Some(list.map_err(|error| format!("tags is a JSON array of strings: {error}"))?);
            }
            Some(("metadata", bytes)) => metadata = bytes.into_owned(),
            Some((_, bytes)) => content = bytes.into_owned(),
            None => others.add(datum)?,
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

fn edge(node: &Element, data: &[Datum<'_>]) -> Result<EdgeItem, String> {
    let end = |what| end(node.attribute(what), "", what);
    let (source, target) = (end("source")?, end("target")?);
    let (mut edge_type, mut properties, mut others) = (None, Vec::new(), ForeignData::default());
    for datum in data {
        match field(datum, &EDGE_FIELDS)? {
            Some(("type", bytes)) => edge_type = Some(text("type", bytes)?),
            Some((_, bytes)) => properties = bytes.into_owned(),
            None => others.add(datum)?,
        }
    }
    let edge_type = edge_type.unwrap_or_else(|| "link".to_owned());
    Ok(EdgeItem { source, edge_type, target, properties: others.beside(properties, "properties")? })
}

/// Whether the edges of a graph are directed by default.
fn is_directed(graph: &Element) -> Result<bool, String> {
    match graph.attribute("edgedefault") {
        None | Some("directed") => Ok(true),
        Some("undirected") => Ok(false),
        Some(other) => Err(format!("edgedefault must be \"directed\" or \"undirected\", got {other:?}")),
    }
}

/// A directed edge, or, for an undirected one, one each way.
fn both_ways(owner: &OpenItem, edge: EdgeItem) -> Result<Vec<EdgeItem>, String> {
    let is_directed = match owner.element.attribute("directed") {
        Some("true" | "1") => true,
        Some("false" | "0") => false,
        Some(other) => return Err(format!("directed must be \"true\" or \"false\", got {other:?}")),
        None => owner.directed,
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
