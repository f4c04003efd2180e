//! Users, API keys, roles and access rules of a database.
//!
//! A program that has the files of a database open is its owner, and is not checked. Servers check
//! their clients with [`AccessControl::rules`].

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use quire_model::{Operation, Resource, micros_of};
use quire_shard::{AuditAuthor, AuditEvent, Commands, Replies, Shard, audit_gap};
use quire_system::{
    AccessRule, BuiltInRole, Command, DatabaseSecret, KeyId, KeyText, NewKey, Principal, Reply, RuleSet, RuleSubject,
    SecretHash, System,
};
use sha2::{Digest, Sha256};

use crate::{Database, Error, ErrorKind, Result, Timestamp};

/// Changes and reads users, API keys, roles and access rules: see [`Database::access`].
///
/// Each change is one commit with its event in the store [`AUDIT_STORE`](crate::AUDIT_STORE), and
/// returns once the commit is durable.
///
/// ```
/// use quire::system::{AccessRule, RulePattern, RuleSubject};
/// use quire::{Database, Durability, NewApiKey, Operation, Resource, ResourceKind};
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
/// let access = db.access();
/// let admin = access.init("root")?;
/// assert!(access.verify_key(admin.reveal()).is_some());
///
/// access.create_user("billing", &[])?;
/// let month = std::time::Duration::from_secs(30 * 24 * 3600);
/// let key = access.create_key("billing", NewApiKey { lifetime: Some(month), ..NewApiKey::default() })?;
/// let orders = RulePattern::Literal("orders".to_owned());
/// let rule = AccessRule::allow(Operation::Read, ResourceKind::Topic, orders);
/// access.add_rule(&RuleSubject::Principal("billing".to_owned()), &rule)?;
///
/// let billing = access.verify_key(key.reveal()).expect("the key is valid");
/// let topic = Resource::new(ResourceKind::Topic, "orders");
/// assert!(access.rules().allows(&billing, Operation::Read, topic));
/// assert!(!access.rules().allows(&billing, Operation::Write, topic));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AccessControl<'a> {
    database: &'a Database,
    author: AuditAuthor<'a>,
}

/// The properties of a new API key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewApiKey<'a> {
    /// The time until the key expires. Only keys of users with the role `admin` may have none.
    pub lifetime: Option<Duration>,
    /// Rules that also have to allow an operation. `None` leaves the user's own rights.
    pub rules: Option<&'a [AccessRule]>,
    /// A remark.
    pub note: &'a str,
}

impl Database {
    /// Returns the users, API keys, roles and access rules.
    pub fn access(&self) -> AccessControl<'_> {
        AccessControl { database: self, author: AuditAuthor::OWNER }
    }
}

impl<'a> AccessControl<'a> {
    /// Returns the same for changes by `author`, whom the audit events name.
    #[must_use]
    pub fn by(self, author: AuditAuthor<'a>) -> Self {
        AccessControl { author, ..self }
    }

    /// Creates the first administrator with a key that does not expire, and enables access control:
    /// one commit. Returns the key. It is shown only once.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the user exists or access control is enabled; the errors of a
    /// commit.
    pub fn init(&self, admin: &str) -> Result<KeyText> {
        let key = random_key()?;
        let create = Command::CreateUser { user: admin, roles: &[BuiltInRole::Admin.name()] };
        let new = new_key(key, admin, None, NewApiKey::default());
        self.change(&[create, Command::CreateKey(new), Command::Enable])?;
        Ok(key)
    }

    /// Creates a user with these roles.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] with the refusal as its message, as all changes; the errors of a
    /// commit. [`Error::refusal`] has the index of the refused change and the reason.
    pub fn create_user(&self, user: &str, roles: &[&str]) -> Result<()> {
        self.change(&[Command::CreateUser { user, roles }]).map(drop)
    }

    /// Drops a user with its keys, credentials and rules.
    ///
    /// # Errors
    /// As [`AccessControl::create_user`].
    pub fn drop_user(&self, user: &str) -> Result<()> {
        self.change(&[Command::DropUser { user }]).map(drop)
    }

    /// Creates an API key of a user, and returns it. It is shown only once: the database keeps a
    /// hash.
    ///
    /// # Errors
    /// As [`AccessControl::create_user`].
    pub fn create_key(&self, user: &str, new: NewApiKey<'_>) -> Result<KeyText> {
        let key = random_key()?;
        let now = self.database.now().as_micros();
        let after = |lifetime| Timestamp::from_micros(now.saturating_add(micros_of(lifetime)));
        let expires = new.lifetime.map(after);
        self.change(&[Command::CreateKey(new_key(key, user, expires, new))])?;
        Ok(key)
    }

    /// Drops an API key.
    ///
    /// # Errors
    /// As [`AccessControl::create_user`].
    pub fn drop_key(&self, key: KeyId) -> Result<()> {
        self.change(&[Command::DropKey { key }]).map(drop)
    }

    /// Creates a role, or replaces its rules.
    ///
    /// # Errors
    /// As [`AccessControl::create_user`].
    pub fn put_role(&self, role: &str, rules: &[AccessRule]) -> Result<()> {
        self.change(&[Command::PutRole { role, rules }]).map(drop)
    }

    /// Adds a rule. Returns whether it is new.
    ///
    /// # Errors
    /// As [`AccessControl::create_user`].
    pub fn add_rule(&self, subject: &RuleSubject, rule: &AccessRule) -> Result<bool> {
        Ok(self.change(&[Command::AddRule { subject, rule }])?[0].is_changed)
    }

    /// Removes a rule. Returns whether it existed.
    ///
    /// # Errors
    /// As [`AccessControl::create_user`].
    pub fn remove_rule(&self, subject: &RuleSubject, rule: &AccessRule) -> Result<bool> {
        Ok(self.change(&[Command::RemoveRule { subject, rule }])?[0].is_changed)
    }

    /// Disables access control. Users, keys and rules stay, without effect.
    ///
    /// Only the owner of the directory can do this: a client of a server is refused, whatever its
    /// rules. Stop servers first: their addresses were chosen for a database with access control.
    ///
    /// # Errors
    /// As [`AccessControl::create_user`].
    pub fn disable(&self) -> Result<()> {
        self.change(&[Command::Disable]).map(drop)
    }

    /// Carries out several changes, all or none, with their audit events.
    ///
    /// # Errors
    /// As [`AccessControl::create_user`].
    pub fn change(&self, commands: &[Command<'_>]) -> Result<Vec<Reply>> {
        let commands = Commands { system: commands, author: Some(self.author), ..Commands::default() };
        let mut replies = Replies::new();
        let verdict = self.database.commit_and_wait(self.database.now(), &commands, &mut replies)?;
        verdict.map_err(|refused| {
            let message = refused.reason.to_string();
            Error::refused(*refused, message)
        })?;
        Ok(replies.system)
    }

    /// Appends the events of a server to the store [`AUDIT_STORE`](crate::AUDIT_STORE), with the
    /// number of events that were lost, if any. Only the owner can do this.
    ///
    /// # Errors
    /// The errors of a commit.
    pub fn record(&self, events: &[AuditEvent<'_>], lost: u64) -> Result<()> {
        let gap = (lost > 0).then(|| audit_gap(self.author.protocol, lost));
        let events: Vec<_> = events.iter().map(AuditEvent::to_event).chain(gap).collect();
        let commands = Commands { audit: &events, ..Commands::default() };
        let verdict = self.database.commit_and_wait(self.database.now(), &commands, &mut Replies::new())?;
        verdict.map(drop).map_err(|refused| {
            let message = refused.reason.to_string();
            Error::refused(*refused, message)
        })
    }

    /// Returns the users, keys, roles and rules as they are. The copy takes constant time.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`].
    pub fn list(&self) -> Result<System> {
        self.database.read_for(Resource::ACCESS, Operation::Describe, |view| view.system.clone())?.wait()
    }

    /// Returns the secret of the database, from which servers make up salts. The first call commits
    /// a random one, which stays the same as long as the database.
    ///
    /// # Errors
    /// The errors of a commit, and when the system has no random numbers.
    pub fn secret(&self) -> Result<DatabaseSecret> {
        if let Some(secret) = self.rules().secret() {
            return Ok(secret.clone());
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the system has no random numbers for a secret: {error}"))
        })?;
        self.change(&[Command::PutSecret { secret: DatabaseSecret(random) }])?;
        // Another process may have been first.
        self.list()?
            .secret()
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::Failed, "the secret of the database is missing after its commit"))
    }

    /// Returns the published rules, compiled for checks. Other processes' changes are included.
    ///
    /// The call compares two numbers while nothing changes. After a change, the next call compiles
    /// the rules. If the log is unreadable, it returns the rules that it returned before. Where
    /// that could permit too much, use [`AccessControl::checked_rules`].
    pub fn rules(&self) -> Arc<RuleSet> {
        self.checked_rules().unwrap_or_else(|_| self.database.shards.rules().current())
    }

    /// Returns the published rules as [`AccessControl::rules`].
    ///
    /// # Errors
    /// When the log is unreadable: the rules may have changed.
    pub fn checked_rules(&self) -> Result<Arc<RuleSet>> {
        self.database.shards.only().catch_up()?;
        self.database.shards.rules().newest(self.database.shards.only())
    }

    /// Returns the principal of an API key. `None` for a text that is no key, an unknown, disabled
    /// or expired key, a wrong secret, and a key of a disabled user.
    pub fn verify_key(&self, text: &str) -> Option<Principal> {
        let key = KeyText::parse(text).ok()?;
        self.rules().verify_key(key.id(), hash_of(key), self.database.now())
    }
}

impl fmt::Debug for AccessControl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessControl").field("author", &self.author).finish_non_exhaustive()
    }
}

fn new_key<'c>(key: KeyText, user: &'c str, expires: Option<Timestamp>, new: NewApiKey<'c>) -> NewKey<'c> {
    NewKey { id: key.id(), secret: hash_of(key), user, rules: new.rules, expires, note: new.note }
}

fn hash_of(key: KeyText) -> SecretHash {
    SecretHash(Sha256::digest(key.secret()).into())
}

fn random_key() -> Result<KeyText> {
    let (mut id, mut secret) = ([0; 16], [0; 32]);
    getrandom::fill(&mut id).and_then(|()| getrandom::fill(&mut secret)).map_err(|error| {
        Error::new(ErrorKind::Io, format!("the system has no random numbers for an API key: {error}"))
    })?;
    Ok(KeyText::of_random(id, secret))
}

/// The newest compiled rules. A reader takes the whole set; a change replaces it.
#[derive(Debug)]
pub(crate) struct CurrentRules {
    rules: RwLock<Arc<RuleSet>>,
    /// Whether the rules rest on a record that was not published when they were compiled, and that
    /// a truncation may have replaced since.
    is_provisional: AtomicBool,
    /// Held while rules are compiled, so that one thread does it.
    compiling: Mutex<()>,
}

impl CurrentRules {
    /// Compiles the rules of a shard that was just opened: no request is checked by older ones.
    pub(crate) fn of(shard: &Shard) -> Result<Self> {
        let (rests_on, system) = shard.access_state()?;
        let mut is_provisional = false;
        if system.changed_at() > shard.log().published() {
            // A node of a cluster learns from other nodes which of its records are published.
            is_provisional = shard.is_member();
            if !is_provisional {
                // Another process has just changed them.
                shard.log().wait(rests_on)?;
            }
        }
        Ok(CurrentRules {
            rules: RwLock::new(Arc::new(system.rule_set())),
            is_provisional: AtomicBool::new(is_provisional),
            compiling: Mutex::default(),
        })
    }

    fn current(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The rules after the last published change.
    fn newest(&self, shard: &Shard) -> Result<Arc<RuleSet>> {
        // A crash can undo an unpublished change. The rules before it apply until then.
        let is_current = |rules: &RuleSet| {
            let changed_at = shard.access_changed_at();
            let is_unpublished = changed_at > shard.log().published();
            if self.is_provisional.load(Ordering::Acquire) {
                return if is_unpublished { Err(unknown_rules()) } else { Ok(false) };
            }
            Ok(rules.generation() == changed_at || is_unpublished)
        };
        let current = self.current();
        if is_current(&current)? {
            return Ok(current);
        }
        let _compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current();
        if is_current(&current)? {
            return Ok(current);
        }
        let (_, system) = shard.access_state()?;
        if system.changed_at() > shard.log().published() {
            return Ok(current);
        }
        let newest = Arc::new(system.rule_set());
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&newest);
        self.is_provisional.store(false, Ordering::Release);
        Ok(newest)
    }
}

#[cold]
fn unknown_rules() -> Error {
    let message = "this node does not know yet which access rules are in force; repeat the request";
    Error::new(ErrorKind::NotLeader, message)
}
