//! Reads of a cluster: before the route of a read runs, a majority of the nodes confirms that this
//! node still leads. So the answer has each commit that was acknowledged before the request, on any
//! node.
//!
//! A commit needs no such round: it is acknowledged by a majority itself.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use quire_access::Session;

use crate::app::App;
use crate::error::Problem;
use crate::route_kinds::is_read;

/// Answers a read once a majority has confirmed that this node leads. A database alone answers at
/// once, and so does a node that reads for itself.
pub(crate) async fn confirm(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    if let Some(control) = app.served().get().cluster_control()
        && is_read(request.method(), route)
        && !Session::current().is_some_and(|session| session.reads_here())
        && let Err(error) = control.confirm().await
    {
        return Problem::from(error).into_response();
    }
    next.run(request).await
}
