//! Producing: many connections that each wait for every answer, one that sends ahead, and what a broker holds meanwhile.

use std::collections::VecDeque;

use super::broker::Broker;
use super::wire::{self, Client};
use super::{FILL_BATCH, finished, on_runtime, topic};
use crate::bench::case::Run;
use crate::bench::measurement::{Measured, Recorder};
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::stopwatch::Stopwatch;

/// How many requests a producer sends before it waits: as many as Kafka's clients do.
const IN_FLIGHT: usize = 5;

/// How many connections are idle.
const IDLE: usize = 1_000;

/// How many partitions there are.
const PARTITIONS: u32 = 10_000;

/// Each client has a connection, and one request in flight.
pub(super) fn in_step(run: &Run<'_>) -> Result<Measured> {
    let broker = Broker::of(run)?;
    let measured = on_runtime(clients(run, &broker, 1))?;
    Ok(finished(measured, &broker))
}

/// One client, which sends ahead.
pub(super) fn ahead(run: &Run<'_>) -> Result<Measured> {
    let broker = Broker::of(run)?;
    let measured = on_runtime(clients(run, &broker, IN_FLIGHT))?;
    Ok(finished(measured, &broker))
}

/// One client produces to a partition of so many messages.
pub(super) fn behind<const MESSAGES: u64>(run: &Run<'_>) -> Result<Measured> {
    let broker = Broker::of(run)?;
    let measured = on_runtime(async {
        let topic = fill(run, &broker, MESSAGES).await?;
        clients_of(run, &broker, 1, &topic).await
    })?;
    Ok(finished(measured, &broker))
}

/// Makes a topic of one partition, and produces so many messages to it behind the one that makes it. Its name.
pub(super) async fn fill(run: &Run<'_>, broker: &Broker, messages: u64) -> Result<String> {
    let topic = topic(run);
    let mut client = Client::connect(&broker.bootstrap).await?;
    client.create(&topic, 1).await?;
    let batch = wire::batch(&vec![b'q'; run.case.payload_bytes], FILL_BATCH);
    let request = wire::produce(&topic, 0, &batch);
    tokio::select! {
        done = pipeline(client, &request, messages / FILL_BATCH as u64, IN_FLIGHT) => done.map(|_| topic),
        () = run.stop.asked() => Err(Failure::Interrupted),
    }
}

/// One client produces while many connections are idle.
pub(super) fn beside_idle(run: &Run<'_>) -> Result<Measured> {
    let broker = Broker::of(run)?;
    on_runtime(async {
        let mut idle = Vec::with_capacity(IDLE);
        for _ in 0..IDLE {
            idle.push(Client::connect(&broker.bootstrap).await?);
        }
        let measured = clients(run, &broker, 1).await?;
        Ok(finished(measured, &broker))
    })
}

/// One client produces to one partition after the other.
pub(super) fn to_many_partitions(run: &Run<'_>) -> Result<Measured> {
    let broker = Broker::of(run)?;
    let measured = on_runtime(async {
        let mut client = Client::connect(&broker.bootstrap).await?;
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

/// Starts a broker, and waits until it has taken a message.
pub(super) fn cold_start(run: &Run<'_>) -> Result<Measured> {
    let mut recorder = Recorder::start();
    for op in 0..run.ops {
        run.go_on(op)?;
        let broker = Broker::start(run)?;
        on_runtime(async { Client::connect(&broker.bootstrap).await?.create("bench", 1).await })?;
        recorder.lap();
        drop(broker);
        std::fs::remove_dir_all(&run.path).map_err(|error| Failure::at("remove a database", error))?;
        recorder.restart();
    }
    Ok(recorder.finish())
}

/// As many clients as the case has, each with so many requests in flight.
async fn clients(run: &Run<'_>, broker: &Broker, in_flight: usize) -> Result<Measured> {
    let topic = topic(run);
    Client::connect(&broker.bootstrap).await?.create(&topic, 1).await?;
    clients_of(run, broker, in_flight, &topic).await
}

/// To a topic that is there.
async fn clients_of(run: &Run<'_>, broker: &Broker, in_flight: usize, topic: &str) -> Result<Measured> {
    let batch = wire::batch(&vec![b'q'; run.case.payload_bytes], run.case.batch);
    let request = std::sync::Arc::new(wire::produce(topic, 0, &batch));
    let clients = u64::from(run.case.clients);
    let mut connected = Vec::new();
    for _ in 0..clients {
        connected.push(Client::connect(&broker.bootstrap).await?);
    }
    let watch = Stopwatch::start();
    let mut tasks = tokio::task::JoinSet::new();
    for (client, number) in connected.into_iter().zip(0..) {
        let ops = run.ops / clients + u64::from(number < run.ops % clients);
        let (request, stop) = (std::sync::Arc::clone(&request), run.stop.clone());
        tasks.spawn(async move {
            tokio::select! {
                done = pipeline(client, &request, ops, in_flight) => done,
                () = stop.asked() => Err(Failure::Interrupted),
            }
        });
    }
    let mut latencies = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies.push(done.map_err(|error| Failure::at("produce", error))??);
    }
    Ok(Measured::of_clients(latencies, watch.elapsed()))
}

/// Sends the request again and again; each latency is from sending it to its answer.
async fn pipeline(mut client: Client, request: &[u8], ops: u64, in_flight: usize) -> Result<Latencies> {
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
