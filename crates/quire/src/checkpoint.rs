//! A checkpoint of the models' state: taken under the lock, saved behind it.

use quire_log::{Log, Mark};
use quire_model::Position;

use crate::Result;
use crate::decide::State;

/// The models' state after a record, as bytes.
#[derive(Debug)]
pub(crate) struct Taken {
    mark: Mark,
    payload: Vec<u8>,
}

impl Taken {
    /// Takes the state as it is; it does not change meanwhile, for the caller has it locked.
    pub(crate) fn of(state: &State) -> Self {
        Taken { mark: state.writer.mark(), payload: state.models.save() }
    }

    /// The position of the record that it was taken after.
    pub(crate) fn position(&self) -> Position {
        self.mark.position
    }

    /// Keeps it.
    pub(crate) fn save(&self, log: &Log) -> Result<()> {
        Ok(log.save_checkpoint(self.mark, &self.payload)?)
    }
}
