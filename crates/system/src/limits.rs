//! The limits of the model. Each is checked in `decide`, and the refusal names it.

/// Longest name of a user, a role or a resource in a rule, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The most users.
pub const USERS_MAX: usize = 100_000;

/// The most roles of one user.
pub const USER_ROLES_MAX: usize = 32;

/// The most API keys.
pub const KEYS_MAX: usize = 100_000;

/// The most rules that narrow one key.
pub const KEY_RULES_MAX: usize = 100;

/// Longest note of a key, in bytes.
pub const NOTE_BYTES_MAX: usize = 1_024;

/// The most roles, without the built-in ones.
pub const ROLES_MAX: usize = 1_000;

/// The most rules of one role.
pub const ROLE_RULES_MAX: usize = 1_000;

/// The most quotas.
pub const QUOTAS_MAX: usize = 10_000;

/// The most rules of principals, roles and everyone together.
pub const RULES_MAX: usize = 100_000;
