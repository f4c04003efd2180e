//! The contract with the database.

use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{
    At, DecideError, Effects, Entry, History, Model, ModelId, NewEntry, Operation, Place, ReadError, Resource, Stop,
    Timestamp, Touch, TouchTarget, decide_in_order,
};

use crate::change::AccessChange;
use crate::codec::{MEMBER_SET, TERM_BEGUN};
use crate::{Command, MemberRecord, Refusal, Reply, System, TermBegun};

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
            | Command::PutSecret { .. }
            | Command::PutQuota { .. }
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
                // The place is not known yet, and no decision asks for it.
                state.change(change, Place::default());
            }
            Ok(())
        })
    }

    fn check_applicable(&self, entry: &Entry<'_>) -> Result<(), &'static str> {
        let decoded = match entry.kind {
            TERM_BEGUN => TermBegun::decode(entry.body).map(drop),
            MEMBER_SET => MemberRecord::decode(entry.body).map(drop),
            kind => AccessChange::decode(kind, entry.body).map(drop),
        };
        decoded.map_err(|_| "this program can't read the entry")
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        if entry.kind == TERM_BEGUN {
            return;
        }
        if entry.kind == MEMBER_SET {
            let record = MemberRecord::decode(entry.body).expect("the log verified the body of the entry");
            return self.set_member(record, entry.place.position);
        }
        let change = AccessChange::decode(entry.kind, entry.body).expect("the log verified the body of the entry");
        self.change(change, entry.place);
        self.changed_at = entry.place.position;
    }

    /// Only replaced and dropped credentials leave the disk. Everything else stays, because a
    /// salvage may have to build the state without a checkpoint, from a log of which compaction has
    /// rewritten any part: no dropped key, disabled user or removed rule may then be in force.
    fn survives(&self, entry: &Entry<'_>, _history_from: Timestamp) -> bool {
        match AccessChange::decode(entry.kind, entry.body) {
            Ok(AccessChange::UserPut { name, .. }) => {
                self.users.get(&name).is_some_and(|user| user.place == entry.place)
            }
            Ok(AccessChange::KeyPut { id, .. }) => self.keys.get(&id).is_some_and(|key| key.place == entry.place),
            // An unreadable entry is kept, so that its reader reports the damage.
            _ => true,
        }
    }

    fn save(&self, out: &mut Encoder) {
        self.save_to(out);
    }

    fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        System::load_from(from)
    }
}
