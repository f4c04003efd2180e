//! Decides on batches: what a topic takes, and what an idempotent producer sent before. A batch is
//! stored as it came; its offsets are what the log numbers it by.

use alloc::vec::Vec;

use quire_model::{BodyChecksum, NewEntry, Sequence, SequenceRequest};

use super::Draft;
use crate::codec::{BATCH_PRODUCED, PRODUCER_GIVEN, ProducerBody};
use crate::producers::{BatchMark, Stamp, Verdict};
use crate::tag::{PRODUCERS_TAG, partition_tag};
use crate::wire::{Batch, Codec};
use crate::{ProduceResult, ProducerId, Refusal, Reply, TopicId, TopicSettings};

/// A topic's requirements on batches, and the attributes that it gives them.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchTerms {
    pub(super) partitions: u32,
    bytes_max: u32,
    compacts: bool,
    compression: Codec,
}

impl BatchTerms {
    #[inline]
    pub(super) fn of(partitions: u32, settings: &TopicSettings) -> Self {
        let TopicSettings { batch_bytes_max, cleanup, compression, .. } = *settings;
        BatchTerms { partitions, bytes_max: batch_bytes_max, compacts: cleanup.compacts(), compression }
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
        let entry = NewEntry {
            kind: BATCH_PRODUCED,
            tags: &[tag.tag()],
            sequenced: Some(SequenceRequest { origin: Sequence::new(0), count: last_offset_delta + 1 }),
            body: &[batch.bytes()],
        };
        let placed = match batch.verified_checksum() {
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

    /// Whether a batch of an idempotent producer is to be stored, after what this commit has of it
    /// already.
    fn judge(&self, stamp: &Stamp, topic: TopicId, partition: u32) -> Result<Verdict, Refusal> {
        let state = &self.state.producers;
        let drafted = self.added().windows.get(&(stamp.producer, topic, partition));
        let window = drafted.or_else(|| state.window(stamp.producer, (topic, partition)));
        let given = stamp.producer.get().wrapping_sub(state.next_id().get()) < self.added().producers_given;
        state.judge(stamp, window, topic, given)
    }
}
