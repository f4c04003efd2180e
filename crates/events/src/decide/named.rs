//! Decisions on named objects: subscriptions and saved projections.

use quire_model::codec::Encoder;
use quire_model::{Effects, EntryKind, NewEntry, Release, ResourceClaim};

use super::{Decision, Stop};
use crate::check::{check_printable, check_projection, check_subscription, check_upstream};
use crate::codec::{
    PROJECTION_DROPPED, PROJECTION_SAVED, Role, SUBSCRIPTION_DROPPED, SUBSCRIPTION_MOVED, SUBSCRIPTION_PUT, TagList,
    UPSTREAM_READ,
};
use crate::limits::{PROJECTIONS_MAX, SOURCES_MAX, SUBSCRIPTIONS_MAX};
use crate::memory::{projection_memory, source_memory, subscription_memory};
use crate::{
    AppendResult, EventPosition, MoveSubscription, PutSubscription, Refusal, SaveProjection, StoreNumber, Upstream,
    saved, subscription,
};

impl<'a> Decision<'a> {
    /// Decides on the next command, when it notes how far a source was read.
    pub(super) fn upstream(
        &mut self,
        upstream: &Upstream<'a>,
        effects: &mut dyn Effects,
    ) -> Result<AppendResult, Stop> {
        check_upstream(upstream)?;
        let Upstream { store, source, position } = *upstream;
        let known = self.draft.store(self.state, store);
        if let Some(store) = known {
            match self.draft.upstream(self.state, store, source) {
                Some(known) if position <= known => return Err(Refusal::UpstreamBehind { position, known }.into()),
                None if self.draft.source_count(self.state, store) >= SOURCES_MAX => {
                    return Err(Refusal::TooManySources.into());
                }
                _ => {}
            }
        }
        if known.is_none_or(|store| self.draft.upstream(self.state, store, source).is_none()) {
            check_printable(source.as_bytes()).map_err(Refusal::InvalidSource)?;
            effects.claim(ResourceClaim::StoreBytes(source_memory(source))).map_err(Refusal::Claim)?;
        }
        let store = self.known_or_create(known, store, effects)?;
        let tags = TagList::of(Role::Source, store, source.as_bytes());
        effects.push(NewEntry {
            kind: UPSTREAM_READ,
            tags: &[tags.first()],
            sequenced: None,
            body: &[&position.to_le_bytes()],
        });
        self.draft.read_upstream(store, source, position);
        Ok(AppendResult::NOTHING)
    }

    /// Decides on a subscription that is created or changed.
    pub(super) fn put_subscription(
        &mut self,
        put: &'a PutSubscription<'_>,
        effects: &mut dyn Effects,
    ) -> Result<AppendResult, Stop> {
        check_subscription(put)?;
        let known = self.draft.store(self.state, put.store);
        let there = self.draft.subscription(self.state, put.name);
        match there {
            Some((store, _)) if known != Some(store) => return Err(Refusal::SubscriptionOfAnotherStore.into()),
            None if self.draft.subscription_count(self.state) >= SUBSCRIPTIONS_MAX => {
                return Err(Refusal::TooManySubscriptions.into());
            }
            _ => {}
        }
        let position = put.after.or(there.map(|(_, position)| position)).unwrap_or(EventPosition::ZERO);
        self.check_not_ahead(known, position)?;
        if there.is_none() {
            effects.claim(ResourceClaim::Delivery(put.name)).map_err(Refusal::Claim)?;
        }
        let creator = effects.creator();
        let bytes = subscription_memory(put.name, &put.query, &put.attempts, creator.as_ref());
        effects.release(Release::StoreBytes(self.draft.subscription_bytes(self.state, put.name)));
        effects.claim(ResourceClaim::StoreBytes(bytes)).map_err(Refusal::Claim)?;
        let store = self.known_or_create(known, put.store, effects)?;
        let mut body = Encoder::new();
        subscription::encode(position, &put.query, &put.attempts, &mut body);
        creator.iter().for_each(|creator| creator.encode(&mut body));
        push(effects, SUBSCRIPTION_PUT, Role::Subscription, store, put.name, &[body.as_slice()]);
        self.draft.subscriptions.insert(put.name, Some((store, position)));
        self.draft.put_bytes.insert(put.name, bytes);
        Ok(AppendResult::NOTHING)
    }

    /// Decides on a subscription that has delivered.
    pub(super) fn move_subscription(
        &mut self,
        moved: &MoveSubscription<'a>,
        effects: &mut dyn Effects,
    ) -> Result<AppendResult, Stop> {
        let MoveSubscription { name, from, to } = *moved;
        let Some((store, position)) = self.draft.subscription(self.state, name) else {
            return Err(Refusal::UnknownSubscription.into());
        };
        if position != from {
            return Err(Refusal::SubscriptionMoved { position }.into());
        }
        self.check_not_ahead(Some(store), to)?;
        push(effects, SUBSCRIPTION_MOVED, Role::Subscription, store, name, &[&to.get().to_le_bytes()]);
        self.draft.subscriptions.insert(name, Some((store, to)));
        Ok(AppendResult::NOTHING)
    }

    /// Decides on a subscription that is removed.
    pub(super) fn drop_subscription(&mut self, name: &'a str, effects: &mut dyn Effects) -> Result<AppendResult, Stop> {
        let Some((store, _)) = self.draft.subscription(self.state, name) else {
            return Err(Refusal::UnknownSubscription.into());
        };
        push(effects, SUBSCRIPTION_DROPPED, Role::Subscription, store, name, &[]);
        effects.release(Release::StoreBytes(self.draft.subscription_bytes(self.state, name)));
        self.draft.subscriptions.insert(name, None);
        Ok(AppendResult::NOTHING)
    }

    /// Decides on the state of a projection.
    pub(super) fn save_projection(
        &mut self,
        save: &SaveProjection<'a>,
        effects: &mut dyn Effects,
    ) -> Result<AppendResult, Stop> {
        let SaveProjection { store, name, version, base, position, state } = *save;
        check_projection(store, name)?;
        let known = self.draft.store(self.state, store);
        self.check_not_ahead(known, position)?;
        let store = self.known_or_create(known, store, effects)?;
        match self.draft.projection(self.state, store, name) {
            Some((of, saved)) if of == version && saved > base => {
                return Err(Refusal::ProjectionMoved { position: saved }.into());
            }
            None if self.draft.projection_count(self.state, store) >= PROJECTIONS_MAX => {
                return Err(Refusal::TooManyProjections.into());
            }
            None => {
                check_printable(name.as_bytes()).map_err(Refusal::InvalidProjectionName)?;
                effects.claim(ResourceClaim::StoreBytes(projection_memory(name))).map_err(Refusal::Claim)?;
            }
            _ => {}
        }
        let head = saved::head(version, position);
        push(effects, PROJECTION_SAVED, Role::Projection, store, name, &[&head, state]);
        self.draft.keep_projection(self.state, store, name, Some((version, position)));
        Ok(AppendResult::NOTHING)
    }

    /// Decides to drop a projection, which is then built again.
    pub(super) fn drop_projection(
        &mut self,
        store: &str,
        name: &'a str,
        effects: &mut dyn Effects,
    ) -> Result<AppendResult, Stop> {
        let store = self.draft.store(self.state, store);
        let Some(store) = store.filter(|store| self.draft.projection(self.state, *store, name).is_some()) else {
            return Err(Refusal::UnknownProjection.into());
        };
        push(effects, PROJECTION_DROPPED, Role::Projection, store, name, &[]);
        effects.release(Release::StoreBytes(projection_memory(name)));
        self.draft.keep_projection(self.state, store, name, None);
        Ok(AppendResult::NOTHING)
    }

    fn check_not_ahead(&self, store: Option<StoreNumber>, position: EventPosition) -> Result<(), Refusal> {
        let head = store.map_or(EventPosition::ZERO, |store| self.draft.last(self.state, store));
        if position > head { Err(Refusal::AheadOfStore { position, head }) } else { Ok(()) }
    }
}

fn push(effects: &mut dyn Effects, kind: EntryKind, role: Role, store: StoreNumber, name: &str, body: &[&[u8]]) {
    let tags = TagList::of(role, store, name.as_bytes());
    effects.push(NewEntry { kind, tags: &[tags.first()], sequenced: None, body });
}
