//! The rights of creators: work that runs later, such as a delivery, is checked by the rights that
//! its creator has when the work runs.
//!
//! Checks are made on the state of the decision, under the turn: also on rules that are not
//! published yet. The commit of the work follows that state, so it is never published without them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use quire_model::{Creator, Operation, PermissionRefusal, Resource, ResourceKind, Touch};

use crate::models::Models;
use crate::permitted::{Guard, Permissions};
use crate::system::{Principal, RuleSet, System};

/// The rules of a state, compiled when a creator is first checked by them.
#[derive(Debug, Default)]
pub(crate) struct CreatorRules(Mutex<Option<Arc<RuleSet>>>);

/// Why the work of a creator does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatorProblem {
    /// The name of the creator.
    pub creator: String,
    /// The missing permission. `None` when the creator was a user, and was dropped or disabled.
    pub lacking: Option<PermissionRefusal>,
}

impl fmt::Display for CreatorProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CreatorProblem { creator, lacking } = self;
        match lacking {
            Some(refusal) => write!(f, "its creator {creator:?} is {refusal}"),
            None => write!(f, "its creator {creator:?} is not an enabled user"),
        }
    }
}

impl CreatorRules {
    /// Returns the guard of a creator's work; `None` while access control is disabled.
    pub(crate) fn guard(&self, system: &System, creator: &Creator) -> Option<Guard> {
        self.rights(system, creator).map(|rights| Guard::new(Arc::new(rights)))
    }

    /// Whether the creator is no user that was dropped or disabled.
    pub(crate) fn admits(&self, system: &System, creator: &Creator) -> bool {
        self.rights(system, creator).is_none_or(|rights| rights.is_admitted())
    }

    /// Returns the reason why work of a creator that touches this does not run.
    pub(crate) fn problem<'t>(
        &self,
        models: &Models,
        creator: &Creator,
        touches: impl IntoIterator<Item = Touch<'t>>,
    ) -> Option<CreatorProblem> {
        let rights = self.rights(&models.system, creator)?;
        let problem = |lacking| CreatorProblem { creator: creator.name.clone(), lacking };
        if !rights.is_admitted() {
            return Some(problem(None));
        }
        let guard = Guard::new(Arc::new(rights));
        let refused = touches.into_iter().find_map(|touch| guard.check(models, touch).err());
        refused.map(problem)
    }

    fn rights(&self, system: &System, creator: &Creator) -> Option<CreatorRights> {
        if !system.is_enabled() {
            return None;
        }
        let mut compiled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = compiled.take().filter(|rules| rules.generation() == system.changed_at());
        let rules = Arc::clone(compiled.insert(current.unwrap_or_else(|| Arc::new(system.rule_set()))));
        let roles = creator.roles.iter().map(|role| role.as_str().into()).collect();
        let principal = Principal { roles, ..Principal::named(creator.name.as_str()) };
        Some(CreatorRights { rules, principal, is_user: creator.is_user })
    }
}

/// The permissions of a creator, by the rules of one state.
#[derive(Debug)]
struct CreatorRights {
    rules: Arc<RuleSet>,
    principal: Principal,
    is_user: bool,
}

impl CreatorRights {
    fn is_admitted(&self) -> bool {
        !self.is_user || self.rules.has_user(&self.principal.name)
    }
}

impl Permissions for CreatorRights {
    fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
        self.is_admitted() && self.rules.allows(&self.principal, operation, resource)
    }

    fn denies(&self, resource: Resource<'_>, operation: Operation) -> bool {
        !self.is_admitted() || self.rules.denies(&self.principal, operation, resource)
    }

    fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.is_admitted() && self.rules.allows_every(&self.principal, operation, kind)
    }

    fn permits_any(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.is_admitted() && self.rules.allows_any(&self.principal, operation, kind)
    }
}
