//! Reads: what a look at the state sees, and what its answer rests on.

use quire_log::Reader;
use quire_model::Position;

use crate::decide::State;
use crate::error::Result;
use crate::shard::Shard;
use crate::{events, graph, jobs, streams};

/// What a read may look at.
#[derive(Debug)]
pub struct View<'v> {
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

impl Shard {
    /// Looks something up in the state after the last commit. Returns the answer with the position that it rests on: it may be
    /// handed out once that position is published.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn read<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> Result<(Position, T)> {
        let state = self.state_now()?;
        let rests_on = state.writer.mark().position;
        Ok((rests_on, look(&view(&state, &state.writer.reader()))))
    }

    /// Looks something up in the log as it is published. The state in the view may be ahead of the log by commits that are not
    /// durable yet; what event stores and graphs trimmed is waited for, once, so that no read leaves out what might come back.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn read_published<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> Result<T> {
        let mut state = self.state_now()?;
        loop {
            let gone_since = state.models.events.gone_since().max(state.models.graphs.trimmed_at());
            if gone_since <= self.log.published() {
                return Ok(look(&view(&state, &self.log.reader())));
            }
            drop(state);
            self.log.wait(gone_since)?;
            state = self.state()?;
        }
    }
}

fn view<'v>(state: &'v State, history: &'v Reader) -> View<'v> {
    View {
        streams: &state.models.streams,
        events: &state.models.events,
        jobs: &state.models.jobs,
        graphs: &state.models.graphs,
        history,
        position: state.writer.mark().position,
    }
}
