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
//! access control is disabled. While the rules can't be read, each call of a session fails with
//! the reason.

#[cfg(test)]
mod creator_tests;
mod credential;
mod rights;
#[cfg(test)]
mod tests;

use std::future::{self, Future};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, RwLock, Weak};
use std::time::Duration;

use quire::system::{KEY_PREFIX, Principal, RuleSet};
use quire::{Database, Guard, Permissions, Timestamp};
use tokio::sync::watch;

pub use credential::{AuthenticationError, Credential};
pub(crate) use rights::ServedRules;
use rights::{ClientRights, CurrentRights, NoRights};

use crate::audit::AuditLog;
use crate::forwarding::Forwarder;
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
    /// Forwards requests while another node leads.
    forwarding: Option<Forwarder>,
}

/// An authenticated client, or a client of a database whose access control is disabled. Cheap to
/// clone.
#[derive(Debug, Clone)]
pub struct Session {
    /// `None` for the owner.
    guard: Option<Arc<Guard>>,
    rights: Arc<ClientRights>,
    /// Whether this node answers the reads, whichever node leads.
    reads_here: bool,
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

    /// Returns the verifier of tokens; `None` where no tokens are accepted.
    pub fn tokens(&self) -> Option<&Arc<TokenVerifier>> {
        self.0.options.tokens.as_ref()
    }

    /// Forwards requests to the leader while another node leads. Call it before the first session.
    #[must_use]
    pub fn with_forwarding(self, forwarding: Forwarder) -> Self {
        let options = ServedOptions { forwarding: Some(forwarding), ..self.0.options.clone() };
        ServedDatabase::with(self.owner().clone(), options)
    }

    /// Forwards requests, where this server does and another node leads now.
    pub fn forwarding(&self) -> Option<&Forwarder> {
        self.0.options.forwarding.as_ref().filter(|_| !self.owner().serves())
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
        let database = match &session.guard {
            Some(guard) => self.owner().guarded(Arc::clone(guard)),
            None => self.owner().clone(),
        };
        if session.reads_here { database.local() } else { database }
    }

    /// Returns the database without a guard: for the server's own work, and for facts that every
    /// client may know. It must not touch data for a client.
    pub fn owner(&self) -> &Database {
        &self.0.rules.owner
    }

    /// Whether clients are checked: access control is enabled, or was enabled since the server
    /// began. The owner is not checked.
    pub fn is_access_enabled(&self) -> bool {
        // Without the newest rules, the last ones say whether clients are checked.
        let _ = self.0.rules.newest();
        !self.0.options.is_owned && self.0.rules.is_enabled()
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
    /// has the login, or the refusal of a credential.
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
            // Nobody tried to log in without a credential.
            Err(_) if matches!(credential, Credential::Absent) => {}
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

    /// Begins a session, and records nothing.
    pub(crate) fn begin(
        &self,
        credential: &Credential<'_>,
        address: Option<Arc<str>>,
    ) -> Result<Session, AuthenticationError> {
        if self.0.options.is_owned {
            return Ok(self.0.open.clone());
        }
        let served = &self.0.rules;
        // While the newest rules can't be read, each call of a session fails with the reason. So it
        // is harmless that the last rules decide who gets one.
        let rules = served.newest().unwrap_or_else(|_| served.owner.access().rules());
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
            Credential::Authenticated(principal) => {
                let is_user = principal.key.is_some() || principal.password.is_some();
                (Principal::clone(principal), is_user)
            }
            // A node of the cluster forwards the key of its client.
            Credential::Verified(principal) => (Principal::clone(principal), principal.key.is_some()),
        };
        let session = Session::of(served, rules, Some(principal), is_user, address);
        if session.is_live() { Ok(session) } else { Err(AuthenticationError::Wrong) }
    }

    /// Waits until the session has ended. A stream that waits for data ends then.
    pub async fn ended(&self, session: &Session) {
        let mut ticks = self.ticks();
        while session.is_live() {
            if ticks.changed().await.is_err() {
                return;
            }
        }
    }

    /// Waits until this node of a cluster does not lead. It waits forever for a database alone, and
    /// for a session whose reads this node answers.
    pub async fn deposed(&self, session: Option<&Session>) {
        if self.owner().cluster_control().is_none() || session.is_some_and(Session::reads_here) {
            return future::pending().await;
        }
        let mut ticks = self.ticks();
        while self.owner().serves() {
            if ticks.changed().await.is_err() {
                return;
            }
        }
    }

    fn ticks(&self) -> watch::Receiver<()> {
        self.0.ticks.get_or_init(|| begin_ticks(Arc::downgrade(&self.0))).clone()
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
        let (served, is_ended) = (Arc::clone(served), AtomicBool::new(false));
        let rights = Arc::new(ClientRights { served, principal, is_user, address, current, is_ended });
        let guard = Arc::new(Guard::new(Arc::clone(&rights) as Arc<dyn Permissions>));
        Session { guard: Some(guard), rights, reads_here: false }
    }

    /// Returns the principal; `None` for a client without a credential, whose database has access
    /// control disabled.
    pub fn principal(&self) -> Option<&Principal> {
        self.rights.principal.as_ref()
    }

    /// Whether the session continues: its credential is still accepted.
    pub fn is_live(&self) -> bool {
        self.is_of_owner() || {
            // A session whose rules can't be read has not ended: each of its calls fails.
            self.rights.refresh().is_err() || self.rights.current().is_live
        }
    }

    /// Ends the session: its requests are refused from then on, and its streams end.
    pub fn end(&self) {
        self.rights.end();
    }

    /// A session of the same client that ends at this time, by itself or with [`Session::end`]. The
    /// session that it follows goes on.
    #[must_use]
    pub(crate) fn until(&self, ends: Timestamp) -> Self {
        let ClientRights { served, principal, is_user, address, .. } = &*self.rights;
        let principal = principal.clone().map(|principal| {
            let expires = principal.expires.map_or(ends, |expires| expires.min(ends));
            Principal { expires: Some(expires), ..principal }
        });
        Session::of(served, self.rights.current().rules, principal, *is_user, address.clone())
    }

    /// Returns the session for a read that this node answers, whichever node of a cluster leads.
    /// The read is checked by the rules that this node has published.
    #[must_use]
    pub fn reading_here(self) -> Self {
        Session { reads_here: true, ..self }
    }

    /// Whether this node answers the reads of the session: see [`Session::reading_here`].
    pub fn reads_here(&self) -> bool {
        self.reads_here
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
