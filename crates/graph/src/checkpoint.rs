//! The whole state as bytes, and back.
//!
//! ```text
//! format 2 | graph names | graph ...                      names: count v | name + ...
//! graph:   kinds | edge types | deleted version max v | adjacency
//! ```
//!
//! Equal states write equal bytes: slots are given in the order of the log, and the hash tables are not written.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::Version;
use crate::adjacency::Adjacency;
use crate::names::Names;
use crate::state::{Graph, Graphs};

const FORMAT: u8 = 2;

/// Writes the state.
pub(crate) fn save(graphs: &Graphs, out: &mut Encoder) {
    out.u8(FORMAT);
    graphs.names.save(out);
    for graph in &graphs.graphs {
        graph.kinds.save(out);
        graph.edge_types.save(out);
        out.varint(graph.deleted_version_max.get());
        graph.adjacency.save(out);
    }
}

/// Reads the state.
pub(crate) fn load(from: &mut Decoder<'_>, seed: u64) -> Result<Graphs, CodecError> {
    if from.u8()? != FORMAT {
        let bytes_left = from.clone().rest().len();
        return Err(CodecError { expected: "checkpoint format 2 of the graphs", bytes_left });
    }
    let names = Names::load(from)?;
    let mut graphs = Vec::new();
    for number in 0..names.count() {
        let (kinds, edge_types) = (Names::load(from)?, Names::load(from)?);
        let deleted_version_max = Version::new(from.varint()?);
        let adjacency = Adjacency::load(from, seed, kinds.count(), edge_types.count())?;
        graphs.push(Graph { number, adjacency, kinds, edge_types, deleted_version_max });
    }
    Ok(Graphs { seed, names, graphs })
}
