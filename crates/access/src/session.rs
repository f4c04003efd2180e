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
//! session ends when its credential expires, is dropped or disabled, and a session without a
//! credential ends when access control is enabled.

use std::fmt;
use std::future::{self, Future};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use quire::system::{Principal, RuleSet};
use quire::{Database, Guard, Operation, Permissions, Resource, ResourceKind};
use tokio::sync::watch;

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
    owner: Database,
    /// The session of clients without credentials, while access control is disabled.
    open: Session,
    /// For requests outside of a session.
    sealed: Arc<Guard>,
    /// Changes every [`LOOK`].
    ticks: OnceLock<watch::Receiver<()>>,
}

/// What a client presents.
#[derive(Debug, Clone)]
pub enum Credential<'c> {
    /// Nothing.
    Absent,
    /// The text of an API key.
    Key(&'c str),
    /// A user that the server has authenticated by a key or a password.
    Authenticated(&'c Principal),
    /// A name that the server has verified: by a password, a certificate, or the operating system.
    Verified(VerifiedName<'c>),
}

/// A name that the server has verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifiedName<'c> {
    /// A user, by its password.
    Password(&'c str),
    /// A principal, by a client certificate or by the credentials of a Unix socket. It may be a
    /// user or have rules only.
    Peer(&'c str),
}

/// Why a client has no session. Clients get the same answer for every wrong credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthenticationError {
    /// Access control is enabled, and the client presented no credential.
    Missing,
    /// The credential is unknown, wrong, expired or disabled.
    Wrong,
}

impl fmt::Display for AuthenticationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AuthenticationError::Missing => "the request has no credential: send an API key",
            AuthenticationError::Wrong => "the credential is not valid: it is unknown, wrong, expired or disabled",
        })
    }
}

impl std::error::Error for AuthenticationError {}

/// An authenticated client, or a client of a database whose access control is disabled. Cheap to
/// clone.
#[derive(Debug, Clone)]
pub struct Session {
    guard: Arc<Guard>,
    rights: Arc<ClientRights>,
}

/// The permissions of a session, by the newest published rules.
#[derive(Debug)]
struct ClientRights {
    owner: Database,
    /// `None` for a client without a credential.
    principal: Option<Principal>,
    /// Whether the principal has to be a user.
    is_user: bool,
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

impl ServedDatabase {
    /// Serves this database. The front ends share it.
    pub fn new(owner: Database) -> Self {
        let open = Session::of(&owner, None, false);
        let sealed = Arc::new(Guard::new(Arc::new(NoRights)));
        ServedDatabase(Arc::new(ServedInner { owner, open, sealed, ticks: OnceLock::new() }))
    }

    /// Returns the database as the client of the running request may use it.
    pub fn get(&self) -> Database {
        let guard = SESSION.try_with(|session| Arc::clone(&session.guard));
        self.0.owner.guarded(guard.unwrap_or_else(|_| Arc::clone(&self.0.sealed)))
    }

    /// Returns the database as a session may use it, for work outside of its requests.
    pub fn of(&self, session: &Session) -> Database {
        self.0.owner.guarded(Arc::clone(&session.guard))
    }

    /// Returns the database without a guard: for the server's own work, and for facts that every
    /// client may know. It must not touch data for a client.
    pub fn owner(&self) -> &Database {
        &self.0.owner
    }

    /// Whether access control is enabled.
    pub fn is_access_enabled(&self) -> bool {
        self.0.owner.access().rules().is_enabled()
    }

    /// Begins a session. While access control is disabled, every client gets one.
    ///
    /// # Errors
    /// When access control is enabled, and the credential is missing or wrong.
    pub fn session(&self, credential: &Credential<'_>) -> Result<Session, AuthenticationError> {
        let owner = &self.0.owner;
        let access = owner.access();
        let rules = access.rules();
        if !rules.is_enabled() {
            return Ok(self.0.open.clone());
        }
        let (principal, is_user) = match credential {
            Credential::Absent => return Err(AuthenticationError::Missing),
            Credential::Key(text) => (access.verify_key(text).ok_or(AuthenticationError::Wrong)?, true),
            Credential::Authenticated(principal) => (Principal::clone(principal), true),
            Credential::Verified(name) => {
                let (VerifiedName::Password(text) | VerifiedName::Peer(text)) = *name;
                let principal = Principal { name: text.into(), key: None, expires: None };
                (principal, matches!(name, VerifiedName::Password(_)))
            }
        };
        let session = Session::of(owner, Some(principal), is_user);
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
    fn of(owner: &Database, principal: Option<Principal>, is_user: bool) -> Self {
        let current = RwLock::new(CurrentRights { rules: owner.access().rules(), is_live: true });
        let rights = Arc::new(ClientRights { owner: owner.clone(), principal, is_user, current });
        Session { guard: Arc::new(Guard::new(Arc::clone(&rights) as Arc<dyn Permissions>)), rights }
    }

    /// Returns the principal; `None` for a client without a credential, whose database has access
    /// control disabled.
    pub fn principal(&self) -> Option<&Principal> {
        self.rights.principal.as_ref()
    }

    /// Whether the session goes on: its credential is still accepted.
    pub fn is_live(&self) -> bool {
        self.rights.refresh();
        self.rights.current().is_live
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
            None => !rules.is_enabled(),
            Some(principal) => {
                !rules.is_enabled()
                    || rules.admits(principal, self.owner.now()) && (!self.is_user || rules.has_user(&principal.name))
            }
        }
    }

    fn permits_by(&self, check: impl FnOnce(&RuleSet, &Principal) -> bool) -> bool {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let CurrentRights { rules, is_live } = &*current;
        *is_live
            && match &self.principal {
                Some(principal) if rules.is_enabled() => check(rules, principal),
                _ => true,
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

    fn refresh(&self) {
        let rules = self.owner.access().rules();
        let known = self.current();
        let is_live = self.is_accepted_by(&rules);
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

    use quire::system::{AccessRule, RulePattern, RuleSubject};
    use quire::{Clock, ErrorKind, ManualClock, NewApiKey, NewJob, Timestamp};

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
        let session = served.session(&Credential::Verified(VerifiedName::Peer("ann"))).expect("a session");
        let database = served.of(&session);
        database.topic("orders").create(1).expect("created");
        let refused = database.topic("secrets").create(1).expect_err("it is denied");
        assert_eq!(refused.kind(), ErrorKind::NotPermitted);
    }

    #[tokio::test]
    async fn a_verified_name_acts_by_its_rules_and_a_password_needs_its_user() {
        let (_directory, _, served) = served();
        let access = served.owner().access();
        access.init("root").expect("initialised");
        let (subject, rule) = may_describe("CN=ann");
        access.add_rule(&subject, &rule).expect("added");
        let peer = served.session(&Credential::Verified(VerifiedName::Peer("CN=ann"))).expect("a session");
        assert_eq!(stats(&served.of(&peer)), Ok(true));
        let by_password = served.session(&Credential::Verified(VerifiedName::Password("CN=ann")));
        assert_eq!(by_password.err(), Some(AuthenticationError::Wrong));
        access.create_user("bob", &["monitor"]).expect("created");
        let bob = served.session(&Credential::Verified(VerifiedName::Password("bob"))).expect("a session");
        assert_eq!(stats(&served.of(&bob)), Ok(true));
        access.drop_user("bob").expect("dropped");
        assert_eq!(stats(&served.of(&bob)), Err(ErrorKind::NotPermitted));
    }
}
