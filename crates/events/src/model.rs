//! The contract with the database: each verb of [`Model`] and the file that carries it out.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{At, DecideError, Effects, Entry, History, Model, ModelId, ReadError, Timestamp, Touch};

use crate::{AppendLookups, AppendResult, Command, Events, Refusal};

impl Model for Events {
    const ID: ModelId = ModelId::EVENTS;
    type Command<'c> = Command<'c>;
    type Reply = AppendResult;
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
        command.subscription().map(|_| Refusal::UnknownSubscription)
    }

    fn decide(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<AppendResult>,
    ) -> Result<(), DecideError<Refusal>> {
        self.decide_prepared(history, at, commands, &AppendLookups::default(), effects, replies)
    }

    fn check_applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        self.applicable(entry)
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        self.apply_entry(entry);
    }

    fn survives(&self, entry: &Entry<'_>, _history_from: Timestamp) -> bool {
        self.still_counts(entry)
    }

    fn save(&self, out: &mut Encoder) {
        self.save_to(out);
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        Events::load_from(from)
    }
}
