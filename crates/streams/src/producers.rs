//! State of idempotent producers, by which a batch that is sent again is stored only once (KIP-98).
//!
//! A producer numbers the records that it sends to a partition: 0, 1, 2 and so on within an epoch.
//! For each partition of a producer, its last [`BATCHES_KEPT`] batches are known, as many as a
//! client has in flight. A batch that equals one of them is a duplicate. A batch that continues
//! them is new. Any other batch is out of order. A higher epoch starts from 0 and fences lower
//! epochs, partition by partition: clients that raise the epoch themselves expect that (KIP-360).
//!
//! The state follows from the headers of stored batches; a restart rebuilds it. The state is
//! bounded. Producers without a batch for [`EXPIRY_MICROS`] are forgotten, and beyond [`SLOTS_MAX`]
//! the producers with the oldest last batch. Both rules use only the times of records.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Place, Position, Sequence, Timestamp};

use crate::wire::Batch;
use crate::{ProducerId, Refusal, TopicId};

/// The number of batches of a producer that a partition remembers: the most that a client has in
/// flight.
const BATCHES_KEPT: usize = 5;

/// After how long a silent producer is forgotten: Kafka's `producer.id.expiration.ms`, a day.
const EXPIRY_MICROS: u64 = 24 * 60 * 60 * 1_000_000;

/// The precision of the time at which a producer was last active.
const HEARD_MICROS: u64 = 60 * 1_000_000;

/// The most remembered producers. A producer counts once for every partition that it wrote to.
const SLOTS_MAX: usize = 100_000;

/// The producers that are remembered.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Producers {
    next_id: u64,
    known: BTreeMap<ProducerId, ProducerState>,
    /// Producers by the time of their last batch, earliest first.
    heard: BTreeSet<(Timestamp, ProducerId)>,
    /// The number of windows of all producers.
    windows: usize,
    /// Each topic with each producer that has a window of it.
    by_topic: BTreeSet<(TopicId, ProducerId)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ProducerState {
    heard: Timestamp,
    /// The topics below this id were there when the producer got its id.
    topics_before: TopicId,
    windows: BTreeMap<(TopicId, u32), Window>,
}

/// The last batches that a producer wrote to a partition.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Window {
    epoch: u16,
    /// The last batches of the epoch, oldest first.
    batches: Vec<BatchMark>,
}

/// A batch that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchMark {
    base_sequence: u32,
    last_sequence: u32,
    pub(crate) base_offset: Sequence,
    pub(crate) time: Timestamp,
    pub(crate) place: Place,
}

/// The producer fields of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) producer: ProducerId,
    epoch: u16,
    base_sequence: u32,
    last_sequence: u32,
}

/// Whether to store a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    New,
    Duplicate(BatchMark),
}

impl Stamp {
    /// The stamp of a batch; `None` when its producer is not idempotent.
    pub(crate) fn of(batch: &Batch<'_>) -> Result<Option<Self>, Refusal> {
        let id = batch.producer_id();
        if id == -1 {
            return Ok(None);
        }
        let (epoch, base_sequence) = (batch.producer_epoch(), batch.base_sequence());
        let (Ok(id), Ok(epoch), Ok(base_sequence)) =
            (u64::try_from(id), u16::try_from(epoch), u32::try_from(base_sequence))
        else {
            return Err(Refusal::InvalidProducer { producer: id, epoch, sequence: base_sequence });
        };
        let last_sequence = wrapped(u64::from(base_sequence) + u64::from(batch.last_offset_delta()));
        Ok(Some(Stamp { producer: ProducerId::new(id), epoch, base_sequence, last_sequence }))
    }
}

impl Window {
    fn judge(&self, stamp: &Stamp) -> Result<Verdict, Refusal> {
        let Stamp { producer, epoch, base_sequence, .. } = *stamp;
        if epoch < self.epoch {
            return Err(Refusal::FencedProducer { producer, epoch, current: self.epoch });
        }
        let same = |sent: &&BatchMark| (sent.base_sequence, sent.last_sequence) == (base_sequence, stamp.last_sequence);
        if epoch == self.epoch
            && let Some(sent) = self.batches.iter().find(same)
        {
            return Ok(Verdict::Duplicate(*sent));
        }
        let last = self.batches.last().filter(|_| epoch == self.epoch);
        let expected = last.map_or(0, |last| wrapped(u64::from(last.last_sequence) + 1));
        if base_sequence == expected {
            Ok(Verdict::New)
        } else {
            Err(Refusal::OutOfOrderSequence { producer, expected, sequence: base_sequence })
        }
    }

    pub(crate) fn add(&mut self, stamp: &Stamp, base_offset: Sequence, time: Timestamp, place: Place) {
        if stamp.epoch != self.epoch {
            self.epoch = stamp.epoch;
            self.batches.clear();
        }
        if self.batches.len() == BATCHES_KEPT {
            self.batches.remove(0);
        }
        let Stamp { base_sequence, last_sequence, .. } = *stamp;
        self.batches.push(BatchMark { base_sequence, last_sequence, base_offset, time, place });
    }
}

/// The state of a producer in a partition. See
/// [`Streams::producers_of`](crate::Streams::producers_of).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveProducer {
    /// Its id.
    pub producer: ProducerId,
    /// Its epoch.
    pub epoch: u16,
    /// The number of the last record that it wrote.
    pub last_sequence: u32,
    /// When that was.
    pub time: Timestamp,
}

impl Producers {
    /// The id that the next producer gets.
    pub(crate) fn next_id(&self) -> ProducerId {
        ProducerId::new(self.next_id)
    }

    /// The state of this producer in this partition.
    pub(crate) fn window(&self, producer: ProducerId, partition: (TopicId, u32)) -> Option<&Window> {
        self.known.get(&producer)?.windows.get(&partition)
    }

    /// Decides whether to store a batch. `window` is the state of its producer in the partition.
    /// `given` is whether the commit being decided assigned the producer's id.
    pub(crate) fn judge(
        &self,
        stamp: &Stamp,
        window: Option<&Window>,
        topic: TopicId,
        given: bool,
    ) -> Result<Verdict, Refusal> {
        let producer = stamp.producer;
        if let Some(window) = window {
            return window.judge(stamp);
        }
        if producer >= self.next_id() && !given {
            return Err(Refusal::UnknownProducer { producer });
        }
        // The first batch to a partition has the number 0, unless the producer was forgotten, or
        // wrote to a topic of the same name that was there before: it can't know.
        let may_go_on = self.known.get(&producer).is_none_or(|known| topic >= known.topics_before);
        if stamp.base_sequence == 0 || (may_go_on && !given) {
            return Ok(Verdict::New);
        }
        Err(Refusal::OutOfOrderSequence { producer, expected: 0, sequence: stamp.base_sequence })
    }

    /// A producer got this id.
    pub(crate) fn given(&mut self, producer: ProducerId, topics_before: TopicId, time: Timestamp) {
        // A salvaged log may lack the entries of producers before this one.
        assert!(producer >= self.next_id(), "producers get their ids in order");
        self.next_id = producer.get() + 1;
        self.make_room(time);
        self.known.insert(producer, ProducerState { heard: time, topics_before, windows: BTreeMap::new() });
        self.heard.insert((time, producer));
    }

    /// A batch of a producer was stored.
    pub(crate) fn stored(
        &mut self,
        stamp: &Stamp,
        partition: (TopicId, u32),
        base_offset: Sequence,
        time: Timestamp,
        place: Place,
    ) {
        self.hear(stamp.producer, time);
        let known = self.known.get_mut(&stamp.producer).expect("an active producer is known");
        let before = known.windows.len();
        known.windows.entry(partition).or_default().add(stamp, base_offset, time, place);
        if known.windows.len() > before {
            self.windows += 1;
            self.by_topic.insert((partition.0, stamp.producer));
        }
        self.make_room(time);
    }

    fn hear(&mut self, producer: ProducerId, time: Timestamp) {
        match self.known.get_mut(&producer) {
            Some(known) if time.as_micros() - known.heard.as_micros() < HEARD_MICROS => {}
            Some(known) => {
                self.heard.remove(&(known.heard, producer));
                known.heard = time;
                self.heard.insert((time, producer));
            }
            // A forgotten producer starts again, with an empty history.
            None => {
                self.next_id = self.next_id.max(producer.get() + 1);
                let topics_before = TopicId::new(0);
                self.known.insert(producer, ProducerState { heard: time, topics_before, windows: BTreeMap::new() });
                self.heard.insert((time, producer));
            }
        }
    }

    /// Forgets producers whose last batch is too old, and the oldest ones while there are too many.
    fn make_room(&mut self, now: Timestamp) {
        while let Some((heard, producer)) = self.heard.first().copied() {
            let silent = now.as_micros() - heard.as_micros();
            if silent < EXPIRY_MICROS && self.known.len() + self.windows < SLOTS_MAX {
                return;
            }
            self.heard.pop_first();
            let forgotten = self.known.remove(&producer).expect("a remembered producer is known");
            self.windows -= forgotten.windows.len();
            for (topic, _) in forgotten.windows.keys() {
                self.by_topic.remove(&(*topic, producer));
            }
        }
    }

    /// Forgets the producers of a deleted topic. Returns the number of windows looked at.
    pub(crate) fn drop_topic(&mut self, topic: TopicId) -> usize {
        let of_topic = (topic, ProducerId::new(0))..=(topic, ProducerId::new(u64::MAX));
        let producers: Vec<ProducerId> = self.by_topic.range(of_topic).map(|(_, producer)| *producer).collect();
        let mut dropped = 0;
        for producer in producers {
            self.by_topic.remove(&(topic, producer));
            let known = self.known.get_mut(&producer).expect("a producer with a window is known");
            dropped += known.windows.extract_if((topic, 0)..=(topic, u32::MAX), |_, _| true).count();
        }
        self.windows -= dropped;
        dropped
    }

    /// For each batch that is known, its partition, and the offset after its last record.
    pub(crate) fn offsets_reached(&self) -> impl Iterator<Item = ((TopicId, u32), Sequence)> {
        let windows = self.known.values().flat_map(|known| &known.windows);
        windows.filter_map(|(partition, window)| {
            let last = window.batches.last()?;
            let records = u64::from(last.last_sequence.wrapping_sub(last.base_sequence) & 0x7fff_ffff) + 1;
            Some((*partition, Sequence::new(last.base_offset.get() + records)))
        })
    }

    /// Returns the producers that wrote to this partition, in the order of their ids.
    pub(crate) fn of(&self, partition: (TopicId, u32)) -> impl Iterator<Item = ActiveProducer> {
        self.known.iter().filter_map(move |(producer, known)| {
            let window = known.windows.get(&partition)?;
            let last = window.batches.last()?;
            let (epoch, last_sequence) = (window.epoch, last.last_sequence);
            Some(ActiveProducer { producer: *producer, epoch, last_sequence, time: last.time })
        })
    }

    /// `next id, n, n × (id, time of last batch, topics before, m, m × (topic, partition, epoch
    /// u16, b, b × (sequences u32 u32, offset, time, position, index)))`
    pub(crate) fn save(&self, out: &mut Encoder) {
        out.varint(self.next_id).varint(self.known.len() as u64);
        for (id, known) in &self.known {
            out.varint(id.get()).varint(known.heard.as_micros()).varint(known.topics_before.get().into());
            out.varint(known.windows.len() as u64);
            for ((topic, partition), window) in &known.windows {
                out.varint(topic.get().into()).varint((*partition).into()).u16(window.epoch);
                out.varint(window.batches.len() as u64);
                for sent in &window.batches {
                    out.u32(sent.base_sequence).u32(sent.last_sequence).varint(sent.base_offset.get());
                    out.varint(sent.time.as_micros());
                    out.varint(sent.place.position.get()).varint(sent.place.index.into());
                }
            }
        }
    }

    pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut producers = Producers { next_id: from.varint()?, ..Producers::default() };
        for _ in 0..from.varint()? {
            let id = ProducerId::new(from.varint()?);
            let heard = Timestamp::from_micros(from.varint()?);
            let topics_before = TopicId::new(from.varint_u32()?);
            let mut windows = BTreeMap::new();
            for _ in 0..from.varint()? {
                let partition = (TopicId::new(from.varint_u32()?), from.varint_u32()?);
                windows.insert(partition, Window::load(from)?);
            }
            producers.windows += windows.len();
            producers.by_topic.extend(windows.keys().map(|(topic, _): &(TopicId, u32)| (*topic, id)));
            producers.heard.insert((heard, id));
            producers.known.insert(id, ProducerState { heard, topics_before, windows });
        }
        if producers.heard.len() == producers.known.len() {
            Ok(producers)
        } else {
            Err(CodecError { expected: "each producer once", bytes_left: from.clone().rest().len() })
        }
    }
}

impl Window {
    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut window = Window { epoch: from.u16()?, batches: Vec::new() };
        for _ in 0..from.varint()? {
            window.batches.push(BatchMark {
                base_sequence: from.u32()?,
                last_sequence: from.u32()?,
                base_offset: Sequence::new(from.varint()?),
                time: Timestamp::from_micros(from.varint()?),
                place: Place::new(Position::new(from.varint()?), from.varint_u32()?),
            });
        }
        if window.batches.len() > BATCHES_KEPT {
            return Err(CodecError { expected: "at most five batches", bytes_left: from.clone().rest().len() });
        }
        Ok(window)
    }
}

/// Sequences have 31 bits; 0 follows the largest.
fn wrapped(sequence: u64) -> u32 {
    (sequence & 0x7fff_ffff) as u32
}
