//! Converts results of the graph into messages: copied out of the log.

use bytes::Bytes;
use quire::graph::{self, BlockId, Direction, WalkBound};
use tonic::Status;

use crate::error::invalid;
use crate::proto::graph_reply::Kind;
use crate::proto::{self, GraphDirection, GraphReply, graph_reply};

pub(super) fn id(id: BlockId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

pub(super) fn block(block: &graph::Block<'_>) -> proto::Block {
    proto::Block {
        id: id(block.id),
        name: block.name.unwrap_or_default().to_owned(),
        version: block.version.get(),
        kind: block.kind.to_owned(),
        source: block.source.to_owned(),
        tags: block.tags().map(str::to_owned).collect(),
        metadata: Bytes::copy_from_slice(block.metadata),
        content: Bytes::copy_from_slice(block.content),
        time_us: block.time.as_micros(),
        position: block.place.position.get(),
    }
}

/// The approximate size of a block in a message, in bytes.
pub(super) fn bytes_of(block: &proto::Block) -> usize {
    64 + block.name.len() + block.source.len() + block.metadata.len() + block.content.len()
}

/// The memory of the message of a block.
pub(super) fn bytes_within(block: &graph::Block<'_>) -> usize {
    let tags: usize = block.tags().map(|tag| size_of::<String>() + tag.len()).sum();
    let name = block.name.map_or(0, str::len);
    let texts = name + block.kind.len() + block.source.len();
    size_of::<proto::Block>() + block.id.as_bytes().len() + tags + texts + block.metadata.len() + block.content.len()
}

pub(crate) fn reply(reply: &graph::Reply) -> GraphReply {
    let kind = match *reply {
        graph::Reply::BlockPut { block, version, created } => {
            Kind::BlockPut(graph_reply::BlockPut { id: id(block), version: version.get(), created })
        }
        graph::Reply::BlockDeleted { block, version } => {
            Kind::BlockDeleted(graph_reply::BlockDeleted { id: id(block), version: version.get() })
        }
        graph::Reply::EdgePut { created } => Kind::EdgePut(graph_reply::EdgePut { created }),
        graph::Reply::EdgeDeleted { existed } => Kind::EdgeDeleted(graph_reply::EdgeDeleted { existed }),
        graph::Reply::EdgesDeleted { count, is_more } => {
            Kind::EdgesDeleted(graph_reply::EdgesDeleted { edges: count as u64, more: is_more })
        }
        graph::Reply::RetentionSet => Kind::RetentionSet(graph_reply::RetentionSet {}),
        graph::Reply::HistoryTrimmed { from } => Kind::HistoryTrimmed(graph_reply::HistoryTrimmed { from: from.get() }),
    };
    GraphReply { kind: Some(kind) }
}

/// The direction in a request.
pub(super) fn direction(direction: i32) -> Result<Direction, Status> {
    match GraphDirection::try_from(direction) {
        Ok(GraphDirection::Outgoing) => Ok(Direction::Outgoing),
        Ok(GraphDirection::Incoming) => Ok(Direction::Incoming),
        Ok(GraphDirection::Both) => Ok(Direction::Both),
        Err(_) => Err(invalid(format!("unknown direction {direction}"))),
    }
}

pub(super) fn bound(bound: Option<WalkBound>) -> i32 {
    let bound = match bound {
        None => proto::WalkBound::None,
        Some(WalkBound::Depth) => proto::WalkBound::Depth,
        Some(WalkBound::Visited) => proto::WalkBound::Visited,
        Some(WalkBound::Results) => proto::WalkBound::Results,
        Some(WalkBound::Time) => proto::WalkBound::Time,
        Some(WalkBound::Steps) => proto::WalkBound::Steps,
    };
    bound.into()
}

pub(super) fn retention(graph::Retention { history_ms, versions }: graph::Retention) -> proto::SetGraphRetention {
    proto::SetGraphRetention { history_ms, versions: versions.max(1) }
}
