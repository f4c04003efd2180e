//! The time of a request, from when it was read until its response was written. It is counted, and
//! logged at debug.

use std::sync::LazyLock;

use tokio::time::Instant;
use tracing::{Level, debug, enabled};

use crate::api::OFFERED;
use crate::broker::Broker;
use crate::request::{Api, Request};

/// The target of the access log.
const TARGET: &str = "quire::kafka";

/// The length before a frame, in bytes.
const LENGTH_BYTES: usize = 4;

/// A request whose response was not written yet.
#[derive(Debug)]
pub(crate) struct RequestTimer {
    begun: Instant,
    api: Api,
    received_bytes: usize,
    /// The version and the client's name, when the request is logged.
    logged: Option<(i16, String)>,
}

impl RequestTimer {
    /// Begins with a request that was read from a frame of `frame_bytes`.
    pub(crate) fn begin(request: &Request, frame_bytes: usize) -> Self {
        let is_logged = enabled!(target: TARGET, Level::DEBUG);
        RequestTimer {
            begun: Instant::now(),
            api: request.api,
            received_bytes: frame_bytes + LENGTH_BYTES,
            logged: is_logged.then(|| (request.version, request.client.clone())),
        }
    }

    /// Counts the request after its response of `sent_bytes` was written.
    pub(crate) fn end(self, broker: &Broker, sent_bytes: usize) {
        let took = self.begun.elapsed();
        let api = name_of(self.api);
        let connections = broker.counters().connections();
        connections.received(self.received_bytes);
        connections.sent(sent_bytes);
        // The protocol has a code for each partition, and none for a whole request.
        broker.traffic.kafka.end(api, 0, took);
        if let Some((version, client)) = self.logged {
            let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            debug!(target: TARGET, api, version, client, us, received = self.received_bytes, sent = sent_bytes, "request");
        }
    }
}

/// The protocol's name of an API.
fn name_of(api: Api) -> &'static str {
    static NAMES: LazyLock<Vec<(Api, String)>> =
        LazyLock::new(|| OFFERED.iter().map(|offered| (offered.api, format!("{:?}", offered.key))).collect());
    NAMES.iter().find(|(offered, _)| *offered == api).map_or("unknown", |(_, name)| name)
}
