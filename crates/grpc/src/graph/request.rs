//! Converts requests into commands. Payloads are borrowed.

use quire::graph::{self, BlockId, Version};
use quire::{Commit, GraphFilter, Position};
use tonic::Status;

use crate::error::{ItemFault, invalid};
use crate::proto::block_ref::Ref;
use crate::proto::graph_command::Kind;
use crate::proto::{BlockRef, CommitGraphRequest, GraphBlockFilter, GraphCommand, MetadataField};

/// The tags of a command, for the command to borrow.
pub(crate) fn tags(command: &GraphCommand) -> Vec<&str> {
    match &command.kind {
        Some(Kind::PutBlock(put)) => put.tags.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The commit of all commands.
pub(super) fn commit<'c>(request: &'c CommitGraphRequest, tags: &'c [Vec<&'c str>]) -> Result<Commit<'c>, Status> {
    let mut commit = Commit::new();
    for (index, (given, tags)) in request.commands.iter().zip(tags).enumerate() {
        let command = command(&request.graph, given, tags);
        commit = commit.part(command.map_err(|fault| fault.within(&format!("command {index}")))?);
    }
    Ok(commit)
}

/// A command to a graph.
pub(crate) fn command<'c>(
    graph: &'c str,
    command: &'c GraphCommand,
    tags: &'c [&'c str],
) -> Result<graph::Command<'c>, ItemFault> {
    let kind = command.kind.as_ref().ok_or_else(|| ItemFault::invalid("the command has no kind"))?;
    Ok(match kind {
        Kind::PutBlock(put) => graph::Command::PutBlock(graph::PutBlock {
            graph,
            block: block("block", put.block.as_ref())?,
            kind: &put.kind,
            source: &put.source,
            tags,
            metadata: &put.metadata,
            content: &put.content,
            expect: put.expect_version.map(Version::new),
        }),
        Kind::DeleteBlock(delete) => {
            graph::Command::DeleteBlock(graph::DeleteBlock { graph, block: block("block", delete.block.as_ref())? })
        }
        Kind::PutEdge(put) => graph::Command::PutEdge(graph::PutEdge {
            graph,
            source: block("source", put.source.as_ref())?,
            edge_type: &put.r#type,
            target: block("target", put.target.as_ref())?,
            properties: &put.properties,
            allow_missing: put.allow_missing,
        }),
        Kind::DeleteEdge(delete) => graph::Command::DeleteEdge(graph::DeleteEdge {
            graph,
            source: block("source", delete.source.as_ref())?,
            edge_type: &delete.r#type,
            target: block("target", delete.target.as_ref())?,
        }),
        Kind::DeleteEdges(delete) => graph::Command::DeleteEdges(graph::DeleteEdges {
            graph,
            block: block("block", delete.block.as_ref())?,
            count_max: usize::try_from(delete.count_max).unwrap_or(usize::MAX),
        }),
        Kind::SetRetention(set) => {
            let retention = graph::Retention { history_ms: set.history_ms, versions: set.versions };
            graph::Command::SetRetention(graph::SetRetention { graph, retention })
        }
        Kind::TrimHistory(trim) => {
            graph::Command::TrimHistory(graph::TrimHistory { graph, from: Position::new(trim.from) })
        }
    })
}

/// The block in a message.
fn block<'c>(field: &str, given: Option<&'c BlockRef>) -> Result<graph::BlockRef<'c>, ItemFault> {
    match given.and_then(|given| given.r#ref.as_ref()) {
        None => Err(ItemFault::invalid(format!("{field} must name a block"))),
        Some(Ref::Name(name)) => Ok(graph::BlockRef::Name(name)),
        Some(Ref::Id(id)) => match id.as_ref().try_into() {
            Ok(bytes) => Ok(graph::BlockRef::Id(BlockId::new(bytes))),
            Err(_) => Err(ItemFault::invalid(format!("{field}: an id must have 16 bytes, got {}", id.len()))),
        },
    }
}

/// The id of the block in a message.
pub(super) fn id(field: &str, given: Option<&BlockRef>) -> Result<BlockId, Status> {
    Ok(block(field, given).map(graph::BlockRef::id)?)
}

/// The ids of the blocks in messages.
pub(super) fn ids(field: &str, given: &[BlockRef]) -> Result<Vec<BlockId>, Status> {
    let id = |(index, given): (usize, &BlockRef)| id(&format!("{field} {index}"), Some(given));
    given.iter().enumerate().map(id).collect()
}

/// The name of the block in a message, if the message names it.
pub(super) fn name(given: Option<&BlockRef>) -> Option<&str> {
    match given?.r#ref.as_ref()? {
        Ref::Name(name) => Some(name),
        Ref::Id(_) => None,
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
