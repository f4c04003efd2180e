//! Names with slashes in paths: `/v1/events/air/flights` is `/v1/events/air%2Fflights`.
//!
//! A path that has a route by itself keeps it. Otherwise, the names of the route that fits take in
//! the segments around them. Of several routes, the one with the most fixed segments fits. If two
//! such routes fit, the path is ambiguous and refused.

use axum::http::Uri;

use crate::error::Problem;

/// Maximum number of segments of a path that is completed.
const SEGMENTS_MAX: usize = 64;

/// The routes with names that may have slashes.
const TEMPLATES: &[&str] = &[
    "/v1/events/{store}",
    "/v1/events/{store}/append",
    "/v1/events/{store}/read",
    "/v1/events/{store}/project",
    "/v1/events/{store}/subscribe",
    "/v1/events/{store}/head",
    "/v1/events/{store}/stats",
    "/v1/events/{store}/sources",
    "/v1/events/{store}/subscriptions",
    "/v1/events/{store}/subscriptions/{name}",
    "/v1/events/{store}/subscriptions/{name}/fetch",
    "/v1/events/{store}/projections",
    "/v1/events/{store}/projections/{name}",
    "/v1/topics/{topic}",
    "/v1/topics/{topic}/records",
    "/v1/topics/{topic}/partitions/{partition}/records",
    "/v1/topics/{topic}/groups/{group}",
    "/v1/groups/{group}",
    "/v1/groups/{group}/stores/{store}",
    "/v1/groups/{group}/queues/{queue}",
    "/v1/queues/{queue}",
    "/v1/queues/{queue}/settings",
    "/v1/queues/{queue}/clear",
    "/v1/queues/{queue}/jobs",
    "/v1/queues/{queue}/fetch",
    "/v1/graphs/{graph}",
    "/v1/graphs/{graph}/blocks",
    "/v1/graphs/{graph}/blocks/{block}",
    "/v1/graphs/{graph}/blocks/{block}/versions",
    "/v1/graphs/{graph}/blocks/{block}/neighbours",
    "/v1/graphs/{graph}/blocks/{block}/degree",
    "/v1/graphs/{graph}/edges",
    "/v1/graphs/{graph}/get",
    "/v1/graphs/{graph}/exists",
    "/v1/graphs/{graph}/walk",
    "/v1/graphs/{graph}/paths",
    "/v1/graphs/{graph}/order",
    "/v1/graphs/{graph}/components",
    "/v1/graphs/{graph}/missing",
    "/v1/graphs/{graph}/changes",
    "/v1/graphs/{graph}/subscribe",
    "/v1/graphs/{graph}/export",
    "/v1/graphs/{graph}/import",
    "/v1/indexes/{index}",
];

/// Encodes the slashes in the names of a path that has no route otherwise.
///
/// # Errors
/// When several routes fit equally well.
pub(crate) fn encode(uri: &mut Uri) -> Result<(), Problem> {
    if let Some(path) = encoded(uri.path()).map_err(|AmbiguousPath| Problem::ambiguous_path())? {
        let target = uri.query().map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = target.parse().ok();
        if let Ok(completed) = Uri::from_parts(parts) {
            *uri = completed;
        }
    }
    Ok(())
}

/// Several routes fit equally well.
#[derive(Debug, PartialEq, Eq)]
struct AmbiguousPath;

/// The path with its names as one segment each; `None` when it has a route, or no route fits.
fn encoded(path: &str) -> Result<Option<String>, AmbiguousPath> {
    let Some(names) = path.strip_prefix("/v1/") else { return Ok(None) };
    let segments: Vec<&str> = names.split('/').collect();
    // Three segments: the object, and a name of two.
    let is_possible = (3..=SEGMENTS_MAX).contains(&segments.len()) && !segments.contains(&"");
    if !is_possible || TEMPLATES.iter().any(|template| is_route(template, &segments)) {
        return Ok(None);
    }
    // The number of fixed segments, and the path; no path when several have this number.
    let mut best: Option<(usize, Option<String>)> = None;
    for template in TEMPLATES {
        let template: Vec<&str> = parts(template).collect();
        let Some(names) = fit(&template, &segments) else { continue };
        let words = template.iter().filter(|part| !is_name(part)).count();
        match &mut best {
            Some((most, _)) if words < *most => {}
            Some((most, path)) if words == *most => *path = None,
            _ => best = Some((words, Some(names.iter().map(|name| format!("/{}", name.join("%2F"))).collect()))),
        }
    }
    best.map(|(_, path)| path.map(|path| format!("/v1{path}")).ok_or(AmbiguousPath)).transpose()
}

fn parts(template: &'static str) -> impl Iterator<Item = &'static str> {
    template.trim_start_matches("/v1/").split('/')
}

/// Whether the path has this route without a change.
fn is_route(template: &'static str, segments: &[&str]) -> bool {
    let is_part = |(part, segment): (&str, &&str)| is_name(part) || part == *segment;
    parts(template).count() == segments.len() && parts(template).zip(segments).all(is_part)
}

/// The segments of each part of a template; each name takes as few as possible.
fn fit<'p, 's>(template: &[&str], segments: &'p [&'s str]) -> Option<Vec<&'p [&'s str]>> {
    let Some((part, rest)) = template.split_first() else { return segments.is_empty().then(Vec::new) };
    let most = if is_name(part) { segments.len() } else { usize::from(segments.first() == Some(part)) };
    (1..=most).find_map(|taken| {
        let (own, others) = segments.split_at(taken);
        let mut fitted = fit(rest, others)?;
        fitted.insert(0, own);
        Some(fitted)
    })
}

fn is_name(part: &str) -> bool {
    part.starts_with('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = include_str!("routes.rs");

    #[test]
    fn each_route_with_a_name_is_listed() {
        let names = ["{store}", "{topic}", "{group}", "{queue}", "{graph}", "{block}", "{name}", "{index}"];
        let paths = ROUTES.split(".route(\"").skip(1).filter_map(|route| route.split('"').next());
        let mut named: Vec<_> = paths.filter(|path| names.iter().any(|name| path.contains(name))).collect();
        named.dedup();
        assert_eq!(named, TEMPLATES);
    }

    #[test]
    fn a_name_includes_slashes_only_where_the_path_has_no_other_route() {
        for (path, expect) in [
            ("/v1/events/air/flights", Some("/v1/events/air%2Fflights")),
            ("/v1/events/air/flights/append", Some("/v1/events/air%2Fflights/append")),
            (
                "/v1/events/air/flights/subscriptions/mail/er/fetch",
                Some("/v1/events/air%2Fflights/subscriptions/mail%2Fer/fetch"),
            ),
            ("/v1/topics/a/b/partitions/0/records", Some("/v1/topics/a%2Fb/partitions/0/records")),
            ("/v1/graphs/code/blocks/src/main.rs", Some("/v1/graphs/code/blocks/src%2Fmain.rs")),
            ("/v1/graphs/a/b/blocks/c/d/neighbours", Some("/v1/graphs/a%2Fb/blocks/c%2Fd/neighbours")),
            // The most fixed segments win.
            ("/v1/events/a/b/subscriptions/m/fetch", Some("/v1/events/a%2Fb/subscriptions/m/fetch")),
            // They have routes.
            ("/v1/events/air/append", None),
            ("/v1/events/air%2Fflights/append", None),
            ("/v1/queues/air/jobs", None),
            ("/v1/graphs/g/blocks/b", None),
            // They never have one.
            ("/v1/events", None),
            ("/v1/events/a//b", None),
            ("/v1/jobs/1-5/ack", None),
            ("/v2/events/a/b", None),
        ] {
            assert_eq!(encoded(path), Ok(expect.map(str::to_owned)), "{path}");
        }
        for path in
            ["/v1/events/s/subscriptions/x/append", "/v1/groups/g/stores/s/queues/q", "/v1/graphs/g/blocks/b/walk"]
        {
            assert_eq!(encoded(path), Err(AmbiguousPath), "{path}");
        }
        assert_eq!(encoded(&format!("/v1/events{}", "/a".repeat(SEGMENTS_MAX))), Ok(None));
    }
}
