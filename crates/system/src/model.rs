//! The contract with the database.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{
    At, DecideError, Effects, Entry, History, Model, ModelId, NewEntry, Operation, ReadError, Resource, Stop,
    Timestamp, Touch, TouchTarget, decide_in_order,
};

use crate::change::AccessChange;
use crate::codec::STATE_SET;
use crate::{Command, Refusal, Reply, System};

impl Model for System {
    const ID: ModelId = ModelId::SYSTEM;
    type Command<'c> = Command<'c>;
    type Reply = Reply;
    type Refusal = Refusal;

    fn touches(
        &self,
        _history: &dyn History,
        command: &Command<'_>,
        touch: &mut dyn FnMut(Touch<'_>),
    ) -> Result<(), ReadError> {
        let operation = match command {
            Command::CreateUser { .. }
            | Command::SetRoles { .. }
            | Command::EnableUser { .. }
            | Command::DropUser { .. }
            | Command::CreateKey(_)
            | Command::EnableKey { .. }
            | Command::DropKey { .. }
            | Command::PutScram { .. }
            | Command::DropScram { .. }
            | Command::PutRole { .. }
            | Command::DropRole { .. }
            | Command::AddRule { .. }
            | Command::RemoveRule { .. }
            | Command::Enable
            | Command::Disable => Operation::Alter,
        };
        touch(Touch { target: TouchTarget::Named(Resource::ACCESS), operation });
        Ok(())
    }

    fn decide(
        &self,
        _history: &dyn History,
        _at: At,
        commands: &[Command<'_>],
        effects: &mut dyn Effects,
        replies: &mut Vec<Reply>,
    ) -> Result<(), DecideError<Refusal>> {
        // A clone takes constant time. Later commands are decided on what earlier ones change.
        let mut state = self.clone();
        let mut body = Encoder::new();
        decide_in_order(commands, |_, command| {
            let change = state.decide_command(command).map_err(Stop::Refused)?;
            replies.push(Reply { is_changed: change.is_some() });
            if let Some(change) = change {
                body.clear();
                change.encode(&mut body);
                effects.push(NewEntry { kind: change.kind(), tags: &[], sequenced: None, body: &[body.as_slice()] });
                state.change(change);
            }
            Ok(())
        })
    }

    fn check_applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        AccessChange::decode(entry.kind, entry.body).map_or(Err("this program can't read the entry"), |_| Ok(()))
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        let change = AccessChange::decode(entry.kind, entry.body).expect("the log verified the body of the entry");
        if entry.kind == STATE_SET {
            self.enabled_at = entry.place;
        }
        self.change(change);
        self.changed_at = entry.place.position;
    }

    /// Every change is in the checkpoint, and no reader asks for its entry. Dropped credentials
    /// therefore leave the disk. Only the entry that enabled access control stays: a log whose
    /// checkpoint is lost must not open for everyone.
    fn survives(&self, entry: &Entry<'_>, _history_from: Timestamp) -> bool {
        entry.kind == STATE_SET && self.is_enabled && entry.place == self.enabled_at
    }

    fn save(&self, out: &mut Encoder) {
        self.save_to(out);
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        System::load_from(from)
    }
}
