//! The sign-in of browsers at the provider: the authorization code flow (OpenID Connect Core 1.0,
//! section 3.1) with PKCE (RFC 7636).
//!
//! ```text
//! begin ──▶ state, nonce, challenge ──▶ the person signs in at the provider
//! finish ◀── state, code            ◀── the browser comes back
//!    └──▶ code, verifier ──▶ ID token ──▶ signature, issuer, audience, expiry, nonce ──▶ Principal
//! ```
//!
//! The principal is that of a bearer token with the same claims.

use std::fmt;
use std::io;

use quire::Timestamp;
use quire::system::Principal;

use super::pending::{PendingLogin, PendingLogins};
use super::provider::{self, ProviderClient};
use super::settings::LoginSettings;
use super::url;
use super::verifier::TokenVerifier;
use super::{claims, is_same_secret, jwt};

/// Why a sign-in at the provider failed. The reasons are for the log of the server: a browser does
/// not get them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginError {
    /// The answer that the browser brought, or the token of the provider, is not accepted.
    Refused(String),
    /// The provider or a file of the settings can't be used.
    Unavailable(String),
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (LoginError::Refused(reason) | LoginError::Unavailable(reason)) = self;
        f.write_str(reason)
    }
}

impl std::error::Error for LoginError {}

/// A sign-in that has begun.
pub struct PreparedLogin {
    /// Where the browser goes: a URL of the provider.
    pub location: String,
    /// The secret that the browser has to bring back, in a cookie.
    pub cookie: String,
}

/// It does not show the secrets.
impl fmt::Debug for PreparedLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedLogin").finish_non_exhaustive()
    }
}

/// What a browser brings back from the provider.
#[derive(Clone, Default)]
pub struct LoginAnswer {
    /// The cookie of [`PreparedLogin`].
    pub cookie: String,
    /// The parameter `state`.
    pub state: String,
    /// The parameter `code`.
    pub code: Option<String>,
    /// The parameter `error`: why the provider has no code.
    pub error: Option<String>,
    /// The parameter `iss` (RFC 9207).
    pub issuer: Option<String>,
}

/// It does not show the secrets.
impl fmt::Debug for LoginAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginAnswer").field("error", &self.error).finish_non_exhaustive()
    }
}

/// The state of the sign-ins of a server.
#[derive(Debug)]
pub(super) struct LoginState {
    settings: LoginSettings,
    provider: ProviderClient,
    pending: PendingLogins,
    /// The host of the provider.
    host: String,
}

impl LoginState {
    /// No sign-in has begun. It does not connect yet.
    ///
    /// # Errors
    /// When the file of the secret or the certificates of the system can't be used.
    pub(super) fn new(issuer: &str, settings: LoginSettings) -> io::Result<Self> {
        settings.client_secret.as_deref().map(provider::read_secret).transpose()?;
        let (provider, pending) = (ProviderClient::new(issuer)?, PendingLogins::default());
        let host = url::host_of(issuer).unwrap_or_default();
        Ok(LoginState { settings, provider, pending, host })
    }
}

/// The sign-in of browsers at the provider of a [`TokenVerifier`]. See [`TokenVerifier::login`].
#[derive(Debug)]
pub struct ProviderLogin<'v> {
    pub(super) verifier: &'v TokenVerifier,
    pub(super) state: &'v LoginState,
}

impl ProviderLogin<'_> {
    /// Returns the host of the provider, for people.
    pub fn host(&self) -> &str {
        &self.state.host
    }

    /// Begins a sign-in of a browser with this address at `now`. It blocks its thread, where it
    /// has to ask the provider.
    ///
    /// # Errors
    /// [`LoginError::Unavailable`].
    pub fn begin(&self, client: &str, now: Timestamp) -> Result<PreparedLogin, LoginError> {
        let LoginState { settings, provider, pending, .. } = self.state;
        let endpoints = provider.endpoints(now)?;
        let unavailable = |error: io::Error| LoginError::Unavailable(format!("no random numbers: {error}"));
        let login = PendingLogin::begin(client, now).map_err(unavailable)?;
        let scope = ["openid"].into_iter().chain(settings.scopes.iter().map(String::as_str));
        let query = url::query_of(&[
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", &settings.redirect_url()),
            ("scope", &scope.collect::<Vec<_>>().join(" ")),
            ("state", &login.state),
            ("nonce", &login.nonce),
            ("code_challenge", &login.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        let separator = if endpoints.authorization.contains('?') { '&' } else { '?' };
        let location = format!("{}{separator}{query}", endpoints.authorization);
        Ok(PreparedLogin { location, cookie: pending.add(login, now).map_err(unavailable)? })
    }

    /// Ends a sign-in with what the browser brought back: returns the principal of the person. It
    /// blocks its thread while it asks the provider.
    ///
    /// # Errors
    /// [`LoginError`].
    pub fn finish(&self, answer: &LoginAnswer, now: Timestamp) -> Result<Principal, LoginError> {
        let LoginState { settings, provider, pending, .. } = self.state;
        let refused = |reason: &str| Err(LoginError::Refused(reason.to_owned()));
        let Some(login) = pending.take(&answer.cookie, &answer.state, now) else {
            return refused("no sign-in of this browser waits for this answer");
        };
        if answer.issuer.as_ref().is_some_and(|issuer| *issuer != self.verifier.settings().issuer) {
            return refused("the answer is of another issuer");
        }
        if let Some(error) = &answer.error {
            return refused(&format!("the provider answered with the error {error:?}"));
        }
        let Some(code) = &answer.code else { return refused("the answer has no code") };
        let token = provider.exchange(settings, code, &login.verifier, now)?;
        let verified = jwt::verified(&token, &self.verifier.keys()).and_then(|claims| {
            let nonce = claims::text(&claims, "nonce")?;
            if !is_same_secret(nonce, &login.nonce) {
                return Err(super::WrongToken);
            }
            claims::principal_of_login(&claims, self.verifier.settings(), &settings.client_id, now)
        });
        verified.or_else(|_| refused("the ID token of the provider is not accepted"))
    }
}
