//! The feed of changes, which does not end by itself.

use std::sync::Arc;

use bytes::Bytes;
use quire::graph::{self, GraphChangeKind, Wants};
use quire::{GraphChanges, Place, Position};
use tonic::Status;

use super::message;
use crate::app::App;
use crate::error::failed;
use crate::pages::{PAGE_BYTES, PAGE_ITEMS_MAX, PageStream, PagedResult, stream};
use crate::proto::graph_change::{ChangedEdge, What};
use crate::proto::{GraphChange, GraphChangesRequest, GraphChangesResponse, GraphPlace};

/// Streams the changes.
struct ChangePages {
    changes: GraphChanges,
    is_caught_up: bool,
}

/// The changes after a place, and later ones.
pub(super) async fn changes(
    app: Arc<App>,
    request: GraphChangesRequest,
) -> Result<PageStream<GraphChangesResponse>, Status> {
    let graph = app.database().graph(&request.graph);
    let from = request.after.map(|after| Place::new(Position::new(after.position), after.index));
    let changes = from.map_or_else(|| graph.changes(Place::START), |from| graph.changes(from).exactly());
    stream(app, ChangePages { changes, is_caught_up: false }).await
}

impl PagedResult for ChangePages {
    type Page = GraphChangesResponse;

    fn next(&mut self, _app: &App) -> Result<Option<Self::Page>, Status> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let is_all = self.changes.visit_next(|change| {
            let change = message(change);
            bytes += bytes_of(&change);
            changes.push(change);
            let is_full = changes.len() == PAGE_ITEMS_MAX || bytes >= PAGE_BYTES;
            if is_full { Wants::Break(()) } else { Wants::Continue(()) }
        });
        let is_caught_up = is_all.map_err(failed)?;
        let was_caught_up = std::mem::replace(&mut self.is_caught_up, is_caught_up);
        if changes.is_empty() && was_caught_up {
            return Ok(None);
        }
        let Place { position, index } = self.changes.next();
        let next = Some(GraphPlace { position: position.get(), index });
        Ok(Some(GraphChangesResponse { changes, next, caught_up: is_caught_up }))
    }

    async fn more(&mut self, _app: &App) -> Result<bool, Status> {
        self.changes.next_publication().await.map_err(failed)?;
        Ok(true)
    }
}

fn message(change: &graph::GraphChange<'_>) -> GraphChange {
    let edge = |source, edge_type: &str, target, properties: &[u8]| ChangedEdge {
        source: message::id(source),
        r#type: edge_type.to_owned(),
        target: message::id(target),
        properties: Bytes::copy_from_slice(properties),
    };
    let what = match &change.what {
        GraphChangeKind::BlockPut(block) => What::BlockPut(message::block(block)),
        GraphChangeKind::BlockDeleted { block } => What::BlockDeleted(message::id(*block)),
        GraphChangeKind::EdgePut { source, edge_type, target, properties } => {
            What::EdgePut(edge(*source, edge_type, *target, properties))
        }
        GraphChangeKind::EdgeDeleted { source, edge_type, target } => {
            What::EdgeDeleted(edge(*source, edge_type, *target, &[]))
        }
    };
    GraphChange { position: change.place.position.get(), time_us: change.time.as_micros(), what: Some(what) }
}

/// The approximate size of a change in a message, in bytes.
fn bytes_of(change: &GraphChange) -> usize {
    match &change.what {
        Some(What::BlockPut(block)) => message::bytes_of(block),
        Some(What::EdgePut(edge)) => 64 + edge.properties.len(),
        _ => 64,
    }
}
