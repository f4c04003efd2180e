//! Why a command is refused, with the facts that conflict.

use alloc::string::String;
use core::fmt;

use crate::{
    AccessNameProblem, KEY_RULES_MAX, KEYS_MAX, KeyId, NOTE_BYTES_MAX, QUOTAS_MAX, ROLE_RULES_MAX, ROLES_MAX,
    RULES_MAX, RuleProblem, SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_SALT_BYTES_MAX, USER_ROLES_MAX,
    USERS_MAX,
};

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The name of a user or a role is invalid.
    InvalidName(AccessNameProblem),
    /// A user of this name exists.
    UserExists {
        /// The name.
        user: String,
    },
    /// No user has this name.
    UnknownUser {
        /// The name.
        user: String,
    },
    /// No role has this name.
    UnknownRole {
        /// The name.
        role: String,
    },
    /// The role is built in: its rules can't be changed, and it can't be dropped.
    BuiltInRole {
        /// The name.
        role: String,
    },
    /// A user has the role.
    RoleInUse {
        /// The role.
        role: String,
        /// A user that has it.
        user: String,
    },
    /// A key of this id exists.
    KeyExists {
        /// The id.
        key: KeyId,
    },
    /// No key has this id.
    UnknownKey {
        /// The id.
        key: KeyId,
    },
    /// A key without expiry belongs to a user that is no administrator.
    ExpiryRequired {
        /// The user.
        user: String,
    },
    /// A rule is invalid.
    InvalidRule(RuleProblem),
    /// The lengths or the iterations of a credential are invalid.
    InvalidCredential,
    /// A limit would be exceeded.
    LimitExceeded(AccessLimit),
    /// Access control is enabled already.
    AlreadyEnabled,
    /// Access control is not enabled.
    NotEnabled,
    /// No enabled user has the role `admin`: no client could change the rules.
    NoAdmin,
    /// A client of a server may not disable access control.
    OwnerOnly,
    /// The audit event of the change is refused, so the change is refused.
    Unaudited {
        /// Why the event is refused.
        reason: String,
    },
}

/// A limit of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessLimit {
    /// [`USERS_MAX`].
    Users,
    /// [`USER_ROLES_MAX`].
    RolesOfUser,
    /// [`KEYS_MAX`].
    Keys,
    /// [`KEY_RULES_MAX`].
    RulesOfKey,
    /// [`NOTE_BYTES_MAX`].
    NoteBytes,
    /// [`ROLES_MAX`].
    Roles,
    /// [`ROLE_RULES_MAX`].
    RulesOfRole,
    /// [`RULES_MAX`].
    Rules,
    /// [`QUOTAS_MAX`].
    Quotas,
}

impl AccessLimit {
    /// The limit.
    pub const fn max(self) -> usize {
        match self {
            AccessLimit::Users => USERS_MAX,
            AccessLimit::RolesOfUser => USER_ROLES_MAX,
            AccessLimit::Keys => KEYS_MAX,
            AccessLimit::RulesOfKey => KEY_RULES_MAX,
            AccessLimit::NoteBytes => NOTE_BYTES_MAX,
            AccessLimit::Roles => ROLES_MAX,
            AccessLimit::RulesOfRole => ROLE_RULES_MAX,
            AccessLimit::Rules => RULES_MAX,
            AccessLimit::Quotas => QUOTAS_MAX,
        }
    }

    /// The limited thing.
    pub const fn name(self) -> &'static str {
        match self {
            AccessLimit::Users => "users",
            AccessLimit::RolesOfUser => "roles per user",
            AccessLimit::Keys => "API keys",
            AccessLimit::RulesOfKey => "rules per API key",
            AccessLimit::NoteBytes => "bytes per note",
            AccessLimit::Roles => "roles",
            AccessLimit::RulesOfRole => "rules per role",
            AccessLimit::Rules => "access rules",
            AccessLimit::Quotas => "quotas",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::InvalidName(problem) => write!(f, "invalid name of a user or role: it {problem}"),
            Refusal::UserExists { user } => write!(f, "the user {user} already exists"),
            Refusal::UnknownUser { user } => write!(f, "unknown user {user}; create the user first"),
            Refusal::UnknownRole { role } => write!(f, "unknown role {role}; create the role first"),
            Refusal::BuiltInRole { role } => {
                write!(f, "the role {role} is built in and can't be changed; create a role of another name")
            }
            Refusal::RoleInUse { role, user } => {
                write!(f, "the role {role} is in use by user {user}; change the roles of its users first")
            }
            Refusal::KeyExists { key } => write!(f, "the API key {key} already exists"),
            Refusal::UnknownKey { key } => write!(f, "unknown API key {key}"),
            Refusal::ExpiryRequired { user } => {
                write!(f, "an API key of user {user} must expire: only keys of administrators may have no expiry")
            }
            Refusal::InvalidRule(problem) => write!(f, "invalid access rule: {problem}"),
            Refusal::InvalidCredential => write!(
                f,
                "invalid SCRAM credential: it must have {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX} iterations, a salt of 1 to {SCRAM_SALT_BYTES_MAX} bytes, and keys as long as the hash"
            ),
            Refusal::LimitExceeded(limit) => write!(f, "the limit of {} {} is exceeded", limit.max(), limit.name()),
            Refusal::AlreadyEnabled => f.write_str("access control is already enabled"),
            Refusal::NotEnabled => f.write_str("access control is not enabled"),
            Refusal::NoAdmin => {
                f.write_str("no enabled user has the role admin; create one before you enable access control")
            }
            Refusal::OwnerOnly => f.write_str(
                "only the owner of the directory can disable access control; use a program that opens the directory",
            ),
            Refusal::Unaudited { reason } => write!(f, "the audit event of the change is refused: {reason}"),
        }
    }
}

impl core::error::Error for Refusal {}
