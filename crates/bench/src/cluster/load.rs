//! The load of a cluster.

use quire_grpc::Channel;
use quire_grpc::proto::events_client::EventsClient;
use quire_grpc::proto::{AppendEventsRequest, NewEvent};

use super::nodes::BenchCluster;
use crate::case::CaseRun;
use crate::kept_connection::KeptConnection;
use crate::measurement::{CaseResult, Recorder};
use crate::served::{failed, run_clients};
use crate::{jobs, kafka};
use quire_cli::failure::Result;
use quire_cli::latencies::Latencies;
use quire_cli::threads;

const STORE: &str = "bench";

/// Connections of a load over gRPC. More clients share them, as programs do.
const CONNECTIONS_MAX: u32 = 32;

fn with_cluster(run: &CaseRun<'_>, load: impl FnOnce(&BenchCluster) -> Result<CaseResult>) -> Result<CaseResult> {
    let cluster = BenchCluster::start(&run.path, run.nodes)?;
    let measured = load(&cluster)?.with("nodes", run.nodes.into());
    Ok(match cluster.memory_bytes() {
        Some(bytes) => measured.with("memory_bytes", bytes),
        None => measured,
    })
}

/// Appends events over gRPC.
pub(super) fn put(run: &CaseRun<'_>) -> Result<CaseResult> {
    with_cluster(run, |cluster| {
        let runtime = threads::start(1)?;
        let address = format!("http://{}", cluster.leader().grpc);
        let connections = (0..run.case.clients.min(CONNECTIONS_MAX))
            .map(|_| runtime.block_on(EventsClient::connect(address.clone())).map_err(failed))
            .collect::<Result<Vec<_>>>()?;
        let bytes = run.case.payload_bytes;
        // The first append makes the store, outside of the measurement.
        runtime.block_on(append(connections[0].clone(), 1, bytes))?;
        run_clients(run, &runtime, |first, ops| {
            let client = usize::try_from(first / ops.max(1)).unwrap_or_default();
            append(connections[client % connections.len()].clone(), ops, bytes)
        })
    })
}

async fn append(mut client: EventsClient<Channel>, ops: u64, payload_bytes: usize) -> Result<Latencies> {
    let event = NewEvent { r#type: "Put".to_owned(), data: vec![b'q'; payload_bytes].into(), ..NewEvent::default() };
    let request =
        AppendEventsRequest { store: STORE.to_owned(), events: vec![event], ..AppendEventsRequest::default() };
    let mut recorder = Recorder::start_among_others();
    for _ in 0..ops {
        client.append(request.clone()).await.map_err(failed)?;
        recorder.lap();
    }
    Ok(recorder.into_latencies())
}

/// Produces messages over the Kafka protocol.
pub(super) fn produce(run: &CaseRun<'_>) -> Result<CaseResult> {
    with_cluster(run, |cluster| {
        kafka::produce_in_step(&CaseRun { bootstrap: Some(&cluster.leader().kafka), path: run.path.clone(), ..*run })
    })
}

/// The life of jobs on streams.
pub(super) fn jobs(run: &CaseRun<'_>) -> Result<CaseResult> {
    with_cluster(run, |cluster| {
        let runtime = threads::start(1)?;
        jobs::stream_life_at(run, &runtime, &format!("http://{}", cluster.leader().grpc))
    })
}

/// Reads with the agreement of a majority.
pub(super) fn read(run: &CaseRun<'_>) -> Result<CaseResult> {
    read_with(run, "")
}

/// Reads from the records of the leader.
pub(super) fn read_local(run: &CaseRun<'_>) -> Result<CaseResult> {
    read_with(run, "Quire-Read: local\r\n")
}

fn read_with(run: &CaseRun<'_>, header: &str) -> Result<CaseResult> {
    with_cluster(run, |cluster| {
        let runtime = threads::start(1)?;
        let address = format!("http://{}", cluster.leader().grpc);
        let client = runtime.block_on(EventsClient::connect(address)).map_err(failed)?;
        runtime.block_on(append(client, 1, run.case.payload_bytes))?;
        let http = &cluster.leader().http;
        let request = format!("GET /v1/events/{STORE}/head HTTP/1.1\r\nHost: {http}\r\n{header}\r\n");
        run_clients(run, &runtime, |_, ops| reads(http.clone(), request.clone(), ops))
    })
}

async fn reads(address: String, request: String, ops: u64) -> Result<Latencies> {
    let mut connection = KeptConnection::open(&address).await?;
    let mut recorder = Recorder::start_among_others();
    for _ in 0..ops {
        connection.exchange(&request).await?;
        recorder.lap();
    }
    Ok(recorder.into_latencies())
}
