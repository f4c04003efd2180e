//! Whether the client of a connection is authenticated, and what it may send until then.
//!
//! ```text
//! SaslHandshake ──▶ exchange begins ──▶ SaslAuthenticate … ──▶ principal ──▶ any request
//!       ▲            version 0: messages without headers          │
//!       └─────────────── again, before the key expires ◀──────────┘
//! ```

use std::sync::Arc;

use quire::Timestamp;
use quire::system::Principal;
use quire_access::sasl::SaslExchange;

use crate::close_reason::CloseReason;
use crate::request::Api;

/// Longest frame of a client that must authenticate first, in bytes.
pub(crate) const FRAME_BYTES_MAX: usize = 16 << 10;

/// The authentication of one connection.
#[derive(Debug)]
pub(crate) struct Authentication {
    /// The authenticated client.
    pub(crate) principal: Option<Principal>,
    /// Whether the principal is that of the client's certificate. SASL may replace it.
    is_certified: bool,
    pub(crate) exchange: Option<PendingExchange>,
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
    /// Begins with the name that the client's certificate has, if any.
    pub(crate) fn of_certificate(name: Option<Arc<str>>) -> Self {
        let principal = name.map(|name| Principal { name, key: None, expires: None });
        Authentication { is_certified: principal.is_some(), principal, exchange: None }
    }

    /// Checks that the client may send a request, while access control is enabled.
    ///
    /// # Errors
    /// [`CloseReason::Unauthenticated`].
    pub(crate) fn check(&self, api: Api, now: Timestamp) -> Result<(), CloseReason> {
        let is_open = matches!(api, Api::Versions | Api::SaslHandshake | Api::SaslAuthenticate);
        if is_open || self.is_authenticated(now) { Ok(()) } else { Err(CloseReason::Unauthenticated) }
    }

    fn is_authenticated(&self, now: Timestamp) -> bool {
        self.principal.as_ref().is_some_and(|known| known.expires.is_none_or(|expires| now < expires))
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
        self.principal = Some(principal);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(name: &str, expires: Option<Timestamp>) -> Principal {
        Principal { name: name.into(), key: None, expires }
    }

    #[test]
    fn a_certificate_authenticates_and_sasl_may_replace_its_name_once() {
        let now = Timestamp::from_millis(1);
        let mut authentication = Authentication::of_certificate(Some("host-1".into()));
        assert_eq!(authentication.check(Api::Produce, now), Ok(()));
        assert!(!authentication.is_by_sasl());
        assert_eq!(authentication.succeed(principal("ann", None)), Ok(()));
        assert!(authentication.is_by_sasl());
        assert_eq!(authentication.succeed(principal("host-1", None)), Err(OtherPrincipal));
        assert_eq!(authentication.principal, Some(principal("ann", None)));
        let without = Authentication::of_certificate(None);
        assert_eq!(without.check(Api::Produce, now), Err(CloseReason::Unauthenticated));
        assert_eq!(without.check(Api::Versions, now), Ok(()));
    }

    #[test]
    fn an_authentication_ends_when_its_key_expires() {
        let (before, end) = (Timestamp::from_millis(1), Timestamp::from_millis(2));
        let mut authentication = Authentication::of_certificate(None);
        authentication.succeed(principal("ann", Some(end))).expect("the first principal");
        assert_eq!(authentication.check(Api::Fetch, before), Ok(()));
        assert_eq!(authentication.check(Api::Fetch, end), Err(CloseReason::Unauthenticated));
        assert_eq!(authentication.check(Api::SaslHandshake, end), Ok(()));
    }
}
