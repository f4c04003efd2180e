//! One connection, from its first byte to its last.
//!
//! A client that is slow to send a request's head, or takes nothing of an answer, is cut off here, one that is slow with the body where it
//! is read.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::app::closing;
use crate::patient::Patient;

/// How long a request's head may take, and how long a connection may be idle between two, in seconds.
const HEAD_S_MAX: u64 = 60;

/// How long a client may take nothing of what there is for it, in seconds: as long as Kafka's connections may be idle. Who follows events and is
/// busy with one takes nothing, too.
const TAKE_S_MAX: u64 = 600;

/// Serves a connection until its client leaves or the server closes; a request under way is answered first.
pub(crate) async fn serve(stream: TcpStream, router: Router, closed: watch::Receiver<bool>) {
    // Answers are written whole, so waiting for more to send only adds latency. If it can't be set, that is all.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(HEAD_S_MAX))
        .serve_connection(
            TokioIo::new(Patient::new(stream, Duration::from_secs(TAKE_S_MAX))),
            TowerToHyperService::new(router),
        );
    tokio::pin!(connection);
    // An error is the client's leaving, or bytes that are not HTTP: hyper has answered those itself.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = closing(closed) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
