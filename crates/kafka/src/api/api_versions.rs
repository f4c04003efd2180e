//! ApiVersions: the offered APIs and versions. The first request of every connection.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::{ApiVersion, SupportedFeatureKey};
use kafka_protocol::protocol::StrBytes;

use super::OFFERED;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, fields};

/// The client's name and version, which have no effect.
pub(crate) static SCHEMA: Schema =
    Schema { flexible_from: 3, body: fields(&[Field(3, LAST, Shape::Text), Field(3, LAST, Shape::Text)]) };

/// Kafka's features with their levels here. As in Kafka, no feature of level 0 is among the
/// finalized ones.
pub(crate) const FEATURES: [(&str, i16); 2] = [("group.version", 0), ("transaction.version", 0)];

/// The first version whose response has the features.
const FEATURES_FROM: i16 = 4;

/// Lists the offered APIs, even to a client that uses a version of this request that is not
/// offered.
pub(crate) fn handle(request: &Request) -> ApiVersionsResponse {
    let offered = OFFERED.iter().map(|offered| {
        let (min, max) = offered.versions;
        ApiVersion::default().with_api_key(offered.key as i16).with_min_version(min).with_max_version(max)
    });
    let features = FEATURES.into_iter().map(|(name, level)| {
        let key = SupportedFeatureKey::default().with_name(StrBytes::from_static_str(name));
        key.with_min_version(level).with_max_version(level)
    });
    let error_code = if request.version_unknown { ResponseError::UnsupportedVersion.code() } else { 0 };
    let response = ApiVersionsResponse::default().with_error_code(error_code).with_api_keys(offered.collect());
    match request.version {
        // Clients of version 3 refuse the level 0 (KIP-1022).
        ..FEATURES_FROM => response,
        FEATURES_FROM.. => response.with_supported_features(features.collect()).with_finalized_features_epoch(0),
    }
}
