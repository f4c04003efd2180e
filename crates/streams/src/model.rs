//! The contract with the database: each verb of [`Model`] and the file that carries it out.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, DecideError, Effects, Entry, History, Model, ModelId, ReadError, Timestamp, Touch};

use crate::{Command, Refusal, Reply, Streams, decide};

impl Model for Streams {
    const ID: ModelId = ModelId::STREAMS;
    type Command<'c> = Command<'c>;
    type Reply = Reply;
    type Refusal = Refusal;

    fn touches(
        &self,
        _history: &dyn History,
        command: &Command<'_>,
        touch: &mut dyn FnMut(Touch<'_>),
    ) -> Result<(), ReadError> {
        self.touched(command, touch);
        Ok(())
    }

    fn unknown_object(command: &Command<'_>) -> Option<Refusal> {
        command.topic_id().map(|topic| Refusal::UnknownTopicId { topic })
    }

    fn decide(
        &self,
        history: &dyn History,
        _at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), DecideError<Refusal>> {
        decide::decide(self, history, commands, effects, replies)
    }

    fn check_applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        self.applicable(entry)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        self.take_in(entry);
    }

    fn survives(&self, entry: &Entry<'_>, history_from: Timestamp) -> bool {
        self.still_counts(entry, history_from)
    }

    fn save(&self, out: &mut Encoder) {
        self.save_to(out);
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Streams::load_from(from)
    }
}
