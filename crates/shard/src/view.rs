//! The view of a read.

use quire_log::Reader;
use quire_model::{
    ClaimLimit, DecideError, Model, Operation, PermissionRefusal, Position, ResourceClaim, ResourceKind, Touch,
};

use crate::claims::{Claims, NameLimits, count};
use crate::creators::{CreatorProblem, CreatorRules};
use crate::decide::WriterState;
use crate::idempotency::IdempotencyMemory;
use crate::models::Models;
use crate::permitted::Guard;
use crate::topic_names::{HiddenObject, TopicOwner, hidden, owners};
use crate::{events, graph, jobs, streams, system};

/// The state of every model, and the log, as one read sees them.
#[derive(Debug)]
pub struct ReadView<'v> {
    /// Topics and consumer groups.
    pub streams: &'v streams::Streams,
    /// Event stores.
    pub events: &'v events::Events,
    /// Queues.
    pub jobs: &'v jobs::Jobs,
    /// Graphs.
    pub graphs: &'v graph::Graphs,
    /// Users, keys, roles and rules.
    pub system: &'v system::System,
    /// The log, for the reads of the models.
    pub history: &'v Reader,
    /// The position of the last record that the state follows from.
    pub position: Position,
    pub(crate) models: &'v Models,
    limits: &'v NameLimits,
    creators: &'v CreatorRules,
}

impl<'v> ReadView<'v> {
    pub(crate) fn of(state: &'v WriterState, history: &'v Reader) -> Self {
        ReadView {
            streams: &state.models.streams,
            events: &state.models.events,
            jobs: &state.models.jobs,
            graphs: &state.models.graphs,
            system: &state.models.system,
            history,
            position: state.writer.mark().position,
            models: &state.models,
            limits: &state.limits,
            creators: &state.creators,
        }
    }

    /// The state of all models.
    #[cfg(test)]
    pub(crate) fn all_models(&self) -> &'v Models {
        self.models
    }

    /// The idempotency keys in memory.
    pub fn idempotency_keys(&self) -> IdempotencyMemory {
        self.models.keys.memory()
    }

    /// The position of the commit whose answer is kept for an idempotency key. The key may have
    /// expired, and is then forgotten soon.
    pub fn answered_commit(&self, key: &str) -> Option<Position> {
        self.models.keys.position_of(key)
    }

    /// The object that Kafka clients see under a topic name.
    pub fn topic_owner(&self, topic: &str) -> Option<TopicOwner<'v>> {
        owners(self.models, topic).next()
    }

    /// The objects that Kafka clients do not see, because another object has their topic name: in
    /// databases from an earlier version.
    pub fn hidden_objects(&self) -> Vec<HiddenObject> {
        hidden(self.models)
    }

    /// Returns the reason why a named subscription does not deliver: its creator lost a permission.
    pub fn pause_of(&self, name: &str, subscription: &events::Subscription) -> Option<CreatorProblem> {
        pause_of(self.models, self.creators, name, subscription)
    }

    /// Decides a command on topics or groups as a commit would, and does nothing. Places, times and
    /// offsets in the reply are not those that the commit would give.
    ///
    /// # Errors
    /// As the commit of this command alone.
    pub fn would(&self, command: streams::Command<'_>) -> Result<streams::Reply, DecideError<streams::Refusal>> {
        let claim = |claim: ResourceClaim<'_>| Claims::new(self.models, self.limits).claim(claim);
        self.streams.would(self.history, command, &claim)
    }

    /// Checks the touches of a command on topics or groups, as a commit would.
    ///
    /// # Errors
    /// The missing permission.
    pub fn check_command(&self, guard: &Guard, command: &streams::Command<'_>) -> Result<(), PermissionRefusal> {
        let mut checked = Ok(());
        let mut check = |touch: Touch<'_>| {
            if checked.is_ok() {
                checked = guard.check(self.models, touch);
            }
        };
        self.streams.touches(self.history, command, &mut check).expect("topics and groups are in memory");
        checked.map_err(|refusal| {
            refusal.unwrap_or_else(|| PermissionRefusal::every(ResourceKind::Topic, Operation::Describe))
        })
    }

    /// The count and the largest count of each thing that all models together have a limited number
    /// of.
    pub fn limited(&self) -> impl Iterator<Item = (ClaimLimit, u64, u64)> + use<'v> {
        let (models, limits) = (self.models, self.limits);
        ClaimLimit::ALL.into_iter().map(move |limit| (limit, count(models, limit), limits.of(limit)))
    }
}

/// See [`ReadView::pause_of`].
pub(crate) fn pause_of(
    models: &Models,
    creators: &CreatorRules,
    name: &str,
    subscription: &events::Subscription,
) -> Option<CreatorProblem> {
    let creator = subscription.creator.as_ref()?;
    let store = models.events.store_name(subscription.store)?;
    let read = Touch::named(ResourceKind::Store, store, Operation::Read);
    let write = Touch::named(ResourceKind::Queue, name, Operation::Write);
    creators.problem(models, creator, [read, write])
}
