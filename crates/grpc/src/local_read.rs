//! The metadata `quire-read`: reads that this node of a cluster answers, whichever node leads.
//!
//! It is metadata and no field, so that each method takes it in one way, as each route of HTTP
//! does. The response has the metadata `quire-position`: it shows at least the commits up to there.
//! [`LocalRead`] has the values.

use quire::Database;
use quire_access::{LocalRead, LocalReadError};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::error::{self, invalid};
use crate::linearizable::is_read;

/// The metadata of a call.
pub(crate) const QUIRE_READ: &str = "quire-read";

/// The metadata of its response.
const QUIRE_POSITION: HeaderName = HeaderName::from_static("quire-position");

/// The methods that continue with new data: their streams end when another node leads.
const CONTINUING: [&str; 3] = ["Events/Subscribe", "Graph/Changes", "Jobs/Subscribe"];

/// The local read that a call asks for; `None` for one that the leader answers, and for a call that
/// each node answers for itself.
///
/// # Errors
/// When the metadata is invalid, or the method takes none.
pub(crate) fn of_call(path: &str, metadata: &HeaderMap) -> Result<Option<LocalRead>, Status> {
    let Some(method) = path.strip_prefix("/quire.v1.").filter(|_| metadata.contains_key(QUIRE_READ)) else {
        return Ok(None);
    };
    if !is_read(path) || CONTINUING.contains(&method) {
        return Err(invalid(format!("{method} takes no `quire-read`: it is for reads that do not continue")));
    }
    let read = LocalRead::of_fields(metadata.get_all(QUIRE_READ).iter().map(HeaderValue::as_bytes));
    read.map(Some).map_err(|problem| invalid(format!("`quire-read` {problem}")))
}

/// Answers a call by its method, which `reading` runs.
pub(crate) async fn answer<E>(
    read: LocalRead,
    database: &Database,
    reading: impl Future<Output = Result<Response<Body>, E>>,
) -> Result<Response<Body>, E> {
    match read.answer(database, reading).await {
        Ok((response, position)) => {
            let mut response = response?;
            response.headers_mut().insert(QUIRE_POSITION, HeaderValue::from(position.get()));
            Ok(response)
        }
        Err(LocalReadError::Failed(error)) => Ok(error::failed(error).into_http()),
        Err(error @ LocalReadError::Ahead { at, .. }) => Ok(error::ahead_of_log(error.to_string(), at).into_http()),
    }
}
