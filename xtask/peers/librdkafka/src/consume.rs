//! Consuming: a topic from its start, and messages as they are produced.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use crate::latencies::Measured;
use crate::produce::{Delivered, first};
use crate::{MESSAGE_BYTES, Result, Run};

/// Without a message for this time the case fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many messages a second are produced in the latency case.
const PACE: u64 = 4_000;

fn consumer(run: &Run, offset: Offset) -> Result<BaseConsumer> {
    let consumer: BaseConsumer = run.config().set("group.id", "load").set("enable.auto.commit", "false").create()?;
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(&run.topic, 0, offset)?;
    consumer.assign(&partitions)?;
    Ok(consumer)
}

fn next(consumer: &BaseConsumer) -> Result<rdkafka::message::BorrowedMessage<'_>> {
    Ok(consumer.poll(PATIENCE).ok_or("no message came")??)
}

/// Reads `messages` existing messages, from the first on.
pub(crate) fn from_the_start(run: &Run) -> Result<Measured> {
    let begun = Instant::now();
    let consumer = consumer(run, Offset::Beginning)?;
    for _ in 0..run.messages {
        assert_eq!(next(&consumer)?.payload_len(), MESSAGE_BYTES);
    }
    Ok(Measured::new(run.messages, begun.elapsed(), Vec::new()))
}

/// A producer sends 4,000 messages a second, each at once, and a consumer waits for them. The time
/// is from before a message is sent until it is received.
pub(crate) fn end_to_end(run: &Run) -> Result<Measured> {
    drop(first(run)?);
    let consumer = consumer(run, Offset::Beginning)?;
    // By now the consumer waits for the next message.
    next(&consumer)?;
    let producer: ThreadedProducer<Delivered> =
        run.config().set("linger.ms", "0").create_with_context(Delivered::default())?;
    let begun = Instant::now();
    let latencies = std::thread::scope(|scope| {
        let producing = scope.spawn(|| {
            let mut payload = [b'q'; MESSAGE_BYTES];
            for number in 0..run.messages {
                let due = Duration::from_nanos(1_000_000_000 / PACE * number);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
                let sent = u64::try_from(begun.elapsed().as_nanos()).expect("a short run");
                payload[..8].copy_from_slice(&sent.to_le_bytes());
                let record = BaseRecord::<(), _>::to(&run.topic).payload(&payload);
                producer.send(record).map_err(|(error, _)| error.to_string())?;
            }
            Ok::<_, String>(())
        });
        let mut latencies = Vec::new();
        for _ in 0..run.messages {
            let message = next(&consumer)?;
            let sent = message.payload().and_then(|payload| payload.first_chunk()).ok_or("a message without a time")?;
            latencies.push(begun.elapsed().saturating_sub(Duration::from_nanos(u64::from_le_bytes(*sent))));
        }
        producing.join().expect("the producer does not panic")?;
        Ok::<_, Box<dyn std::error::Error>>(latencies)
    })?;
    Ok(Measured::new(run.messages, begun.elapsed(), latencies))
}
