//! A consumer of a topic of a server: it reads all partitions for a group, from the group's
//! committed offsets.
//!
//! ```text
//! bounds of the partitions ─▶ records of a partition that has any ─▶ delivery ─▶ commit with its offset
//!        ▲                                │ none
//!        └── the server waits for records ┘
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use quire::{Record, Stopper};
use quire_client::reply::{TopicGroupReply, TopicWithPartitions};
use quire_client::request::{CommitOffset, CommitRequest, Produce};
use quire_client::{Call, Client};

use crate::errors::CallError;
use crate::served;

/// How long a server waits for records before it answers a task.
pub(crate) const TASK_WAIT: Duration = Duration::from_secs(1);

/// The largest delivery, in bytes of record batches.
const BYTES_MAX: usize = 1 << 20;

/// The wait before the first retry of a handler, and the longest one.
const BACKOFF: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// The settings of a consumer.
pub(crate) struct ServedSettings {
    pub(crate) records_max: usize,
    pub(crate) retries: u32,
    pub(crate) dead_letter: Option<String>,
    pub(crate) from_start: bool,
}

/// Records of one partition.
pub(crate) struct ServedDelivery {
    pub(crate) partition: u32,
    pub(crate) lost: u64,
    /// The offset that the group commits for this delivery.
    next: u64,
    pub(crate) records: Vec<Record>,
}

/// Reads a topic for a group.
pub(crate) struct ServedConsumer {
    client: Client,
    topic: String,
    group: String,
    settings: ServedSettings,
    partitions: Vec<ServedShare>,
    /// The partitions as the server described them last.
    described: TopicWithPartitions,
    /// A delivery that a cancelled task did not take.
    ready: Option<ServedDelivery>,
}

/// A commit that includes the offset of a delivery. It needs no consumer, which another call may
/// use meanwhile.
pub(crate) struct Acknowledgement {
    client: Client,
    commit: CommitRequest<'static>,
}

impl Acknowledgement {
    pub(crate) fn commit(&self, key: Option<&str>) -> Result<(), CallError> {
        served::commit_request(&self.client, &self.commit, key).map(drop)
    }
}

/// A partition, and the offset to continue from.
#[derive(Clone, Copy)]
struct ServedShare {
    partition: u32,
    next: u64,
    /// The deleted records before `next` that no delivery has reported.
    lost: u64,
}

impl ServedConsumer {
    pub(crate) fn new(
        client: Client,
        topic: String,
        group: String,
        settings: ServedSettings,
    ) -> Result<Self, CallError> {
        if settings.records_max == 0 {
            return Err(CallError::Invalid("records_max must be at least 1, got 0".to_owned()));
        }
        let described = describe(&client, &topic, Duration::ZERO, 0)?;
        let committed: TopicGroupReply = client.get(&["topics", &topic, "groups", &group], &[])?;
        let committed: BTreeMap<u32, u64> =
            committed.offsets.iter().map(|found| (found.partition, found.offset)).collect();
        let from_start = settings.from_start;
        let partitions = described.partitions.iter().map(|found| {
            let begin = if from_start { found.start } else { found.next };
            let next = committed.get(&found.partition).copied().unwrap_or(begin);
            ServedShare { partition: found.partition, next, lost: 0 }
        });
        let partitions = partitions.collect();
        Ok(ServedConsumer { client, topic, group, settings, partitions, described, ready: None })
    }

    /// The call that waits up to `at_most` for records that the consumer has not seen. It needs no
    /// consumer, which another call may use meanwhile.
    pub(crate) fn look(&self, at_most: Duration) -> impl FnOnce() -> Result<TopicWithPartitions, CallError> + use<> {
        let (client, topic, written) = (self.client.clone(), self.topic.clone(), self.described.written);
        move || describe(&client, &topic, at_most, written)
    }

    /// Notes what the server described.
    pub(crate) fn see(&mut self, described: TopicWithPartitions) {
        for found in &described.partitions {
            if !self.partitions.iter().any(|share| share.partition == found.partition) {
                // A partition created while the consumer runs is read from its start.
                self.partitions.push(ServedShare { partition: found.partition, next: found.start, lost: 0 });
            }
        }
        self.described = described;
    }

    /// Has the next records of a partition ready, if there are any. Partitions take turns.
    pub(crate) fn prepare(&mut self) -> Result<bool, CallError> {
        if self.ready.is_none() {
            self.ready = self.poll()?;
        }
        Ok(self.ready.is_some())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Takes the records that are ready.
    pub(crate) fn take(&mut self) -> Option<ServedDelivery> {
        self.ready.take()
    }

    fn poll(&mut self) -> Result<Option<ServedDelivery>, CallError> {
        for turn in 0..self.partitions.len() {
            let ServedShare { partition, mut next, mut lost } = self.partitions[turn];
            let Some(bounds) = self.described.partitions.iter().find(|found| found.partition == partition) else {
                continue;
            };
            if next < bounds.start {
                lost += bounds.start - next;
                next = if self.settings.from_start { bounds.start } else { bounds.next };
            }
            let limits = (BYTES_MAX, self.settings.records_max);
            while next < bounds.next {
                let read = served::topics::read_up_to(&self.client, &self.topic, partition, next, limits)?;
                let has_come_on = std::mem::replace(&mut next, read.next_offset.get()) < next;
                if !read.records.is_empty() {
                    self.partitions[turn] = ServedShare { partition, next, lost: 0 };
                    self.partitions.rotate_left(turn + 1);
                    return Ok(Some(ServedDelivery { partition, lost, next, records: read.records }));
                }
                if !has_come_on {
                    break;
                }
            }
            self.partitions[turn] = ServedShare { partition, next, lost };
        }
        Ok(None)
    }

    /// Waits up to `at_most` for the next records.
    pub(crate) fn wait(&mut self, at_most: Duration) -> Result<Option<ServedDelivery>, CallError> {
        if !self.prepare()? {
            let described = self.look(at_most)()?;
            self.see(described);
            self.prepare()?;
        }
        Ok(self.take())
    }

    /// The commit of the offset of a delivery as read, together with a commit.
    pub(crate) fn acknowledgement(&self, commit: CommitRequest<'static>, delivery: &ServedDelivery) -> Acknowledgement {
        let (group, topic) = (self.group.clone(), self.topic.clone());
        let commit = commit.and(CommitOffset::new(group, topic, delivery.partition, delivery.next));
        Acknowledgement { client: self.client.clone(), commit }
    }

    /// Hands deliveries to `handle` until the consumer is stopped, as a consumer of an embedded
    /// database does: a failure and a refused commit are tried again after growing waits, and then
    /// the records go to the dead letters.
    pub(crate) fn process(
        &mut self,
        look: Duration,
        stopper: &Stopper,
        mut stop: impl FnMut() -> bool,
        mut handle: impl FnMut(&ServedDelivery) -> Result<(CommitRequest<'static>, Option<String>), String>,
    ) -> Result<(), CallError> {
        let mut is_stopped = || stopper.is_requested() || stop();
        while !is_stopped() {
            let Some(delivery) = self.wait(look)? else { continue };
            let mut tries = 0;
            loop {
                let error = match handle(&delivery) {
                    Ok((commit, key)) => match self.acknowledgement(commit, &delivery).commit(key.as_deref()) {
                        Ok(()) => break,
                        Err(CallError::Served(refused)) if refused.facts().contains_key("part") => refused.to_string(),
                        Err(failed) => return self.give_back(&delivery, Err(failed)),
                    },
                    Err(error) => error,
                };
                if tries == self.settings.retries {
                    match self.give_up(&delivery, &error) {
                        Ok(()) => break,
                        Err(failed) => return self.give_back(&delivery, Err(failed)),
                    }
                }
                let mut left = BACKOFF.saturating_mul(1 << tries.min(31)).min(BACKOFF_MAX);
                while !left.is_zero() {
                    if is_stopped() {
                        return self.give_back(&delivery, Ok(()));
                    }
                    let pause = left.min(look);
                    std::thread::park_timeout(pause);
                    left -= pause;
                }
                tries += 1;
            }
        }
        Ok(())
    }

    /// Ends the loop with a delivery of which no offset was committed.
    fn give_back(&mut self, delivery: &ServedDelivery, end: Result<(), CallError>) -> Result<(), CallError> {
        let first = delivery.records.first().map(|record| record.offset.get());
        for share in self.partitions.iter_mut().filter(|share| share.partition == delivery.partition) {
            (share.next, share.lost) = (first.unwrap_or(share.next), 0);
        }
        end
    }

    /// Moves a failed delivery to the dead-letter topic, in one commit with the offset.
    fn give_up(&self, delivery: &ServedDelivery, error: &str) -> Result<(), CallError> {
        let Some(dead_letter) = &self.settings.dead_letter else {
            let offset = |record: Option<&Record>| record.map_or(0, |record| record.offset.get());
            return Err(CallError::Handler(format!(
                "the handler failed with offsets {} to {} of partition {} of {}: {error}",
                offset(delivery.records.first()),
                offset(delivery.records.last()),
                delivery.partition,
                self.topic
            )));
        };
        let parts = delivery.records.iter().map(|record| {
            let topic = dead_letter.clone();
            let mut message = match &record.value {
                Some(value) => Produce::new(topic, value),
                None => Produce::tombstone(topic),
            };
            message = record.key.iter().fold(message, Produce::key);
            for (name, value) in &record.headers {
                let name = String::from_utf8_lossy(name).into_owned();
                message = match value {
                    Some(value) => message.header(name, value),
                    None => message.header_without_value(name),
                };
            }
            let message = message.header("error", error).header("topic", &self.topic);
            let message = message.header("partition", delivery.partition.to_string());
            message.header("offset", record.offset.to_string()).timestamp_ms(record.timestamp_ms).into()
        });
        self.acknowledgement(CommitRequest { parts: parts.collect() }, delivery).commit(None)
    }
}

/// Describes a topic. The server waits up to `at_most` until more than `written` records exist.
fn describe(client: &Client, topic: &str, at_most: Duration, written: u64) -> Result<TopicWithPartitions, CallError> {
    let call = Call::get(&["topics", topic]).query("wait_ms", served::millis(at_most)).query("written", written);
    Ok(client.read(call.wait(at_most))?)
}
