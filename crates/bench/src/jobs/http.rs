//! Queues behind HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use quire::Database;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::case::CaseRun;
use crate::measurement::CaseResult;
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;
use quire_cli::threads;
use quire_cli::{HttpClient, Path};

/// Longest time until a worker waits for a job.
const REST: Duration = Duration::from_millis(2);

/// The delay from an enqueue in this process to a worker whose fetch waits. Each request has its
/// own connection.
pub(super) fn pick_up(run: &CaseRun<'_>) -> Result<CaseResult> {
    let failed = |error: std::io::Error| CommandError::at("serve HTTP", error);
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let runtime = threads::start(std::thread::available_parallelism().map_or(1, usize::from))?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = runtime.block_on(quire_http::Server::bind(database.clone(), any_port.into())).map_err(failed)?;
    let client = HttpClient::new(server.address().tcp().expect("it is bound to TCP"));
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = runtime.spawn(server.run(async {
        // A dropped sender stops the server too.
        let _ = stopped.await;
    }));
    let payload = vec![b'q'; run.case.payload_bytes];
    let watch = Stopwatch::start();
    let mut latencies = Latencies::new();
    std::thread::scope(|scope| -> Result {
        let (asks, asked) = mpsc::channel();
        let (got, jobs) = mpsc::channel();
        let worker = client.clone();
        scope.spawn(move || {
            while asked.recv().is_ok() {
                let fetched = worker.post(&Path::new(&["queues", "bench", "fetch"]), &json!({ "wait_ms": 30_000 }));
                let at = watch.elapsed();
                if got.send((fetched, at)).is_err() {
                    break;
                }
            }
        });
        for op in 0..run.ops {
            run.go_on(op)?;
            asks.send(()).map_err(|_| CommandError::new("the worker has ended"))?;
            // The worker must wait already. An earlier enqueue would measure less.
            runtime.block_on(async { tokio::time::sleep(REST).await });
            let from = watch.elapsed();
            database.queue("bench").enqueue(quire::jobs::JobSpec::new(&payload))?;
            let (fetched, at) = jobs.recv().map_err(|_| CommandError::new("the worker has ended"))?;
            latencies.record(at.saturating_sub(from));
            let job: Value = fetched?["jobs"][0].clone();
            let id = job["job"].as_str().ok_or_else(|| CommandError::new("no job for an idle worker"))?;
            client.post(&Path::new(&["jobs", id, "ack"]), &json!({ "token": job["token"] }))?;
        }
        Ok(())
    })?;
    let elapsed = watch.elapsed();
    // The server still runs, so it gets the signal.
    let _ = stop.send(());
    runtime.block_on(serving).map_err(|error| CommandError::at("serve HTTP", error))?.map_err(failed)?;
    Ok(CaseResult::of_clients([latencies], elapsed))
}
