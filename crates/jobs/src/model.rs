//! The contract with the database: each verb of [`Model`] and the file that carries it out.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, DecideError, Effects, Entry, History, Model, ModelId, ReadError, Timestamp, Touch};

use crate::{Command, Jobs, Refusal, Reply, apply, checkpoint, decide};

impl Model for Jobs {
    const ID: ModelId = ModelId::JOBS;
    type Command<'c> = Command<'c>;
    type Reply = Reply;
    type Refusal = Refusal;

    fn touches(
        &self,
        history: &dyn History,
        command: &Command<'_>,
        touch: &mut dyn FnMut(Touch<'_>),
    ) -> Result<(), ReadError> {
        self.touched(history, command, touch)
    }

    fn unknown_object(command: &Command<'_>) -> Option<Refusal> {
        command.job().map(|job| Refusal::UnknownJob { job })
    }

    fn decide(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), DecideError<Refusal>> {
        decide::decide(self, history, at, commands, effects, replies)
    }

    fn check_applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        self.applicable(entry)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        apply::apply(self, entry);
    }

    fn survives(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        self.still_counts(entry, history_from)
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
        checkpoint::load(from)
    }
}
