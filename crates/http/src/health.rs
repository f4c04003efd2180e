//! `GET /healthz`: whether the database can keep its promises.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::app::App;
use crate::error::Problem;

/// The answer of a healthy server.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    status: &'static str,
}

/// 200 when the database answers, 503 with the reason when it has failed.
pub(crate) async fn health(State(app): State<Arc<App>>) -> Result<Json<Health>, Problem> {
    app.database.read(|_| ())?.await?;
    Ok(Json(Health { status: "ok" }))
}
