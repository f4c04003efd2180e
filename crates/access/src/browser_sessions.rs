//! Sessions of browsers: a random token in place of an API key, so that no script of a page holds
//! the key.
//!
//! A browser presents the token in a cookie, and the server keeps the hash of the token with the
//! [`Session`] of the key. A browser session ends with that session, 12 hours after it began, and
//! after 30 minutes without a request. It is in memory only: a restart of the server ends it. The
//! number of sessions is bounded. A new one beyond the bound ends the one that was used least
//! recently: of the same principal, if that has many. Streams end with their browser session.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quire::Timestamp;
use sha2::{Digest, Sha256};

use crate::session::Session;

/// How long a browser session lasts.
pub const BROWSER_SESSION: Duration = Duration::from_secs(12 * 3_600);

/// How long a browser session lasts without a request.
pub const BROWSER_SESSION_IDLE: Duration = Duration::from_secs(30 * 60);

/// The most browser sessions of a server. Each takes less than 1 KiB.
const SESSIONS_MAX: usize = 4_096;

/// The most browser sessions of one principal.
const SESSIONS_OF_PRINCIPAL_MAX: usize = 64;

/// The microseconds of a duration of this file.
const fn micros_of(duration: Duration) -> u64 {
    duration.as_secs() * 1_000_000
}

/// The bytes of a token.
const TOKEN_BYTES: usize = 32;

type TokenHash = [u8; 32];

/// The browser sessions of a server.
#[derive(Debug, Default)]
pub struct BrowserSessions(Mutex<HashMap<TokenHash, BrowserSession>>);

#[derive(Debug)]
struct BrowserSession {
    session: Session,
    principal: Arc<str>,
    ends: Timestamp,
    used: Timestamp,
}

impl BrowserSessions {
    /// Begins a browser session with the rights of a session that has a principal. Returns its
    /// token, of hexadecimal digits.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn begin(&self, session: Session, now: Timestamp) -> std::io::Result<String> {
        let mut random = [0; TOKEN_BYTES];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let token = random.iter().fold(String::with_capacity(2 * TOKEN_BYTES), |mut token, byte| {
            write!(token, "{byte:02x}").expect("a string takes every character");
            token
        });
        let principal = session.principal().map_or_else(Arc::default, |principal| Arc::clone(&principal.name));
        let ends = now.plus_micros(micros_of(BROWSER_SESSION));
        let session = session.until(ends);
        let mut sessions = self.lock();
        sessions.retain(|_, known| known.is_live(now));
        let is_own = |known: &BrowserSession| known.principal == principal;
        if sessions.values().filter(|known| is_own(known)).count() >= SESSIONS_OF_PRINCIPAL_MAX {
            end_oldest(&mut sessions, is_own);
        }
        if sessions.len() >= SESSIONS_MAX {
            end_oldest(&mut sessions, |_| true);
        }
        sessions.insert(hash_of(&token), BrowserSession { session, principal, ends, used: now });
        Ok(token)
    }

    /// Returns the session of a token. `None` for an unknown token, and for a session that has
    /// ended.
    pub fn find(&self, token: &str, now: Timestamp) -> Option<Session> {
        let hash = hash_of(token);
        let mut sessions = self.lock();
        let known = sessions.get_mut(&hash)?;
        if !known.is_live(now) {
            sessions.remove(&hash);
            return None;
        }
        known.used = now;
        Some(known.session.clone())
    }

    /// Ends the session of a token, with its streams.
    pub fn end(&self, token: &str) {
        self.lock().remove(&hash_of(token));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenHash, BrowserSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BrowserSession {
    fn drop(&mut self) {
        self.session.end();
    }
}

impl BrowserSession {
    fn is_live(&self, now: Timestamp) -> bool {
        let is_idle = now >= self.used.plus_micros(micros_of(BROWSER_SESSION_IDLE));
        now < self.ends && !is_idle && self.session.is_live()
    }
}

/// Ends the least recently used of these sessions.
fn end_oldest(sessions: &mut HashMap<TokenHash, BrowserSession>, is_of: impl Fn(&BrowserSession) -> bool) {
    let those = sessions.iter().filter(|(_, known)| is_of(known));
    let oldest = those.min_by_key(|(_, known)| known.used).map(|(hash, _)| *hash);
    oldest.map(|hash| sessions.remove(&hash));
}

/// The hash in the place of a token: a copy of the memory of the server shows no token.
fn hash_of(token: &str) -> TokenHash {
    Sha256::digest(token).into()
}
