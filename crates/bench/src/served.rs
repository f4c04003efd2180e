//! A database behind gRPC. Server and clients are in one process, and each client has its own
//! connection.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};

use quire::Database;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::case::CaseRun;
use super::measurement::CaseResult;
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::opening::open;
use quire_cli::stopwatch::Stopwatch;
use quire_cli::threads;

pub(super) fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::at("ask the server over gRPC", error)
}

/// Serves a database, runs the clients, and stops.
pub(super) fn clients<W, F>(run: &CaseRun<'_>, prepare: impl FnOnce(&Database) -> Result, work: W) -> Result<CaseResult>
where
    W: Fn(String, u64, u64) -> F,
    F: Future<Output = Result<Latencies>> + Send + 'static,
{
    let database = open(Database::builder(&run.path).durability(run.case.durability).create(true))?.database;
    prepare(&database)?;
    let runtime = threads::start(std::thread::available_parallelism().map_or(1, usize::from))?;
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = runtime.block_on(quire_grpc::Server::bind(database.clone(), any_port.into())).map_err(failed)?;
    let address = format!("http://{}", server.address());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = runtime.spawn(server.run(async {
        // A dropped sender stops the server too.
        let _ = stopped.await;
    }));
    let before = database.statistics();
    let measured = run_clients(run, &runtime, |first, ops| work(address.clone(), first, ops))?;
    let after = database.statistics();
    // The server still runs, so it gets the signal.
    let _ = stop.send(());
    runtime.block_on(serving).map_err(failed)?.map_err(failed)?;
    let syncs = (after.syncs - before.syncs).max(1);
    let commits = (after.commits - before.commits) as f64;
    Ok(measured.with("commits_per_sync", commits / syncs as f64))
}

/// Runs the clients of a case at the same time. `work` gets the number of the first operation of a
/// client, and how many it has.
///
/// # Errors
/// The error of a client.
pub(super) fn run_clients<W, F>(run: &CaseRun<'_>, runtime: &Runtime, work: W) -> Result<CaseResult>
where
    W: Fn(u64, u64) -> F,
    F: Future<Output = Result<Latencies>> + Send + 'static,
{
    let each = run.ops.div_ceil(run.case.clients.into());
    let watch = Stopwatch::start();
    let running: Vec<_> =
        (0..u64::from(run.case.clients)).map(|client| runtime.spawn(work(client * each, each))).collect();
    let ended = running.into_iter().map(|client| runtime.block_on(client).expect("a client does not panic"));
    let latencies: Vec<Latencies> = ended.collect::<Result<_>>()?;
    Ok(CaseResult::of_clients(latencies, watch.elapsed()))
}
