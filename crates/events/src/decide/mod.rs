//! Decides the commands of one commit.

mod draft;

mod append;
mod named;
mod retention;

use alloc::vec::Vec;

use quire_model::{At, DecideError, Effects, History, NewEntry, ResourceClaim, decide_in_order};

use self::draft::Draft;
use crate::codec::{Role, STORE_CREATED, TagList};
use crate::gone::DeletedEvents;
use crate::{AppendLookups, AppendResult, Command, Events, Refusal, StoreNumber};

/// Why a command is not decided.
type Stop = quire_model::Stop<Refusal>;

/// The decision on all appends of one commit.
struct Decision<'a> {
    state: &'a Events,
    history: &'a dyn History,
    at: At,
    draft: Draft<'a>,
}

impl Events {
    /// `Model::decide`, with the results of earlier look-ups: the same answer with less scanning.
    ///
    /// # Errors
    /// Decides as `Model::decide` does.
    pub fn decide_prepared(
        &self,
        history: &dyn History,
        at: At,
        commands: &[Command<'_>],
        prepared: &AppendLookups,
        effects: &mut dyn Effects,
        replies: &mut Vec<AppendResult>,
    ) -> Result<(), DecideError<Refusal>> {
        let mut decision = Decision { state: self, history, at, draft: Draft::default() };
        decide_in_order(commands, |index, command| {
            let is_last = index + 1 == commands.len();
            let appended = match command {
                Command::Append(append) => decision.append(append, prepared.of(index), is_last, effects),
                Command::Upstream(upstream) => decision.upstream(upstream, effects),
                Command::Trim { store, up_to } => decision.trim(store, *up_to, effects),
                Command::Forget { store, tag } => decision.forget(store, tag, effects),
                Command::SetRetention { store, retention_ms } => decision.set_retention(store, *retention_ms, effects),
                Command::PutSubscription(put) => decision.put_subscription(put, effects),
                Command::MoveSubscription(moved) => decision.move_subscription(moved, effects),
                Command::DropSubscription { name } => decision.drop_subscription(name, effects),
                Command::SaveProjection(save) => decision.save_projection(save, effects),
                Command::DropProjection { store, name } => decision.drop_projection(store, name, effects),
            };
            replies.push(appended?);
            Ok(())
        })
    }
}

impl<'a> Decision<'a> {
    /// The deleted events of a store, this commit included.
    fn gone(&self, store: StoreNumber) -> &DeletedEvents {
        self.draft.gone.get(&store).unwrap_or_else(|| self.state.gone(store))
    }

    /// The store, if it is known; otherwise a new one of this name.
    fn known_or_create(
        &mut self,
        known: Option<StoreNumber>,
        name: &'a str,
        effects: &mut dyn Effects,
    ) -> Result<StoreNumber, Refusal> {
        if let Some(store) = known {
            return Ok(store);
        }
        effects.claim(ResourceClaim::Store(name))?;
        let store = self.draft.create(self.state, name);
        let tags = TagList::of(Role::Name, store, b"");
        effects.push(NewEntry {
            kind: STORE_CREATED,
            tags: &[tags.first()],
            sequenced: None,
            body: &[name.as_bytes()],
        });
        Ok(store)
    }
}
