//! Queues behind HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;

use quire::Database;
use serde_json::json;
use tokio::sync::oneshot;

use crate::case::CaseRun;
use crate::measurement::CaseResult;
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;
use quire_cli::threads;
use quire_client::reply::FetchReply;
use quire_client::{Call, Client, ClientError};

/// How long a fetch waits for a job.
const FETCH_WAIT: Duration = Duration::from_secs(30);

/// Longest time until a worker waits for a job.
const REST: Duration = Duration::from_millis(2);

/// The delay from an enqueue in this process to a worker whose fetch waits.
pub(super) fn pick_up(run: &CaseRun<'_>) -> Result<CaseResult> {
    let failed = |error: std::io::Error| CommandError::at("serve HTTP", error);
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    let runtime = threads::start(std::thread::available_parallelism().map_or(1, usize::from))?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = runtime.block_on(quire_http::Server::bind(database.clone(), any_port.into())).map_err(failed)?;
    let asking = |error: ClientError| CommandError::new(error.to_string());
    let client = Client::builder(format!("http://{}", server.address())).build().map_err(asking)?;
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
                let fetched = fetch(&worker);
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
            let fetched = fetched.map_err(asking)?;
            let job = fetched.jobs.first().ok_or_else(|| CommandError::new("no job for an idle worker"))?;
            let ack = Call::post(&["jobs", &job.job, "ack"]).json(&json!({ "token": job.token }));
            ack.and_then(|ack| client.send(&ack)).map_err(asking)?;
        }
        Ok(())
    })?;
    let elapsed = watch.elapsed();
    // The server still runs, so it gets the signal.
    let _ = stop.send(());
    runtime.block_on(serving).map_err(|error| CommandError::at("serve HTTP", error))?.map_err(failed)?;
    Ok(CaseResult::of_clients([latencies], elapsed))
}

/// Waits for a job.
fn fetch(worker: &Client) -> Result<FetchReply<'static>, ClientError> {
    let call = Call::post(&["queues", "bench", "fetch"]).wait(FETCH_WAIT);
    worker.read(call.json(&json!({ "wait_ms": FETCH_WAIT.as_millis() as u64 }))?)
}
