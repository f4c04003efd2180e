//! Principals, credentials, roles and access rules, as a model over the log.
//!
//! ```text
//! Command ──decide──▶ is the user known? is the limit kept? ──▶ one entry a change: the whole user,
//!                     key or role, or one rule                    │
//!                                                                 apply
//!                                                                 ▼
//!                     RuleSet ◀──System::rule_set── System: users, keys, roles, rules
//!                        └── verifies keys, and allows or denies an operation on a resource
//! ```
//!
//! * [`Command`]: the requests. [`Reply`] and [`Refusal`]: the responses.
//! * [`AccessRule`]: allows or denies an [`Operation`](quire_model::Operation) on the resources of
//!   a [`RulePattern`]. A rule belongs to a [`RuleSubject`]: a principal, a role, or everyone.
//! * [`System`]: the state. [`RuleSet`]: the same, compiled for checks. It never changes: a reader
//!   swaps the whole set.
//! * [`KeyText`]: the text of an API key, with its checksum.
//!
//! A denial wins over every permission. Without a rule, everything is denied. Until access control
//! is enabled, the rules have no effect.
//!
//! A leader of a cluster begins its term with an entry of this model, [`TermBegun`], and
//! changes its members with others, [`MemberRecord`].
//!
//! Random numbers and hashes come from outside: the model receives the id of a key and the hash of
//! its secret, never the secret.

#![no_std]

extern crate alloc;

// The vocabulary.
mod limits;
mod name;

mod key;
mod quota;
mod role;
mod rule;
mod rule_text;
mod scram;

mod command;
mod refusal;

// Entries as bytes, and the state.
mod change;
mod codec;
mod state;

// In the order of a write, then of a check.
mod decide;

mod checkpoint;

mod member;
mod term;

mod grants;
mod rule_set;

mod model;

pub use command::{Command, NewKey, Reply};
pub use key::{ApiKey, KEY_PREFIX, KeyId, KeyText, NotAKey, SecretHash};
pub use limits::{
    KEY_RULES_MAX, KEYS_MAX, NAME_BYTES_MAX, NOTE_BYTES_MAX, QUOTAS_MAX, ROLE_RULES_MAX, ROLES_MAX, RULES_MAX,
    USER_ROLES_MAX, USERS_MAX,
};
pub use member::{
    ClusterMember, MEMBER_ADDRESS_BYTES_MAX, MemberAddresses, MemberRecord, MemberRole, member_record_kind,
};
pub use name::{AccessNameProblem, is_access_name};
pub use quota::{QuotaEntity, QuotaKind, QuotaName, QuotaValue};
pub use refusal::{AccessLimit, Refusal};
pub use role::BuiltInRole;
pub use rule::{AccessRule, RuleEffect, RulePattern, RuleProblem, RuleSubject};
pub use rule_set::{Principal, QuotaHolder, RuleSet};
pub use rule_text::NotARule;
pub use scram::{
    DatabaseSecret, SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_SALT_BYTES, SCRAM_SALT_BYTES_MAX,
    ScramCredential, ScramMechanism, ScramShape,
};
pub use state::{System, User};
pub use term::{TermBegun, term_begun_kind};
