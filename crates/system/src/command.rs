//! The requests, and the replies to accepted ones.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use quire_model::Timestamp;

use crate::{
    AccessRule, DatabaseSecret, KeyId, QuotaEntity, QuotaKind, QuotaValue, RuleSubject, ScramCredential,
    ScramMechanism, SecretHash,
};

/// A change of users, credentials, roles or rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<'c> {
    /// Creates a user.
    CreateUser {
        /// Its name.
        user: &'c str,
        /// Its roles.
        roles: &'c [&'c str],
    },
    /// Replaces the roles of a user.
    SetRoles {
        /// The user.
        user: &'c str,
        /// The new roles.
        roles: &'c [&'c str],
    },
    /// Enables or disables a user. A disabled user is denied everything.
    EnableUser {
        /// The user.
        user: &'c str,
        /// Whether it is enabled.
        is_enabled: bool,
    },
    /// Drops a user with its keys, credentials and rules.
    DropUser {
        /// The user.
        user: &'c str,
    },
    /// Creates an API key of a user.
    CreateKey(NewKey<'c>),
    /// Enables or disables a key.
    EnableKey {
        /// The key.
        key: KeyId,
        /// Whether it is accepted.
        is_enabled: bool,
    },
    /// Drops a key.
    DropKey {
        /// The key.
        key: KeyId,
    },
    /// Gives a user the credential of a password, in place of an earlier one of the same mechanism.
    PutScram {
        /// The user.
        user: &'c str,
        /// The credential.
        credential: &'c ScramCredential,
    },
    /// Drops the credential of a password.
    DropScram {
        /// The user.
        user: &'c str,
        /// Its mechanism.
        mechanism: ScramMechanism,
    },
    /// Creates a role, or replaces its rules.
    PutRole {
        /// The role.
        role: &'c str,
        /// Its rules.
        rules: &'c [AccessRule],
    },
    /// Drops a role that no user has, with the rules that were added to it.
    DropRole {
        /// The role.
        role: &'c str,
    },
    /// Adds a rule. A rule that exists stays as it is.
    AddRule {
        /// Its holder.
        subject: &'c RuleSubject,
        /// The rule.
        rule: &'c AccessRule,
    },
    /// Removes a rule, if it exists.
    RemoveRule {
        /// Its holder.
        subject: &'c RuleSubject,
        /// The rule.
        rule: &'c AccessRule,
    },
    /// Gives the database a secret, from which servers make up salts. A secret that exists stays.
    PutSecret {
        /// Random bytes.
        secret: DatabaseSecret,
    },
    /// Sets a quota, or removes it.
    PutQuota {
        /// Its holders.
        entity: &'c QuotaEntity,
        /// What it limits.
        kind: QuotaKind,
        /// The value per second; `None` for no limit.
        value: Option<QuotaValue>,
    },
    /// Enables access control, which needs an enabled user with the role `admin`.
    Enable,
    /// Disables access control. Users, keys and rules stay, without effect.
    Disable,
}

/// A new API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey<'c> {
    /// Its id.
    pub id: KeyId,
    /// The hash of its secret.
    pub secret: SecretHash,
    /// The user as which its holder acts.
    pub user: &'c str,
    /// Rules that also have to allow an operation. `None` leaves the user's own rights.
    pub rules: Option<&'c [AccessRule]>,
    /// The time from which on the key is refused. Only keys of administrators may have none.
    pub expires: Option<Timestamp>,
    /// A remark.
    pub note: &'c str,
}

/// The reply to an accepted command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Whether the command changed anything.
    pub is_changed: bool,
}

impl Command<'_> {
    /// The name of the operation, as the audit store has it.
    pub const fn operation(&self) -> &'static str {
        match self {
            Command::CreateUser { .. } => "create_user",
            Command::SetRoles { .. } => "set_roles",
            Command::EnableUser { is_enabled: true, .. } => "enable_user",
            Command::EnableUser { is_enabled: false, .. } => "disable_user",
            Command::DropUser { .. } => "drop_user",
            Command::CreateKey(_) => "create_key",
            Command::EnableKey { is_enabled: true, .. } => "enable_key",
            Command::EnableKey { is_enabled: false, .. } => "disable_key",
            Command::DropKey { .. } => "drop_key",
            Command::PutScram { .. } => "put_scram",
            Command::DropScram { .. } => "drop_scram",
            Command::PutRole { .. } => "put_role",
            Command::DropRole { .. } => "drop_role",
            Command::AddRule { .. } => "add_rule",
            Command::RemoveRule { .. } => "remove_rule",
            Command::PutSecret { .. } => "put_secret",
            Command::PutQuota { .. } => "put_quota",
            Command::Enable => "enable_access",
            Command::Disable => "disable_access",
        }
    }

    /// What the command changes, as the audit store has it: no secret, and no hash of one.
    pub fn thing(&self) -> String {
        let joined = |rules: &[AccessRule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Command::CreateUser { user, roles } | Command::SetRoles { user, roles } => {
                format!("user {user}: roles {}", roles.join(", "))
            }
            Command::EnableUser { user, .. } | Command::DropUser { user } => format!("user {user}"),
            Command::CreateKey(NewKey { id, user, .. }) => format!("key {id} of user {user}"),
            Command::EnableKey { key, .. } | Command::DropKey { key } => format!("key {key}"),
            Command::PutScram { user, credential } => format!("{} of user {user}", credential.mechanism.name()),
            Command::DropScram { user, mechanism } => format!("{} of user {user}", mechanism.name()),
            Command::PutRole { role, rules } => format!("role {role}: {}", joined(rules)),
            Command::DropRole { role } => format!("role {role}"),
            Command::AddRule { subject, rule } | Command::RemoveRule { subject, rule } => format!("{subject}: {rule}"),
            Command::PutSecret { .. } => "secret of the database".to_string(),
            Command::PutQuota { entity, kind, value: Some(value) } => {
                format!("{} of {entity}: {}", kind.name(), value.get())
            }
            Command::PutQuota { entity, kind, value: None } => format!("{} of {entity}: none", kind.name()),
            Command::Enable | Command::Disable => "access control".to_string(),
        }
    }
}
