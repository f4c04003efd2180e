//! `quire access`: users, API keys, roles and access rules.
//!
//! ```text
//! place (--data: the owner · --http: a client that is checked) ─▶ request of quire_client ─▶ print
//! ```

mod place;
mod rules;
mod secret;

use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand};
use quire::system::{AccessRule, KeyId};
use quire_client::reply::{AccessSelfReply, access as lists};
use quire_client::request::access::{
    InitAccess, KeyChange, NewKeyRequest, NewUserRequest, PasswordRequest, RoleRequest, UserChange, drop_key,
    drop_password, drop_role, drop_user,
};
use serde_json::Value;

use self::place::{AccessArgs, AccessPlace, OwnedDirectory, path, value};
use self::rules::{CheckArgs, RuleArgs, parse};
use self::secret::{NewKeyOutput, PasswordSource};
use super::print::{OutputForm, time, word, words};
use crate::failure::Result;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Examples for the help.
const EXAMPLES: &str = "\
Examples:
  quire access init root --save-key root.key --http http://127.0.0.1:7070
  quire access user add billing --role reader --http http://127.0.0.1:7070 --key-file root.key
  quire access key new billing --days 30 --http http://127.0.0.1:7070 --key-file root.key
  quire access grant user:billing write on topic invoices --data ./data
  quire access check billing write topic invoices --data ./data";

/// The commands of `quire access`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum AccessVerb {
    /// Create the first administrator with an API key, and enable access control
    Init {
        /// Name of the administrator
        #[arg(default_value = "root")]
        user: String,
        #[command(flatten)]
        output: NewKeyOutput,
        #[command(flatten)]
        place: AccessArgs,
    },
    /// Show whether access control is enabled, and the principal of your key
    Whoami(AccessArgs),
    /// Create, list and change users
    #[command(subcommand)]
    User(UserVerb),
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(KeyVerb),
    /// Create, list and remove roles
    #[command(subcommand)]
    Role(RoleVerb),
    /// List the rules of users, roles and everyone
    Rules(AccessArgs),
    /// Add a rule that allows an operation
    Grant(RuleArgs),
    /// Add a rule that denies an operation; it wins over every rule that allows it
    Deny(RuleArgs),
    /// Remove a rule, written as `quire access rules` prints it
    Revoke(RuleArgs),
    /// Show whether the rules allow a user an operation
    Check(CheckArgs),
    /// Disable access control. Stop the server first: it stops anyway, and serves every client
    /// after its next start
    Disable(OwnedDirectory),
}

/// The commands of `quire access user`.
#[derive(Debug, Subcommand)]
pub(crate) enum UserVerb {
    /// Create a user
    Add {
        /// Name of the user
        user: String,
        /// A role of the user; may be given several times
        #[arg(long = "role", value_name = "ROLE")]
        roles: Vec<String>,
        #[command(flatten)]
        place: AccessArgs,
    },
    /// List the users
    List(AccessArgs),
    /// Replace the roles of a user, enable or disable it
    Change {
        /// Name of the user
        user: String,
        #[command(flatten)]
        change: UserChangeArgs,
        #[command(flatten)]
        place: AccessArgs,
    },
    /// Remove a user with its keys, passwords and rules
    Remove {
        /// Name of the user
        user: String,
        #[command(flatten)]
        place: AccessArgs,
    },
    /// Set the password of a user, for Kafka clients
    Password {
        /// Name of the user
        user: String,
        /// Remove the password instead
        #[arg(long, conflicts_with = "password_file")]
        remove: bool,
        #[command(flatten)]
        password: PasswordSource,
        #[command(flatten)]
        place: AccessArgs,
    },
}

/// What changes of a user.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct UserChangeArgs {
    /// A new role of the user, in place of the earlier ones; may be given several times
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Remove all roles
    #[arg(long, conflicts_with = "roles")]
    no_roles: bool,
    /// Enable the user
    #[arg(long)]
    enable: bool,
    /// Deny the user everything
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
}

/// The commands of `quire access key`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyVerb {
    /// Create an API key of a user
    New {
        /// Name of the user
        user: String,
        /// Days until the key expires; only keys of administrators may have none
        #[arg(long, value_name = "N")]
        days: Option<u32>,
        /// A rule that narrows the rights of the user, like `allow read on topic orders`; may be
        /// given several times
        #[arg(long = "rule", value_name = "RULE", value_parser = parse)]
        rules: Vec<AccessRule>,
        /// A remark
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        #[command(flatten)]
        output: NewKeyOutput,
        #[command(flatten)]
        place: AccessArgs,
    },
    /// List the API keys, without their secrets
    List(AccessArgs),
    /// Refuse a key until it is enabled again
    Disable(KeyArgs),
    /// Accept a disabled key again
    Enable(KeyArgs),
    /// Remove a key
    Revoke(KeyArgs),
}

/// One API key.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// Id of the key: its 10 characters after `qk_`
    #[arg(value_parser = key_id)]
    key: KeyId,
    #[command(flatten)]
    place: AccessArgs,
}

/// The commands of `quire access role`.
#[derive(Debug, Subcommand)]
pub(crate) enum RoleVerb {
    /// List the roles, the built-in ones first
    List(AccessArgs),
    /// Create a role, or replace its rules
    Put {
        /// Name of the role
        role: String,
        /// A rule, like `allow read on topic orders`; may be given several times
        #[arg(long = "rule", value_name = "RULE", required = true, value_parser = parse)]
        rules: Vec<AccessRule>,
        #[command(flatten)]
        place: AccessArgs,
    },
    /// Remove a role that no user has
    Remove {
        /// Name of the role
        role: String,
        #[command(flatten)]
        place: AccessArgs,
    },
}

impl AccessVerb {
    /// Runs the command.
    ///
    /// # Errors
    /// When the database can't be reached, or refuses.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            AccessVerb::Init { user, output, place } => {
                let reached = place.reach_or_create()?;
                output.give(out, place.form, || {
                    reached.post(&["init"], &InitAccess::new(&*user), |request, access| request.apply(access))
                })
            }
            AccessVerb::Whoami(place) => whoami(&place, out),
            AccessVerb::User(verb) => verb.run(out),
            AccessVerb::Key(verb) => verb.run(out),
            AccessVerb::Role(verb) => verb.run(out),
            AccessVerb::Rules(place) => print(&place, out, "rules", lists::rules, |rule| {
                format!("{}: {}", word(rule, "subject"), word(rule, "rule"))
            }),
            AccessVerb::Grant(rule) => rule.add("allow", out),
            AccessVerb::Deny(rule) => rule.add("deny", out),
            AccessVerb::Revoke(rule) => rule.remove(out),
            AccessVerb::Check(check) => check.run(out),
            AccessVerb::Disable(directory) => {
                directory.open()?.access().disable()?;
                Ok(writeln!(out, "access control is disabled: a server of this directory serves every client")?)
            }
        }
    }
}

impl UserVerb {
    fn run(self, out: &mut dyn Write) -> Result {
        match self {
            UserVerb::Add { user, roles, place } => {
                let request = NewUserRequest::new(&*user, roles.iter().map(String::as_str));
                let done = place.reach()?.post(&["users"], &request, |request, access| request.apply(access))?;
                report(out, place.form, &done, &format!("created user {user}"), "nothing to change")
            }
            UserVerb::List(place) => print(&place, out, "users", lists::users, |user| {
                let password =
                    if user["passwords"].as_array().is_some_and(|all| !all.is_empty()) { "yes" } else { "no" };
                let (name, roles) = (word(user, "user"), words(user, "roles"));
                format!("{name:<16} {:<8}  password {password:<3}  roles {roles}", state(user))
            }),
            UserVerb::Change { user, change, place } => {
                let UserChangeArgs { roles, no_roles, enable, disable } = change;
                let request = UserChange::new();
                let request = match no_roles || !roles.is_empty() {
                    true => request.roles(roles.iter().map(String::as_str)),
                    false => request,
                };
                let request = if enable || disable { request.enabled(enable) } else { request };
                let done = place.reach()?.post(&["users", &user], &request, |request, access| {
                    request.apply(&user, access).expect("the arguments change something")
                })?;
                report(out, place.form, &done, &format!("changed user {user}"), "nothing to change")
            }
            UserVerb::Remove { user, place } => {
                let done = place.reach()?.delete(&path(&["users", &user]), |access| drop_user(&user, access))?;
                report(out, place.form, &done, &format!("removed user {user}"), "nothing to change")
            }
            UserVerb::Password { user, remove: true, password: _, place } => {
                let path = path(&["users", &user, "password"]);
                let done = place.reach()?.delete(&path, |access| drop_password(&user, access))?;
                let unchanged = format!("user {user} has no password");
                report(out, place.form, &done, &format!("password of user {user} removed"), &unchanged)
            }
            UserVerb::Password { user, remove: false, password, place } => {
                let password = password.read()?;
                let (request, segments) = (PasswordRequest::new(&*password), ["users", &user, "password"]);
                let done = place.reach()?.post(&segments, &request, |request, access| request.apply(&user, access))?;
                report(out, place.form, &done, &format!("password of user {user} set"), "nothing to change")
            }
        }
    }
}

impl KeyVerb {
    fn run(self, out: &mut dyn Write) -> Result {
        match self {
            KeyVerb::New { user, days, rules, note, output, place } => {
                let request = NewKeyRequest::new(&*user);
                let request = match days {
                    Some(days) => request.lifetime_ms(u64::from(days) * DAY.as_millis() as u64),
                    None => request,
                };
                let request = if rules.is_empty() { request } else { request.rules(rules) };
                let request = note.as_deref().into_iter().fold(request, NewKeyRequest::note);
                let reached = place.reach()?;
                output.give(out, place.form, || {
                    reached.post(&["keys"], &request, |request, access| request.apply(access))
                })
            }
            KeyVerb::List(place) => print(&place, out, "keys", lists::keys, |key| {
                let expires = match &key["expires_ms"] {
                    Value::Null => "never".to_owned(),
                    _ => time(key, "expires_ms"),
                };
                let (id, user, note) = (word(key, "id"), word(key, "user"), word(key, "note"));
                let mut line = format!("{id}  {user:<16} {:<8}  expires {expires}", state(key));
                for (name, shown) in [("rules", words(key, "rules")), ("note", note)] {
                    if !shown.is_empty() {
                        line.push_str(&format!("  {name} {shown}"));
                    }
                }
                line
            }),
            KeyVerb::Disable(key) => key.enable(false, out),
            KeyVerb::Enable(key) => key.enable(true, out),
            KeyVerb::Revoke(KeyArgs { key, place }) => {
                let done = place.reach()?.delete(&path(&["keys", &key.to_string()]), |access| drop_key(key, access))?;
                report(out, place.form, &done, &format!("revoked key {key}"), "nothing to change")
            }
        }
    }
}

impl KeyArgs {
    fn enable(self, is_enabled: bool, out: &mut dyn Write) -> Result {
        let KeyArgs { key, place } = self;
        let request = KeyChange::new(is_enabled);
        let segments = ["keys", &key.to_string()];
        let done = place.reach()?.post(&segments, &request, |request, access| request.apply(key, access))?;
        let verb = if is_enabled { "enabled" } else { "disabled" };
        report(out, place.form, &done, &format!("{verb} key {key}"), &format!("key {key} is {verb} already"))
    }
}

impl RoleVerb {
    fn run(self, out: &mut dyn Write) -> Result {
        match self {
            RoleVerb::List(place) => print(&place, out, "roles", lists::roles, |role| {
                let kind = if role["built_in"] == Value::Bool(true) { "built-in" } else { "own" };
                let rules: Vec<&str> = super::print::list(role, "rules").iter().filter_map(Value::as_str).collect();
                format!("{:<16} {kind:<8}  {}", word(role, "role"), rules.join("; "))
            }),
            RoleVerb::Put { role, rules, place } => {
                let request = RoleRequest::new(rules);
                let segments = ["roles", &role];
                let done = place.reach()?.post(&segments, &request, |request, access| request.apply(&role, access))?;
                report(out, place.form, &done, &format!("put role {role}"), "nothing to change")
            }
            RoleVerb::Remove { role, place } => {
                let done = place.reach()?.delete(&path(&["roles", &role]), |access| drop_role(&role, access))?;
                report(out, place.form, &done, &format!("removed role {role}"), "nothing to change")
            }
        }
    }
}

fn whoami(place: &AccessArgs, out: &mut dyn Write) -> Result {
    let caller = match place.reach()? {
        AccessPlace::Server(client) => client.get(&path(&["self"]))?,
        AccessPlace::Owner(database) => {
            let enabled = database.access().rules().is_enabled();
            value(&AccessSelfReply { enabled, principal: None, key: None })?
        }
    };
    place.form.print(out, &[caller], |caller| {
        let enabled = if caller["enabled"] == Value::Bool(true) { "enabled" } else { "disabled" };
        match &caller["principal"] {
            Value::Null => format!("access control is {enabled}"),
            _ => format!("access control is {enabled}; you are {}", word(caller, "principal")),
        }
    })
}

/// Prints a list.
fn print<T: serde::Serialize>(
    place: &AccessArgs,
    out: &mut dyn Write,
    name: &str,
    items: fn(&quire::system::System) -> Vec<T>,
    line: impl Fn(&Value) -> String,
) -> Result {
    place.form.print(out, &place.reach()?.list(name, items)?, line)
}

/// Prints the outcome of a change.
fn report(out: &mut dyn Write, form: OutputForm, done: &Value, changed: &str, unchanged: &str) -> Result {
    form.print(out, std::slice::from_ref(done), |done| {
        let is_changed = done["changed"] == Value::Bool(true);
        if is_changed { changed } else { unchanged }.to_owned()
    })
}

fn state(thing: &Value) -> &'static str {
    if thing["enabled"] == Value::Bool(true) { "enabled" } else { "disabled" }
}

fn key_id(text: &str) -> Result<KeyId, String> {
    KeyId::parse(text).ok_or_else(|| "expected the 10 characters of a key's id".to_owned())
}
