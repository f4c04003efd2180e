//! Entries as bytes. `docs/file-format.md` shows the same.

use alloc::string::String;
use alloc::vec::Vec;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{EntryKind, ModelId, Operation, ResourceKind, Timestamp};

use crate::change::AccessChange;
use crate::{
    AccessRule, ApiKey, DatabaseSecret, KeyId, QuotaEntity, QuotaKind, QuotaName, QuotaValue, RuleEffect, RulePattern,
    RuleSubject, ScramCredential, ScramMechanism, SecretHash, User,
};

const fn kind(number: u8) -> EntryKind {
    EntryKind { model: ModelId::SYSTEM, kind: number }
}

pub(crate) const USER_PUT: EntryKind = kind(1);
pub(crate) const USER_DROPPED: EntryKind = kind(2);
pub(crate) const KEY_PUT: EntryKind = kind(3);
pub(crate) const KEY_DROPPED: EntryKind = kind(4);
pub(crate) const ROLE_PUT: EntryKind = kind(5);
pub(crate) const ROLE_DROPPED: EntryKind = kind(6);
pub(crate) const RULE_ADDED: EntryKind = kind(7);
pub(crate) const RULE_REMOVED: EntryKind = kind(8);
pub(crate) const STATE_SET: EntryKind = kind(9);
pub(crate) const SECRET_PUT: EntryKind = kind(10);
pub(crate) const QUOTA_PUT: EntryKind = kind(11);
pub(crate) const TERM_BEGUN: EntryKind = kind(12);
pub(crate) const MEMBER_SET: EntryKind = kind(13);

/// The flags of a key.
const ENABLED: u8 = 1;
const EXPIRES: u8 = 2;
const NARROWED: u8 = 4;

impl AccessChange {
    /// The kind of its entry.
    pub(crate) const fn kind(&self) -> EntryKind {
        match self {
            AccessChange::UserPut { .. } => USER_PUT,
            AccessChange::UserDropped { .. } => USER_DROPPED,
            AccessChange::KeyPut { .. } => KEY_PUT,
            AccessChange::KeyDropped { .. } => KEY_DROPPED,
            AccessChange::RolePut { .. } => ROLE_PUT,
            AccessChange::RoleDropped { .. } => ROLE_DROPPED,
            AccessChange::RuleAdded { .. } => RULE_ADDED,
            AccessChange::RuleRemoved { .. } => RULE_REMOVED,
            AccessChange::StateSet { .. } => STATE_SET,
            AccessChange::SecretPut { .. } => SECRET_PUT,
            AccessChange::QuotaPut { .. } => QUOTA_PUT,
        }
    }

    /// Writes the body of its entry.
    pub(crate) fn encode(&self, out: &mut Encoder) {
        match self {
            AccessChange::UserPut { name, user } => put_user(name, user, out),
            AccessChange::UserDropped { name } | AccessChange::RoleDropped { name } => {
                out.raw(name.as_bytes());
            }
            AccessChange::KeyPut { id, key } => put_key(*id, key, out),
            AccessChange::KeyDropped { id } => {
                out.raw(id.as_str().as_bytes());
            }
            AccessChange::RolePut { name, rules } => put_role(name, rules, out),
            AccessChange::RuleAdded { subject, rule } | AccessChange::RuleRemoved { subject, rule } => {
                put_subject(subject, out);
                put_rule(rule, out);
            }
            AccessChange::StateSet { is_enabled } => {
                out.u8(u8::from(*is_enabled));
            }
            AccessChange::SecretPut { secret } => {
                out.raw(&secret.0);
            }
            AccessChange::QuotaPut { entity, kind, value } => put_quota(entity, *kind, *value, out),
        }
    }

    /// Reads the body of an entry of this kind.
    pub(crate) fn decode(kind: EntryKind, body: &[u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let change = match kind {
            USER_PUT => {
                let (name, user) = read_user(&mut from)?;
                AccessChange::UserPut { name, user }
            }
            USER_DROPPED => AccessChange::UserDropped { name: rest(&mut from)? },
            KEY_PUT => {
                let (id, key) = read_key(&mut from)?;
                AccessChange::KeyPut { id, key }
            }
            KEY_DROPPED => AccessChange::KeyDropped { id: read_id(&mut from)? },
            ROLE_PUT => {
                let (name, rules) = read_role(&mut from)?;
                AccessChange::RolePut { name, rules }
            }
            ROLE_DROPPED => AccessChange::RoleDropped { name: rest(&mut from)? },
            RULE_ADDED => AccessChange::RuleAdded { subject: read_subject(&mut from)?, rule: read_rule(&mut from)? },
            RULE_REMOVED => {
                AccessChange::RuleRemoved { subject: read_subject(&mut from)?, rule: read_rule(&mut from)? }
            }
            STATE_SET => AccessChange::StateSet { is_enabled: read_bool(&mut from)? },
            SECRET_PUT => AccessChange::SecretPut { secret: read_secret(&mut from)? },
            QUOTA_PUT => {
                let (entity, kind, value) = read_quota(&mut from)?;
                AccessChange::QuotaPut { entity, kind, value }
            }
            _ => return Err(unlike("a kind of entry that this program knows", &from)),
        };
        from.end()?;
        Ok(change)
    }
}

pub(crate) fn put_user(name: &str, user: &User, out: &mut Encoder) {
    out.u8(u8::from(user.is_enabled)).varint(user.roles.len() as u64);
    user.roles.iter().for_each(|role| {
        out.str(role);
    });
    out.varint(user.scram.len() as u64);
    for credential in &user.scram {
        let ScramCredential { mechanism, iterations, salt, stored_key, server_key } = credential;
        out.u8(*mechanism as u8).varint(u64::from(*iterations)).bytes(salt).bytes(stored_key).bytes(server_key);
    }
    out.raw(name.as_bytes());
}

pub(crate) fn read_user(from: &mut Decoder<'_>) -> Result<(String, User), CodecError> {
    let is_enabled = read_bool(from)?;
    let mut roles = Vec::new();
    for _ in 0..from.varint()? {
        roles.push(from.string()?);
    }
    let mut scram = Vec::new();
    for _ in 0..from.varint()? {
        let number = from.u8()?;
        let mechanism = ScramMechanism::ALL.into_iter().find(|mechanism| *mechanism as u8 == number);
        let mechanism = mechanism.ok_or(unlike("the number of a SCRAM mechanism", from))?;
        let iterations = from.varint_u32()?;
        let (salt, stored_key, server_key) = (from.bytes()?.to_vec(), from.bytes()?.to_vec(), from.bytes()?.to_vec());
        scram.push(ScramCredential { mechanism, iterations, salt, stored_key, server_key });
    }
    Ok((rest(from)?, User { is_enabled, roles, scram }))
}

pub(crate) fn put_key(id: KeyId, key: &ApiKey, out: &mut Encoder) {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags =
        flag(key.is_enabled, ENABLED) | flag(key.expires.is_some(), EXPIRES) | flag(key.rules.is_some(), NARROWED);
    out.raw(id.as_str().as_bytes()).raw(&key.secret.0).u8(flags);
    if let Some(expires) = key.expires {
        out.u64(expires.as_micros());
    }
    if let Some(rules) = &key.rules {
        put_rules(rules, out);
    }
    out.str(&key.principal).raw(key.note.as_bytes());
}

pub(crate) fn read_key(from: &mut Decoder<'_>) -> Result<(KeyId, ApiKey), CodecError> {
    let id = read_id(from)?;
    let secret = from.raw(32)?.try_into().map_err(|_| unlike("a hash", from))?;
    let flags = from.u8()?;
    if flags & !(ENABLED | EXPIRES | NARROWED) != 0 {
        return Err(unlike("the flags of a key", from));
    }
    let expires = if flags & EXPIRES == 0 { None } else { Some(Timestamp::from_micros(from.u64()?)) };
    let rules = if flags & NARROWED == 0 { None } else { Some(read_rules(from)?) };
    let (principal, note) = (from.string()?, rest(from)?);
    let is_enabled = flags & ENABLED != 0;
    Ok((id, ApiKey { secret: SecretHash(secret), principal, rules, expires, note, is_enabled }))
}

pub(crate) fn put_role(name: &str, rules: &[AccessRule], out: &mut Encoder) {
    put_rules(rules, out);
    out.raw(name.as_bytes());
}

pub(crate) fn read_role(from: &mut Decoder<'_>) -> Result<(String, Vec<AccessRule>), CodecError> {
    let rules = read_rules(from)?;
    Ok((rest(from)?, rules))
}

pub(crate) fn put_subject(subject: &RuleSubject, out: &mut Encoder) {
    match subject {
        RuleSubject::Everyone => out.u8(0),
        RuleSubject::Principal(name) => out.u8(1).str(name),
        RuleSubject::Role(name) => out.u8(2).str(name),
    };
}

pub(crate) fn read_subject(from: &mut Decoder<'_>) -> Result<RuleSubject, CodecError> {
    match from.u8()? {
        0 => Ok(RuleSubject::Everyone),
        1 => Ok(RuleSubject::Principal(from.string()?)),
        2 => Ok(RuleSubject::Role(from.string()?)),
        _ => Err(unlike("the holder of a rule", from)),
    }
}

pub(crate) fn put_rule(rule: &AccessRule, out: &mut Encoder) {
    let AccessRule { effect, kind, pattern, operation } = rule;
    out.u8(*effect as u8).u8(kind.number()).u8(operation.number());
    match pattern {
        RulePattern::Literal(name) => out.u8(0).str(name),
        RulePattern::Prefix(prefix) => out.u8(1).str(prefix),
        RulePattern::Any => out.u8(2),
    };
}

pub(crate) fn read_rule(from: &mut Decoder<'_>) -> Result<AccessRule, CodecError> {
    let effect = match from.u8()? {
        0 => RuleEffect::Allow,
        1 => RuleEffect::Deny,
        _ => return Err(unlike("the effect of a rule", from)),
    };
    let kind = ResourceKind::of_number(from.u8()?).ok_or(unlike("the kind of a resource", from))?;
    let operation = Operation::of_number(from.u8()?).ok_or(unlike("the number of an operation", from))?;
    let pattern = match from.u8()? {
        0 => RulePattern::Literal(from.string()?),
        1 => RulePattern::Prefix(from.string()?),
        2 => RulePattern::Any,
        _ => return Err(unlike("the pattern of a rule", from)),
    };
    Ok(AccessRule { effect, kind, pattern, operation })
}

fn put_rules(rules: &[AccessRule], out: &mut Encoder) {
    out.varint(rules.len() as u64);
    rules.iter().for_each(|rule| put_rule(rule, out));
}

fn read_rules(from: &mut Decoder<'_>) -> Result<Vec<AccessRule>, CodecError> {
    let mut rules = Vec::new();
    for _ in 0..from.varint()? {
        rules.push(read_rule(from)?);
    }
    Ok(rules)
}

fn read_id(from: &mut Decoder<'_>) -> Result<KeyId, CodecError> {
    let id = core::str::from_utf8(from.raw(10)?).ok().and_then(KeyId::parse);
    id.ok_or(unlike("the id of a key", from))
}

/// A value of 0 stands for no limit.
pub(crate) fn put_quota(entity: &QuotaEntity, kind: QuotaKind, value: Option<QuotaValue>, out: &mut Encoder) {
    out.u8(kind as u8).u64(value.map_or(0.0, QuotaValue::get).to_bits());
    for name in [&entity.user, &entity.client] {
        match name {
            None => out.u8(0),
            Some(QuotaName::Default) => out.u8(1),
            Some(QuotaName::Named(name)) => out.u8(2).str(name),
        };
    }
}

pub(crate) fn read_quota(from: &mut Decoder<'_>) -> Result<(QuotaEntity, QuotaKind, Option<QuotaValue>), CodecError> {
    let number = from.u8()?;
    let kind = QuotaKind::ALL.into_iter().find(|kind| *kind as u8 == number);
    let kind = kind.ok_or(unlike("the number of a kind of quotas", from))?;
    let value = f64::from_bits(from.u64()?);
    let value = match QuotaValue::new(value) {
        None if value != 0.0 => return Err(unlike("the value of a quota", from)),
        value => value,
    };
    let mut name = || match from.u8()? {
        0 => Ok(None),
        1 => Ok(Some(QuotaName::Default)),
        2 => Ok(Some(QuotaName::Named(from.string()?))),
        _ => Err(unlike("the name of a quota", from)),
    };
    let entity = QuotaEntity { user: name()?, client: name()? };
    Ok((entity, kind, value))
}

pub(crate) fn read_secret(from: &mut Decoder<'_>) -> Result<DatabaseSecret, CodecError> {
    from.raw(32)?.try_into().map(DatabaseSecret).map_err(|_| unlike("a secret", from))
}

pub(crate) fn read_bool(from: &mut Decoder<'_>) -> Result<bool, CodecError> {
    match from.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(unlike("0 or 1", from)),
    }
}

fn rest(from: &mut Decoder<'_>) -> Result<String, CodecError> {
    core::str::from_utf8(from.rest()).map(String::from).map_err(|_| unlike("UTF-8 text", from))
}

pub(crate) fn unlike(expected: &'static str, from: &Decoder<'_>) -> CodecError {
    CodecError { expected, bytes_left: from.clone().rest().len() }
}
