//! ApiVersions: the offered APIs and versions. The first request of every connection.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::ApiVersion;

use super::OFFERED;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// The client's name and version, which have no effect.
pub(crate) static SCHEMA: Schema =
    Schema { flexible_from: 3, body: fields(&[Field(3, LAST, Shape::Text), Field(3, LAST, Shape::Text)]) };

/// Lists the offered APIs, even to a client that uses a version of this request that is not
/// offered.
pub(crate) fn handle(request: &Request) -> ApiVersionsResponse {
    let offered = OFFERED.iter().map(|offered| {
        let (min, max) = offered.versions;
        ApiVersion::default().with_api_key(offered.key as i16).with_min_version(min).with_max_version(max)
    });
    let error_code = if request.version_unknown { ResponseError::UnsupportedVersion.code() } else { 0 };
    ApiVersionsResponse::default().with_error_code(error_code).with_api_keys(offered.collect())
}
