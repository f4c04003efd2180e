//! What routes do, for the layers before them: which ones read, and which ones a node of a cluster
//! answers for itself.

use axum::http::Method;

/// The routes that read and take a body.
const READS_BY_POST: [&str; 8] = [
    "/v1/access/check",
    "/v1/events/{store}/project",
    "/v1/events/{store}/read",
    "/v1/graphs/{graph}/components",
    "/v1/graphs/{graph}/exists",
    "/v1/graphs/{graph}/get",
    "/v1/graphs/{graph}/order",
    "/v1/sql",
];

/// Whether the route of a request reads data.
pub(crate) fn is_read(method: &Method, route: &str) -> bool {
    match *method {
        // The node answers for itself.
        Method::GET | Method::HEAD => route.starts_with("/v1/") && route != "/v1/cluster",
        Method::POST => READS_BY_POST.contains(&route),
        _ => false,
    }
}

/// Whether a node answers a request for itself.
pub(crate) fn is_of_each_node(method: &Method, route: &str) -> bool {
    !route.starts_with("/v1/") || (route == "/v1/cluster" && method != Method::POST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::operations::operations;

    /// The routes that commit, or that act on this node.
    const OTHERS_BY_POST: [&str; 34] = [
        "/v1/access/init",
        "/v1/access/keys",
        "/v1/access/keys/{key}",
        "/v1/access/roles/{role}",
        "/v1/access/rules",
        "/v1/access/users",
        "/v1/access/users/{user}",
        "/v1/access/users/{user}/password",
        "/v1/bulks",
        "/v1/cluster/remove",
        "/v1/cluster/transfer",
        "/v1/commit",
        "/v1/compact",
        "/v1/events/{store}/append",
        "/v1/events/{store}/projections/{name}",
        "/v1/events/{store}/subscriptions/{name}",
        "/v1/events/{store}/subscriptions/{name}/fetch",
        "/v1/fetch",
        "/v1/graphs/{graph}/blocks/{block}",
        "/v1/graphs/{graph}/import",
        "/v1/groups/{group}/queues/{queue}",
        "/v1/groups/{group}/stores/{store}",
        "/v1/indexes",
        "/v1/jobs/{job}/ack",
        "/v1/jobs/{job}/change",
        "/v1/jobs/{job}/fail",
        "/v1/jobs/{job}/heartbeat",
        "/v1/jobs/{job}/snooze",
        "/v1/queues/{queue}/clear",
        "/v1/queues/{queue}/fetch",
        "/v1/queues/{queue}/jobs",
        "/v1/queues/{queue}/settings",
        "/v1/topics",
        "/v1/topics/{topic}/records",
    ];

    #[test]
    fn each_route_reads_or_commits() {
        let of_post = operations().into_iter().filter(|row| row.method == "post").map(|row| row.path);
        let mut routes: Vec<_> = of_post.collect();
        routes.sort_unstable();
        let mut known: Vec<_> = READS_BY_POST.into_iter().chain(OTHERS_BY_POST).collect();
        known.sort_unstable();
        assert_eq!(routes, known);
        assert!(is_read(&Method::GET, "/v1/topics") && is_read(&Method::POST, "/v1/sql"));
        assert!(!is_read(&Method::GET, "/v1/cluster") && !is_read(&Method::GET, "/healthz"));
        assert!(!is_read(&Method::POST, "/v1/commit") && !is_read(&Method::DELETE, "/v1/queues/{queue}"));
    }

    #[test]
    fn a_node_answers_for_itself_about_itself_only() {
        for (method, route, expected) in [
            (Method::GET, "/readyz", true),
            (Method::GET, "/v1/cluster", true),
            (Method::POST, "/v1/cluster/transfer", false),
            (Method::POST, "/v1/commit", false),
            (Method::GET, "/v1/topics", false),
            (Method::GET, "/ui/session", true),
            // No route.
            (Method::GET, "", true),
        ] {
            assert_eq!(is_of_each_node(&method, route), expected, "{method} {route}");
        }
    }
}
