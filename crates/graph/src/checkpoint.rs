//! The whole state as bytes, and back.
//!
//! ```text
//! format 1 | graph names | graph ...                      names: count v | name + ...
//! graph:   kinds | edge types | deleted version max v
//!        | block count v | (id 16 | version v | place | kind v | is named 1) ... in order of id
//!        | edge count v  | (source 16 | edge type v | target 16 | place) ... in order of key
//! place:   position v | index v
//! ```
//!
//! Equal states write equal bytes, since everything is in order. Loading checks what later code relies on: order,
//! numbers that the catalogues have. That the bytes are the ones written is the log's affair.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Place, Position};

use crate::codec::{EdgeKey, decode_id};
use crate::names::Names;
use crate::state::{Graph, Graphs, Slot};
use crate::{BlockId, Version};

const FORMAT: u8 = 1;

/// Writes the state.
pub(crate) fn save(graphs: &Graphs, out: &mut Encoder) {
    out.u8(FORMAT);
    graphs.names.save(out);
    for graph in &graphs.graphs {
        save_graph(graph, out);
    }
}

/// Reads the state.
pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Graphs, CodecError> {
    check(from.u8()? == FORMAT, "checkpoint format 1 of the graphs", from)?;
    let names = Names::load(from)?;
    let mut graphs = Vec::new();
    for _ in 0..names.count() {
        graphs.push(load_graph(from)?);
    }
    Ok(Graphs { names, graphs })
}

fn save_graph(graph: &Graph, out: &mut Encoder) {
    graph.kinds.save(out);
    graph.edge_types.save(out);
    out.varint(graph.deleted_version_max.get());
    let mut blocks: Vec<(&BlockId, &Slot)> = graph.blocks.iter().collect();
    blocks.sort_unstable_by_key(|(id, _)| **id);
    out.varint(blocks.len() as u64);
    for (id, slot) in blocks {
        out.raw(id.as_bytes()).varint(slot.version.get());
        save_place(slot.place, out);
        out.varint(u64::from(slot.kind)).u8(u8::from(slot.is_named));
    }
    out.varint(graph.outgoing.len() as u64);
    for (key, place) in &graph.outgoing {
        out.raw(key.near.as_bytes()).varint(u64::from(key.edge_type)).raw(key.far.as_bytes());
        save_place(*place, out);
    }
}

fn load_graph(from: &mut Decoder<'_>) -> Result<Graph, CodecError> {
    let mut graph = Graph {
        kinds: Names::load(from)?,
        edge_types: Names::load(from)?,
        deleted_version_max: Version::new(from.varint()?),
        ..Graph::default()
    };
    let mut before = None;
    for _ in 0..from.varint()? {
        let id = decode_id(from)?;
        let slot = Slot {
            version: Version::new(from.varint()?),
            place: load_place(from)?,
            kind: from.varint_u32()?,
            is_named: load_flag(from)?,
        };
        check(before < Some(id), "blocks in order of id", from)?;
        check(slot.kind < graph.kinds.count(), "a kind of the catalogue", from)?;
        graph.blocks.insert(id, slot);
        before = Some(id);
    }
    let mut before = None;
    for _ in 0..from.varint()? {
        let key = EdgeKey { near: decode_id(from)?, edge_type: from.varint_u32()?, far: decode_id(from)? };
        let place = load_place(from)?;
        check(before < Some(key), "edges in order", from)?;
        check(key.edge_type < graph.edge_types.count(), "an edge type of the catalogue", from)?;
        graph.outgoing.insert(key, place);
        graph.incoming.insert(key.reversed());
        before = Some(key);
    }
    Ok(graph)
}

fn save_place(place: Place, out: &mut Encoder) {
    out.varint(place.position.get()).varint(u64::from(place.index));
}

fn load_place(from: &mut Decoder<'_>) -> Result<Place, CodecError> {
    Ok(Place::new(Position::new(from.varint()?), from.varint_u32()?))
}

fn load_flag(from: &mut Decoder<'_>) -> Result<bool, CodecError> {
    let byte = from.u8()?;
    check(byte <= 1, "a flag of 0 or 1", from)?;
    Ok(byte == 1)
}

fn check(holds: bool, expected: &'static str, from: &Decoder<'_>) -> Result<(), CodecError> {
    if holds { Ok(()) } else { Err(CodecError { expected, bytes_left: from.clone().rest().len() }) }
}
