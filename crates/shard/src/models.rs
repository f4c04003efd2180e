//! The four models together: the state of a shard.

use std::sync::Arc;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Entry, Model, ModelId, Timestamp};

use crate::{events, graph, jobs, streams};

/// The state of every model.
#[derive(Debug, Default)]
pub struct Models {
    pub(crate) streams: streams::Streams,
    pub(crate) events: events::Events,
    pub(crate) jobs: jobs::Jobs,
    pub(crate) graphs: graph::Graphs,
}

/// An entry of a model that this program does not know.
#[derive(Debug, Clone, Copy)]
pub struct UnknownModel(pub ModelId);

/// What every state of a database is made with.
#[derive(Debug, Clone)]
pub struct Ground {
    /// What hash tables over what users choose are seeded with: see [`seed_of`].
    pub seed: u64,
    /// What bounds the memory of graphs, for all states together; nothing does when it is absent.
    pub graph_memory: Option<Arc<graph::Memory>>,
}

/// What the hash tables of a database are seeded with: drawn at random when it was created, and told to nobody who may put
/// blocks.
pub fn seed_of(database: u128) -> u64 {
    (database ^ (database >> 64)) as u64
}

impl Models {
    /// No state yet.
    pub fn new(ground: &Ground) -> Self {
        Models { graphs: graph::Graphs::new(ground.seed, ground.graph_memory.clone()), ..Models::default() }
    }

    /// About how many bytes it takes to save the state, from counts alone.
    pub(crate) fn weight(&self) -> u64 {
        let graphs = self.graphs.iter().map(|(_, graph)| 48 * graph.block_count() + 24 * graph.edge_count());
        let partitions: u64 = self.streams.topics().map(|topic| u64::from(topic.partitions)).sum();
        (64 * self.jobs.job_count() + graphs.sum::<usize>()) as u64 + 512 * partitions
    }

    /// Takes an entry into the state of its model.
    pub fn apply(&mut self, entry: &Entry<'_>) -> Result<(), UnknownModel> {
        self.apply_noted(entry, &mut graph::Looked::default())
    }

    /// The same, of the entries of a record that was just decided, with what the decision of graphs noted.
    pub(crate) fn apply_noted(&mut self, entry: &Entry<'_>, looked: &mut graph::Looked) -> Result<(), UnknownModel> {
        match entry.kind.model {
            ModelId::STREAMS => self.streams.apply(entry),
            ModelId::EVENTS => self.events.apply(entry),
            ModelId::JOBS => self.jobs.apply(entry),
            ModelId::GRAPH => self.graphs.apply_noted(entry, looked),
            unknown => return Err(UnknownModel(unknown)),
        }
        Ok(())
    }

    /// Whether an entry still counts. One of a model that is not known does.
    pub(crate) fn survives(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        match entry.kind.model {
            ModelId::STREAMS => self.streams.survives(entry, history_from),
            ModelId::EVENTS => self.events.survives(entry, history_from),
            ModelId::JOBS => self.jobs.survives(entry, history_from),
            ModelId::GRAPH => self.graphs.survives(entry, history_from),
            _ => true,
        }
    }

    /// Writes the state of every model, as sections.
    pub(crate) fn save(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.save_in_parts(self.graphs_bytes(), &mut |part| bytes.extend_from_slice(part));
        bytes
    }

    /// Whether [`Models::save`] would write exactly these bytes. None of them are copied.
    pub fn are_saved_as(&self, bytes: &[u8]) -> bool {
        let mut left = Some(bytes);
        self.save_in_parts(self.graphs_bytes(), &mut |part| left = left.and_then(|left| left.strip_prefix(part)));
        left.is_some_and(<[u8]>::is_empty)
    }

    /// How many bytes [`Models::save`] writes of the graphs, and the whole of it.
    pub(crate) fn saved_bytes(&self) -> (u64, u64) {
        let (graphs, mut bytes) = (self.graphs_bytes(), 0);
        self.save_others(&mut |part| bytes += part.len() as u64);
        (graphs, bytes + SECTION_BYTES + graphs)
    }

    /// [`Models::save`], a part at a time, with as many bytes of the graphs as were counted.
    pub(crate) fn save_in_parts(&self, graphs: u64, sink: &mut dyn FnMut(&[u8])) {
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
    }

    /// Reads what [`Models::save`] wrote.
    pub fn load(bytes: &[u8], ground: &Ground) -> Result<Self, CodecError> {
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
                _ => return Err(CodecError { expected: "a model that is known", bytes_left: section.rest().len() }),
            }
            section.end()?;
        }
        Ok(models)
    }
}

/// How many bytes stand before a section: its model, and how many bytes it has.
const SECTION_BYTES: u64 = 9;

fn section<M: Model>(model: &M, sink: &mut dyn FnMut(&[u8])) {
    let mut state = Encoder::new();
    model.save(&mut state);
    begin_section(M::ID, state.as_slice().len() as u64, sink);
    sink(state.as_slice());
}

fn begin_section(model: ModelId, bytes: u64, sink: &mut dyn FnMut(&[u8])) {
    sink(Encoder::new().u8(model.get()).u64(bytes).as_slice());
}
