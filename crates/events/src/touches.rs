//! The resources that a command touches.

use quire_model::{Operation, ResourceKind, Touch};

use crate::{Append, Command, Events, MoveSubscription, PutSubscription, SaveProjection, Upstream};

impl Events {
    /// See [`Model::touches`](quire_model::Model::touches). The state knows the store of each
    /// subscription, so no history is read.
    pub(crate) fn touched(&self, command: &Command<'_>, touch: &mut dyn FnMut(Touch<'_>)) {
        use Operation::{Alter, Delete, Read, Write};
        match command {
            Command::Append(Append { store, events, conditions }) => {
                // A condition reads: its refusal shows whether an event matches.
                if !conditions.is_empty() {
                    touch(Touch::named(ResourceKind::Store, store, Read));
                }
                if !events.is_empty() || conditions.is_empty() {
                    touch(Touch::named(ResourceKind::Store, store, Write));
                }
            }
            Command::Upstream(Upstream { store, .. }) => touch(Touch::named(ResourceKind::Store, store, Write)),
            Command::Trim { store, .. } | Command::Forget { store, .. } => {
                touch(Touch::named(ResourceKind::Store, store, Delete));
            }
            Command::SetRetention { store, .. }
            | Command::SaveProjection(SaveProjection { store, .. })
            | Command::DropProjection { store, .. } => touch(Touch::named(ResourceKind::Store, store, Alter)),
            Command::PutSubscription(PutSubscription { store, name, .. }) => {
                // It delivers events of the store to the queue of its name.
                touch(Touch::named(ResourceKind::Store, store, Alter));
                touch(Touch::named(ResourceKind::Store, store, Read));
                touch(Touch::named(ResourceKind::Queue, name, Write));
                self.touch_store_of(name, Alter, touch);
            }
            Command::MoveSubscription(MoveSubscription { name, .. }) => {
                // It delivers events that were read.
                self.touch_store_of(name, Read, touch);
                touch(Touch::named(ResourceKind::Queue, name, Write));
            }
            Command::DropSubscription { name } => self.touch_store_of(name, Alter, touch),
        }
    }

    /// Touches the store of a subscription, if the subscription exists. A subscription that an
    /// earlier command of the commit creates has the store that the earlier command touches.
    fn touch_store_of(&self, subscription: &str, operation: Operation, touch: &mut dyn FnMut(Touch<'_>)) {
        let store = self.subscription(subscription).and_then(|subscription| self.store_name(subscription.store));
        if let Some(store) = store {
            touch(Touch::owner(ResourceKind::Store, store, operation));
        }
    }
}
