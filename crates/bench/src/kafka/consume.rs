//! Consuming: a partition from its start, and new messages.

use std::time::Duration;

use super::broker::BenchBroker;
use super::produce::fill;
use super::wire::{self, WireClient};
use super::{finished, on_runtime, topic};
use crate::case::CaseRun;
use crate::measurement::{CaseResult, Recorder};
use quire_cli::failure::{CommandError, Result};
use quire_cli::latencies::Latencies;
use quire_cli::stopwatch::Stopwatch;

/// Messages per second while their delay is measured.
const PACE: u64 = 4_000;

/// Longest wait of a fetch, in milliseconds.
const WAIT_MS: i32 = 30_000;

/// Reads the partition from the first batch to the last, one batch per fetch.
pub(super) fn from_the_start(run: &CaseRun<'_>) -> Result<CaseResult> {
    let broker = BenchBroker::of(run)?;
    let measured = on_runtime(async {
        let mut client = WireClient::connect(&broker.bootstrap).await?;
        let topic = topic(run);
        client.create(&topic, 1).await?;
        let batch = wire::batch(&vec![b'q'; run.case.payload_bytes], run.case.batch);
        let request = wire::produce(&topic, 0, &batch);
        for op in 0..run.ops {
            run.go_on(op)?;
            client.send(&request).await?;
            client.produced().await?;
        }
        // The first message created the topic.
        let mut offset = 1;
        let mut recorder = Recorder::start();
        for op in 0..run.ops {
            run.go_on(op)?;
            // As large as the batch, so that a fetch returns one batch.
            client.send(&wire::fetch(&topic, offset, batch.len() as i32, WAIT_MS)).await?;
            let fetched = client.fetched().await?;
            match fetched.end() {
                Some((end, count)) if count == run.case.batch as u64 => offset = end,
                other => return Err(CommandError::new(format!("a fetch at offset {offset} returned {other:?}"))),
            }
            recorder.lap();
        }
        Ok(recorder.finish())
    })?;
    Ok(finished(measured, &broker))
}

/// Reads one batch at a time, at random from a partition of `COUNT` messages.
pub(super) fn anywhere<const MESSAGES: u64>(run: &CaseRun<'_>) -> Result<CaseResult> {
    let broker = BenchBroker::of(run)?;
    let measured = on_runtime(async {
        let topic = fill(run, &broker, MESSAGES).await?;
        let mut client = WireClient::connect(&broker.bootstrap).await?;
        let mut recorder = Recorder::start();
        for op in 0..run.ops {
            run.go_on(op)?;
            // Multiples of the golden ratio are far from each other, and the same every time. The
            // first message created the topic.
            let offset = 1 + op.wrapping_mul(0x9E37_79B9_7F4A_7C15) % MESSAGES;
            // A batch is returned whatever its size, so a limit of one byte returns one batch.
            client.send(&wire::fetch(&topic, offset as i64, 1, WAIT_MS)).await?;
            match client.fetched().await?.end() {
                Some((_, count)) if count == run.case.batch as u64 => recorder.lap(),
                other => return Err(CommandError::new(format!("a fetch at offset {offset} returned {other:?}"))),
            }
        }
        Ok(recorder.finish())
    })?;
    Ok(finished(measured, &broker))
}

/// One connection produces at an even rate, and another waits for each message. The delay is from
/// before the request is sent until the message arrives.
pub(super) fn end_to_end(run: &CaseRun<'_>) -> Result<CaseResult> {
    let broker = BenchBroker::of(run)?;
    let measured = on_runtime(async {
        let mut producer = WireClient::connect(&broker.bootstrap).await?;
        let mut consumer = WireClient::connect(&broker.bootstrap).await?;
        let topic = topic(run);
        producer.create(&topic, 1).await?;
        let request = wire::produce(&topic, 0, &wire::batch(&vec![b'q'; run.case.payload_bytes], 1));
        let (sent, mut was_sent) = tokio::sync::mpsc::unbounded_channel();
        let ops = run.ops;
        let produce = async move {
            let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / PACE));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
            for _ in 0..ops {
                ticks.tick().await;
                // The consumer outlives the producer. After an error both end.
                let _ = sent.send(Stopwatch::start());
                producer.send(&request).await?;
                producer.produced().await?;
            }
            Ok(())
        };
        let consume = async {
            let (mut latencies, mut offset) = (Latencies::new(), 1);
            while latencies.count() < ops {
                run.go_on(latencies.count())?;
                consumer.send(&wire::fetch(&topic, offset, 1 << 20, WAIT_MS)).await?;
                let Some((end, count)) = consumer.fetched().await?.end() else {
                    return Err(CommandError::new("a fetch timed out without a message"));
                };
                offset = end;
                for _ in 0..count {
                    let watch = was_sent
                        .recv()
                        .await
                        .ok_or_else(|| CommandError::new("more messages arrived than were sent"))?;
                    latencies.record(watch.elapsed());
                }
            }
            Ok(latencies)
        };
        let watch = Stopwatch::start();
        let (latencies, ()) = tokio::try_join!(consume, produce)?;
        Ok(CaseResult::of_clients([latencies], watch.elapsed()))
    })?;
    Ok(finished(measured, &broker))
}
