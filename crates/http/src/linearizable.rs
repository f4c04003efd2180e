//! Reads of a cluster: before the route of a read runs, a majority of the nodes confirms that this
//! node still leads. So the answer has each commit that was acknowledged before the request, on any
//! node.
//!
//! A commit needs no such round: it is acknowledged by a majority itself.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;
use crate::error::Problem;

/// The ends of the routes that read and take a body.
const READS_BY_POST: [&str; 9] =
    ["/v1/sql", "/v1/fetch", "/v1/access/check", "/read", "/project", "/components", "/order", "/exists", "/get"];

/// Whether a request reads data.
fn is_read(method: &Method, path: &str) -> bool {
    // The node answers for itself.
    let is_data = path.starts_with("/v1/") && path != "/v1/cluster";
    match *method {
        Method::GET | Method::HEAD => is_data,
        Method::POST => READS_BY_POST.iter().any(|end| path.ends_with(end)),
        _ => false,
    }
}

/// Answers a read once a majority has confirmed that this node leads. A database alone answers at
/// once.
pub(crate) async fn confirm(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    if let Some(control) = app.served().get().cluster_control()
        && is_read(request.method(), request.uri().path())
        && let Err(error) = control.confirm().await
    {
        return Problem::from(error).into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::operations::operations;

    #[test]
    fn each_route_that_only_reads_is_known() {
        let is_read = |method: &str, path: &str| is_read(&method.to_uppercase().parse().expect("a method"), path);
        let reads: Vec<_> =
            operations().iter().filter(|row| is_read(row.method, row.path)).map(|row| row.path).collect();
        for path in ["/v1/sql", "/v1/events/{store}/read", "/v1/events/{store}/project", "/v1/topics", "/v1/fetch"] {
            assert!(reads.contains(&path), "{path}: {reads:?}");
        }
        for (method, path) in [
            ("POST", "/v1/commit"),
            ("POST", "/v1/queues/mails/fetch"),
            ("POST", "/v1/cluster/remove"),
            ("GET", "/v1/cluster"),
            ("GET", "/healthz"),
            ("DELETE", "/v1/access/users/x"),
        ] {
            assert!(!is_read(method, path), "{method} {path}");
        }
    }
}
