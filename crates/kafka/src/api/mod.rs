//! What is offered, and who handles it: one file an API, with the shape of its requests.

pub(crate) mod api_versions;
pub(crate) mod fetch;
pub(crate) mod list_offsets;
pub(crate) mod metadata;
pub(crate) mod produce;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::ApiKey;

use crate::broker::Broker;
use crate::connection::Closed;
use crate::request::{Api, Request};
use crate::response;
use crate::schema::Schema;

/// An API, and the versions of it.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) api: Api,
    pub(crate) key: ApiKey,
    /// The versions that clients are told of.
    versions: (i16, i16),
    /// The first version that is served.
    served_from: i16,
    pub(crate) schema: &'static Schema,
}

impl Offered {
    const fn new(api: Api, key: ApiKey, min: i16, max: i16, schema: &'static Schema) -> Self {
        Offered { api, key, versions: (min, max), served_from: min, schema }
    }

    pub(crate) fn is_served(&self, version: i16) -> bool {
        (self.served_from..=self.versions.1).contains(&version)
    }
}

/// Everything that is offered.
///
/// ListOffsets ends at 6, because 7 asks for the record with the latest time, which compressed batches don't tell. Produce
/// is told of from 0, because older librdkafka compresses only for brokers that do (KAFKA-18659); as in Kafka 4, it is
/// served from 3, which every client since 2017 sends.
pub(crate) const OFFERED: &[Offered] = &[
    Offered { served_from: 3, ..Offered::new(Api::Produce, ApiKey::Produce, 0, 13, &produce::SCHEMA) },
    Offered::new(Api::Fetch, ApiKey::Fetch, 4, 18, &fetch::SCHEMA),
    Offered::new(Api::ListOffsets, ApiKey::ListOffsets, 1, 6, &list_offsets::SCHEMA),
    Offered::new(Api::Metadata, ApiKey::Metadata, 0, 13, &metadata::SCHEMA),
    Offered::new(Api::Versions, ApiKey::ApiVersions, 0, 4, &api_versions::SCHEMA),
];

/// Handles a request, and gives the frame of its answer.
///
/// # Errors
/// Why the connection has to be closed instead.
pub(crate) async fn handle(broker: &Arc<Broker>, local: SocketAddr, request: Request) -> Result<Bytes, Closed> {
    let Request { version, correlation_id, .. } = request;
    match request.api {
        Api::Produce => {
            let answer = produce::start(broker, request)?.await?;
            answer.ok_or(Closed::Failed)
        }
        Api::Fetch => response::frame(correlation_id, version, &fetch::handle(broker, &request).await?),
        Api::ListOffsets => response::frame(correlation_id, version, &list_offsets::handle(broker, &request)?),
        Api::Metadata => response::frame(correlation_id, version, &metadata::handle(broker, local, &request).await?),
        Api::Versions => response::frame(correlation_id, version, &api_versions::handle(&request)),
    }
}
