//! The table of routes: what can be asked under which path.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::app::App;
use crate::error::Problem;
use crate::health;

/// All routes, over these components.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/healthz", get(health::health))
        .fallback(async || Problem::unknown_route())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(app)
}
