//! The view of a read.

use quire_log::Reader;
use quire_model::Position;

use crate::decide::WriterState;
use crate::{events, graph, jobs, streams};

/// The state of every model, and the log, as one read sees them.
#[derive(Debug)]
pub struct ReadView<'v> {
    /// Topics and consumer groups.
    pub streams: &'v streams::Streams,
    /// Event stores.
    pub events: &'v events::Events,
    /// Queues.
    pub jobs: &'v jobs::Jobs,
    /// Graphs.
    pub graphs: &'v graph::Graphs,
    /// The log, for the reads of the models.
    pub history: &'v Reader,
    /// The position of the last record that the state follows from.
    pub position: Position,
}

impl<'v> ReadView<'v> {
    pub(crate) fn of(state: &'v WriterState, history: &'v Reader) -> Self {
        ReadView {
            streams: &state.models.streams,
            events: &state.models.events,
            jobs: &state.models.jobs,
            graphs: &state.models.graphs,
            history,
            position: state.writer.mark().position,
        }
    }
}
