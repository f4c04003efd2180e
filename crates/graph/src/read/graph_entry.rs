//! The facts of an entry about its graph, for readers that show whole commits.

use quire_model::Entry;
use quire_model::codec::CodecError;

use crate::codec::Effect;
use crate::{BlockId, Graphs};

/// An entry of the model. See [`Graphs::graph_entry`].
#[derive(Debug, Clone, Copy)]
pub struct GraphEntry<'s, 'h> {
    /// The name of the graph; `None` for an unknown graph.
    pub graph: Option<&'s str>,
    /// The block, when the entry puts or deletes one.
    pub block: Option<BlockId>,
    /// The name of the block, when the entry has it; of a named thing its name. `None` for a block
    /// that the graph's history no longer has.
    pub name: Option<&'h str>,
    /// The source, the type and the target, when the entry puts or deletes an edge.
    pub edge: Option<(BlockId, &'s str, BlockId)>,
}

impl Graphs {
    /// Returns the facts of an entry of this model.
    ///
    /// # Errors
    /// When a newer program wrote the entry.
    pub fn graph_entry<'s, 'h>(&'s self, entry: &Entry<'h>) -> Result<GraphEntry<'s, 'h>, CodecError> {
        let (number, block, name, edge) = match Effect::read(entry)? {
            Effect::GraphNamed { graph, name }
            | Effect::KindNamed { graph, name, .. }
            | Effect::EdgeTypeNamed { graph, name, .. } => (graph, None, Some(name), None),
            Effect::BlockPut(put) => (put.graph, Some(put.id), put.name, None),
            Effect::BlockDeleted { graph, id } => (graph, Some(id), None, None),
            Effect::EdgePut { graph, key, .. } | Effect::EdgeDeleted { graph, key } => (graph, None, None, Some(key)),
            Effect::RetentionSet { graph, .. } | Effect::HistoryTrimmed { graph, .. } => (graph, None, None, None),
        };
        let known = self.graphs.get(number as usize);
        let is_trimmed = block.is_some() && known.is_some() && self.superseded(entry).is_some();
        let name = name.filter(|_| !is_trimmed);
        let edge = edge.zip(known).and_then(|(key, graph)| {
            let edge_type = graph.edge_types.get(key.edge_type)?;
            Some((key.near, edge_type, key.far))
        });
        let graph = self.names.get(number);
        Ok(GraphEntry { graph, block, name, edge })
    }
}
