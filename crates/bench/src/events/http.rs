//! Event stores behind HTTP. Server and clients are in one process, and each client keeps its own
//! connection.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::sync::oneshot;

use super::embedded::create;
use crate::case::CaseRun;
use crate::kept_connection::KeptConnection;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::stopwatch::Stopwatch;
use quire_cli::threads;

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::at("ask the server over HTTP", error)
}

/// Appends if no event has the same name.
pub(super) fn append_if(run: &CaseRun<'_>) -> Result<CaseResult> {
    let database = create(run)?;
    let runtime = threads::start(std::thread::available_parallelism().map_or(1, usize::from))?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = runtime.block_on(quire_http::Server::bind(database, any_port.into())).map_err(failed)?;
    let address = server.address().tcp().expect("it is bound to TCP");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = runtime.spawn(server.run(async {
        // A dropped sender stops the server too.
        let _ = stopped.await;
    }));
    let (each, bytes) = (run.ops.div_ceil(run.case.clients.into()), run.case.payload_bytes);
    let watch = Stopwatch::start();
    let running: Vec<_> =
        (0..run.case.clients).map(|client| runtime.spawn(appends(address, client, each, bytes))).collect();
    let ended = running.into_iter().map(|client| runtime.block_on(client).expect("a client does not panic"));
    let latencies: Vec<Latencies> = ended.collect::<Result<_>>()?;
    let elapsed = watch.elapsed();
    // The server still runs, so it gets the signal.
    let _ = stop.send(());
    runtime.block_on(serving).map_err(failed)?.map_err(failed)?;
    Ok(CaseResult::of_clients(latencies, elapsed))
}

async fn appends(address: SocketAddr, client: u32, ops: u64, bytes: usize) -> Result<Latencies> {
    let mut connection = KeptConnection::open(&address.to_string()).await?;
    let data = "q".repeat(bytes.saturating_sub(2));
    let mut recorder = Recorder::start_among_others();
    for op in 0..ops {
        let name = format!("name:{client}-{op}");
        let body = format!(
            r#"{{"events":[{{"type":"Happened","tags":["{name}","course:{}"],"data":"{data}"}}],"conditions":[{{"fail_if_events_match":{{"items":[{{"tags":["{name}"]}}]}}}}]}}"#,
            op % 1_000
        );
        let length = body.len();
        let request = format!(
            "POST /v1/events/bench/append HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        connection.exchange(&request).await?;
        recorder.lap();
    }
    Ok(recorder.into_latencies())
}
