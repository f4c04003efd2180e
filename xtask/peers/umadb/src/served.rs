//! UmaDB over gRPC: server and clients in one process and one runtime, each client with its own
//! connection, as in `quire-bench`.

use std::future::Future;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use umadb_client::{AsyncUmaDbClient, UmaDbClient};
use umadb_core::mvcc::StorageOptions;
use umadb_dcb::{DcbAppendCondition, DcbEventStoreAsync, DcbEventStoreSync, DcbQuery, DcbQueryItem};
use umadb_server::{ServerOptions, start_server_with_options};

use crate::latencies::Measured;
use crate::{Result, embedded, event};

/// How many tags the events have.
const TAGS: u64 = 10_000;

/// How many events are appended at a time to fill the store.
const FILL_AT_ONCE: u64 = 1_000;

fn of_tag(tag: String) -> DcbQuery {
    DcbQuery::with_items([DcbQueryItem::new().tags([tag])])
}

/// Appends `count` events an operation, under a condition if one is requested.
pub(crate) fn append(path: &Path, clients: u64, ops: u64, batch: usize, is_conditional: bool) -> Result<Measured> {
    serve(path, clients, ops, batch, move |client, op| async move {
        let tags = |index: usize| [format!("name:{op}-{index}"), format!("course:{}", op % 1_000)];
        let events = (0..batch).map(|index| event("Happened", &tags(index))).collect();
        let condition = is_conditional.then(|| DcbAppendCondition::new(of_tag(format!("name:{op}-0"))));
        client.append(events, condition, None).await?;
        Ok(())
    })
}

/// Reads the events of a tag, `count` of them.
pub(crate) fn read_tag(path: &Path, clients: u64, ops: u64, of_each: usize) -> Result<Measured> {
    fill(path, TAGS * of_each as u64)?;
    serve(path, clients, ops, of_each, move |client, op| async move {
        read(&client, Some(of_tag(format!("course:{}", op * 617 % TAGS))), of_each).await
    })
}

/// Reads everything.
pub(crate) fn read_all(path: &Path, ops: u64, events: usize) -> Result<Measured> {
    fill(path, events as u64)?;
    serve(path, 1, ops, events, move |client, _| async move { read(&client, None, events).await })
}

async fn read(client: &AsyncUmaDbClient, query: Option<DcbQuery>, expected: usize) -> Result<()> {
    let mut response = client.read(query, None, false, None).await?;
    let mut count = 0;
    loop {
        let batch = response.next_batch().await?;
        if batch.is_empty() {
            break;
        }
        count += batch.len();
    }
    assert_eq!(count, expected, "every event was read");
    Ok(())
}

fn fill(path: &Path, events: u64) -> Result<()> {
    let store = embedded::open(path)?;
    for first in (0..events).step_by(FILL_AT_ONCE as usize) {
        let numbers = first..events.min(first + FILL_AT_ONCE);
        store.append(
            numbers.map(|number| event("Filled", &[format!("course:{}", number % TAGS)])).collect(),
            None,
            None,
        )?;
    }
    Ok(())
}

/// Serves the store, and runs every client's share of the operations.
fn serve<W, F>(path: &Path, clients: u64, ops: u64, entries_per_op: usize, work: W) -> Result<Measured>
where
    W: Fn(Arc<AsyncUmaDbClient>, u64) -> F + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    // UmaDB does not report the port that the system chose. Another process may take the port
    // before it does; UmaDB then reports it.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let storage = StorageOptions::default().db_path(path);
    let options = ServerOptions { listen_addr: format!("127.0.0.1:{port}"), tls: None, api_key: None, storage };
    let (stop, stopped) = oneshot::channel();
    let serving = runtime
        .spawn(async move { start_server_with_options(options, stopped).await.map_err(|error| error.to_string()) });
    let address = format!("http://127.0.0.1:{port}");
    runtime.block_on(connected(&address))?;
    let (each, work) = (ops.div_ceil(clients), Arc::new(work));
    let begun = Instant::now();
    let running: Vec<_> = (0..clients)
        .map(|number| {
            let (address, work) = (address.clone(), Arc::clone(&work));
            runtime.spawn(async move {
                let client = Arc::new(UmaDbClient::new(address).connect_async().await?);
                let mut latencies = Vec::new();
                for op in number * each..(number + 1) * each {
                    let begun = Instant::now();
                    work(Arc::clone(&client), op).await?;
                    latencies.push(begun.elapsed());
                }
                Ok::<_, crate::Error>(latencies)
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for client in running {
        latencies.extend(runtime.block_on(client)??);
    }
    let elapsed = begun.elapsed();
    // The server exists until it is signalled.
    let _ = stop.send(());
    runtime.block_on(serving)??;
    Ok(Measured::new(entries_per_op, latencies, elapsed))
}

/// Waits until the server listens.
async fn connected(address: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        match UmaDbClient::new(address.to_owned()).connect_async().await {
            Ok(client) if client.head().await.is_ok() => return Ok(()),
            _ if begun.elapsed() > Duration::from_secs(30) => return Err("UmaDB does not listen".into()),
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
