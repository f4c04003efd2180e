//! `GET /openapi.json`: a description of this API for tools, OpenAPI 3.1.
//!
//! The server serves the file `docs/openapi.json`. A test generates the file from the types of
//! requests and responses and from the table of operations, and compares. To write the file:
//! `QUIRE_OPENAPI=write cargo test -p quire-http --lib openapi`.

#[cfg(test)]
mod document;
#[cfg(test)]
pub(crate) mod operations;
#[cfg(test)]
pub(crate) mod row;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::error::Problem;
use crate::params::Params;

const DESCRIPTION: &str = include_str!("../../../../docs/openapi.json");

/// The description.
pub(crate) async fn description(params: Params) -> Result<impl IntoResponse, Problem> {
    params.end()?;
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], DESCRIPTION))
}

#[cfg(test)]
mod tests {
    use super::document::document;
    use super::operations::operations;
    use super::*;

    const ROUTES: &str = include_str!("../routes.rs");

    #[test]
    fn the_description_is_that_of_the_types() {
        let generated = serde_json::to_string_pretty(&document()).expect("a description is JSON") + "\n";
        if std::env::var_os("QUIRE_OPENAPI").is_some_and(|task| task == "write") {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
            std::fs::write(path, generated).expect("docs/openapi.json is written");
            return;
        }
        let differs = generated.lines().zip(DESCRIPTION.lines()).find(|(generated, file)| generated != file);
        assert_eq!(
            differs, None,
            "run QUIRE_OPENAPI=write cargo test -p quire-http --lib openapi, and review the change"
        );
        assert_eq!(generated.len(), DESCRIPTION.len());
    }

    #[test]
    fn every_route_has_a_description() {
        let mut routes = Vec::new();
        for route in ROUTES.split(".route(\"").skip(1) {
            let (path, rest) = route.split_once('"').expect("a path");
            let handlers = rest.lines().next().expect("a line");
            for method in ["get", "post", "delete"] {
                if handlers.contains(&format!(" {method}(")) || handlers.contains(&format!(".{method}(")) {
                    routes.push((method, path));
                }
            }
        }
        let mut described: Vec<_> = operations().iter().map(|operation| (operation.method, operation.path)).collect();
        routes.sort_unstable();
        described.sort_unstable();
        assert_eq!(described, routes);
    }
}
