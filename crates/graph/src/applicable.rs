//! Whether the state holds everything that an entry refers to: after records were lost, it may not.

use quire_model::Entry;

use crate::adjacency::Adjacency;
use crate::codec::Effect;
use crate::names::{Names, narrow};
use crate::{BlockId, Graph, Graphs};

/// The message for an entry that does not decode.
const UNREADABLE: &str = "this program can't read the entry";

impl Graphs {
    /// See [`Model::check_applicable`](quire_model::Model::check_applicable).
    pub(crate) fn applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        let graph = |number: u32| self.graphs.get(number as usize).ok_or("its graph is unknown");
        match Effect::read(entry).map_err(|_| UNREADABLE)? {
            Effect::GraphNamed { graph, name } => is_next(&self.names, graph, name),
            Effect::KindNamed { graph: number, number: kind, name } => is_next(&graph(number)?.kinds, kind, name),
            Effect::EdgeTypeNamed { graph: number, number: edge_type, name } => {
                is_next(&graph(number)?.edge_types, edge_type, name)
            }
            Effect::BlockPut(put) => {
                (put.kind < graph(put.graph)?.kinds.count()).then_some(()).ok_or("the kind of its block is unknown")
            }
            Effect::BlockDeleted { graph: number, id } => {
                has_block(&graph(number)?.adjacency, id).then_some(()).ok_or("its block is unknown")
            }
            Effect::EdgePut { graph: number, key, .. } => has_edge_type(graph(number)?, key.edge_type),
            Effect::EdgeDeleted { graph: number, key } => {
                let graph = graph(number)?;
                has_edge_type(graph, key.edge_type)?;
                let edge = graph.adjacency.edge(key.near, narrow(key.edge_type), key.far);
                edge.map(|_| ()).ok_or("its edge is unknown")
            }
            Effect::RetentionSet { graph: number, .. } | Effect::HistoryTrimmed { graph: number, .. } => {
                graph(number).map(|_| ())
            }
        }
    }
}

fn is_next(names: &Names, number: u32, name: &str) -> Result<(), &'static str> {
    match (number == names.count(), names.number(name)) {
        (true, None) => Ok(()),
        (false, None) => Err("the entry that names an earlier number is lost"),
        (_, Some(_)) => Err("the name already has a number"),
    }
}

fn has_block(adjacency: &Adjacency, id: BlockId) -> bool {
    adjacency.find(id).is_some_and(|node| node.is_block())
}

fn has_edge_type(graph: &Graph, edge_type: u32) -> Result<(), &'static str> {
    (edge_type < graph.edge_types.count()).then_some(()).ok_or("the type of its edge is unknown")
}
