//! The state compiled for checks.
//!
//! A set never changes. A reader that holds one decides every part of a request on the same rules.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use quire_model::{Operation, Position, Resource, ResourceKind, Timestamp};
use rpds::RedBlackTreeMapSync;

use crate::grants::{Grants, Masks, NameMap};
use crate::{
    ApiKey, BuiltInRole, DatabaseSecret, KeyId, QuotaEntity, QuotaKind, QuotaName, QuotaValue, RuleSubject,
    ScramCredential, ScramMechanism, ScramShape, SecretHash, System, User,
};

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The name: of a user, or from a certificate or a token.
    pub name: Arc<str>,
    /// The key that it presented, whose rules narrow its rights.
    pub key: Option<KeyId>,
    /// The credential of the password that it presented. Another password ends what it began.
    pub password: Option<Arc<ScramCredential>>,
    /// Roles that its credential gives it, besides those of the user of its name.
    pub roles: Arc<[Arc<str>]>,
    /// The time from which on its credential is refused.
    pub expires: Option<Timestamp>,
}

/// Users, keys, roles and rules, compiled: see [`System::rule_set`].
#[derive(Debug, Default)]
pub struct RuleSet {
    generation: Position,
    is_enabled: bool,
    everyone: Grants,
    principals: NameMap<String, PrincipalGrants>,
    keys: NameMap<KeyId, KeyGrants>,
    roles: NameMap<String, Arc<Grants>>,
    /// For each of [`ScramMechanism::ALL`].
    usual_scram: [ScramShape; 2],
    secret: Option<DatabaseSecret>,
    quotas: RedBlackTreeMapSync<(QuotaEntity, QuotaKind), QuotaValue>,
}

/// The holder of one quota: a user, a client, or a client of a user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuotaHolder {
    /// The user, unless the quota is that of a client of any user.
    pub user: Option<String>,
    /// The client, unless the quota is that of all clients of a user.
    pub client: Option<String>,
}

#[derive(Debug, Default)]
struct PrincipalGrants {
    /// `None` for a principal that is no user.
    user: Option<User>,
    own: Grants,
    roles: Vec<Arc<Grants>>,
}

#[derive(Debug)]
struct KeyGrants {
    key: ApiKey,
    principal: Arc<str>,
    narrowed: Option<Grants>,
}

impl Principal {
    /// A principal of this name, whose credential is no key and no password of the database.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Principal { name: name.into(), key: None, password: None, roles: Arc::default(), expires: None }
    }
}

impl System {
    /// Compiles the state for checks.
    pub fn rule_set(&self) -> RuleSet {
        let mut by_subject: NameMap<&RuleSubject, Vec<&crate::AccessRule>> = NameMap::default();
        for (subject, rule) in self.rules() {
            by_subject.entry(subject).or_default().push(rule);
        }
        let mut take = |subject: &RuleSubject| by_subject.remove(subject).unwrap_or_default();
        let everyone = Grants::of(take(&RuleSubject::Everyone));

        let mut roles: NameMap<&str, Arc<Grants>> = NameMap::default();
        for role in BuiltInRole::ALL {
            roles.insert(role.name(), Arc::new(Grants::of(&role.rules())));
        }
        for (name, rules) in self.roles() {
            let added = take(&RuleSubject::Role(name.into()));
            roles.insert(name, Arc::new(Grants::of(rules.iter().chain(added))));
        }

        let mut principals: NameMap<String, PrincipalGrants> = NameMap::default();
        for (name, user) in self.users() {
            let own = Grants::of(take(&RuleSubject::Principal(name.into())));
            let roles = user.roles.iter().filter_map(|role| roles.get(role.as_str()).cloned()).collect();
            principals.insert(name.into(), PrincipalGrants { user: Some(user.clone()), own, roles });
        }
        for (subject, rules) in by_subject {
            if let RuleSubject::Principal(name) = subject {
                principals.insert(name.clone(), PrincipalGrants { own: Grants::of(rules), ..Default::default() });
            }
        }

        let compiled = |key: &ApiKey| KeyGrants {
            key: key.clone(),
            principal: key.principal.as_str().into(),
            narrowed: key.rules.as_ref().map(Grants::of),
        };
        let keys = self.keys().map(|(id, key)| (id, compiled(key))).collect();
        let usual_scram = ScramMechanism::ALL.map(|mechanism| self.usual_scram(mechanism));
        let (generation, is_enabled) = (self.changed_at(), self.is_enabled());
        let (secret, quotas) = (self.secret().cloned(), self.quotas.clone());
        let roles = roles.into_iter().map(|(name, grants)| (name.into(), grants)).collect();
        RuleSet { generation, is_enabled, everyone, principals, keys, roles, usual_scram, secret, quotas }
    }

    /// The shape of most credentials of a mechanism.
    fn usual_scram(&self, mechanism: ScramMechanism) -> ScramShape {
        let mut counts: BTreeMap<ScramShape, usize> = BTreeMap::new();
        let credentials = self.users().flat_map(|(_, user)| &user.scram);
        for credential in credentials.filter(|credential| credential.mechanism == mechanism) {
            *counts.entry(credential.shape()).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(shape, _)| shape).unwrap_or_default()
    }
}

impl RuleSet {
    /// The position of the last change in the set. Verdicts that a reader keeps are valid for one
    /// generation.
    pub fn generation(&self) -> Position {
        self.generation
    }

    /// Whether access control is enabled. While it is not, a caller needs no credential, and the
    /// rules have no effect.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Whether the principal may perform the operation on the resource.
    ///
    /// * A disabled user, and the holder of a dropped or disabled key, may do nothing.
    /// * A denial by any rule of the principal, of its roles or of everyone wins.
    /// * A key with rules of its own allows what these rules and the principal's rights allow.
    ///
    /// The set reads no clock: check [`Principal::expires`] as well.
    #[inline]
    pub fn allows(&self, principal: &Principal, operation: Operation, resource: Resource<'_>) -> bool {
        self.allows_by(principal, operation, |grants| grants.masks(resource))
    }

    /// Whether a rule of the principal, of its roles, of its key or of everyone denies the
    /// operation on the resource.
    pub fn denies(&self, principal: &Principal, operation: Operation, resource: Resource<'_>) -> bool {
        let of_key = principal.key.as_ref().and_then(|id| self.keys.get(id)?.narrowed.as_ref());
        let named = self.principals.get(&*principal.name).into_iter();
        let named = named.flat_map(|grants| grants.roles.iter().map(|role| &**role).chain([&grants.own]));
        let mut all = named.chain([&self.everyone]).chain(of_key).chain(self.given_roles(principal));
        all.any(|grants| grants.masks(resource).deny(operation))
    }

    #[inline]
    fn allows_by(&self, principal: &Principal, operation: Operation, masks: impl Fn(&Grants) -> Masks) -> bool {
        if let Some(id) = &principal.key {
            let Some(key) = self.keys.get(id).filter(|key| key.key.is_enabled && key.principal == principal.name)
            else {
                return false;
            };
            let is_narrowed = |grants: &Grants| !masks(grants).allow(operation);
            if key.narrowed.as_ref().is_some_and(is_narrowed) {
                return false;
            }
        }
        let mut found: Masks = masks(&self.everyone);
        if let Some(grants) = self.principals.get(&*principal.name) {
            if grants.user.as_ref().is_some_and(|user| !user.is_enabled) {
                return false;
            }
            found |= masks(&grants.own);
            grants.roles.iter().for_each(|role| found |= masks(role));
        }
        self.given_roles(principal).for_each(|role| found |= masks(role));
        found.allow(operation)
    }

    /// The grants of the roles that the credential of a principal gives it, as far as they exist.
    fn given_roles<'s>(&'s self, principal: &'s Principal) -> impl Iterator<Item = &'s Grants> {
        principal.roles.iter().filter_map(|role| self.roles.get(&**role).map(|grants| &**grants))
    }

    /// Whether the principal may perform the operation on every resource of the kind: rules on
    /// every name allow it, and no rule on any name denies it.
    pub fn allows_every(&self, principal: &Principal, operation: Operation, kind: ResourceKind) -> bool {
        self.allows_by(principal, operation, |grants| grants.masks_of_every(kind))
    }

    /// Whether the principal may perform the operation on any resource of the kind.
    pub fn allows_any(&self, principal: &Principal, operation: Operation, kind: ResourceKind) -> bool {
        let named = self.principals.get(&*principal.name);
        let own = named.into_iter().flat_map(|grants| {
            let roles = grants.roles.iter().map(|role| &**role);
            roles.chain([&grants.own])
        });
        let of_key = principal.key.as_ref().and_then(|id| self.keys.get(id)?.narrowed.as_ref());
        let all = own.chain([&self.everyone]).chain(of_key).chain(self.given_roles(principal));
        let mut names = all.flat_map(|grants| grants.names(kind));
        self.allows(principal, operation, Resource::new(kind, ""))
            || names.any(|name| self.allows(principal, operation, Resource::new(kind, &name)))
    }

    /// The principal of an API key, by the hash of its secret. `None` for an unknown, disabled or
    /// expired key, a wrong secret, and a key of a disabled user: one answer, whatever failed.
    ///
    /// The hash is compared in constant time, also for an unknown key.
    pub fn verify_key(&self, id: KeyId, secret: SecretHash, now: Timestamp) -> Option<Principal> {
        let Some(known) = self.keys.get(&id) else {
            // Takes as long as a known key.
            let _ = core::hint::black_box(secret == SecretHash([0; 32]));
            return None;
        };
        let is_right = known.key.secret == secret;
        let is_live = known.key.is_enabled && known.key.expires.is_none_or(|expires| now < expires);
        (is_right && is_live && self.has_user(&known.principal)).then(|| Principal {
            key: Some(id),
            expires: known.key.expires,
            ..Principal::named(Arc::clone(&known.principal))
        })
    }

    /// Whether the credential that the principal presented is still accepted: its key exists and is
    /// enabled, its password is that of the user, its user is not disabled, and it has not expired.
    pub fn admits(&self, principal: &Principal, now: Timestamp) -> bool {
        let Principal { name, key, password, roles: _, expires } = principal;
        let is_of_user = |password: &ScramCredential| self.scram(name, password.mechanism) == Some(password);
        let is_of_key = |id: &KeyId| {
            let key = self.keys.get(id).filter(|key| key.key.is_enabled && key.principal == *name);
            key.is_some() && self.has_user(name)
        };
        let is_disabled = || {
            let user = self.principals.get(&**name).and_then(|grants| grants.user.as_ref());
            user.is_some_and(|user| !user.is_enabled)
        };
        expires.is_none_or(|expires| now < expires)
            && password.as_deref().is_none_or(is_of_user)
            && key.as_ref().map_or_else(|| !is_disabled(), is_of_key)
    }

    /// Whether this is an enabled user.
    pub fn has_user(&self, name: &str) -> bool {
        self.user(name).is_some()
    }

    /// The credential of an enabled user's password.
    pub fn scram(&self, user: &str, mechanism: ScramMechanism) -> Option<&ScramCredential> {
        self.user(user)?.scram.iter().find(|credential| credential.mechanism == mechanism)
    }

    /// The shape of most credentials of a mechanism. A server answers with it for a user without a
    /// credential, so that the answer does not reveal which users exist.
    pub fn usual_scram(&self, mechanism: ScramMechanism) -> ScramShape {
        self.usual_scram[mechanism as usize - 1]
    }

    /// The secret of the database; `None` until a server has given it one.
    pub fn secret(&self) -> Option<&DatabaseSecret> {
        self.secret.as_ref()
    }

    /// Whether there is any quota.
    pub fn has_quotas(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// The quota of a client of a user, with its holder. Of several, the first one in Kafka's order
    /// holds: that of the pair, of the user, of the client; each by name before the default.
    pub fn quota(&self, user: &str, client: &str, kind: QuotaKind) -> Option<(QuotaHolder, f64)> {
        let users = [Some(QuotaName::Named(user.into())), Some(QuotaName::Default), None];
        let clients = [Some(QuotaName::Named(client.into())), Some(QuotaName::Default), None];
        let mut entities = users.iter().flat_map(|user| {
            clients.iter().map(move |client| QuotaEntity { user: user.clone(), client: client.clone() })
        });
        entities.find_map(|entity| {
            let holder = QuotaHolder {
                user: entity.user.as_ref().map(|_| user.into()),
                client: entity.client.as_ref().map(|_| client.into()),
            };
            let value = self.quotas.get(&(entity, kind))?;
            Some((holder, value.get()))
        })
    }

    fn user(&self, name: &str) -> Option<&User> {
        self.principals.get(name)?.user.as_ref().filter(|user| user.is_enabled)
    }
}
