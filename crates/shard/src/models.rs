//! The five models together, and the idempotency keys: the state of a shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Entry, Model, ModelId, Sequence, Tag, Timestamp};

use crate::idempotency::IdempotencyKeys;
use crate::{events, graph, jobs, streams, system};

/// The state of every model.
#[derive(Debug, Default)]
pub struct Models {
    pub(crate) streams: streams::Streams,
    pub(crate) events: events::Events,
    pub(crate) jobs: jobs::Jobs,
    pub(crate) graphs: graph::Graphs,
    pub(crate) system: system::System,
    pub(crate) keys: IdempotencyKeys,
}

/// An entry of a model that this program does not know.
#[derive(Debug, Clone, Copy)]
pub struct UnknownModel(pub ModelId);

/// The inputs of every state of a database.
#[derive(Debug, Clone)]
pub struct StateInputs {
    /// Seed of hash tables over values that users choose: see [`seed_of`].
    pub seed: u64,
    /// Bounds the memory of graphs, for all states together. `None` sets no bound.
    pub graph_memory: Option<Arc<graph::Memory>>,
}

/// The seed of a database's hash tables. It comes from a number drawn at random when the database
/// was created, and is shown to no client that can put blocks.
pub fn seed_of(database: u128) -> u64 {
    (database ^ (database >> 64)) as u64
}

impl Models {
    /// The state before the first record.
    pub fn new(ground: &StateInputs) -> Self {
        let graphs = graph::Graphs::new(ground.seed, ground.graph_memory.clone());
        Models { graphs, keys: IdempotencyKeys::new(ground.seed), ..Models::default() }
    }

    /// Estimates the bytes of the saved state, from counts alone.
    pub(crate) fn weight(&self) -> u64 {
        let graphs = self.graphs.iter().map(|(_, graph)| 48 * graph.block_count() + 24 * graph.edge_count());
        let partitions: u64 = self.streams.topics().map(|topic| u64::from(topic.partitions)).sum();
        (64 * self.jobs.job_count() + graphs.sum::<usize>() + 32 * self.keys.len()) as u64 + 512 * partitions
    }

    /// Checks that the state holds everything that an entry refers to, so that [`Models::apply`]
    /// can take it: after records were lost, it may not.
    ///
    /// # Errors
    /// The reason.
    pub fn check_applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        match entry.kind.model {
            ModelId::STREAMS => self.streams.check_applicable(entry),
            ModelId::EVENTS => self.events.check_applicable(entry),
            ModelId::JOBS => self.jobs.check_applicable(entry),
            ModelId::GRAPH => self.graphs.check_applicable(entry),
            ModelId::IDEMPOTENCY => IdempotencyKeys::check_applicable(entry),
            ModelId::SYSTEM => self.system.check_applicable(entry),
            _ => Err("this program does not know its model"),
        }
    }

    /// Brings the state and the numbers of a log that lost records together. `reached` are tags and
    /// the numbers that the log gives next. Returns the tags whose numbers the log must change, and
    /// the numbers.
    pub fn settle_numbers<'t>(
        &mut self,
        reached: impl Iterator<Item = (Tag<'t>, Sequence)>,
    ) -> Vec<(Vec<u8>, Sequence)> {
        let reached: BTreeMap<Vec<u8>, Sequence> = reached.map(|(tag, next)| (tag.as_bytes().to_vec(), next)).collect();
        let mut changed = Vec::new();
        for (tag, next) in &reached {
            if tag.first() == Some(&ModelId::EVENTS.get()) {
                let first = self.events.settle_number(Tag::new(tag), *next);
                changed.extend(first.map(|first| (tag.clone(), first)));
            }
        }
        let partitions = self.streams.numbers_reached().map(|(tag, next)| (tag.tag().as_bytes().to_vec(), next, 0));
        let stores = self.events.numbers_reached().map(|(tag, next)| (tag.into_vec(), next, 1));
        let later = partitions.chain(stores).filter(|(tag, next, origin)| {
            let given = reached.get(tag).map_or(*origin, |given| given.get());
            next.get() > given
        });
        changed.extend(later.map(|(tag, next, _)| (tag, next)));
        changed
    }

    /// Applies an entry to the state of its model.
    pub fn apply(&mut self, entry: &Entry<'_>) -> Result<(), UnknownModel> {
        self.apply_noted(entry, &mut graph::SlotLookups::default())
    }

    /// Applies an entry of a record that was just decided. `lookups` holds the look-ups of the
    /// decision of graphs.
    pub(crate) fn apply_noted(
        &mut self,
        entry: &Entry<'_>,
        lookups: &mut graph::SlotLookups,
    ) -> Result<(), UnknownModel> {
        match entry.kind.model {
            ModelId::STREAMS => self.streams.apply(entry),
            ModelId::EVENTS => self.events.apply(entry),
            ModelId::JOBS => self.jobs.apply(entry),
            ModelId::GRAPH => self.graphs.apply_noted(entry, lookups),
            ModelId::IDEMPOTENCY => self.keys.apply(entry),
            ModelId::SYSTEM => self.system.apply(entry),
            unknown => return Err(UnknownModel(unknown)),
        }
        Ok(())
    }

    /// Whether an entry still counts. An entry of an unknown model does.
    pub(crate) fn survives(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        match entry.kind.model {
            ModelId::STREAMS => self.streams.survives(entry, history_from),
            ModelId::EVENTS => self.events.survives(entry, history_from),
            ModelId::JOBS => self.jobs.survives(entry, history_from),
            ModelId::GRAPH => self.graphs.survives(entry, history_from),
            ModelId::IDEMPOTENCY => self.keys.survives(entry),
            ModelId::SYSTEM => self.system.survives(entry, history_from),
            _ => true,
        }
    }

    /// Writes the state of every model, as sections.
    pub fn save(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.save_in_parts(self.graphs_bytes(), &mut |part| bytes.extend_from_slice(part));
        bytes
    }

    /// Whether `Models::save` would write exactly these bytes. Copies none of them.
    pub fn are_saved_as(&self, bytes: &[u8]) -> bool {
        let mut left = Some(bytes);
        self.save_in_parts(self.graphs_bytes(), &mut |part| left = left.and_then(|left| left.strip_prefix(part)));
        left.is_some_and(<[u8]>::is_empty)
    }

    /// The bytes that `Models::save` writes for graphs, and in all.
    pub fn saved_bytes(&self) -> (u64, u64) {
        let (graphs, mut bytes) = (self.graphs_bytes(), 0);
        self.save_others(&mut |part| bytes += part.len() as u64);
        (graphs, bytes + SECTION_BYTES + graphs)
    }

    /// Like `Models::save`, a part at a time. `graphs` is the number of bytes of the graphs.
    pub fn save_in_parts(&self, graphs: u64, sink: &mut dyn FnMut(&[u8])) {
        self.save_others(sink);
        begin_section(ModelId::GRAPH, graphs, sink);
        self.graphs.save_in_parts(sink);
    }

    fn graphs_bytes(&self) -> u64 {
        let mut bytes = 0;
        self.graphs.save_in_parts(&mut |part| bytes += part.len() as u64);
        bytes
    }

    fn save_others(&self, sink: &mut dyn FnMut(&[u8])) {
        section(&self.streams, sink);
        section(&self.events, sink);
        section(&self.jobs, sink);
        self.keys.save_in_parts(sink);
        // A database that never used access control has unchanged checkpoints.
        if !self.system.is_unused() {
            section(&self.system, sink);
        }
    }

    /// Reads the bytes that `Models::save` wrote.
    pub fn load(bytes: &[u8], ground: &StateInputs) -> Result<Self, CodecError> {
        let mut from = Decoder::new(bytes);
        let mut models = Models::new(ground);
        while !from.is_empty() {
            let model = ModelId::new(from.u8()?);
            let length = from.u64()?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let mut section = Decoder::new(from.raw(length)?);
            match model {
                ModelId::STREAMS => models.streams = Model::load(&mut section)?,
                ModelId::EVENTS => models.events = Model::load(&mut section)?,
                ModelId::JOBS => models.jobs = Model::load(&mut section)?,
                ModelId::GRAPH => {
                    let memory = ground.graph_memory.clone();
                    models.graphs = graph::Graphs::load_with(&mut section, ground.seed, memory)?;
                }
                ModelId::IDEMPOTENCY => models.keys = IdempotencyKeys::load(&mut section, ground.seed)?,
                ModelId::SYSTEM => models.system = Model::load(&mut section)?,
                _ => {
                    return Err(CodecError {
                        expected: "a model that this program knows",
                        bytes_left: section.rest().len(),
                    });
                }
            }
            section.end()?;
        }
        Ok(models)
    }
}

/// Bytes before a section: its model, and its length.
const SECTION_BYTES: u64 = 9;

/// Writes a model. A state of several parts is encoded twice: its length comes first.
fn section<M: Model>(model: &M, sink: &mut dyn FnMut(&[u8])) {
    let (mut first, mut bytes) = (Vec::new(), 0);
    model.save_in_parts(&mut |part| {
        if bytes == 0 {
            first = part.to_vec();
        }
        bytes += part.len() as u64;
    });
    begin_section(M::ID, bytes, sink);
    if bytes == first.len() as u64 {
        sink(&first);
    } else {
        drop(first);
        model.save_in_parts(sink);
    }
}

fn begin_section(model: ModelId, bytes: u64, sink: &mut dyn FnMut(&[u8])) {
    sink(Encoder::new().u8(model.get()).u64(bytes).as_slice());
}
