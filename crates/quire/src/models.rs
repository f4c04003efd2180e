//! The four models together: the state of a shard.

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{Entry, Model, ModelId, Timestamp};

use crate::{events, graph, jobs, streams};

/// The state of every model.
#[derive(Debug, Default)]
pub(crate) struct Models {
    pub(crate) streams: streams::Streams,
    pub(crate) events: events::Events,
    pub(crate) jobs: jobs::Jobs,
    pub(crate) graphs: graph::Graphs,
}

/// An entry of a model that this program does not know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnknownModel(pub(crate) ModelId);

/// What the hash tables of a database are seeded with: drawn at random when it was created, and told to nobody who may put
/// blocks.
pub(crate) fn seed_of(database: u128) -> u64 {
    (database ^ (database >> 64)) as u64
}

impl Models {
    /// No state yet. Hash tables over what users choose are seeded with this number, which they don't know.
    pub(crate) fn new(seed: u64) -> Self {
        Models { graphs: graph::Graphs::with_seed(seed), ..Models::default() }
    }

    /// About how many bytes it takes to save the state, from counts alone.
    pub(crate) fn weight(&self) -> u64 {
        let graphs = self.graphs.iter().map(|(_, graph)| 48 * graph.block_count() + 24 * graph.edge_count());
        let partitions: u64 = self.streams.topics().map(|topic| u64::from(topic.partitions)).sum();
        (64 * self.jobs.job_count() + graphs.sum::<usize>()) as u64 + 512 * partitions
    }

    /// Takes an entry into the state of its model.
    pub(crate) fn apply(&mut self, entry: &Entry<'_>) -> Result<(), UnknownModel> {
        match entry.kind.model {
            ModelId::STREAMS => self.streams.apply(entry),
            ModelId::EVENTS => self.events.apply(entry),
            ModelId::JOBS => self.jobs.apply(entry),
            ModelId::GRAPH => self.graphs.apply(entry),
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
        let mut out = Encoder::new();
        section(&mut out, &self.streams);
        section(&mut out, &self.events);
        section(&mut out, &self.jobs);
        section(&mut out, &self.graphs);
        out.into_bytes()
    }

    /// Reads what [`Models::save`] wrote.
    pub(crate) fn load(bytes: &[u8], seed: u64) -> Result<Self, CodecError> {
        let mut from = Decoder::new(bytes);
        let mut models = Models::new(seed);
        while !from.is_empty() {
            let model = ModelId::new(from.u8()?);
            let length = from.u64()?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let mut section = Decoder::new(from.raw(length)?);
            match model {
                ModelId::STREAMS => models.streams = Model::load(&mut section)?,
                ModelId::EVENTS => models.events = Model::load(&mut section)?,
                ModelId::JOBS => models.jobs = Model::load(&mut section)?,
                ModelId::GRAPH => models.graphs = graph::Graphs::load_with_seed(&mut section, seed)?,
                _ => return Err(CodecError { expected: "a model that is known", bytes_left: section.rest().len() }),
            }
            section.end()?;
        }
        Ok(models)
    }
}

fn section<M: Model>(out: &mut Encoder, model: &M) {
    let mut state = Encoder::new();
    model.save(&mut state);
    out.u8(M::ID.get()).u64(state.as_slice().len() as u64).raw(state.as_slice());
}
