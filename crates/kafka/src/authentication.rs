//! Whether the client of a connection is authenticated, and what it may send until then.
//!
//! ```text
//! SaslHandshake ──▶ exchange begins ──▶ SaslAuthenticate … ──▶ principal ──▶ any request
//!       ▲            version 0: messages without headers          │
//!       └─────────────── again, before the key expires ◀──────────┘
//! ```
//!
//! Each request is handled in the session of its client, by which its permissions are checked. A
//! session ends with its credential, and begins again when the client authenticates again.

use quire::system::Principal;
use quire_access::sasl::SaslExchange;
use quire_access::{Credential, ServedDatabase, Session};

use crate::close_reason::CloseReason;
use crate::request::Api;

/// Longest frame of a client that must authenticate first, in bytes. The longest token fits.
pub(crate) const FRAME_BYTES_MAX: usize = 18 << 10;

/// The authentication of one connection.
#[derive(Debug)]
pub(crate) struct Authentication {
    /// The authenticated client.
    pub(crate) principal: Option<Principal>,
    /// Whether the connection has verified the principal: by the client's certificate, or by the
    /// node that forwards it. SASL may replace it.
    is_certified: bool,
    pub(crate) exchange: Option<PendingExchange>,
    /// The session of the last request.
    session: Option<Session>,
    /// The address of the client.
    address: String,
}

/// An exchange that has begun.
#[derive(Debug)]
pub(crate) struct PendingExchange {
    pub(crate) exchange: SaslExchange,
    /// Whether its messages are frames of their own, without headers: KIP-43, before KIP-152.
    pub(crate) is_raw: bool,
}

/// Why a client that has answered correctly is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OtherPrincipal;

impl Authentication {
    /// Begins with the principal that the connection has verified, if any, and the client's
    /// address.
    pub(crate) fn of_connection(principal: Option<Principal>, address: String) -> Self {
        Authentication { is_certified: principal.is_some(), principal, exchange: None, session: None, address }
    }

    /// Returns the session for a request of the client; `None` for the requests with which a client
    /// authenticates. While access control is disabled, every client has a session.
    ///
    /// # Errors
    /// [`CloseReason::Unauthenticated`].
    pub(crate) fn session(&mut self, served: &ServedDatabase, api: Api) -> Result<Option<Session>, CloseReason> {
        if matches!(api, Api::Versions | Api::SaslHandshake | Api::SaslAuthenticate) {
            return Ok(None);
        }
        if let Some(session) = self.session.as_ref().filter(|session| session.is_live()) {
            return Ok(Some(session.clone()));
        }
        let credential = match &self.principal {
            None => Credential::Absent,
            Some(principal) if self.is_certified => Credential::Verified(principal),
            Some(principal) => Credential::Authenticated(principal),
        };
        self.session = served.session_from(&credential, Some(&self.address)).ok();
        self.session.clone().map(Some).ok_or(CloseReason::Unauthenticated)
    }

    /// Whether the client was authenticated by SASL.
    pub(crate) fn is_by_sasl(&self) -> bool {
        self.principal.is_some() && !self.is_certified
    }

    /// Whether the next frame is a message of the mechanism, without a header.
    pub(crate) fn is_raw(&self) -> bool {
        self.exchange.as_ref().is_some_and(|pending| pending.is_raw)
    }

    /// Records that the client is authenticated, for the first time or again.
    ///
    /// # Errors
    /// [`OtherPrincipal`] when it was authenticated by SASL as another principal: its groups and
    /// sessions belong to the first one.
    pub(crate) fn succeed(&mut self, principal: Principal) -> Result<(), OtherPrincipal> {
        let is_other = self.principal.as_ref().is_some_and(|known| known.name != principal.name);
        if is_other && !self.is_certified {
            return Err(OtherPrincipal);
        }
        self.is_certified = false;
        self.exchange = None;
        self.session = None;
        self.principal = Some(principal);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quire::{Clock, Database, ManualClock, Timestamp};

    use super::*;

    fn principal(name: &str, expires: Option<Timestamp>) -> Principal {
        Principal { expires, ..Principal::named(name) }
    }

    /// A database with access control enabled and the user `ann`, at one millisecond.
    fn served() -> (tempfile::TempDir, Arc<ManualClock>, ServedDatabase) {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1)));
        let builder = Database::builder(directory.path()).clock(Arc::clone(&clock) as Arc<dyn Clock>);
        let database = builder.open().expect("a database");
        database.access().init("root").expect("enabled");
        database.access().create_user("ann", &[]).expect("created");
        (directory, clock, ServedDatabase::new(database))
    }

    /// Whether the request has a session, or why it is refused.
    fn session(authentication: &mut Authentication, served: &ServedDatabase, api: Api) -> Result<bool, CloseReason> {
        authentication.session(served, api).map(|session| session.is_some())
    }

    #[test]
    fn a_certificate_authenticates_and_sasl_may_replace_its_name_once() {
        let (_directory, _clock, served) = served();
        let mut authentication = Authentication::of_connection(Some(Principal::named("host-1")), String::new());
        assert_eq!(session(&mut authentication, &served, Api::Produce), Ok(true));
        assert!(!authentication.is_by_sasl());
        assert_eq!(authentication.succeed(principal("ann", None)), Ok(()));
        assert!(authentication.is_by_sasl());
        let begun = authentication.session(&served, Api::Produce).expect("authenticated").expect("a session");
        assert_eq!(begun.principal(), Some(&principal("ann", None)));
        assert_eq!(authentication.succeed(principal("host-1", None)), Err(OtherPrincipal));
        assert_eq!(authentication.principal, Some(principal("ann", None)));
        let mut without = Authentication::of_connection(None, String::new());
        assert_eq!(session(&mut without, &served, Api::Produce), Err(CloseReason::Unauthenticated));
        assert_eq!(session(&mut without, &served, Api::Versions), Ok(false));
    }

    #[test]
    fn an_authentication_ends_when_its_key_expires() {
        let (_directory, clock, served) = served();
        let end = Timestamp::from_millis(2);
        let mut authentication = Authentication::of_connection(None, String::new());
        authentication.succeed(principal("ann", Some(end))).expect("the first principal");
        assert_eq!(session(&mut authentication, &served, Api::Fetch), Ok(true));
        clock.set(end);
        assert_eq!(session(&mut authentication, &served, Api::Fetch), Err(CloseReason::Unauthenticated));
        assert_eq!(session(&mut authentication, &served, Api::SaslHandshake), Ok(false));
    }
}
