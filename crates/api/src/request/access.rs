//! The JSON form of changes of users, API keys, roles and access rules. Rules are text, such as
//! `allow read on topic orders`.

use std::fmt;
use std::time::Duration;

use quire::system::{AccessRule, Command, KeyId, Principal, RuleSubject, SCRAM_ITERATIONS_MIN};
use quire::{AccessControl, Error, ErrorKind, NewApiKey, NewPassword, Operation, Resource, ResourceKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::bytes::{ParsedText, Text};
use crate::reply::{AccessChangeReply, AccessCheckReply, NewKeyReply};

/// Creates the first administrator, and enables access control.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitAccess<'r> {
    #[serde(borrow)]
    user: Text<'r>,
}

/// Creates a user.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUserRequest<'r> {
    #[serde(borrow)]
    user: Text<'r>,
    #[serde(borrow, default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    roles: Vec<Text<'r>>,
}

/// Changes a user.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserChange<'r> {
    /// Its new roles.
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    roles: Option<Vec<Text<'r>>>,
    /// A disabled user is denied everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
}

/// Creates an API key.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKeyRequest<'r> {
    #[serde(borrow)]
    user: Text<'r>,
    /// The time until the key expires. Only keys of users with the role `admin` may have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime_ms: Option<u64>,
    /// Rules that narrow the rights of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<Vec<ParsedText<AccessRule>>>,
    #[serde(borrow)]
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<Text<'r>>,
}

/// Changes an API key.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyChange {
    /// A disabled key is refused.
    enabled: bool,
}

/// Creates a role, or replaces its rules.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoleRequest {
    rules: Vec<ParsedText<AccessRule>>,
}

/// A rule and its holder: `principal ann`, `role clerk` or `everyone`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleRequest {
    subject: ParsedText<RuleSubject>,
    rule: ParsedText<AccessRule>,
}

/// Gives a user a password. `Debug` does not show it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordRequest<'r> {
    /// 1 to 1,024 printable ASCII characters. It does not begin with `qk_`.
    #[serde(borrow)]
    password: Text<'r>,
    /// Iterations of PBKDF2, 4,096 to 16,384. Default: 4,096.
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
}

/// Asks whether the rules allow a principal an operation.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessCheckRequest<'r> {
    /// A user, or the name from a certificate or a token.
    #[serde(borrow)]
    principal: Text<'r>,
    /// Roles that its token gives it, besides those of the user.
    #[serde(borrow, default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    roles: Vec<Text<'r>>,
    /// The operation, such as `read`.
    #[serde(borrow)]
    operation: Text<'r>,
    /// The kind of the resource, such as `topic`.
    #[serde(borrow)]
    kind: Text<'r>,
    /// The name of the resource.
    #[serde(borrow)]
    name: Text<'r>,
}

impl<'r> InitAccess<'r> {
    /// An administrator of this name.
    pub fn new(user: impl Into<Text<'r>>) -> Self {
        InitAccess { user: user.into() }
    }

    /// Carries out the request.
    ///
    /// # Errors
    /// Those of [`AccessControl::init`].
    pub fn apply(&self, access: &AccessControl<'_>) -> Result<NewKeyReply, Error> {
        Ok(NewKeyReply::of(access.init(&self.user)?, &self.user))
    }
}

impl<'r> NewUserRequest<'r> {
    /// A user with these roles.
    pub fn new(user: impl Into<Text<'r>>, roles: impl IntoIterator<Item = &'r str>) -> Self {
        NewUserRequest { user: user.into(), roles: roles.into_iter().map(Text::from).collect() }
    }

    /// Carries out the request.
    ///
    /// # Errors
    /// Those of [`AccessControl::create_user`].
    pub fn apply(&self, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
        let roles: Vec<&str> = self.roles.iter().map(|role| &**role).collect();
        change(access, &[Command::CreateUser { user: &self.user, roles: &roles }])
    }
}

impl<'r> UserChange<'r> {
    setters! {
        /// Enables or disables the user.
        enabled: bool;
    }

    /// A change of nothing yet.
    pub fn new() -> Self {
        UserChange { roles: None, enabled: None }
    }

    /// Replaces the roles of the user.
    #[must_use]
    pub fn roles(self, roles: impl IntoIterator<Item = &'r str>) -> Self {
        UserChange { roles: Some(roles.into_iter().map(Text::from).collect()), ..self }
    }

    /// Carries out the request on this user.
    ///
    /// # Errors
    /// [`Failure::invalid`] when it changes nothing; those of [`AccessControl::change`] otherwise.
    pub fn apply(&self, user: &str, access: &AccessControl<'_>) -> Result<Result<AccessChangeReply, Error>, Failure> {
        let roles: Option<Vec<&str>> = self.roles.as_ref().map(|roles| roles.iter().map(|role| &**role).collect());
        let roles = roles.as_ref().map(|roles| Command::SetRoles { user, roles });
        let enabled = self.enabled.map(|is_enabled| Command::EnableUser { user, is_enabled });
        let commands: Vec<Command<'_>> = roles.into_iter().chain(enabled).collect();
        if commands.is_empty() {
            return Err(Failure::invalid("give roles, enabled or both"));
        }
        Ok(change(access, &commands))
    }
}

impl Default for UserChange<'_> {
    fn default() -> Self {
        UserChange::new()
    }
}

impl<'r> NewKeyRequest<'r> {
    setters! {
        /// Sets the time until the key expires.
        lifetime_ms: u64;
        /// Sets a remark.
        note: impl Into<Text<'r>>;
    }

    /// A key of this user.
    pub fn new(user: impl Into<Text<'r>>) -> Self {
        NewKeyRequest { user: user.into(), lifetime_ms: None, rules: None, note: None }
    }

    /// Narrows the rights of the user by these rules.
    #[must_use]
    pub fn rules(self, rules: impl IntoIterator<Item = AccessRule>) -> Self {
        NewKeyRequest { rules: Some(rules.into_iter().map(ParsedText).collect()), ..self }
    }

    /// Carries out the request.
    ///
    /// # Errors
    /// Those of [`AccessControl::create_key`].
    pub fn apply(&self, access: &AccessControl<'_>) -> Result<NewKeyReply, Error> {
        let NewKeyRequest { user, lifetime_ms, rules, note } = self;
        let rules: Option<Vec<AccessRule>> =
            rules.as_ref().map(|rules| rules.iter().map(|ParsedText(rule)| rule.clone()).collect());
        let lifetime = lifetime_ms.map(Duration::from_millis);
        let new = NewApiKey { lifetime, rules: rules.as_deref(), note: note.as_deref().unwrap_or_default() };
        Ok(NewKeyReply::of(access.create_key(user, new)?, user))
    }
}

impl KeyChange {
    /// Enables or disables a key.
    pub fn new(enabled: bool) -> Self {
        KeyChange { enabled }
    }

    /// Carries out the request on this key.
    ///
    /// # Errors
    /// Those of [`AccessControl::change`].
    pub fn apply(&self, key: KeyId, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
        change(access, &[Command::EnableKey { key, is_enabled: self.enabled }])
    }
}

impl RoleRequest {
    /// A role with these rules.
    pub fn new(rules: impl IntoIterator<Item = AccessRule>) -> Self {
        RoleRequest { rules: rules.into_iter().map(ParsedText).collect() }
    }

    /// Carries out the request on this role.
    ///
    /// # Errors
    /// Those of [`AccessControl::put_role`].
    pub fn apply(&self, role: &str, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
        let rules: Vec<AccessRule> = self.rules.iter().map(|ParsedText(rule)| rule.clone()).collect();
        change(access, &[Command::PutRole { role, rules: &rules }])
    }
}

impl RuleRequest {
    /// A rule of this holder.
    pub fn new(subject: RuleSubject, rule: AccessRule) -> Self {
        RuleRequest { subject: ParsedText(subject), rule: ParsedText(rule) }
    }

    /// Adds the rule.
    ///
    /// # Errors
    /// Those of [`AccessControl::add_rule`].
    pub fn add(&self, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
        Ok(AccessChangeReply { changed: access.add_rule(&self.subject.0, &self.rule.0)? })
    }

    /// Removes the rule.
    ///
    /// # Errors
    /// Those of [`AccessControl::remove_rule`].
    pub fn remove(&self, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
        Ok(AccessChangeReply { changed: access.remove_rule(&self.subject.0, &self.rule.0)? })
    }
}

impl<'r> PasswordRequest<'r> {
    setters! {
        /// Sets the iterations of PBKDF2.
        iterations: u32;
    }

    /// A password.
    pub fn new(password: impl Into<Text<'r>>) -> Self {
        PasswordRequest { password: password.into(), iterations: None }
    }

    /// Gives it to this user, in place of an earlier one.
    ///
    /// # Errors
    /// Those of [`AccessControl::set_password`].
    pub fn apply(&self, user: &str, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
        let iterations = self.iterations.unwrap_or(SCRAM_ITERATIONS_MIN);
        access.set_password(user, &self.password, NewPassword { iterations, ..NewPassword::default() })?;
        Ok(AccessChangeReply { changed: true })
    }
}

impl fmt::Debug for PasswordRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordRequest").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl<'r> AccessCheckRequest<'r> {
    /// Whether the rules allow the principal the operation on the resource.
    pub fn new(principal: impl Into<Text<'r>>, operation: Operation, resource: Resource<'r>) -> Self {
        AccessCheckRequest {
            principal: principal.into(),
            roles: Vec::new(),
            operation: operation.name().into(),
            kind: resource.kind.name().into(),
            name: resource.name.into(),
        }
    }

    /// Adds roles that the token of the principal gives it.
    #[must_use]
    pub fn roles(self, roles: impl IntoIterator<Item = &'r str>) -> Self {
        AccessCheckRequest { roles: roles.into_iter().map(Text::from).collect(), ..self }
    }

    /// Answers by the published rules.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an unknown operation or kind; when the rules can't be read.
    pub fn apply(&self, access: &AccessControl<'_>) -> Result<AccessCheckReply, Error> {
        let operation = Operation::of_name(&self.operation);
        let operation =
            operation.ok_or_else(|| unknown("operation", &self.operation, &Operation::ALL.map(Operation::name)))?;
        let kind = ResourceKind::of_name(&self.kind);
        let kind = kind.ok_or_else(|| unknown("kind", &self.kind, &ResourceKind::ALL.map(ResourceKind::name)))?;
        let rules = access.checked_rules()?;
        let roles = self.roles.iter().map(|role| (&**role).into()).collect();
        let principal = Principal { roles, ..Principal::named(&*self.principal) };
        let resource = Resource::new(kind, &self.name);
        let allowed = !rules.is_enabled() || rules.allows(&principal, operation, resource);
        let because = match (rules.is_enabled(), allowed, rules.denies(&principal, operation, resource)) {
            (false, ..) => "access control is not enabled",
            (_, true, _) => "a rule allows it",
            (_, _, true) => "a rule denies it",
            _ => "no rule allows it",
        };
        Ok(AccessCheckReply {
            principal: self.principal.to_string(),
            operation: operation.name().to_owned(),
            kind: kind.name().to_owned(),
            name: self.name.to_string(),
            allowed,
            because: because.to_owned(),
        })
    }
}

fn unknown(what: &str, name: &str, known: &[&str]) -> Error {
    Error::new(ErrorKind::Invalid, format!("unknown {what} {name:?}: expected one of {}", known.join(", ")))
}

/// Drops the password of a user.
///
/// # Errors
/// Those of [`AccessControl::drop_password`].
pub fn drop_password(user: &str, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
    Ok(AccessChangeReply { changed: access.drop_password(user)? })
}

/// Drops a user with its keys, credentials and rules.
///
/// # Errors
/// Those of [`AccessControl::drop_user`].
pub fn drop_user(user: &str, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
    change(access, &[Command::DropUser { user }])
}

/// Drops an API key.
///
/// # Errors
/// Those of [`AccessControl::drop_key`].
pub fn drop_key(key: KeyId, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
    change(access, &[Command::DropKey { key }])
}

/// Drops a role that no user has.
///
/// # Errors
/// Those of [`AccessControl::change`].
pub fn drop_role(role: &str, access: &AccessControl<'_>) -> Result<AccessChangeReply, Error> {
    change(access, &[Command::DropRole { role }])
}

fn change(access: &AccessControl<'_>, commands: &[Command<'_>]) -> Result<AccessChangeReply, Error> {
    let replies = access.change(commands)?;
    Ok(AccessChangeReply { changed: replies.iter().any(|reply| reply.is_changed) })
}
