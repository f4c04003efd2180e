//! Converts requests into commands. Payloads are borrowed.

use quire::graph::{self, BlockId, Version};
use quire::{Commit, GraphFilter, Part, Position};
use tonic::Status;

use crate::error::invalid;
use crate::proto::block_ref::Ref;
use crate::proto::graph_command::Kind;
use crate::proto::{BlockRef, CommitGraphRequest, GraphBlockFilter, GraphCommand, MetadataField};

/// The tags of each command, for a commit to borrow.
pub(super) fn tags(commands: &[GraphCommand]) -> Vec<Vec<&str>> {
    fn of_command(command: &GraphCommand) -> Vec<&str> {
        match &command.kind {
            Some(Kind::PutBlock(put)) => put.tags.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }
    commands.iter().map(of_command).collect()
}

/// The commit of all commands.
pub(super) fn commit<'c>(request: &'c CommitGraphRequest, tags: &'c [Vec<&'c str>]) -> Result<Commit<'c>, Status> {
    let graph = request.graph.as_str();
    let mut commit = Commit::new();
    for (index, (command, tags)) in request.commands.iter().zip(tags).enumerate() {
        let at = |field: &str| format!("command {index}: {field}");
        let kind = command.kind.as_ref().ok_or_else(|| invalid(at("command {index} has no kind")))?;
        commit = match kind {
            Kind::PutBlock(put) => commit.part(graph::Command::PutBlock(graph::PutBlock {
                graph,
                block: block(&at("block"), put.block.as_ref())?,
                kind: &put.kind,
                source: &put.source,
                tags,
                metadata: &put.metadata,
                content: &put.content,
                expect: put.expect_version.map(Version::new),
            })),
            Kind::DeleteBlock(delete) => commit.delete_block(graph, block(&at("block"), delete.block.as_ref())?),
            Kind::PutEdge(put) => commit.part(graph::Command::PutEdge(graph::PutEdge {
                graph,
                source: block(&at("source"), put.source.as_ref())?,
                edge_type: &put.r#type,
                target: block(&at("target"), put.target.as_ref())?,
                properties: &put.properties,
                allow_missing: put.allow_missing,
            })),
            Kind::DeleteEdge(delete) => {
                let source = block(&at("source"), delete.source.as_ref())?;
                let target = block(&at("target"), delete.target.as_ref())?;
                commit.delete_edge(graph, source, &delete.r#type, target)
            }
            Kind::DeleteEdges(delete) => {
                let block = block(&at("block"), delete.block.as_ref())?;
                let count_max = usize::try_from(delete.count_max).unwrap_or(usize::MAX);
                commit.part(Part::Graph(graph::Command::DeleteEdges(graph::DeleteEdges { graph, block, count_max })))
            }
            Kind::SetRetention(set) => {
                let retention = graph::Retention { history_ms: set.history_ms, versions: set.versions };
                commit.part(Part::Graph(graph::Command::SetRetention(graph::SetRetention { graph, retention })))
            }
            Kind::TrimHistory(trim) => {
                let from = Position::new(trim.from);
                commit.part(Part::Graph(graph::Command::TrimHistory(graph::TrimHistory { graph, from })))
            }
        };
    }
    Ok(commit)
}

/// The block in a message.
fn block<'c>(field: &str, given: Option<&'c BlockRef>) -> Result<graph::BlockRef<'c>, Status> {
    match given.and_then(|given| given.r#ref.as_ref()) {
        None => Err(invalid(format!("{field} must name a block"))),
        Some(Ref::Name(name)) => Ok(graph::BlockRef::Name(name)),
        Some(Ref::Id(id)) => match id.as_ref().try_into() {
            Ok(bytes) => Ok(graph::BlockRef::Id(BlockId::new(bytes))),
            Err(_) => Err(invalid(format!("{field}: an id must have 16 bytes, got {}", id.len()))),
        },
    }
}

/// The id of the block in a message.
pub(super) fn id(field: &str, given: Option<&BlockRef>) -> Result<BlockId, Status> {
    block(field, given).map(graph::BlockRef::id)
}

/// The ids of the blocks in messages.
pub(super) fn ids(field: &str, given: &[BlockRef]) -> Result<Vec<BlockId>, Status> {
    let id = |(index, given): (usize, &BlockRef)| id(&format!("{field} {index}"), Some(given));
    given.iter().enumerate().map(id).collect()
}

/// The block in a message, for error messages.
pub(super) fn shown(given: &BlockRef) -> String {
    match block("block", Some(given)) {
        Ok(graph::BlockRef::Name(name)) => format!("{name:?} ({})", BlockId::of_name(name)),
        Ok(graph::BlockRef::Id(id)) => id.to_string(),
        Err(_) => String::new(),
    }
}

/// The filter in a message.
pub(super) fn filter(given: Option<GraphBlockFilter>) -> Result<GraphFilter, Status> {
    let GraphBlockFilter { kinds, tags, metadata } = given.unwrap_or_default();
    let metadata = metadata.into_iter().map(|MetadataField { field, value }| (field, value)).collect();
    let filter = GraphFilter { kinds, tags, metadata };
    match filter.invalid_pointer() {
        None => Ok(filter),
        Some(field) => {
            Err(invalid(format!("invalid JSON pointer {field:?}: ~ must be followed by 0 (for ~) or 1 (for /)")))
        }
    }
}
