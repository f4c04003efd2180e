//! Takes an entry into the state. It decides nothing and reads nothing but the entry.
//!
//! Each entry costs about a map insertion, except the deletion of a block, which removes its edges
//! one by one. Listing the edges in the entry instead would let a single deletion outgrow the
//! largest record.

use quire_model::Entry;

use crate::Graph;
use crate::adjacency::Facts;
use crate::codec::Effect;
use crate::names::narrow;
use crate::slot_lookups::SlotLookups;
use crate::state::Graphs;

/// Applies the entry. `lookups` has the slots of its blocks, when the decision noted them.
///
/// # Panics
/// When the entry is not one that `decide` makes against this state.
pub(crate) fn apply(graphs: &mut Graphs, entry: &Entry<'_>, lookups: &mut SlotLookups) {
    let position = entry.place.position;
    let slots = lookups.of(entry.place.index);
    match Effect::of(entry) {
        Effect::GraphNamed { graph, name } => {
            graphs.names.add(graph, name);
            graphs.graphs.push(Graph::new(graph, graphs.seed, &graphs.memory));
        }
        Effect::KindNamed { graph, number, name } => graphs.numbered(graph).kinds.add(number, name),
        Effect::EdgeTypeNamed { graph, number, name } => graphs.numbered(graph).edge_types.add(number, name),
        Effect::BlockPut(block) => {
            let (version, kind, is_named) = (block.version, narrow(block.kind), block.name.is_some());
            let facts = Facts { version, place: entry.place, kind, is_named };
            graphs.numbered(block.graph).adjacency.put_block(block.id, facts, slots.map(|[slot, _]| slot));
        }
        Effect::BlockDeleted { graph, id } => {
            let graph = graphs.numbered(graph);
            let facts = graph.adjacency.delete_block(id, position);
            graph.deleted_version_max = graph.deleted_version_max.max(facts.version);
        }
        Effect::EdgePut { graph, key, .. } => {
            graphs.numbered(graph).adjacency.put_edge(key.near, narrow(key.edge_type), key.far, entry.place, slots);
        }
        Effect::EdgeDeleted { graph, key } => {
            graphs.numbered(graph).adjacency.delete_edge(key.near, narrow(key.edge_type), key.far, position);
        }
        Effect::RetentionSet { graph, retention } => graphs.numbered(graph).retention = retention,
        Effect::HistoryTrimmed { graph, from } => {
            let graph = graphs.numbered(graph);
            graph.history_from = graph.history_from.max(from);
            graphs.trimmed_at = position;
        }
    }
}

impl Graphs {
    fn numbered(&mut self, graph: u32) -> &mut Graph {
        &mut self.graphs[graph as usize]
    }
}
