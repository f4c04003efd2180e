//! Users, API keys, roles and access rules.

use std::fmt;

use quire::system::{AccessRule, BuiltInRole, KeyText, System};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AccessChangeReply {
    /// Whether anything changed.
    pub changed: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AccessSelfReply {
    /// Whether access control is enabled. Otherwise every client may do everything.
    pub enabled: bool,
    /// The principal of the client.
    pub principal: Option<String>,
    /// The id of the API key that the client presented.
    pub key: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AccessCheckReply {
    pub principal: String,
    pub operation: String,
    pub kind: String,
    pub name: String,
    pub allowed: bool,
    /// The reason, such as `no rule allows it`.
    pub because: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UserReply {
    pub user: String,
    pub enabled: bool,
    pub roles: Vec<String>,
    /// The mechanisms for which the user has a password.
    pub passwords: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ApiKeyReply {
    pub id: String,
    pub user: String,
    pub enabled: bool,
    /// The time from which on the key is refused; `null` for a key that does not expire.
    pub expires_ms: Option<u64>,
    /// The rules that narrow the rights of the user; `null` when none do.
    pub rules: Option<Vec<String>>,
    pub note: String,
}

/// A new key. Its text is shown this once, and never by `Debug`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct NewKeyReply {
    pub id: String,
    pub user: String,
    /// The whole key, with its secret. It is shown only once.
    pub key: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RoleReply {
    pub role: String,
    /// Whether the role exists in every database.
    pub built_in: bool,
    pub rules: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RuleReply {
    /// The holder: `principal ann`, `role clerk` or `everyone`.
    pub subject: String,
    /// The rule, such as `allow read on topic orders`.
    pub rule: String,
}

impl NewKeyReply {
    /// The key of this user.
    pub fn of(key: KeyText, user: &str) -> Self {
        NewKeyReply { id: key.id().to_string(), user: user.to_owned(), key: key.reveal().to_owned() }
    }
}

impl fmt::Debug for NewKeyReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKeyReply").field("id", &self.id).field("user", &self.user).finish_non_exhaustive()
    }
}

fn texts<'a>(rules: impl IntoIterator<Item = &'a AccessRule>) -> Vec<String> {
    rules.into_iter().map(ToString::to_string).collect()
}

/// The users, in the order of their names.
pub fn users(system: &System) -> Vec<UserReply> {
    let user = |(name, user): (&str, &quire::system::User)| UserReply {
        user: name.to_owned(),
        enabled: user.is_enabled,
        roles: user.roles.clone(),
        passwords: user.scram.iter().map(|credential| credential.mechanism.name().to_owned()).collect(),
    };
    system.users().map(user).collect()
}

/// The API keys, in the order of their ids, without their secrets.
pub fn keys(system: &System) -> Vec<ApiKeyReply> {
    let key = |(id, key): (quire::system::KeyId, &quire::system::ApiKey)| ApiKeyReply {
        id: id.to_string(),
        user: key.principal.clone(),
        enabled: key.is_enabled,
        expires_ms: key.expires.map(quire::Timestamp::as_millis),
        rules: key.rules.as_ref().map(texts),
        note: key.note.clone(),
    };
    system.keys().map(key).collect()
}

/// The roles: first the built-in ones, then the others in the order of their names.
pub fn roles(system: &System) -> Vec<RoleReply> {
    let built_in = BuiltInRole::ALL.map(|role| RoleReply {
        role: role.name().to_owned(),
        built_in: true,
        rules: texts(&role.rules()),
    });
    let own =
        system.roles().map(|(role, rules)| RoleReply { role: role.to_owned(), built_in: false, rules: texts(rules) });
    built_in.into_iter().chain(own).collect()
}

/// The rules of principals, roles and everyone.
pub fn rules(system: &System) -> Vec<RuleReply> {
    system.rules().map(|(subject, rule)| RuleReply { subject: subject.to_string(), rule: rule.to_string() }).collect()
}
