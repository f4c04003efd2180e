//! Counts of requests, by route and status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;

/// How many requests were answered since the server started.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<BTreeMap<(String, u16), u64>>);

impl Requests {
    /// The counts, by route and status.
    pub(crate) fn counts(&self) -> BTreeMap<(String, u16), u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, route: String, status: u16) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry((route, status)).or_default() += 1;
    }
}

/// Counts a request once it is answered. Paths that are no route are counted together.
pub(crate) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("unknown", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    app.requests.count(route, response.status().as_u16());
    response
}
