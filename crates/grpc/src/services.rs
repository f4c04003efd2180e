//! The table of services: one a model, one for commits over all models, one for SQL, and
//! health and reflection.

use std::sync::Arc;

use quire::Database;
use tonic::service::Routes;

use crate::app::ServiceComponents;
use crate::proto::events_server::EventsServer;
use crate::proto::graph_server::GraphServer;
use crate::proto::jobs_server::JobsServer;
use crate::proto::quire_server::QuireServer;
use crate::proto::sql_server::SqlServer;
use crate::proto::streams_server::StreamsServer;
use crate::{commit, events, graph, jobs, sql, streams};

/// The descriptors of `proto/quire/v1`, which reflection serves.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("proto/v1.binpb");

/// How many bytes a message may add to the record of its commit.
const ENVELOPE_BYTES: usize = 64 << 10;

/// The maximum size of a request message in bytes.
pub(crate) fn request_bytes_max(database: &Database) -> usize {
    let commit_bytes_max = usize::try_from(database.commit_bytes_max()).unwrap_or(usize::MAX);
    commit_bytes_max.saturating_add(ENVELOPE_BYTES)
}

/// Returns all services, over these components.
pub(crate) async fn routes(components: &Arc<ServiceComponents>) -> Routes {
    let request_bytes_max = request_bytes_max(components.served().owner());
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the descriptors were generated");
    let (health, health_service) = tonic_health::server::health_reporter();
    let jobs =
        JobsServer::new(jobs::JobsService::new(Arc::clone(components))).max_decoding_message_size(request_bytes_max);
    let graph =
        GraphServer::new(graph::GraphService::new(Arc::clone(components))).max_decoding_message_size(request_bytes_max);
    let quire = QuireServer::new(commit::CommitService::new(Arc::clone(components)))
        .max_decoding_message_size(request_bytes_max);
    let streams = StreamsServer::new(streams::StreamsService::new(Arc::clone(components)))
        .max_decoding_message_size(request_bytes_max);
    let events = EventsServer::new(events::EventsService::new(Arc::clone(components)))
        .max_decoding_message_size(request_bytes_max);
    let sql = SqlServer::new(sql::SqlService::new(Arc::clone(components))).max_decoding_message_size(request_bytes_max);
    health.set_serving::<SqlServer<sql::SqlService>>().await;
    health.set_serving::<EventsServer<events::EventsService>>().await;
    health.set_serving::<QuireServer<commit::CommitService>>().await;
    health.set_serving::<StreamsServer<streams::StreamsService>>().await;
    health.set_serving::<JobsServer<jobs::JobsService>>().await;
    health.set_serving::<GraphServer<graph::GraphService>>().await;
    let routes = Routes::new(health_service).add_service(reflection).add_service(quire);
    routes.add_service(streams).add_service(events).add_service(jobs).add_service(graph).add_service(sql)
}
