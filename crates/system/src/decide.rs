//! Decides the commands of one commit, and turns accepted ones into changes.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::change::AccessChange;
use crate::name::check_name;
use crate::{
    AccessLimit, AccessRule, ApiKey, BuiltInRole, Command, KEY_RULES_MAX, KEYS_MAX, KeyId, NOTE_BYTES_MAX, NewKey,
    QUOTAS_MAX, ROLE_RULES_MAX, ROLES_MAX, RULES_MAX, Refusal, RuleSubject, ScramMechanism, System, USER_ROLES_MAX,
    USERS_MAX, User,
};

impl System {
    /// The change that a command makes; `None` when it changes nothing.
    pub(crate) fn decide_command(&self, command: &Command<'_>) -> Result<Option<AccessChange>, Refusal> {
        match command {
            Command::CreateUser { user, roles } => {
                check_name(user).map_err(Refusal::InvalidName)?;
                if self.users.contains_key(*user) {
                    return Err(Refusal::UserExists { user: (*user).to_string() });
                }
                limit(self.users.size() < USERS_MAX, AccessLimit::Users)?;
                let roles = self.known_roles(roles)?;
                Ok(Some(put_user(user, User { is_enabled: true, roles, scram: Vec::new() })))
            }
            Command::SetRoles { user, roles } => {
                let roles = self.known_roles(roles)?;
                self.alter_user(user, |known| known.roles = roles)
            }
            Command::EnableUser { user, is_enabled } => self.alter_user(user, |known| known.is_enabled = *is_enabled),
            Command::DropUser { user } => {
                self.known_user(user)?;
                Ok(Some(AccessChange::UserDropped { name: (*user).to_string() }))
            }
            Command::CreateKey(new) => self.create_key(new),
            Command::EnableKey { key: id, is_enabled } => {
                let known = self.known_key(*id)?;
                let key = ApiKey { is_enabled: *is_enabled, ..known.clone() };
                Ok((key != *known).then_some(AccessChange::KeyPut { id: *id, key }))
            }
            Command::DropKey { key } => {
                self.known_key(*key)?;
                Ok(Some(AccessChange::KeyDropped { id: *key }))
            }
            Command::PutScram { user, credential } => {
                if !credential.is_valid() {
                    return Err(Refusal::InvalidCredential);
                }
                self.alter_user(user, |known| {
                    without_mechanism(known, credential.mechanism);
                    known.scram.push((*credential).clone());
                    known.scram.sort();
                })
            }
            Command::DropScram { user, mechanism } => {
                self.alter_user(user, |known| without_mechanism(known, *mechanism))
            }
            Command::PutRole { role, rules } => self.put_role(role, rules),
            Command::DropRole { role } => self.drop_role(role),
            Command::AddRule { subject, rule } => {
                self.check_subject(subject)?;
                rule.check().map_err(Refusal::InvalidRule)?;
                let pair = ((*subject).clone(), (*rule).clone());
                if self.rules.contains(&pair) {
                    return Ok(None);
                }
                limit(self.rules.size() < RULES_MAX, AccessLimit::Rules)?;
                Ok(Some(AccessChange::RuleAdded { subject: pair.0, rule: pair.1 }))
            }
            Command::RemoveRule { subject, rule } => {
                let pair = ((*subject).clone(), (*rule).clone());
                let is_known = self.rules.contains(&pair);
                Ok(is_known.then_some(AccessChange::RuleRemoved { subject: pair.0, rule: pair.1 }))
            }
            Command::PutSecret { secret } => {
                Ok(self.secret.is_none().then(|| AccessChange::SecretPut { secret: secret.clone() }))
            }
            Command::PutQuota { entity, kind, value } => {
                entity.check().map_err(Refusal::InvalidName)?;
                let key = ((*entity).clone(), *kind);
                let known = self.quotas.get(&key);
                if known.copied() == *value {
                    return Ok(None);
                }
                limit(known.is_some() || self.quotas.size() < QUOTAS_MAX, AccessLimit::Quotas)?;
                Ok(Some(AccessChange::QuotaPut { entity: key.0, kind: *kind, value: *value }))
            }
            Command::Enable if self.is_enabled => Err(Refusal::AlreadyEnabled),
            Command::Enable => {
                let is_admin = |user: &User| user.is_enabled && has_admin(user);
                let has_admin = self.users().any(|(_, user)| is_admin(user));
                if has_admin { Ok(Some(AccessChange::StateSet { is_enabled: true })) } else { Err(Refusal::NoAdmin) }
            }
            Command::Disable if !self.is_enabled => Err(Refusal::NotEnabled),
            Command::Disable => Ok(Some(AccessChange::StateSet { is_enabled: false })),
        }
    }

    fn create_key(&self, new: &NewKey<'_>) -> Result<Option<AccessChange>, Refusal> {
        let NewKey { id, secret, user, rules, expires, note } = new;
        let known = self.known_user(user)?;
        if self.keys.contains_key(id) {
            return Err(Refusal::KeyExists { key: *id });
        }
        limit(self.keys.size() < KEYS_MAX, AccessLimit::Keys)?;
        limit(note.len() <= NOTE_BYTES_MAX, AccessLimit::NoteBytes)?;
        if let Some(rules) = rules {
            limit(rules.len() <= KEY_RULES_MAX, AccessLimit::RulesOfKey)?;
            check_rules(rules)?;
        }
        if expires.is_none() && !has_admin(known) {
            return Err(Refusal::ExpiryRequired { user: (*user).to_string() });
        }
        let key = ApiKey {
            secret: *secret,
            principal: (*user).to_string(),
            rules: rules.map(<[AccessRule]>::to_vec),
            expires: *expires,
            note: (*note).to_string(),
            is_enabled: true,
        };
        Ok(Some(AccessChange::KeyPut { id: *id, key }))
    }

    fn put_role(&self, role: &str, rules: &[AccessRule]) -> Result<Option<AccessChange>, Refusal> {
        check_name(role).map_err(Refusal::InvalidName)?;
        check_own(role)?;
        limit(rules.len() <= ROLE_RULES_MAX, AccessLimit::RulesOfRole)?;
        check_rules(rules)?;
        match self.roles.get(role) {
            Some(known) if known == rules => return Ok(None),
            Some(_) => {}
            None => limit(self.roles.size() < ROLES_MAX, AccessLimit::Roles)?,
        }
        Ok(Some(AccessChange::RolePut { name: role.to_string(), rules: rules.to_vec() }))
    }

    fn drop_role(&self, role: &str) -> Result<Option<AccessChange>, Refusal> {
        check_own(role)?;
        self.check_role(role)?;
        match self.users().find(|(_, user)| user.roles.iter().any(|own| own == role)) {
            Some((user, _)) => Err(Refusal::RoleInUse { role: role.to_string(), user: user.to_string() }),
            None => Ok(Some(AccessChange::RoleDropped { name: role.to_string() })),
        }
    }

    fn alter_user(&self, name: &str, alter: impl FnOnce(&mut User)) -> Result<Option<AccessChange>, Refusal> {
        let known = self.known_user(name)?;
        let mut user = known.clone();
        alter(&mut user);
        Ok((user != *known).then(|| put_user(name, user)))
    }

    fn known_user(&self, user: &str) -> Result<&User, Refusal> {
        self.user(user).ok_or_else(|| Refusal::UnknownUser { user: user.to_string() })
    }

    fn known_key(&self, key: KeyId) -> Result<&ApiKey, Refusal> {
        self.key(key).ok_or(Refusal::UnknownKey { key })
    }

    /// The roles in order, each once.
    fn known_roles(&self, roles: &[&str]) -> Result<Vec<String>, Refusal> {
        limit(roles.len() <= USER_ROLES_MAX, AccessLimit::RolesOfUser)?;
        roles.iter().try_for_each(|role| self.check_role(role))?;
        let mut roles: Vec<String> = roles.iter().map(|role| (*role).to_string()).collect();
        roles.sort();
        roles.dedup();
        Ok(roles)
    }

    fn check_role(&self, role: &str) -> Result<(), Refusal> {
        if self.has_role(role) { Ok(()) } else { Err(Refusal::UnknownRole { role: role.to_string() }) }
    }

    /// A principal need not be a user: certificates and tokens name principals, too.
    fn check_subject(&self, subject: &RuleSubject) -> Result<(), Refusal> {
        match subject {
            RuleSubject::Everyone => Ok(()),
            RuleSubject::Principal(name) => check_name(name).map_err(Refusal::InvalidName),
            RuleSubject::Role(role) => {
                check_own(role)?;
                self.check_role(role)
            }
        }
    }
}

fn put_user(name: &str, user: User) -> AccessChange {
    AccessChange::UserPut { name: name.to_string(), user }
}

fn without_mechanism(user: &mut User, mechanism: ScramMechanism) {
    user.scram.retain(|credential| credential.mechanism != mechanism);
}

fn has_admin(user: &User) -> bool {
    user.roles.iter().any(|role| role == BuiltInRole::Admin.name())
}

fn check_own(role: &str) -> Result<(), Refusal> {
    match BuiltInRole::of_name(role) {
        Some(_) => Err(Refusal::BuiltInRole { role: role.to_string() }),
        None => Ok(()),
    }
}

fn check_rules(rules: &[AccessRule]) -> Result<(), Refusal> {
    rules.iter().try_for_each(AccessRule::check).map_err(Refusal::InvalidRule)
}

fn limit(is_kept: bool, limit: AccessLimit) -> Result<(), Refusal> {
    if is_kept { Ok(()) } else { Err(Refusal::LimitExceeded(limit)) }
}
