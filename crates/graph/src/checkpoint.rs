//! The whole state as bytes, and back.
//!
//! ```text
//! format 3 | graph names | graph ...                      names: count v | name + ...
//! graph:   kinds | edge types | deleted version max v | milliseconds of history + 1 v (0: for ever) | versions v
//!          | first position of the history v | adjacency
//! ```
//!
//! Equal states write equal bytes: slots are given in the order of the log, and the hash tables are
//! not written.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder};
use quire_model::{Parts, Position};

use crate::adjacency::Adjacency;
use crate::memory::MemorySource;
use crate::names::Names;
use crate::state::{Graph, Graphs};
use crate::{Retention, Version};

const FORMAT: u8 = 3;

/// Writes the state, in parts.
pub(crate) fn save(graphs: &Graphs, sink: &mut dyn FnMut(&[u8])) {
    let mut out = Parts::to(sink);
    out.encoder().u8(FORMAT);
    graphs.names.save(out.encoder());
    for graph in &graphs.graphs {
        graph.kinds.save(out.encoder());
        graph.edge_types.save(out.encoder());
        out.encoder().varint(graph.deleted_version_max.get());
        let Retention { history_ms, versions } = graph.retention;
        out.encoder().varint(history_ms.map_or(0, |ms| ms.saturating_add(1))).varint(versions);
        out.encoder().varint(graph.history_from.get());
        graph.adjacency.save(&mut out);
    }
    out.end();
}

/// Reads the state.
pub(crate) fn load(from: &mut Decoder<'_>, seed: u64, memory: MemorySource) -> Result<Graphs, CodecError> {
    if from.u8()? != FORMAT {
        let bytes_left = from.clone().rest().len();
        return Err(CodecError { expected: "checkpoint format 3 of the graphs", bytes_left });
    }
    let names = Names::load(from)?;
    let mut graphs = Vec::new();
    for number in 0..names.count() {
        let (kinds, edge_types) = (Names::load(from)?, Names::load(from)?);
        let deleted_version_max = Version::new(from.varint()?);
        let retention = Retention { history_ms: from.varint()?.checked_sub(1), versions: from.varint()? };
        let history_from = Position::new(from.varint()?);
        let adjacency = Adjacency::load(from, seed, &memory, kinds.count(), edge_types.count())?;
        graphs.push(Graph { number, adjacency, kinds, edge_types, deleted_version_max, retention, history_from });
    }
    // Loaded state is durable.
    Ok(Graphs { seed, memory, names, graphs, trimmed_at: Position::ZERO })
}
