//! Sessions: who a client is, and what it may do with the database.
//!
//! ```text
//! credential ──ServedDatabase::session──▶ Session ──Session::scope──▶ request
//! request ──ServedDatabase::get──▶ Database, guarded by the rules for the session's principal
//! ```
//!
//! A front end has a [`ServedDatabase`] and no other way to the data. Outside of a session it gets
//! a database that permits nothing. So a handler that forgets the session shows nothing.
//!
//! A session follows the rules: each call of its database checks by the newest published ones. A
//! session ends when its credential expires, is replaced, dropped or disabled, and a session
//! without a credential ends when access control is enabled.
//!
//! A server that has seen access control enabled checks its clients until it stops: also when
//! access control is disabled, and when the rules can't be read. Sessions are then refused.

use std::fmt;
use std::future::{self, Future};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use quire::system::{KEY_PREFIX, Principal, RuleSet};
use quire::{Database, Guard, Operation, PermissionRefusal, Permissions, Resource, ResourceKind};
use tokio::sync::watch;

use crate::audit::AuditLog;
use crate::oidc::TokenVerifier;

/// How often waiting streams look whether their sessions have ended.
const LOOK: Duration = Duration::from_millis(250);

tokio::task_local! {
    static SESSION: Session;
}

/// The database behind the front ends: see the module.
#[derive(Debug, Clone)]
pub struct ServedDatabase(Arc<ServedInner>);

#[derive(Debug)]
struct ServedInner {
    rules: Arc<ServedRules>,
    /// The session of clients without credentials, while access control is disabled.
    open: Session,
    /// For requests outside of a session.
    sealed: Arc<Guard>,
    options: ServedOptions,
    /// Changes every [`LOOK`].
    ticks: OnceLock<watch::Receiver<()>>,
}

/// How a database is served.
#[derive(Debug, Clone, Default)]
struct ServedOptions {
    /// Whether every client is the owner.
    is_owned: bool,
    /// The protocol of the clients that are audited.
    audited: Option<&'static str>,
    /// Accepts tokens in the place of API keys.
    tokens: Option<Arc<TokenVerifier>>,
}

/// The access rules of a served database.
#[derive(Debug)]
pub(crate) struct ServedRules {
    pub(crate) owner: Database,
    /// Whether access control was ever seen enabled. Clients are checked from then on.
    was_enabled: AtomicBool,
    /// `None` where nothing is audited.
    audit: Option<AuditLog>,
}

/// What a client presents. It does not show a key.
#[derive(Clone)]
pub enum Credential<'c> {
    /// Nothing.
    Absent,
    /// The text of an API key, or of a token.
    Key(&'c str),
    /// A user that the server has authenticated by a key or a password.
    Authenticated(&'c Principal),
    /// A principal that the connection has verified, by a client certificate or by the credentials
    /// of a Unix socket. It may be a user or have rules only.
    Verified(&'c Principal),
}

impl Credential<'_> {
    /// The kind, as audit events have it.
    fn kind(&self) -> &'static str {
        match self {
            Credential::Absent => "none",
            Credential::Key(text) if !text.starts_with(KEY_PREFIX) => "token",
            Credential::Key(_) | Credential::Authenticated(Principal { key: Some(_), .. }) => "api_key",
            Credential::Authenticated(Principal { password: Some(_), .. }) => "password",
            Credential::Authenticated(_) => "token",
            Credential::Verified(Principal { expires: Some(_), .. }) => "certificate",
            Credential::Verified(_) => "unix_socket",
        }
    }
}

impl fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credential::Absent => f.write_str("Absent"),
            Credential::Key(_) => f.write_str("Key"),
            Credential::Authenticated(principal) => write!(f, "Authenticated({:?})", principal.name),
            Credential::Verified(principal) => write!(f, "Verified({:?})", principal.name),
        }
    }
}

/// Why a client has no session. Clients get the same answer for every wrong credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthenticationError {
    /// Access control is enabled, and the client presented no credential.
    Missing,
    /// The credential is unknown, wrong, expired or disabled.
    Wrong,
    /// The rules can't be read, so no client is permitted anything.
    Unreadable,
}

impl fmt::Display for AuthenticationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AuthenticationError::Missing => "the request has no credential: send an API key",
            AuthenticationError::Wrong => "the credential is not valid: it is unknown, wrong, expired or disabled",
            AuthenticationError::Unreadable => "the access rules can't be read, so no credential can be checked",
        })
    }
}

impl std::error::Error for AuthenticationError {}

/// An authenticated client, or a client of a database whose access control is disabled. Cheap to
/// clone.
#[derive(Debug, Clone)]
pub struct Session {
    /// `None` for the owner.
    guard: Option<Arc<Guard>>,
    rights: Arc<ClientRights>,
}

/// The permissions of a session, by the newest published rules.
#[derive(Debug)]
struct ClientRights {
    served: Arc<ServedRules>,
    /// `None` for a client without a credential.
    principal: Option<Principal>,
    /// Whether the principal has to be a user.
    is_user: bool,
    /// The address of the client.
    address: Option<Arc<str>>,
    current: RwLock<CurrentRights>,
}

#[derive(Debug, Clone)]
struct CurrentRights {
    rules: Arc<RuleSet>,
    is_live: bool,
}

/// Permits nothing.
#[derive(Debug)]
struct NoRights;

impl Permissions for NoRights {
    fn permits(&self, _: Resource<'_>, _: Operation) -> bool {
        false
    }

    fn denies(&self, _: Resource<'_>, _: Operation) -> bool {
        true
    }

    fn permits_every(&self, _: ResourceKind, _: Operation) -> bool {
        false
    }

    fn permits_any(&self, _: ResourceKind, _: Operation) -> bool {
        false
    }
}

impl ServedRules {
    /// Returns the newest rules, and remembers whether they are in effect.
    ///
    /// # Errors
    /// When they can't be read.
    fn newest(&self) -> quire::Result<Arc<RuleSet>> {
        let rules = self.owner.access().checked_rules()?;
        if rules.is_enabled() {
            self.was_enabled.store(true, Ordering::Release);
        }
        Ok(rules)
    }

    /// Whether clients are checked.
    fn is_enabled(&self) -> bool {
        self.was_enabled.load(Ordering::Acquire)
    }

    /// The audit of logins and denials. A database that was opened read-only has none.
    pub(crate) fn audit(&self) -> Option<&AuditLog> {
        self.audit.as_ref().filter(|_| !self.owner.is_read_only())
    }
}

impl ServedDatabase {
    /// Serves this database. The front ends share it.
    pub fn new(owner: Database) -> Self {
        ServedDatabase::with(owner, ServedOptions::default())
    }

    /// Serves this database to its owner: no request is checked. Only the owner may be able to
    /// connect.
    pub fn owned(owner: Database) -> Self {
        ServedDatabase::with(owner, ServedOptions { is_owned: true, ..ServedOptions::default() })
    }

    /// Records logins and denials of the clients of this protocol in the audit store. Call it
    /// before the first session, and [`ServedDatabase::end_audit`] after the last one.
    #[must_use]
    pub fn with_audit(self, protocol: &'static str) -> Self {
        let options = ServedOptions { audited: Some(protocol), ..self.0.options.clone() };
        ServedDatabase::with(self.owner().clone(), options)
    }

    /// Records nothing of logins and denials.
    #[must_use]
    pub fn without_audit(self) -> Self {
        let options = ServedOptions { audited: None, ..self.0.options.clone() };
        ServedDatabase::with(self.owner().clone(), options)
    }

    /// Accepts tokens of an OpenID provider as bearer tokens. Call it before the first session.
    #[must_use]
    pub fn with_tokens(self, tokens: Arc<TokenVerifier>) -> Self {
        let options = ServedOptions { tokens: Some(tokens), ..self.0.options.clone() };
        ServedDatabase::with(self.owner().clone(), options)
    }

    fn with(owner: Database, options: ServedOptions) -> Self {
        let audit = options.audited.map(AuditLog::of_protocol);
        let rules = Arc::new(ServedRules { owner, was_enabled: AtomicBool::new(false), audit });
        let mut open = Session::of(&rules, rules.owner.access().rules(), None, false, None);
        if options.is_owned {
            open.guard = None;
        }
        let sealed = Arc::new(Guard::new(Arc::new(NoRights)));
        ServedDatabase(Arc::new(ServedInner { rules, open, sealed, options, ticks: OnceLock::new() }))
    }

    /// Returns the database as the client of the running request may use it.
    pub fn get(&self) -> Database {
        match SESSION.try_with(|session| self.of(session)) {
            Ok(database) => database,
            Err(_) => self.owner().guarded(Arc::clone(&self.0.sealed)),
        }
    }

    /// Returns the database as a session may use it, for work outside of its requests.
    pub fn of(&self, session: &Session) -> Database {
        match &session.guard {
            Some(guard) => self.owner().guarded(Arc::clone(guard)),
            None => self.owner().clone(),
        }
    }

    /// Returns the database without a guard: for the server's own work, and for facts that every
    /// client may know. It must not touch data for a client.
    pub fn owner(&self) -> &Database {
        &self.0.rules.owner
    }

    /// Whether clients are checked: access control is enabled, or was enabled since the server
    /// began, or the rules can't be read. The owner is not checked.
    pub fn is_access_enabled(&self) -> bool {
        !self.0.options.is_owned && (self.0.rules.newest().is_err() || self.0.rules.is_enabled())
    }

    /// Begins a session. While clients are not checked, every client gets one.
    ///
    /// # Errors
    /// When clients are checked, and the credential is missing or wrong. When the rules can't be
    /// read.
    pub fn session(&self, credential: &Credential<'_>) -> Result<Session, AuthenticationError> {
        self.session_from(credential, None)
    }

    /// Begins a session as [`ServedDatabase::session`], for a client with this address. The audit
    /// has the login or its refusal.
    ///
    /// # Errors
    /// As [`ServedDatabase::session`].
    pub fn session_from(
        &self,
        credential: &Credential<'_>,
        address: Option<&str>,
    ) -> Result<Session, AuthenticationError> {
        let address = address.map(Arc::from);
        let begun = self.begin(credential, address.clone());
        let rules = &self.0.rules;
        match &begun {
            Ok(session) => {
                if let Some(principal) = session.principal() {
                    AuditLog::logged_in(rules, principal, credential.kind(), address.as_ref(), rules.owner.now());
                }
            }
            Err(_) => AuditLog::login_refused(rules, credential.kind(), address.as_ref()),
        }
        begun
    }

    /// Records that a client with this address was not authenticated with a credential of this
    /// kind.
    pub fn login_refused(&self, kind: &str, address: &str) {
        AuditLog::login_refused(&self.0.rules, kind, Some(&address.into()));
    }

    /// Writes the audit events that were collected, and records no further ones by itself. A server
    /// that has ended its connections calls it.
    pub async fn end_audit(&self) {
        AuditLog::end(&self.0.rules).await;
    }

    fn begin(&self, credential: &Credential<'_>, address: Option<Arc<str>>) -> Result<Session, AuthenticationError> {
        if self.0.options.is_owned {
            return Ok(self.0.open.clone());
        }
        let served = &self.0.rules;
        let rules = served.newest().map_err(|_| AuthenticationError::Unreadable)?;
        if !served.is_enabled() {
            return Ok(self.0.open.clone());
        }
        let (principal, is_user) = match credential {
            Credential::Absent => return Err(AuthenticationError::Missing),
            Credential::Key(text) => {
                let is_user = text.starts_with(KEY_PREFIX);
                let found = match (&self.0.options.tokens, is_user) {
                    (Some(tokens), false) => tokens.verify(text, self.owner().now()),
                    _ => self.owner().access().verify_key(text),
                };
                (found.ok_or(AuthenticationError::Wrong)?, is_user)
            }
            Credential::Authenticated(principal) => (Principal::clone(principal), true),
            Credential::Verified(principal) => (Principal::clone(principal), false),
        };
        let session = Session::of(served, rules, Some(principal), is_user, address);
        if session.is_live() { Ok(session) } else { Err(AuthenticationError::Wrong) }
    }

    /// Waits until the session has ended. A stream that waits for data ends then.
    pub async fn ended(&self, session: &Session) {
        let mut ticks = self.0.ticks.get_or_init(|| begin_ticks(Arc::downgrade(&self.0))).clone();
        while session.is_live() {
            if ticks.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until the session of the running request has ended. It waits forever outside of a
    /// request.
    pub async fn current_ended(&self) {
        match Session::current() {
            Some(session) => self.ended(&session).await,
            None => future::pending().await,
        }
    }
}

/// Ticks until the database is no longer served.
fn begin_ticks(served: Weak<ServedInner>) -> watch::Receiver<()> {
    let (tick, ticks) = watch::channel(());
    tokio::spawn(async move {
        while served.strong_count() > 0 {
            tokio::time::sleep(LOOK).await;
            tick.send_replace(());
        }
    });
    ticks
}

impl Session {
    fn of(
        served: &Arc<ServedRules>,
        rules: Arc<RuleSet>,
        principal: Option<Principal>,
        is_user: bool,
        address: Option<Arc<str>>,
    ) -> Self {
        let current = RwLock::new(CurrentRights { rules, is_live: true });
        let rights = Arc::new(ClientRights { served: Arc::clone(served), principal, is_user, address, current });
        let guard = Arc::new(Guard::new(Arc::clone(&rights) as Arc<dyn Permissions>));
        Session { guard: Some(guard), rights }
    }

    /// Returns the principal; `None` for a client without a credential, whose database has access
    /// control disabled.
    pub fn principal(&self) -> Option<&Principal> {
        self.rights.principal.as_ref()
    }

    /// Whether the session continues: its credential is still accepted.
    pub fn is_live(&self) -> bool {
        self.is_of_owner() || {
            self.rights.refresh();
            self.rights.current().is_live
        }
    }

    /// Whether the client is the owner of the database, who is never checked.
    pub fn is_of_owner(&self) -> bool {
        self.guard.is_none()
    }

    /// Handles a request of the session.
    pub fn scope<F: Future>(self, handling: F) -> impl Future<Output = F::Output> {
        SESSION.scope(self, handling)
    }

    /// Returns `work` of the running request for another task, with its session.
    pub fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
        let session = Session::current();
        async move {
            match session {
                Some(session) => session.scope(work).await,
                None => work.await,
            }
        }
    }

    /// Does work of a request on another thread.
    pub(crate) fn sync_scope<T>(self, work: impl FnOnce() -> T) -> T {
        SESSION.sync_scope(self, work)
    }

    /// Returns the session of the running request; `None` outside of one.
    pub fn current() -> Option<Session> {
        SESSION.try_get().ok()
    }
}

impl ClientRights {
    fn current(&self) -> CurrentRights {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the rules accept the credential.
    fn is_accepted_by(&self, rules: &RuleSet) -> bool {
        match &self.principal {
            None => !self.served.is_enabled(),
            Some(principal) => {
                let now = self.served.owner.now();
                rules.admits(principal, now) && (!self.is_user || rules.has_user(&principal.name))
            }
        }
    }

    fn permits_by(&self, check: impl FnOnce(&RuleSet, &Principal) -> bool) -> bool {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let CurrentRights { rules, is_live } = &*current;
        *is_live
            && match &self.principal {
                Some(principal) => check(rules, principal),
                None => !self.served.is_enabled(),
            }
    }
}

impl Permissions for ClientRights {
    fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
        self.permits_by(|rules, principal| rules.allows(principal, operation, resource))
    }

    fn denies(&self, resource: Resource<'_>, operation: Operation) -> bool {
        !self.permits_by(|rules, principal| !rules.denies(principal, operation, resource))
    }

    fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.permits_by(|rules, principal| rules.allows_every(principal, operation, kind))
    }

    fn permits_any(&self, kind: ResourceKind, operation: Operation) -> bool {
        self.permits_by(|rules, principal| rules.allows_any(principal, operation, kind))
    }

    fn denied(&self, refusal: &PermissionRefusal) {
        if self.served.is_enabled() {
            AuditLog::denied(&self.served, self.principal.as_ref(), refusal, self.address.as_ref());
        }
    }

    fn refresh(&self) {
        let known = self.current();
        // Rules that can't be read may have changed: nothing is permitted until they can.
        let (rules, is_live) = match self.served.newest() {
            Ok(rules) => {
                let is_live = self.is_accepted_by(&rules);
                (rules, is_live)
            }
            Err(_) => (Arc::clone(&known.rules), false),
        };
        if known.is_live != is_live || !Arc::ptr_eq(&known.rules, &rules) {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have brought newer rules.
            if rules.generation() >= current.rules.generation() {
                *current = CurrentRights { rules, is_live };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quire::system::{AccessRule, Command, RulePattern, RuleSubject, ScramMechanism};
    use quire::{Clock, ErrorKind, ManualClock, NewApiKey, NewJob, NewPassword, Timestamp};

    use super::*;

    fn served() -> (tempfile::TempDir, Arc<ManualClock>, ServedDatabase) {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000)));
        let database =
            Database::builder(directory.path()).clock(Arc::clone(&clock) as Arc<dyn Clock>).open().expect("a database");
        database.queue("q").enqueue(NewJob::new("job")).expect("enqueued");
        (directory, clock, ServedDatabase::new(database))
    }

    fn stats(database: &Database) -> Result<bool, ErrorKind> {
        database.queue("q").stats().map(|found| found.is_some()).map_err(|error| error.kind())
    }

    fn may_describe(user: &str) -> (RuleSubject, AccessRule) {
        let rule = AccessRule::allow(Operation::Describe, ResourceKind::Queue, RulePattern::Literal("q".to_owned()));
        (RuleSubject::Principal(user.to_owned()), rule)
    }

    #[tokio::test]
    async fn outside_of_a_session_nothing_is_permitted_and_an_open_server_permits_everything() {
        let (_directory, _, served) = served();
        assert_eq!(stats(&served.get()), Err(ErrorKind::NotPermitted));
        assert_eq!(stats(served.owner()), Ok(true));
        let open = served.session(&Credential::Absent).expect("access control is disabled");
        let seen = open.clone().scope(async { (stats(&served.get()), served.get().read(|_| ()).is_ok()) }).await;
        assert_eq!(seen, (Ok(true), true));
        let aside = {
            let served = served.clone();
            let work = open.scope(async { crate::budget::carried(move || stats(&served.get())) }).await;
            tokio::task::spawn_blocking(work).await.expect("no panic")
        };
        assert_eq!(aside, Ok(true));
    }

    #[tokio::test]
    async fn the_owner_is_not_checked_in_a_session_of_its_own_server() {
        let (_directory, _, served) = served();
        let owned = ServedDatabase::owned(served.owner().clone());
        served.owner().access().init("root").expect("initialised");
        assert_eq!(stats(&owned.get()), Err(ErrorKind::NotPermitted), "outside of a session");
        let session = owned.session(&Credential::Key("qk_wrong")).expect("no credential is needed");
        assert!(session.is_live() && session.is_of_owner() && !owned.is_access_enabled());
        assert_eq!(session.scope(async { stats(&owned.get()) }).await, Ok(true));
        assert_eq!(served.session(&Credential::Absent).err(), Some(AuthenticationError::Missing));
    }

    #[tokio::test]
    async fn enabling_access_control_ends_open_sessions_and_their_waits() {
        let (_directory, _, served) = served();
        let open = served.session(&Credential::Absent).expect("open");
        let database = served.of(&open);
        let waiting = tokio::spawn({
            let (served, open) = (served.clone(), open.clone());
            async move { served.ended(&open).await }
        });
        let key = served.owner().access().init("root").expect("initialised");
        waiting.await.expect("it ends");
        assert_eq!((open.is_live(), stats(&database)), (false, Err(ErrorKind::NotPermitted)));
        assert_eq!(served.session(&Credential::Absent).err(), Some(AuthenticationError::Missing));
        assert_eq!(served.session(&Credential::Key("qk_none")).err(), Some(AuthenticationError::Wrong));
        let root = served.session(&Credential::Key(key.reveal())).expect("the key is valid");
        assert_eq!(stats(&served.of(&root)), Ok(true));
    }

    #[tokio::test]
    async fn a_session_follows_the_rules_and_ends_with_its_key() {
        let (_directory, clock, served) = served();
        let access = served.owner().access();
        access.init("root").expect("initialised");
        access.create_user("ann", &[]).expect("created");
        let lifetime = Some(Duration::from_secs(60));
        let first = access.create_key("ann", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
        let second = access.create_key("ann", NewApiKey { lifetime, ..NewApiKey::default() }).expect("created");
        let session = |text| served.session(&Credential::Key(text)).expect("a session");
        let (one, two) = (session(first.reveal()), session(second.reveal()));
        let (of_one, of_two) = (served.of(&one), served.of(&two));
        assert_eq!(stats(&of_one), Err(ErrorKind::NotPermitted));
        let (subject, rule) = may_describe("ann");
        access.add_rule(&subject, &rule).expect("added");
        assert_eq!((stats(&of_one), stats(&of_two)), (Ok(true), Ok(true)));
        access.drop_key(first.id()).expect("dropped");
        assert_eq!((stats(&of_one), one.is_live()), (Err(ErrorKind::NotPermitted), false));
        assert_eq!((stats(&of_two), two.is_live()), (Ok(true), true));
        clock.set(Timestamp::from_micros(1_000_000 + 61_000_000));
        assert_eq!((stats(&of_two), two.is_live()), (Err(ErrorKind::NotPermitted), false));
    }

    #[tokio::test]
    async fn a_denial_on_a_topic_wins_over_the_right_to_create_topics_in_the_cluster() {
        let (_directory, _, served) = served();
        let access = served.owner().access();
        access.init("root").expect("initialised");
        let ann = RuleSubject::Principal("ann".to_owned());
        let cluster = RulePattern::Literal(Resource::CLUSTER.name.to_owned());
        let secrets = RulePattern::Literal("secrets".to_owned());
        access.add_rule(&ann, &AccessRule::allow(Operation::Create, ResourceKind::Cluster, cluster)).expect("added");
        access.add_rule(&ann, &AccessRule::deny(Operation::All, ResourceKind::Topic, secrets)).expect("added");
        let session = served.session(&Credential::Verified(&Principal::named("ann"))).expect("a session");
        let database = served.of(&session);
        database.topic("orders").create(1).expect("created");
        let refused = database.topic("secrets").create(1).expect_err("it is denied");
        assert_eq!(refused.kind(), ErrorKind::NotPermitted);
    }

    #[tokio::test]
    async fn a_verified_name_acts_by_its_rules_and_an_authenticated_one_needs_its_user() {
        let (_directory, clock, served) = served();
        let access = served.owner().access();
        access.init("root").expect("initialised");
        let (subject, rule) = may_describe("CN=ann");
        access.add_rule(&subject, &rule).expect("added");
        let ann = Principal::named("CN=ann");
        let peer = served.session(&Credential::Verified(&ann)).expect("a session");
        assert_eq!(stats(&served.of(&peer)), Ok(true));
        assert_eq!(served.session(&Credential::Authenticated(&ann)).err(), Some(AuthenticationError::Wrong));
        access.create_user("bob", &["monitor"]).expect("created");
        let bob = served.session(&Credential::Authenticated(&Principal::named("bob"))).expect("a session");
        assert_eq!(stats(&served.of(&bob)), Ok(true));
        access.drop_user("bob").expect("dropped");
        assert_eq!(stats(&served.of(&bob)), Err(ErrorKind::NotPermitted));
        // A certificate that ends.
        let end = Timestamp::from_micros(2_000_000);
        let ending = Principal { expires: Some(end), ..ann };
        let peer = served.session(&Credential::Verified(&ending)).expect("a session");
        assert_eq!(stats(&served.of(&peer)), Ok(true));
        clock.set(end);
        assert_eq!((peer.is_live(), stats(&served.of(&peer))), (false, Err(ErrorKind::NotPermitted)));
        assert_eq!(served.session(&Credential::Verified(&ending)).err(), Some(AuthenticationError::Wrong));
    }

    #[tokio::test]
    async fn a_principal_has_the_roles_of_its_credential_and_those_that_do_not_exist_give_nothing() {
        let (_directory, _, served) = served();
        let access = served.owner().access();
        access.init("root").expect("initialised");
        let session = |roles: &[&str]| {
            let roles = roles.iter().map(|role| Arc::from(*role)).collect();
            let principal = Principal { roles, ..Principal::named("anna") };
            stats(&served.of(&served.session(&Credential::Verified(&principal)).expect("a session")))
        };
        assert_eq!(session(&[]), Err(ErrorKind::NotPermitted));
        assert_eq!(session(&["unknown"]), Err(ErrorKind::NotPermitted));
        assert_eq!(session(&["unknown", "monitor"]), Ok(true));
        let denial = AccessRule::deny(Operation::Describe, ResourceKind::Queue, RulePattern::Any);
        access.put_role("blind", &[denial]).expect("put");
        assert_eq!(session(&["monitor", "blind"]), Err(ErrorKind::NotPermitted), "a denial of a role wins");
    }

    #[tokio::test]
    async fn a_session_of_a_password_ends_with_the_next_password() {
        let (_directory, _, served) = served();
        let access = served.owner().access();
        access.init("root").expect("initialised");
        access.create_user("ann", &["monitor"]).expect("created");
        for mechanism in ScramMechanism::ALL {
            access.set_password("ann", "first", NewPassword::default()).expect("set");
            let password = access.rules().scram("ann", mechanism).cloned().map(Arc::new);
            let principal = Principal { password, ..Principal::named("ann") };
            let session = served.session(&Credential::Authenticated(&principal)).expect("a session");
            assert_eq!(stats(&served.of(&session)), Ok(true));
            // Roles change rights, and no password.
            access.change(&[Command::SetRoles { user: "ann", roles: &["monitor", "reader"] }]).expect("changed");
            assert!(session.is_live());
            let waiting = tokio::spawn({
                let (served, session) = (served.clone(), session.clone());
                async move { served.ended(&session).await }
            });
            // The same text is another password, too: its salt is another.
            access.set_password("ann", "first", NewPassword::default()).expect("set");
            waiting.await.expect("it ends");
            assert_eq!(stats(&served.of(&session)), Err(ErrorKind::NotPermitted));
            assert_eq!(served.session(&Credential::Authenticated(&principal)).err(), Some(AuthenticationError::Wrong));
        }
    }

    #[tokio::test]
    async fn a_server_that_saw_access_control_enabled_checks_its_clients_until_it_stops() {
        let (_directory, _, served) = served();
        let access = served.owner().access();
        let open = served.session(&Credential::Absent).expect("open");
        let key = access.init("root").expect("initialised");
        let root = served.session(&Credential::Key(key.reveal())).expect("the key is valid");
        access.disable().expect("disabled");
        assert!(served.is_access_enabled());
        assert_eq!(served.session(&Credential::Absent).err(), Some(AuthenticationError::Missing));
        assert_eq!((open.is_live(), stats(&served.of(&open))), (false, Err(ErrorKind::NotPermitted)));
        // Users, keys and rules stay in effect here.
        assert_eq!((root.is_live(), stats(&served.of(&root))), (true, Ok(true)));
        access.drop_key(key.id()).expect("dropped");
        assert_eq!((root.is_live(), stats(&served.of(&root))), (false, Err(ErrorKind::NotPermitted)));
    }
}
