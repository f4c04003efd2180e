//! The resources that a command touches.

use quire_model::{Operation, ResourceKind, Touch};

use crate::{Command, DeleteBlock, DeleteEdge, DeleteEdges, PutBlock, PutEdge, SetRetention, TrimHistory};

impl Command<'_> {
    /// See [`Model::touches`](quire_model::Model::touches). Every command names its graph.
    pub(crate) fn touched(&self, touch: &mut dyn FnMut(Touch<'_>)) {
        let (graph, operation) = match self {
            Command::PutBlock(PutBlock { graph, .. }) | Command::PutEdge(PutEdge { graph, .. }) => {
                (graph, Operation::Write)
            }
            Command::DeleteBlock(DeleteBlock { graph, .. })
            | Command::DeleteEdge(DeleteEdge { graph, .. })
            | Command::DeleteEdges(DeleteEdges { graph, .. })
            | Command::TrimHistory(TrimHistory { graph, .. }) => (graph, Operation::Delete),
            Command::SetRetention(SetRetention { graph, .. }) => (graph, Operation::Alter),
        };
        touch(Touch::named(ResourceKind::Graph, graph, operation));
    }
}
