//! The sign-ins of browsers that have begun at this server, and wait for the answer of the
//! provider.
//!
//! A sign-in is known by the cookie of its browser, of which the server keeps the hash. It ends
//! after [`LOGIN`], and its answer is taken once. The number of sign-ins is bounded, in all and for
//! each address of clients. A new one beyond a bound ends the oldest one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use quire::Timestamp;
use sha2::{Digest, Sha256};

use super::is_same_secret;

/// How long a person may take to sign in at the provider.
pub const LOGIN: Duration = Duration::from_secs(10 * 60);

/// The most sign-ins that wait. Each takes less than 1 KiB.
const LOGINS_MAX: usize = 4_096;

/// The most sign-ins that wait of clients with one address.
const LOGINS_OF_CLIENT_MAX: usize = 256;

/// The bytes of a secret.
const SECRET_BYTES: usize = 32;

type CookieHash = [u8; 32];

/// The sign-ins that wait.
#[derive(Debug, Default)]
pub(super) struct PendingLogins(Mutex<HashMap<CookieHash, PendingLogin>>);

/// A sign-in that waits. It has no `Debug` of its secrets.
pub(super) struct PendingLogin {
    /// What the answer of the provider has to repeat.
    pub(super) state: String,
    /// What the ID token has to repeat.
    pub(super) nonce: String,
    /// The code verifier of PKCE, which the provider gets with the code.
    pub(super) verifier: String,
    client: Box<str>,
    ends: Timestamp,
}

impl PendingLogin {
    /// A sign-in of a client with this address, with new secrets.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(super) fn begin(client: &str, now: Timestamp) -> std::io::Result<Self> {
        let (state, nonce, verifier) = (secret()?, secret()?, secret()?);
        let ends = now.plus_micros(LOGIN.as_secs() * 1_000_000);
        Ok(PendingLogin { state, nonce, verifier, client: client.into(), ends })
    }

    /// The challenge of PKCE, by the method `S256`.
    pub(super) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }
}

impl PendingLogins {
    /// Adds a sign-in, and returns the cookie of its browser.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(super) fn add(&self, login: PendingLogin, now: Timestamp) -> std::io::Result<String> {
        let cookie = secret()?;
        let mut logins = self.lock();
        logins.retain(|_, known| now < known.ends);
        let is_of_client = |known: &PendingLogin| known.client == login.client;
        if logins.values().filter(|known| is_of_client(known)).count() >= LOGINS_OF_CLIENT_MAX {
            end_oldest(&mut logins, is_of_client);
        }
        if logins.len() >= LOGINS_MAX {
            end_oldest(&mut logins, |_| true);
        }
        logins.insert(hash_of(&cookie), login);
        Ok(cookie)
    }

    /// Takes the sign-in of a cookie, if the state is that of the sign-in. With another state, the
    /// sign-in continues: a page of another site can send a browser here.
    pub(super) fn take(&self, cookie: &str, state: &str, now: Timestamp) -> Option<PendingLogin> {
        let hash = hash_of(cookie);
        let mut logins = self.lock();
        let known = logins.get(&hash)?;
        if !is_same_secret(&known.state, state) {
            return None;
        }
        logins.remove(&hash).filter(|login| now < login.ends)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CookieHash, PendingLogin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for PendingLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingLogin").field("client", &self.client).field("ends", &self.ends).finish_non_exhaustive()
    }
}

/// Ends the oldest of these sign-ins.
fn end_oldest(logins: &mut HashMap<CookieHash, PendingLogin>, is_of: impl Fn(&PendingLogin) -> bool) {
    let those = logins.iter().filter(|(_, known)| is_of(known));
    let oldest = those.min_by_key(|(_, known)| known.ends).map(|(hash, _)| *hash);
    oldest.map(|hash| logins.remove(&hash));
}

/// A random text of 43 characters.
fn secret() -> std::io::Result<String> {
    let mut random = [0; SECRET_BYTES];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// The hash in the place of a cookie: a copy of the memory of the server shows no cookie.
fn hash_of(cookie: &str) -> CookieHash {
    Sha256::digest(cookie).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// Begins a sign-in, and returns its cookie and its state.
    fn begin(logins: &PendingLogins, client: &str, now: Timestamp) -> (String, String) {
        let login = PendingLogin::begin(client, now).expect("random numbers");
        let state = login.state.clone();
        (logins.add(login, now).expect("random numbers"), state)
    }

    #[test]
    fn a_sign_in_is_taken_once_with_its_cookie_and_its_state_and_in_time() {
        let logins = PendingLogins::default();
        let (cookie, state) = begin(&logins, "10.0.0.1", at(0));
        let (other, other_state) = begin(&logins, "10.0.0.1", at(0));
        assert!(logins.take(&cookie, &other_state, at(1)).is_none());
        assert!(logins.take(&other, &state, at(1)).is_none());
        assert!(logins.take("", &state, at(1)).is_none() && logins.take(&cookie, "", at(1)).is_none());
        assert!(logins.take(&cookie, &state, at(599)).is_some());
        assert!(logins.take(&cookie, &state, at(599)).is_none(), "it was taken");
        assert!(logins.take(&other, &other_state, at(600)).is_none(), "it has ended");
    }

    #[test]
    fn the_sign_ins_of_an_address_and_of_all_addresses_are_bounded_and_the_oldest_ends() {
        let logins = PendingLogins::default();
        let (victim, victim_state) = begin(&logins, "10.0.0.1", at(0));
        let (first, first_state) = begin(&logins, "10.0.0.2", at(1));
        for _ in 0..LOGINS_OF_CLIENT_MAX {
            begin(&logins, "10.0.0.2", at(2));
        }
        assert_eq!(logins.lock().len(), LOGINS_OF_CLIENT_MAX + 1);
        assert!(logins.take(&first, &first_state, at(3)).is_none());
        assert!(logins.take(&victim, &victim_state, at(3)).is_some(), "of another address");
        for client in 0..=LOGINS_MAX {
            begin(&logins, &format!("10.1.{}.{}", client / 256, client % 256), at(4));
        }
        assert_eq!(logins.lock().len(), LOGINS_MAX);
        begin(&logins, "10.0.0.1", at(700));
        assert_eq!(logins.lock().len(), 1, "sign-ins end with their time");
    }

    #[test]
    fn the_challenge_is_that_of_rfc_7636() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let login = PendingLogin { verifier, ..PendingLogin::begin("", at(0)).expect("random numbers") };
        assert_eq!(login.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert!(!format!("{login:?}").contains(&login.verifier));
    }
}
