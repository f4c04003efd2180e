//! The contract with the database: each verb of [`Model`] and the file that carries it out.
//!
//! Each function of the contract also has a form with more parameters or results: a seed and a
//! bound on memory, bytes in parts, and the slots that a decision found.

use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, DecideError, Effects, Entry, History, Model, ModelId, ReadError, Timestamp, Touch};

use crate::codec::is_setting;
use crate::{Command, Graphs, Memory, Refusal, Reply, SlotLookups, apply, checkpoint, decide};

impl Graphs {
    /// [`Model::load`], with a seed, and a bound on memory.
    ///
    /// # Errors
    /// The errors of [`Model::load`].
    pub fn load_with(from: &mut Decoder<'_>, seed: u64, memory: Option<Arc<Memory>>) -> Result<Self, CodecError> {
        checkpoint::load(from, seed, memory)
    }

    /// [`Model::decide`], which also records the slots that it looked up.
    ///
    /// # Errors
    /// The errors of [`Model::decide`].
    pub fn decide_noting(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        lookups: &mut SlotLookups,
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), DecideError<Refusal>> {
        decide::decide(self, history, at, commands, lookups, effects, replies)
    }

    /// [`Model::apply`] for the entries that were just decided, in order: blocks are looked up
    /// first in the slots that the decision noted.
    pub fn apply_noted(&mut self, entry: &Entry<'_>, lookups: &mut SlotLookups) {
        apply::apply(self, entry, lookups);
    }
}

impl Model for Graphs {
    const ID: ModelId = ModelId::GRAPH;
    type Command<'c> = Command<'c>;
    type Reply = Reply;
    type Refusal = Refusal;

    fn touches(
        &self,
        _history: &dyn History,
        command: &Command<'_>,
        touch: &mut dyn FnMut(Touch<'_>),
    ) -> Result<(), ReadError> {
        command.touched(touch);
        Ok(())
    }

    fn decide(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), DecideError<Refusal>> {
        self.decide_noting(history, at, commands, &mut SlotLookups::default(), effects, replies)
    }

    fn check_applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        self.applicable(entry)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        self.apply_noted(entry, &mut SlotLookups::default());
    }

    /// Replaced and deleted entries survive this check; [`Graphs::superseded`] reads the log to
    /// find whether as-of reads need them.
    fn survives(&self, entry: &Entry<'_>, _history_from: Timestamp) -> bool {
        !is_setting(entry.kind)
    }

    fn save(&self, out: &mut Encoder) {
        checkpoint::save(self, &mut |part| {
            out.raw(part);
        });
    }

    fn save_in_parts(&self, sink: &mut dyn FnMut(&[u8])) {
        checkpoint::save(self, sink);
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        checkpoint::load(from, 0, None)
    }
}
