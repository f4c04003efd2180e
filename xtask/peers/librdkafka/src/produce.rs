//! Producing: by tasks that each wait for their acknowledgement, and as fast as the client accepts
//! messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, FutureProducer, FutureRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::util::Timeout;

use crate::latencies::Measured;
use crate::{MESSAGE_BYTES, Result, Run};

/// How many tasks share the producer.
const TASKS: u64 = 128;

/// Timeout of a message, including the start of the broker.
const PATIENCE: Duration = Duration::from_secs(60);

/// Produces one message. The client is returned too, because dropping it takes a tenth of a second
/// that is not the broker's.
pub(crate) fn first(run: &Run) -> Result<(Measured, FutureProducer)> {
    let producer = producer(run)?;
    let one = Run { messages: 1, broker: run.broker.clone(), topic: run.topic.clone() };
    Ok((tasks_of(&producer, &one, 1)?, producer))
}

/// 128 tasks share a producer, and each waits for its message. The client sends at once: waiting
/// tasks add nothing to a batch.
pub(crate) fn tasks(run: &Run) -> Result<Measured> {
    // The topic exists before the measurement.
    drop(first(run)?);
    tasks_of(&producer(run)?, run, TASKS)
}

fn producer(run: &Run) -> Result<FutureProducer> {
    Ok(run.config().set("linger.ms", "0").create()?)
}

fn tasks_of(producer: &FutureProducer, run: &Run, tasks: u64) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let local = tokio::task::LocalSet::new();
    let begun = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (producer, topic) = (producer.clone(), run.topic.clone());
            let messages = run.messages / tasks + u64::from(task < run.messages % tasks);
            local.spawn_local(async move {
                let payload = [b'q'; MESSAGE_BYTES];
                let mut latencies = Vec::new();
                for _ in 0..messages {
                    let sent = Instant::now();
                    let record = FutureRecord::<(), _>::to(&topic).payload(&payload);
                    producer.send(record, Timeout::Never).await.map_err(|(error, _)| error)?;
                    latencies.push(sent.elapsed());
                }
                Ok::<_, KafkaError>(latencies)
            })
        })
        .collect();
    let latencies = local.block_on(&runtime, async {
        let mut latencies = Vec::new();
        for task in running {
            latencies.append(&mut task.await??);
        }
        Ok::<_, Box<dyn std::error::Error>>(latencies)
    })?;
    Ok(Measured::new(run.messages, begun.elapsed(), latencies))
}

/// Counts acknowledgements and failures.
#[derive(Clone, Default)]
pub(crate) struct Delivered {
    pub(crate) acknowledged: Arc<AtomicU64>,
    pub(crate) failed: Arc<AtomicU64>,
}

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

/// As fast as the client accepts messages, with its defaults: it collects a batch for 5 ms.
pub(crate) fn open_loop(run: &Run) -> Result<Measured> {
    drop(first(run)?);
    let delivered = Delivered::default();
    let producer: ThreadedProducer<Delivered> = run.config().create_with_context(delivered.clone())?;
    let payload = [b'q'; MESSAGE_BYTES];
    let begun = Instant::now();
    for _ in 0..run.messages {
        let mut record = BaseRecord::<(), _>::to(&run.topic).payload(&payload);
        while let Err((error, again)) = producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(error.into());
            }
            record = again;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    producer.flush(PATIENCE)?;
    let elapsed = begun.elapsed();
    match (delivered.acknowledged.load(Ordering::Relaxed), delivered.failed.load(Ordering::Relaxed)) {
        (acknowledged, 0) if acknowledged == run.messages => Ok(Measured::new(run.messages, elapsed, Vec::new())),
        (acknowledged, failed) => Err(format!("{acknowledged} of {} answered, {failed} failed", run.messages).into()),
    }
}
