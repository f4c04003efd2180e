//! Counts of requests: completed, by route and status, and in progress.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;

/// The number of requests since the server started, and in progress.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    answered: Mutex<BTreeMap<(String, u16), u64>>,
    active: AtomicU64,
}

/// A request in progress. If its client disconnects, its handler is dropped and the request ends.
struct RequestInProgress<'r>(&'r AtomicU64);

impl Requests {
    /// The number of completed requests, by route and status.
    pub(crate) fn answered(&self) -> BTreeMap<(String, u16), u64> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of requests in progress.
    pub(crate) fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    fn begin(&self) -> RequestInProgress<'_> {
        self.active.fetch_add(1, Ordering::Relaxed);
        RequestInProgress(&self.active)
    }

    fn end(&self, route: String, status: u16) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner).entry((route, status)).or_default() += 1;
    }
}

impl Drop for RequestInProgress<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a request. Unknown paths are counted together.
pub(crate) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("unknown", MatchedPath::as_str).to_owned();
    let _active = app.requests.begin();
    let response = next.run(request).await;
    app.requests.end(route, response.status().as_u16());
    response
}
