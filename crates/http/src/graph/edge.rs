//! One edge, with its properties.

use std::sync::Arc;

use axum::extract::State;
use quire_access::BoundedRequest;

use super::{block_id, is_by_id, position, snapshot};
use crate::app::App;
use crate::bytes::value;
use crate::error::Problem;
use crate::params::{Params, PathNames};
use crate::response::{JsonResponse, bounded};
use quire_api::reply::EdgeReply;

/// `GET /v1/graphs/{graph}/edges`: the edge with this `source`, `type` and `target`.
pub(crate) async fn edge(
    State(app): State<Arc<App>>,
    PathNames(graph): PathNames<String>,
    mut params: Params,
) -> Result<JsonResponse, Problem> {
    let is_by_id = is_by_id(&mut params)?;
    let mut given = |name: &str| {
        let given: Option<String> = params.one(name)?;
        given.ok_or_else(|| Problem::invalid(format!("{name} is missing: give source, type and target of the edge")))
    };
    let (source, edge_type, target) = (given("source")?, given("type")?, given("target")?);
    let at = position(&mut params)?;
    params.end()?;
    let (from, to) = (block_id(is_by_id, &source)?, block_id(is_by_id, &target)?);
    bounded(BoundedRequest::begin(&app.database()), move |database| {
        let mut claim = app.memory.claim();
        let found = snapshot(database, &graph, at)?.edge(from, &edge_type, to, |edge| {
            claim.grow(edge.properties.len())?;
            Ok::<_, Problem>(EdgeReply {
                source: from.to_string(),
                edge_type: edge_type.clone(),
                target: to.to_string(),
                time_ms: edge.time.as_millis(),
                position: edge.place.position.get(),
                properties: value(edge.properties.to_vec()),
            })
        })?;
        let unknown = || {
            Problem::not_found(format!("unknown edge {edge_type:?} from {source:?} to {target:?} in graph {graph:?}"))
        };
        JsonResponse::within(claim, &found.ok_or_else(unknown)??)
    })
    .await
}
