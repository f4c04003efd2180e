//! ExactlyOne connection, from its first byte to its last.
//!
//! A client is disconnected here when it is slow to send a request's head, or when it stops reading
//! a response. A slow body is handled where it is read.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::app::closing;
use crate::patient::Patient;

/// Maximum time for a request's head, and maximum idle time between requests, in seconds.
const HEAD_S_MAX: u64 = 60;

/// How long a client may not read available data, in seconds: the idle time of Kafka connections. A
/// client that follows events and is busy with one also stops reading.
const TAKE_S_MAX: u64 = 600;

/// Serves a connection until its client disconnects or the server closes it. A running request is
/// answered first.
pub(crate) async fn serve(stream: TcpStream, router: Router, closed: watch::Receiver<bool>) {
    // Responses are written whole, so delaying small packets only adds latency. A failure to set
    // the option is harmless.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(HEAD_S_MAX))
        .serve_connection(
            TokioIo::new(Patient::new(stream, Duration::from_secs(TAKE_S_MAX))),
            TowerToHyperService::new(router),
        );
    tokio::pin!(connection);
    // An error means that the client disconnected, or sent bytes that are not HTTP. Hyper has
    // answered the latter itself.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = closing(closed) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
