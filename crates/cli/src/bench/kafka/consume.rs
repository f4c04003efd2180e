//! Consuming: a partition from its start, and what is produced at the moment.

use std::time::Duration;

use super::broker::Broker;
use super::produce::fill;
use super::wire::{self, Client};
use super::{finished, on_runtime, topic};
use crate::bench::case::Run;
use crate::bench::measurement::{Measured, Recorder};
use crate::failure::{Failure, Result};
use crate::latencies::Latencies;
use crate::stopwatch::Stopwatch;

/// How many messages a second are produced while their way is measured.
const PACE: u64 = 4_000;

/// How long a fetch may wait, in milliseconds.
const WAIT_MS: i32 = 30_000;

/// Reads the partition from the first batch to the last, one a fetch.
pub(super) fn from_the_start(run: &Run<'_>) -> Result<Measured> {
    let broker = Broker::of(run)?;
    let measured = on_runtime(async {
        let mut client = Client::connect(&broker.bootstrap).await?;
        let topic = topic(run);
        client.create(&topic, 1).await?;
        let batch = wire::batch(&vec![b'q'; run.case.payload_bytes], run.case.batch);
        let request = wire::produce(&topic, 0, &batch);
        for op in 0..run.ops {
            run.go_on(op)?;
            client.send(&request).await?;
            client.produced().await?;
        }
        // Behind the message that created the topic.
        let mut offset = 1;
        let mut recorder = Recorder::start();
        for op in 0..run.ops {
            run.go_on(op)?;
            // As large as the batch, so that one fetch brings one.
            client.send(&wire::fetch(&topic, offset, batch.len() as i32, WAIT_MS)).await?;
            let fetched = client.fetched().await?;
            match fetched.end() {
                Some((end, count)) if count == run.case.batch as u64 => offset = end,
                other => return Err(Failure::new(format!("a fetch at offset {offset} brought {other:?}"))),
            }
            recorder.lap();
        }
        Ok(recorder.finish())
    })?;
    Ok(finished(measured, &broker))
}

/// Reads one batch at a time, all over a partition of so many messages.
pub(super) fn anywhere<const MESSAGES: u64>(run: &Run<'_>) -> Result<Measured> {
    let broker = Broker::of(run)?;
    let measured = on_runtime(async {
        let topic = fill(run, &broker, MESSAGES).await?;
        let mut client = Client::connect(&broker.bootstrap).await?;
        let mut recorder = Recorder::start();
        for op in 0..run.ops {
            run.go_on(op)?;
            // Multiples of the golden ratio: far from each other, and the same every time. Behind the message that created the topic.
            let offset = 1 + op.wrapping_mul(0x9E37_79B9_7F4A_7C15) % MESSAGES;
            // A batch comes whatever its size, so a limit of one byte brings one.
            client.send(&wire::fetch(&topic, offset as i64, 1, WAIT_MS)).await?;
            match client.fetched().await?.end() {
                Some((_, count)) if count == run.case.batch as u64 => recorder.lap(),
                other => return Err(Failure::new(format!("a fetch at offset {offset} brought {other:?}"))),
            }
        }
        Ok(recorder.finish())
    })?;
    Ok(finished(measured, &broker))
}

/// One connection produces at an even pace, another waits for each message; the time is from before one is sent until it is
/// there.
pub(super) fn end_to_end(run: &Run<'_>) -> Result<Measured> {
    let broker = Broker::of(run)?;
    let measured = on_runtime(async {
        let mut producer = Client::connect(&broker.bootstrap).await?;
        let mut consumer = Client::connect(&broker.bootstrap).await?;
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
                // The consumer outlives the producer, but for an error, which ends both.
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
                    return Err(Failure::new("a fetch waited to its end, and nothing came"));
                };
                offset = end;
                for _ in 0..count {
                    let watch = was_sent.recv().await.ok_or_else(|| Failure::new("more came than was sent"))?;
                    latencies.record(watch.elapsed());
                }
            }
            Ok(latencies)
        };
        let watch = Stopwatch::start();
        let (latencies, ()) = tokio::try_join!(consume, produce)?;
        Ok(Measured::of_clients([latencies], watch.elapsed()))
    })?;
    Ok(finished(measured, &broker))
}
