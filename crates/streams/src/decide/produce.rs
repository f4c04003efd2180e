//! Decides on batches: checks them against the limits of the topic and the history of an idempotent
//! producer. A batch is stored as it came; the log assigns its offsets.

use alloc::vec::Vec;

use quire_model::{BodyChecksum, NewEntry, Sequence, SequenceRequest};

use super::Draft;
use crate::codec::{BATCH_PRODUCED, PRODUCER_GIVEN, ProducerBody};
use crate::producers::{BatchMark, Stamp, Verdict};
use crate::settings::TIMESTAMP_AFTER_MAX_MS;
use crate::tag::{PRODUCERS_TAG, partition_tag};
use crate::wire::{Batch, Codec};
use crate::{ProduceResult, ProducerId, Refusal, Reply, TimestampType, TopicId, TopicRef, TopicSettings};

/// A topic's requirements on batches, and the attributes that it gives them.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchTerms {
    pub(super) partitions: u32,
    bytes_max: u32,
    compacts: bool,
    has_own_time_limits: bool,
    is_append_time: bool,
    compression: Codec,
}

impl BatchTerms {
    #[inline]
    pub(super) fn of(partitions: u32, settings: &TopicSettings) -> Self {
        let TopicSettings { batch_bytes_max, cleanup, compression, .. } = *settings;
        let (compacts, has_own_time_limits) = (cleanup.compacts(), settings.has_own_time_limits());
        let is_append_time = settings.timestamp_type == TimestampType::LogAppendTime;
        let bytes_max = batch_bytes_max;
        BatchTerms { partitions, bytes_max, compacts, has_own_time_limits, is_append_time, compression }
    }
}

impl<'c> Draft<'_, 'c> {
    pub(super) fn init_producer(&mut self) -> Reply {
        let producer = ProducerId::new(self.state.producers.next_id().get() + self.added().producers_given);
        self.add().producers_given += 1;
        let topics_before = TopicId::new(self.added().topics.next_id(&self.state.topics));
        let body = ProducerBody { producer, topics_before }.encode();
        self.push_alone(PRODUCER_GIVEN, &PRODUCERS_TAG, body.as_slice());
        Reply::ProducerInitialized(producer)
    }

    pub(super) fn produce(
        &mut self,
        topic: TopicId,
        terms: BatchTerms,
        partition: u32,
        batch: &Batch<'_>,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Refusal> {
        if batch.is_control() {
            return Err(Refusal::ControlBatch);
        }
        if batch.is_transactional() {
            return Err(Refusal::TransactionalBatch);
        }
        let (bytes, bytes_max) = (batch.bytes().len(), terms.bytes_max);
        if bytes > bytes_max as usize {
            return Err(Refusal::BatchTooLarge { bytes, bytes_max });
        }
        // Most topics have the default limits, and most records are not from the future. With the
        // time of the append, the producer's does not matter.
        let now_ms = i64::try_from(self.effects.at().time.as_millis()).unwrap_or(i64::MAX);
        if terms.has_own_time_limits
            || batch.max_timestamp_ms() > now_ms.saturating_add_unsigned(TIMESTAMP_AFTER_MAX_MS)
        {
            self.check_times(topic, batch, now_ms)?;
        }
        // A record without a key could never be removed. The caller checked a moment ago whether
        // the topic compacts, and that may have changed.
        if terms.compacts {
            if !batch.has_known_keys() {
                return Err(Refusal::UnreadKeys);
            }
            if let Some(record) = batch.first_without_key() {
                return Err(Refusal::MissingKey { record });
            }
        }
        let stamp = Stamp::of(batch)?;
        let last_offset_delta = batch.last_offset_delta();
        let produced = |base_offset: Sequence, time, place, is_duplicate| {
            let last_offset = Sequence::new(base_offset.get() + u64::from(last_offset_delta));
            ProduceResult {
                topic,
                partition,
                base_offset,
                last_offset,
                time,
                place,
                is_duplicate,
                is_append_time: terms.is_append_time,
                compression: terms.compression,
            }
        };
        if let Some(stamp) = &stamp
            && let Verdict::Duplicate(BatchMark { base_offset, time, place, .. }) =
                self.judge(stamp, topic, partition)?
        {
            replies.push(Reply::Produced(produced(base_offset, time, place, true)));
            return Ok(());
        }
        let tag = partition_tag(topic, partition);
        let sequenced = Some(SequenceRequest { origin: Sequence::new(0), count: last_offset_delta + 1 });
        let tags = &[tag.tag()];
        let bytes = &[batch.bytes()];
        let entry = NewEntry { kind: BATCH_PRODUCED, tags, sequenced, body: bytes };
        let placed = match batch.verified_checksum() {
            _ if terms.is_append_time => {
                let header = batch.header_with_append_time(now_ms);
                self.effects.push(NewEntry { body: &[&header, batch.records_bytes()], ..entry })
            }
            Some((crc32c, bytes)) => self.effects.push_covered(entry, BodyChecksum { crc32c, bytes }),
            None => self.effects.push(entry),
        };
        let base_offset = placed.sequence.expect("the log numbers an entry that asks for it");
        let time = self.effects.at().time;
        replies.push(Reply::Produced(produced(base_offset, time, placed.place, false)));
        if let Some(stamp) = &stamp {
            let state = self.state;
            let window = self.add().windows.entry((stamp.producer, topic, partition));
            let known = || state.producers.window(stamp.producer, (topic, partition)).cloned().unwrap_or_default();
            window.or_insert_with(known).add(stamp, base_offset, time, placed.place);
        }
        if self.asks_for_ends {
            let end = Sequence::new(base_offset.get() + u64::from(last_offset_delta) + 1);
            self.add().ends.insert((topic, partition), end);
        }
        Ok(())
    }

    /// Checks the times of a batch, by its header, against the limits of its topic.
    #[cold]
    fn check_times(&self, topic: TopicId, batch: &Batch<'_>, now_ms: i64) -> Result<(), Refusal> {
        let Some((_, shape)) = self.topic(TopicRef::Id(topic)) else { return Ok(()) };
        let TopicSettings { timestamp_after_max_ms, timestamp_before_max_ms, timestamp_type, .. } = shape.settings;
        if timestamp_type == TimestampType::LogAppendTime {
            return Ok(());
        }
        let refuse = |timestamp_ms, before_max_ms, after_max_ms| {
            Err(Refusal::InvalidTimestamp { timestamp_ms, now_ms, before_max_ms, after_max_ms })
        };
        let (earliest_ms, latest_ms) = (batch.base_timestamp_ms(), batch.max_timestamp_ms());
        if latest_ms > now_ms.saturating_add_unsigned(timestamp_after_max_ms) {
            return refuse(latest_ms, None, Some(timestamp_after_max_ms));
        }
        // Records without a time have -1.
        if earliest_ms >= 0 && earliest_ms < now_ms.saturating_sub_unsigned(timestamp_before_max_ms) {
            return refuse(earliest_ms, Some(timestamp_before_max_ms), None);
        }
        Ok(())
    }

    /// Whether to store a batch of an idempotent producer, after the earlier batches of this
    /// commit.
    fn judge(&self, stamp: &Stamp, topic: TopicId, partition: u32) -> Result<Verdict, Refusal> {
        let state = &self.state.producers;
        let drafted = self.added().windows.get(&(stamp.producer, topic, partition));
        let window = drafted.or_else(|| state.window(stamp.producer, (topic, partition)));
        let given = stamp.producer.get().wrapping_sub(state.next_id().get()) < self.added().producers_given;
        state.judge(stamp, window, topic, given)
    }
}
