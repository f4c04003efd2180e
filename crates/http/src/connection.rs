//! One connection, from its first byte to its last.
//!
//! A client is disconnected when it is slow to send a request's head, or when it stops reading a
//! response. The request of a client that closed its side is still answered, but it no longer
//! waits.

use std::future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use quire_access::budget::{ByteBudget, FrontEnd, handle_for};
use quire_access::{Admission, BrowserSessions, Connection, Deadline, LiveSettings, ServedDatabase};
use tokio::sync::watch;

use crate::Settings;
use crate::app::closing;
use crate::gate::ConnectionGate;

tokio::task_local! {
    /// Whether the client of the connection that this task serves has closed its side.
    static LEFT: watch::Receiver<bool>;
}

/// Maximum bytes of a request's head, and of response bytes that were taken for writing. They are
/// not counted in the byte budget: each connection has both at most once.
const BUFFER_BYTES: usize = 64 << 10;

/// Waits until the client of the current request has closed its side. It waits forever in a task
/// that serves no connection.
pub(crate) async fn left() {
    match LEFT.try_with(watch::Receiver::clone) {
        Ok(left) => closing(left).await,
        Err(_) => future::pending().await,
    }
}

/// Serves a connection until its client disconnects or the server closes it. A running request is
/// answered first.
pub(crate) async fn serve(
    admission: Admission,
    budget: ByteBudget,
    router: Router,
    live: Arc<LiveSettings<Settings>>,
    closed: watch::Receiver<bool>,
    sessions: (ServedDatabase, Arc<BrowserSessions>),
) {
    let settings = live.current();
    let idle = Duration::from_millis(settings.idle_timeout_ms);
    let mut needed = Box::pin(admission.place().needed());
    let established = tokio::select! {
        established = Connection::establish(admission, settings.connections.first_request()) => established,
        // A newer connection takes its place in the reserve.
        () = &mut needed => None,
        () = closing(closed.clone()) => None,
    };
    let Some((mut stream, peer, first)) = established else { return };
    let caller = budget.caller(FrontEnd::Http, peer.ip());
    let left = stream.answers_half_closed();
    let gate = Arc::new(ConnectionGate::new(router, live, stream.place(), peer, first, sessions));
    let served = Arc::clone(&gate);
    let answer = move |request| handle_for(caller.clone(), Arc::clone(&served).answer(request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    let ending = {
        let left = left.clone();
        async move {
            tokio::select! {
                () = closing(closed) => {}
                () = closing(left) => {}
            }
        }
    };
    let serving = async {
        tokio::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = ending => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    let serving = async {
        tokio::select! {
            ended = serving => ended,
            // A newer connection takes its place.
            () = needed => Ok(()),
        }
    };
    // Another error means that the client disconnected, or sent bytes that are not HTTP. Hyper has
    // answered the latter itself.
    if LEFT.scope(left, serving).await.is_err_and(|error| error.is_timeout()) {
        gate.counters().expired(Deadline::Idle);
    }
}
