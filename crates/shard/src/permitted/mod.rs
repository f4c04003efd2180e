//! The permission to commit.
//!
//! ```text
//! commands ──Guard::permit────────▶ PermittedCommands ──Shard::commit──▶ under the turn: each Touch is checked
//!          ──PermittedCommands::by_owner──▶           ──▶ no check: the owner of the directory commits
//!          ──PermittedCommands::by_creator▶           ──▶ work that runs later is checked by its creator's rights
//! ```
//!
//! A shard takes no other commands, so a front end cannot forget the check. Touches are checked
//! under the turn, against the state on which the commit is decided: a job that was moved before
//! belongs to its new queue.

use std::fmt::Debug;
use std::sync::Arc;

use quire_model::{Creator, History, Model, Operation, PermissionRefusal, Resource, ResourceKind, Touch, TouchTarget};

use crate::audit::AUDIT_STORE;
use crate::commands::Commands;
use crate::denial::Denial;
use crate::error::Result;
use crate::events::{self, StoreNumber};
use crate::models::Models;
use crate::refusal::{CommitRefusal, NotPermitted, Reason};
use crate::system;
use crate::virtual_log::OUTSIDE_QUEUE;

/// The permissions of one client.
pub trait Permissions: Debug + Send + Sync {
    /// Whether the client may perform the operation on the resource.
    fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool;

    /// Whether a rule denies the client the operation on the resource, whatever other rules allow.
    fn denies(&self, resource: Resource<'_>, operation: Operation) -> bool;

    /// Whether the client may perform the operation on every resource of the kind.
    fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool;

    /// Whether the client may perform the operation on any resource of the kind.
    fn permits_any(&self, kind: ResourceKind, operation: Operation) -> bool;

    /// The client as the creator of work that runs after its commit, by whose rights the work is
    /// checked then. Default: the work is not checked.
    fn creator(&self) -> Option<Creator> {
        None
    }

    /// The name of the client, whose idempotency keys are its own. Default: those of the owner of
    /// the database.
    fn principal(&self) -> Option<&str> {
        None
    }

    /// Notes that the client was refused for a missing permission, for an audit.
    fn denied(&self, _: &PermissionRefusal) {}

    /// Brings the permissions up to date. A call of the database does this first, while it holds no
    /// lock.
    ///
    /// # Errors
    /// When the permissions can't be read. The call fails with the error, and shows nothing.
    fn refresh(&self) -> Result<()> {
        Ok(())
    }
}

/// Makes [`PermittedCommands`] commands of one client.
#[derive(Debug, Clone)]
pub struct Guard {
    permissions: Arc<dyn Permissions>,
}

/// Commands, and the permissions with which they are decided.
#[derive(Debug, Clone, Copy)]
pub struct PermittedCommands<'g, 'p, 'c> {
    commands: Commands<'p, 'c>,
    authority: Authority<'g>,
}

/// By whose permissions commands are decided.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Authority<'g> {
    /// The owner of the directory, who is not checked.
    Owner,
    /// A client.
    Client(&'g Guard),
    /// The creator of work that runs later.
    Creator(&'g Creator),
}

impl Guard {
    /// Guards the commits of a client with these permissions.
    pub fn new(permissions: Arc<dyn Permissions>) -> Self {
        Guard { permissions }
    }

    /// Permits the commands as far as the client is permitted: the commit is refused when it lacks
    /// any permission.
    pub fn permit<'g, 'p, 'c>(&'g self, commands: Commands<'p, 'c>) -> PermittedCommands<'g, 'p, 'c> {
        PermittedCommands { commands, authority: Authority::Client(self) }
    }

    /// Brings the permissions up to date: see [`Permissions::refresh`].
    ///
    /// # Errors
    /// Those of [`Permissions::refresh`].
    pub fn refresh(&self) -> Result<()> {
        self.permissions.refresh()
    }

    /// The client as the creator of later work: see [`Permissions::creator`].
    pub fn creator(&self) -> Option<Creator> {
        self.permissions.creator()
    }

    /// The name of the client: see [`Permissions::principal`].
    pub fn principal(&self) -> Option<&str> {
        self.permissions.principal()
    }

    /// Notes a refusal: see [`Permissions::denied`].
    pub fn denied(&self, refusal: &PermissionRefusal) {
        self.permissions.denied(refusal);
    }

    /// Whether the client may perform the operation on the resource.
    pub fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
        let permissions = &self.permissions;
        let is_implied = || match (resource.kind, operation) {
            // As in Kafka, a client that may create topics in the cluster may create each one, and
            // a client that may write to any topic may do so with sequence numbers.
            (ResourceKind::Topic, Operation::Create) => permissions.permits(Resource::CLUSTER, Operation::Create),
            (ResourceKind::Cluster, Operation::IdempotentWrite) => {
                permissions.permits_any(ResourceKind::Topic, Operation::Write)
            }
            _ => false,
        };
        // A denial wins over what another permission implies.
        permissions.permits(resource, operation) || is_implied() && !permissions.denies(resource, operation)
    }

    /// Whether the client may perform the operation on every resource of the kind.
    pub fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.permissions.permits_every(kind, operation)
    }

    /// Whether the client may begin work on those resources of the kind that permit the operation.
    /// Without a creator, the work would be checked no further.
    fn permits_some(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.permits_every(kind, operation)
            || self.permissions.permits_any(kind, operation) && self.permissions.creator().is_some()
    }

    /// Checks a touch. The error is the missing permission; `None` in place of it when the client
    /// may not know that the object exists.
    pub(crate) fn check(&self, models: &Models, touch: Touch<'_>) -> Result<(), Option<PermissionRefusal>> {
        let Touch { target, operation } = touch;
        match target {
            TouchTarget::Named(resource) if self.permits(resource, operation) => Ok(()),
            TouchTarget::Named(resource) => Err(Some(PermissionRefusal::new(resource, operation))),
            TouchTarget::Owner(resource) if self.permits(resource, operation) => Ok(()),
            TouchTarget::Owner(resource) => {
                let is_shown = self.permits(resource, Operation::Describe);
                Err(is_shown.then(|| PermissionRefusal::new(resource, operation)))
            }
            TouchTarget::Outside(number) => self.check_outside(models, number, operation),
            TouchTarget::Every(kind) if self.permits_every(kind, operation) => Ok(()),
            TouchTarget::Permitted(kind) if self.permits_some(kind, operation) => Ok(()),
            TouchTarget::Every(kind) | TouchTarget::Permitted(kind) => {
                Err(Some(PermissionRefusal::every(kind, operation)))
            }
        }
    }

    /// Checks an event store or a queue by its number. An unknown number has the answer of a hidden
    /// one.
    fn check_outside(
        &self,
        models: &Models,
        number: u32,
        operation: Operation,
    ) -> Result<(), Option<PermissionRefusal>> {
        let queue = (number & OUTSIDE_QUEUE != 0).then(|| models.jobs.queue_log_numbered(number & !OUTSIDE_QUEUE));
        let (kind, name) = match &queue {
            Some(queue) => (ResourceKind::Queue, queue.as_ref().map(|queue| queue.name())),
            None => (ResourceKind::Store, models.events.store_name(StoreNumber::new(number))),
        };
        match name.map(|name| Resource::new(kind, name)) {
            Some(resource) if self.permits(resource, operation) => Ok(()),
            Some(resource) if self.permits(resource, Operation::Describe) => {
                Err(Some(PermissionRefusal::new(resource, operation)))
            }
            _ if self.permits_every(kind, operation) => Ok(()),
            _ => Err(Some(PermissionRefusal::every(kind, operation))),
        }
    }
}

impl<'g, 'p, 'c> PermittedCommands<'g, 'p, 'c> {
    /// Permits commands of the owner of the directory: of an embedded program, and of the database
    /// itself.
    pub const fn by_owner(commands: Commands<'p, 'c>) -> Self {
        PermittedCommands { commands, authority: Authority::Owner }
    }

    /// Permits commands of work that runs later as far as its creator is permitted when it runs.
    pub(crate) const fn by_creator(commands: Commands<'p, 'c>, creator: &'g Creator) -> Self {
        PermittedCommands { commands, authority: Authority::Creator(creator) }
    }

    /// The commands.
    #[inline]
    pub(crate) fn commands(&self) -> &Commands<'p, 'c> {
        &self.commands
    }

    /// By whose permissions the commands are decided.
    #[inline]
    pub(crate) fn authority(&self) -> Authority<'g> {
        self.authority
    }

    /// Checks each command against this state. Without a guard, nothing is checked.
    ///
    /// # Errors
    /// The refusal of the first command that lacks a permission.
    #[inline]
    pub(crate) fn check(&self, guard: Option<&Guard>, models: &Models, history: &dyn History) -> Result<(), Denial> {
        match guard {
            None => Ok(()),
            Some(guard) => self.check_by(guard, models, history),
        }
    }

    #[cold]
    fn check_by(&self, guard: &Guard, models: &Models, history: &dyn History) -> Result<(), Denial> {
        let Commands { streams, events, jobs, graph, system, author: _, audit, idempotency_key: _, is_dry_run: _ } =
            self.commands;
        if !audit.is_empty() {
            let refusal = events::Refusal::ReservedStore { store: AUDIT_STORE.to_owned() };
            let refused = CommitRefusal { part: 0, reason: Reason::Events(refusal) };
            return Err(Denial::Refused(Box::new(refused)));
        }
        let check = |touch: Touch<'_>| {
            let checked = guard.check(models, touch);
            if let Err(Some(refusal)) = &checked {
                guard.denied(refusal);
            }
            checked
        };
        check_commands(&models.streams, history, streams, check, Reason::Streams)?;
        check_commands(&models.events, history, events, check, Reason::Events)?;
        check_commands(&models.jobs, history, jobs, check, Reason::Jobs)?;
        check_commands(&models.graphs, history, graph, check, Reason::Graph)?;
        check_commands(&models.system, history, system, check, Reason::System)?;
        match system.iter().position(|command| matches!(command, system::Command::Disable)) {
            None => Ok(()),
            Some(part) => {
                let reason = Reason::System(system::Refusal::OwnerOnly);
                Err(Denial::Refused(Box::new(CommitRefusal { part, reason })))
            }
        }
    }
}

fn check_commands<M: Model>(
    model: &M,
    history: &dyn History,
    commands: &[M::Command<'_>],
    check: impl Fn(Touch<'_>) -> Result<(), Option<PermissionRefusal>>,
    reason: fn(M::Refusal) -> Reason,
) -> Result<(), Denial> {
    for (part, command) in commands.iter().enumerate() {
        let mut checked = Ok(());
        let read = model.touches(history, command, &mut |touch| {
            if checked.is_ok() {
                checked = check(touch);
            }
        });
        read.map_err(|error| Denial::Unreadable(error.into()))?;
        let Err(denied) = checked else { continue };
        let reason = match (denied, M::unknown_object(command)) {
            (None, Some(unknown)) => reason(unknown),
            (Some(refusal), _) => Reason::NotPermitted(NotPermitted { model: M::ID, refusal }),
            // The queue of the job that holds the unique key of an enqueue.
            (None, None) => {
                let refusal = PermissionRefusal::every(ResourceKind::Queue, Operation::Write);
                Reason::NotPermitted(NotPermitted { model: M::ID, refusal })
            }
        };
        return Err(Denial::Refused(Box::new(CommitRefusal { part, reason })));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
