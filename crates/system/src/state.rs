//! The state: users, keys, roles and rules.
//!
//! The maps are persistent: a decision clones the whole state in constant time, and applies each
//! command of the commit to the clone before it decides the next one.

use alloc::string::String;
use alloc::vec::Vec;

use quire_model::{Place, Position};
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::change::AccessChange;
use crate::{
    AccessRule, ApiKey, BuiltInRole, ClusterMember, DatabaseSecret, KeyId, MemberRole, QuotaEntity, QuotaKind,
    QuotaValue, RuleSubject, ScramCredential,
};

/// Principals, credentials, roles and rules of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct System {
    pub(crate) is_enabled: bool,
    /// The record of the last change.
    pub(crate) changed_at: Position,
    pub(crate) users: RedBlackTreeMapSync<String, PutEntry<User>>,
    pub(crate) keys: RedBlackTreeMapSync<KeyId, PutEntry<ApiKey>>,
    pub(crate) roles: RedBlackTreeMapSync<String, Vec<AccessRule>>,
    pub(crate) rules: RedBlackTreeSetSync<(RuleSubject, AccessRule)>,
    pub(crate) secret: Option<DatabaseSecret>,
    pub(crate) quotas: RedBlackTreeMapSync<(QuotaEntity, QuotaKind), QuotaValue>,
    /// The members of the cluster, with those that were removed.
    pub(crate) members: RedBlackTreeMapSync<u64, ClusterMember>,
    /// The records that changed members, by position.
    pub(crate) member_changes: RedBlackTreeMapSync<Position, (u64, MemberRole)>,
}

/// A value with credentials, and the entry that has it: earlier entries leave the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PutEntry<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Whether it may do anything.
    pub is_enabled: bool,
    /// Its roles.
    pub roles: Vec<String>,
    /// The credentials of its password, at most one for each mechanism.
    pub scram: Vec<ScramCredential>,
}

impl System {
    /// Whether access control is enabled.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// The position of the last change; zero before the first.
    pub fn changed_at(&self) -> Position {
        self.changed_at
    }

    /// Returns the users in the order of their names.
    pub fn users(&self) -> impl Iterator<Item = (&str, &User)> {
        self.users.iter().map(|(name, user)| (name.as_str(), &user.value))
    }

    /// The user of this name.
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name).map(|user| &user.value)
    }

    /// Returns the keys in the order of their ids.
    pub fn keys(&self) -> impl Iterator<Item = (KeyId, &ApiKey)> {
        self.keys.iter().map(|(id, key)| (*id, &key.value))
    }

    /// The key of this id.
    pub fn key(&self, id: KeyId) -> Option<&ApiKey> {
        self.keys.get(&id).map(|key| &key.value)
    }

    /// Returns the roles in the order of their names, without the built-in ones.
    pub fn roles(&self) -> impl Iterator<Item = (&str, &[AccessRule])> {
        self.roles.iter().map(|(name, rules)| (name.as_str(), rules.as_slice()))
    }

    /// Returns the rules, in order, each with its holder.
    pub fn rules(&self) -> impl Iterator<Item = (&RuleSubject, &AccessRule)> {
        self.rules.iter().map(|(subject, rule)| (subject, rule))
    }

    /// Returns the quotas in the order of their entities and kinds.
    pub fn quotas(&self) -> impl Iterator<Item = (&QuotaEntity, QuotaKind, QuotaValue)> {
        self.quotas.iter().map(|((entity, kind), value)| (entity, *kind, *value))
    }

    /// The secret of the database; `None` until a server has given it one.
    pub fn secret(&self) -> Option<&DatabaseSecret> {
        self.secret.as_ref()
    }

    /// Whether this is a role, built in or not.
    pub(crate) fn has_role(&self, role: &str) -> bool {
        BuiltInRole::of_name(role).is_some() || self.roles.contains_key(role)
    }

    /// Whether nothing was ever changed: such a state is not written to checkpoints.
    pub fn is_unused(&self) -> bool {
        self.changed_at == Position::ZERO && self.members.is_empty()
    }

    /// Applies the change of the entry at this place. A dropped user loses its keys and its rules,
    /// and a dropped role its rules.
    pub(crate) fn change(&mut self, change: AccessChange, place: Place) {
        match change {
            AccessChange::UserPut { name, user } => self.users.insert_mut(name, PutEntry { value: user, place }),
            AccessChange::UserDropped { name } => {
                self.users.remove_mut(&name);
                let own: Vec<KeyId> = self.keys().filter(|(_, key)| key.principal == name).map(|(id, _)| id).collect();
                own.iter().for_each(|id| {
                    self.keys.remove_mut(id);
                });
                self.remove_rules_of(&RuleSubject::Principal(name));
            }
            AccessChange::KeyPut { id, key } => self.keys.insert_mut(id, PutEntry { value: key, place }),
            AccessChange::KeyDropped { id } => {
                self.keys.remove_mut(&id);
            }
            AccessChange::RolePut { name, rules } => self.roles.insert_mut(name, rules),
            AccessChange::RoleDropped { name } => {
                self.roles.remove_mut(&name);
                self.remove_rules_of(&RuleSubject::Role(name));
            }
            AccessChange::RuleAdded { subject, rule } => self.rules.insert_mut((subject, rule)),
            AccessChange::RuleRemoved { subject, rule } => {
                self.rules.remove_mut(&(subject, rule));
            }
            AccessChange::StateSet { is_enabled } => self.is_enabled = is_enabled,
            AccessChange::SecretPut { secret } => self.secret = Some(secret),
            AccessChange::QuotaPut { entity, kind, value: Some(value) } => {
                self.quotas.insert_mut((entity, kind), value);
            }
            AccessChange::QuotaPut { entity, kind, value: None } => {
                self.quotas.remove_mut(&(entity, kind));
            }
        }
    }

    fn remove_rules_of(&mut self, subject: &RuleSubject) {
        let own: Vec<_> = self.rules.iter().filter(|(own, _)| own == subject).cloned().collect();
        own.iter().for_each(|rule| {
            self.rules.remove_mut(rule);
        });
    }
}
