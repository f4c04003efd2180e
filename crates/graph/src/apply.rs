//! Takes an entry into the state. It decides nothing and reads nothing but the entry.
//!
//! Everything is as cheap as a map's insertion, but for the deletion of a block, which takes out its edges one by one:
//! listing them in the entry instead would let a single deletion outgrow the largest record.

use quire_model::Entry;

use crate::Graph;
use crate::codec::Effect;
use crate::state::{Graphs, Slot};

/// Takes in the entry.
///
/// # Panics
/// When the entry is not one that `decide` makes against this state.
pub(crate) fn apply(graphs: &mut Graphs, entry: &Entry<'_>) {
    match Effect::of(entry) {
        Effect::GraphNamed { graph, name } => {
            graphs.names.add(graph, name);
            graphs.graphs.push(Graph::default());
        }
        Effect::KindNamed { graph, number, name } => graphs.numbered(graph).kinds.add(number, name),
        Effect::EdgeTypeNamed { graph, number, name } => graphs.numbered(graph).edge_types.add(number, name),
        Effect::BlockPut(block) => {
            let slot =
                Slot { version: block.version, place: entry.place, kind: block.kind, is_named: block.name.is_some() };
            graphs.numbered(block.graph).blocks.insert(block.id, slot);
        }
        Effect::BlockDeleted { graph, id } => graphs.numbered(graph).remove_block(id),
        Effect::EdgePut { graph, key, .. } => {
            let graph = graphs.numbered(graph);
            graph.outgoing.insert(key, entry.place);
            graph.incoming.insert(key.reversed());
        }
        Effect::EdgeDeleted { graph, key } => {
            let graph = graphs.numbered(graph);
            graph.outgoing.remove(&key);
            graph.incoming.remove(&key.reversed());
        }
    }
}

impl Graphs {
    fn numbered(&mut self, graph: u32) -> &mut Graph {
        &mut self.graphs[graph as usize]
    }
}
