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

use quire_model::Position;
use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::adjacency::Adjacency;
use crate::memory::MemorySource;
use crate::names::Names;
use crate::state::{Graph, Graphs};
use crate::{Retention, Version};

const FORMAT: u8 = 3;

/// The number of bytes that are written before they are passed on.
const PART_BYTES: usize = 1 << 20;

/// Bytes that are passed on in parts, so that memory never holds more than one part.
pub(crate) struct Parts<'s> {
    part: Encoder,
    sink: &'s mut dyn FnMut(&[u8]),
}

impl<'s> Parts<'s> {
    pub(crate) fn to(sink: &'s mut dyn FnMut(&[u8])) -> Self {
        Parts { part: Encoder::new(), sink }
    }

    /// Returns the encoder for the next few bytes.
    #[inline]
    pub(crate) fn next(&mut self) -> &mut Encoder {
        if self.part.as_slice().len() >= PART_BYTES {
            self.end();
        }
        &mut self.part
    }

    /// Passes the last part to the sink.
    fn end(&mut self) {
        (self.sink)(self.part.as_slice());
        self.part.clear();
    }
}

/// Writes the state, in parts.
pub(crate) fn save(graphs: &Graphs, sink: &mut dyn FnMut(&[u8])) {
    let mut out = Parts::to(sink);
    out.next().u8(FORMAT);
    graphs.names.save(out.next());
    for graph in &graphs.graphs {
        graph.kinds.save(out.next());
        graph.edge_types.save(out.next());
        out.next().varint(graph.deleted_version_max.get());
        let Retention { history_ms, versions } = graph.retention;
        out.next().varint(history_ms.map_or(0, |ms| ms.saturating_add(1))).varint(versions);
        out.next().varint(graph.history_from.get());
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
