//! UpdateFeatures: the levels of features are those of this version, so each change is refused.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::update_features_response::UpdatableFeatureResult;
use kafka_protocol::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};
use kafka_protocol::protocol::StrBytes;
use quire::Operation;

use super::api_versions::FEATURES;
use crate::broker::Broker;
use crate::close_reason::CloseReason;
use crate::request::Request;
use crate::schema::{Field, LAST, Schema, Shape, Struct, fields};

/// Timeout, updates of (feature, level, whether to allow a lower one or the type), whether only to
/// validate.
pub(crate) static SCHEMA: Schema = Schema {
    flexible_from: 0,
    body: fields(&[
        Field(0, LAST, Shape::Fixed(4)),
        Field(0, LAST, Shape::Structs(&UPDATE)),
        Field(1, LAST, Shape::Fixed(1)),
    ]),
};
static UPDATE: Struct = fields(&[
    Field(0, LAST, Shape::Text),
    Field(0, LAST, Shape::Fixed(2)),
    Field(0, 0, Shape::Fixed(1)),
    Field(1, LAST, Shape::Fixed(1)),
]);

/// The first version without a result for each feature: any failure fails the request.
const ALL_OR_NONE_FROM: i16 = 2;

/// Answers each feature: the level that it has is no change.
pub(crate) fn handle(broker: &Broker, request: &Request) -> Result<UpdateFeaturesResponse, CloseReason> {
    let decoded: UpdateFeaturesRequest = request.decode()?;
    if let Err(failure) = broker.check_cluster(Operation::Alter) {
        return Ok(UpdateFeaturesResponse::default()
            .with_error_code(failure.code.code())
            .with_error_message(Some(StrBytes::from_string(failure.message))));
    }
    let failure = |feature: &str, level: i16| match FEATURES.into_iter().find(|(name, _)| *name == feature) {
        Some((_, current)) if current == level => None,
        Some((_, current)) => Some(format!("the level of {feature} is {current} in this version, and does not change")),
        None => Some(format!("unknown feature {feature:?}")),
    };
    let results = decoded.feature_updates.iter().map(|update| {
        let result = UpdatableFeatureResult::default().with_feature(update.feature.clone());
        match failure(update.feature.as_str(), update.max_version_level) {
            None => result.with_error_message(None),
            Some(message) => result
                .with_error_code(ResponseError::InvalidUpdateVersion.code())
                .with_error_message(Some(StrBytes::from_string(message))),
        }
    });
    let response = UpdateFeaturesResponse::default().with_error_message(None);
    if request.version < ALL_OR_NONE_FROM {
        return Ok(response.with_results(results.collect()));
    }
    let mut results = results;
    Ok(match results.find(|result| result.error_code != 0) {
        Some(failed) => response.with_error_code(failed.error_code).with_error_message(failed.error_message),
        None => response,
    })
}
