//! A change of the state: the meaning of one entry.

use alloc::string::String;
use alloc::vec::Vec;

use crate::{AccessRule, ApiKey, DatabaseSecret, KeyId, QuotaEntity, QuotaKind, QuotaValue, RuleSubject, User};

/// What an entry changes. An entry holds the whole new value of its user, key or role, so the state
/// follows from the last entry of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessChange {
    UserPut { name: String, user: User },
    UserDropped { name: String },
    KeyPut { id: KeyId, key: ApiKey },
    KeyDropped { id: KeyId },
    RolePut { name: String, rules: Vec<AccessRule> },
    RoleDropped { name: String },
    RuleAdded { subject: RuleSubject, rule: AccessRule },
    RuleRemoved { subject: RuleSubject, rule: AccessRule },
    StateSet { is_enabled: bool },
    SecretPut { secret: DatabaseSecret },
    QuotaPut { entity: QuotaEntity, kind: QuotaKind, value: Option<QuotaValue> },
}
