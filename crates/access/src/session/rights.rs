//! The rights of a client: the newest published rules, and what they permit to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use quire::system::{Principal, RuleSet};
use quire::{Creator, Database, Operation, PermissionRefusal, Permissions, Resource, ResourceKind};

use crate::audit::AuditLog;

/// The access rules of a served database.
#[derive(Debug)]
pub(crate) struct ServedRules {
    pub(crate) owner: Database,
    /// Whether access control was ever seen enabled. Clients are checked from then on.
    pub(super) was_enabled: AtomicBool,
    /// `None` where nothing is audited.
    pub(super) audit: Option<AuditLog>,
}

/// The permissions of a session, by the newest published rules.
#[derive(Debug)]
pub(super) struct ClientRights {
    pub(super) served: Arc<ServedRules>,
    /// `None` for a client without a credential.
    pub(super) principal: Option<Principal>,
    /// Whether the principal has to be a user.
    pub(super) is_user: bool,
    /// The address of the client.
    pub(super) address: Option<Arc<str>>,
    pub(super) current: RwLock<CurrentRights>,
    /// Whether the session was ended by its client.
    pub(super) is_ended: AtomicBool,
}

#[derive(Debug, Clone)]
pub(super) struct CurrentRights {
    pub(super) rules: Arc<RuleSet>,
    pub(super) is_live: bool,
}

/// Permits nothing.
#[derive(Debug)]
pub(super) struct NoRights;

impl Permissions for NoRights {
    fn permits(&self, _: Resource<'_>, _: Operation) -> bool {
        false
    }

    fn denies(&self, _: Resource<'_>, _: Operation) -> bool {
        true
    }

    fn permits_every(&self, _: ResourceKind, _: Operation) -> bool {
        false
    }

    fn permits_any(&self, _: ResourceKind, _: Operation) -> bool {
        false
    }
}

impl ServedRules {
    /// Returns the newest rules, and remembers whether they are in effect.
    ///
    /// # Errors
    /// When they can't be read.
    pub(super) fn newest(&self) -> quire::Result<Arc<RuleSet>> {
        let rules = self.owner.access().checked_rules()?;
        if rules.is_enabled() {
            self.was_enabled.store(true, Ordering::Release);
        }
        Ok(rules)
    }

    /// Whether clients are checked.
    pub(super) fn is_enabled(&self) -> bool {
        self.was_enabled.load(Ordering::Acquire)
    }

    /// The audit of logins and denials. A database that was opened read-only has none.
    pub(crate) fn audit(&self) -> Option<&AuditLog> {
        self.audit.as_ref().filter(|_| !self.owner.is_read_only())
    }
}

impl ClientRights {
    pub(super) fn current(&self) -> CurrentRights {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the session.
    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.current.write().unwrap_or_else(PoisonError::into_inner).is_live = false;
    }

    /// Whether the session goes on, and the rules accept the credential.
    fn is_accepted_by(&self, rules: &RuleSet) -> bool {
        if self.is_ended.load(Ordering::Acquire) {
            return false;
        }
        match &self.principal {
            None => !self.served.is_enabled(),
            Some(principal) => {
                let now = self.served.owner.now();
                rules.admits(principal, now) && (!self.is_user || rules.has_user(&principal.name))
            }
        }
    }

    fn permits_by(&self, check: impl FnOnce(&RuleSet, &Principal) -> bool) -> bool {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let CurrentRights { rules, is_live } = &*current;
        *is_live
            && match &self.principal {
                Some(principal) => check(rules, principal),
                None => !self.served.is_enabled(),
            }
    }
}

impl Permissions for ClientRights {
    fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
        self.permits_by(|rules, principal| rules.allows(principal, operation, resource))
    }

    fn denies(&self, resource: Resource<'_>, operation: Operation) -> bool {
        !self.permits_by(|rules, principal| !rules.denies(principal, operation, resource))
    }

    fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.permits_by(|rules, principal| rules.allows_every(principal, operation, kind))
    }

    fn permits_any(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.permits_by(|rules, principal| rules.allows_any(principal, operation, kind))
    }

    fn principal(&self) -> Option<&str> {
        self.principal.as_ref().map(|principal| &*principal.name)
    }

    fn creator(&self) -> Option<Creator> {
        let principal = self.principal.as_ref()?;
        let roles = principal.roles.iter().map(|role| role.to_string()).collect();
        Some(Creator { name: principal.name.to_string(), is_user: self.is_user, roles })
    }

    fn denied(&self, refusal: &PermissionRefusal) {
        if self.served.is_enabled() {
            AuditLog::denied(&self.served, self.principal.as_ref(), refusal, self.address.as_ref());
        }
    }

    fn refresh(&self) -> quire::Result<()> {
        let known = self.current();
        let newest = self.served.newest();
        // Rules that can't be read may have changed: nothing is permitted until they can.
        let (rules, is_live) = match &newest {
            Ok(rules) => (Arc::clone(rules), self.is_accepted_by(rules)),
            Err(_) => (Arc::clone(&known.rules), false),
        };
        if known.is_live != is_live || !Arc::ptr_eq(&known.rules, &rules) {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have brought newer rules.
            if rules.generation() >= current.rules.generation() {
                *current = CurrentRights { rules, is_live };
            }
        }
        newest.map(drop)
    }
}
