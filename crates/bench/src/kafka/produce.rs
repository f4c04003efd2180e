//! Producing: many connections that wait for each response, one connection that sends ahead, and
//! the memory of the broker.

use std::collections::VecDeque;

use super::broker::BenchBroker;
use super::wire::{self, WireClient};
use super::{FILL_BATCH, finished, on_runtime, topic};
use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::stopwatch::Stopwatch;

/// Requests in flight per producer, as with Kafka's clients.
const IN_FLIGHT: usize = 5;

/// Idle connections.
const IDLE: usize = 1_000;

/// Partitions.
const PARTITIONS: u32 = 10_000;

/// Each client has a connection, and one request in flight.
pub(super) fn in_step(run: &CaseRun<'_>) -> Result<CaseResult> {
    let broker = BenchBroker::of(run)?;
    let measured = on_runtime(clients(run, &broker, 1))?;
    Ok(finished(measured, &broker))
}

/// One client, which sends ahead.
pub(super) fn ahead(run: &CaseRun<'_>) -> Result<CaseResult> {
    let broker = BenchBroker::of(run)?;
    let measured = on_runtime(clients(run, &broker, IN_FLIGHT))?;
    Ok(finished(measured, &broker))
}

/// One client produces to a partition of `COUNT` messages.
pub(super) fn behind<const MESSAGES: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let broker = BenchBroker::of(run)?;
    let measured = on_runtime(async {
        let topic = fill(run, &broker, MESSAGES).await?;
        clients_of(run, &broker, 1, &topic).await
    })?;
    Ok(finished(measured, &broker))
}

/// Creates a topic of one partition with `count` messages after the first one. Returns its name.
pub(super) async fn fill(run: &CaseRun<'_>, broker: &BenchBroker, messages: u64) -> Result<String> {
    let topic = topic(run);
    let mut client = WireClient::connect(&broker.bootstrap).await?;
    client.create(&topic, 1).await?;
    let batch = wire::batch(&vec![b'q'; run.case.payload_bytes], FILL_BATCH);
    let request = wire::produce(&topic, 0, &batch);
    tokio::select! {
        done = pipeline(client, &request, messages / FILL_BATCH as u64, IN_FLIGHT) => done.map(|_| topic),
        () = run.stop.asked() => Err(CommandError::Interrupted),
    }
}

/// One client produces while many connections are idle.
pub(super) fn beside_idle(run: &CaseRun<'_>) -> Result<CaseResult> {
    let broker = BenchBroker::of(run)?;
    on_runtime(async {
        let mut idle = Vec::with_capacity(IDLE);
        for _ in 0..IDLE {
            idle.push(WireClient::connect(&broker.bootstrap).await?);
        }
        let measured = clients(run, &broker, 1).await?;
        Ok(finished(measured, &broker))
    })
}

/// One client produces to one partition after another.
pub(super) fn to_many_partitions(run: &CaseRun<'_>) -> Result<CaseResult> {
    let broker = BenchBroker::of(run)?;
    let measured = on_runtime(async {
        let mut client = WireClient::connect(&broker.bootstrap).await?;
        let topic = topic(run);
        client.create(&topic, PARTITIONS).await?;
        let batch = wire::batch(&vec![b'q'; run.case.payload_bytes], run.case.batch);
        let mut recorder = Recorder::start();
        for op in 0..run.ops {
            run.go_on(op)?;
            let request = wire::produce(&topic, (op % u64::from(PARTITIONS)) as u32, &batch);
            client.send(&request).await?;
            client.produced().await?;
            recorder.lap();
        }
        Ok(recorder.finish())
    })?;
    Ok(finished(measured, &broker))
}

/// Starts a broker, and waits until it has accepted a message.
pub(super) fn cold_start(run: &CaseRun<'_>) -> Result<CaseResult> {
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        let broker = BenchBroker::start(run)?;
        on_runtime(async { WireClient::connect(&broker.bootstrap).await?.create("bench", 1).await })?;
        recorder.lap();
        drop(broker);
        std::fs::remove_dir_all(&run.path).map_err(|error| CommandError::at("remove a database", error))?;
        recorder.restart();
    }
    Ok(recorder.finish())
}

/// The clients of the case, each with `in_flight` requests in flight.
async fn clients(run: &CaseRun<'_>, broker: &BenchBroker, in_flight: usize) -> Result<CaseResult> {
    let topic = topic(run);
    WireClient::connect(&broker.bootstrap).await?.create(&topic, 1).await?;
    clients_of(run, broker, in_flight, &topic).await
}

/// As [`produce`], to an existing topic.
async fn clients_of(run: &CaseRun<'_>, broker: &BenchBroker, in_flight: usize, topic: &str) -> Result<CaseResult> {
    let batch = wire::batch(&vec![b'q'; run.case.payload_bytes], run.case.batch);
    let request = std::sync::Arc::new(wire::produce(topic, 0, &batch));
    let clients = u64::from(run.case.clients);
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(WireClient::connect(&broker.bootstrap).await?);
    }
    let watch = Stopwatch::start();
    let mut tasks = tokio::task::JoinSet::new();
    for (client, number) in connected.into_iter().zip(0..) {
        let ops = run.ops / clients + u64::from(number < run.ops % clients);
        let (request, stop) = (std::sync::Arc::clone(&request), run.stop.clone());
        tasks.spawn(async move {
            tokio::select! {
                done = pipeline(client, &request, ops, in_flight) => done,
                () = stop.asked() => Err(CommandError::Interrupted),
            }
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies.push(done.map_err(|error| CommandError::at("produce", error))??);
    }
    Ok(CaseResult::of_clients(latencies, watch.elapsed()))
}

/// Sends the request repeatedly. A latency is from sending a request to its response.
async fn pipeline(mut client: WireClient, request: &[u8], ops: u64, in_flight: usize) -> Result<Latencies> {
    let mut latencies = Latencies::new();
    let mut sent = VecDeque::with_capacity(in_flight);
    for op in 0..ops + in_flight as u64 {
        if sent.len() == in_flight || op >= ops {
            let Some(watch) = sent.pop_front() else { break };
            client.produced().await?;
            latencies.record(Stopwatch::elapsed(&watch));
        }
        if op < ops {
            sent.push_back(Stopwatch::start());
            client.send(request).await?;
        }
    }
    Ok(latencies)
}
