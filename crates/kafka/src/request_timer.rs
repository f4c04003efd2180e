//! The time of a request, from when it was read until its response was written. It is counted and
//! traced, and logged at debug.

use quire_access::{ConnectionCounters, FrontEndTraffic, RequestSpan};
use tokio::time::Instant;
use tracing::{Level, debug, enabled};

/// The target of the access log.
const TARGET: &str = "quire::kafka";

/// The length before a frame, in bytes.
const LENGTH_BYTES: usize = 4;

/// A request whose response was not written yet.
#[derive(Debug)]
pub(crate) struct RequestTimer {
    begun: Instant,
    api: &'static str,
    received_bytes: usize,
    span: RequestSpan,
    /// The version and the client's name, when the request is logged.
    logged: Option<(i16, String)>,
}

impl RequestTimer {
    /// Begins with a request of this API, version and client, that was read from a frame of
    /// `frame_bytes`.
    pub(crate) fn begin(api: &'static str, version: i16, client: &str, frame_bytes: usize) -> Self {
        let is_logged = enabled!(target: TARGET, Level::DEBUG);
        RequestTimer {
            begun: Instant::now(),
            api,
            received_bytes: frame_bytes + LENGTH_BYTES,
            span: RequestSpan::kafka(api, version),
            logged: is_logged.then(|| (version, client.to_owned())),
        }
    }

    /// Counts the request after its response of `sent_bytes` was written.
    pub(crate) fn end(self, traffic: &FrontEndTraffic, connections: &ConnectionCounters, sent_bytes: usize) {
        let (api, took) = (self.api, self.begun.elapsed());
        connections.received(self.received_bytes);
        connections.sent(sent_bytes);
        // The protocol has a code for each partition, and none for a whole request.
        traffic.end(api, 0, took);
        drop(self.span);
        if let Some((version, client)) = self.logged {
            let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            debug!(target: TARGET, api, version, client, us, received = self.received_bytes, sent = sent_bytes, "request");
        }
    }
}
