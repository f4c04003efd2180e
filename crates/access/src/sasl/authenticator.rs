//! The part of SASL that all connections of a server share.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quire::Timestamp;
use quire::system::{Principal, RuleSet};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::SaslMechanism;
use super::exchange::{NONCE_BYTES, SaslExchange, SaslFailure, SaslStep};
use super::failures::FailedAttempts;
use super::password::PasswordCheck;
use super::secret::SaslSecret;
use crate::peer::Peer;

/// How many passwords are checked at a time.
const CHECKS_AT_A_TIME: usize = 2;

/// The most checked passwords of a generation.
const CHECKED_MAX: usize = 4_096;

/// Authenticates the clients of a server.
///
/// ```
/// use quire::system::ScramMechanism;
/// use quire_access::Peer;
/// use quire_access::sasl::{SaslAuthenticator, SaslMechanism, SaslProgress};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::open(directory.path())?;
/// let key = db.access().init("root")?;
/// let authenticator = SaslAuthenticator::new()?;
/// let (local, remote) = ("127.0.0.1:9092".parse()?, "127.0.0.1:50000".parse()?);
/// let peer = Peer::Tcp { local, remote, tls: None };
///
/// let mut exchange = authenticator.begin(SaslMechanism::Plain)?;
/// let message = format!("\0root\0{}", key.reveal());
/// let rules = db.access().rules();
/// let progress = authenticator.answer(&mut exchange, message.as_bytes(), &rules, db.now(), &peer).await?;
/// let SaslProgress::Authenticated { principal, .. } = progress else { panic!("PLAIN has one message") };
/// assert_eq!(&*principal.name, "root");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SaslAuthenticator {
    secret: SaslSecret,
    checked: Mutex<CheckedPasswords>,
    checks: Arc<Semaphore>,
    failures: Mutex<FailedAttempts>,
}

/// The response to a message of a client that has not failed.
#[derive(Debug, PartialEq, Eq)]
pub enum SaslProgress {
    /// Send this message. The client answers it.
    Challenge(Vec<u8>),
    /// The client is authenticated. Send it this message with the success.
    Authenticated {
        /// The principal.
        principal: Principal,
        /// The last message of the mechanism.
        message: Vec<u8>,
    },
}

impl SaslAuthenticator {
    /// Creates the state of a server, with a new secret.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new() -> io::Result<Self> {
        Ok(SaslAuthenticator {
            secret: SaslSecret::new(random()?),
            checked: Mutex::default(),
            checks: Arc::new(Semaphore::new(CHECKS_AT_A_TIME)),
            failures: Mutex::default(),
        })
    }

    /// Begins the exchange of a connection.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn begin(&self, mechanism: SaslMechanism) -> io::Result<SaslExchange> {
        Ok(SaslExchange::new(mechanism, random::<NONCE_BYTES>()?))
    }

    /// Answers the next message of a client, with the rules as they are at `now`.
    ///
    /// # Errors
    /// [`SaslFailure`], after a pause that grows with the failures of the client's address. Close
    /// the connection.
    pub async fn answer(
        &self,
        exchange: &mut SaslExchange,
        message: &[u8],
        rules: &RuleSet,
        now: Timestamp,
        peer: &Peer,
    ) -> Result<SaslProgress, SaslFailure> {
        let progress = match exchange.answer(message, rules, now, &self.secret) {
            Ok(SaslStep::Challenge(message)) => Ok(SaslProgress::Challenge(message)),
            Ok(SaslStep::Authenticated { principal, message }) => {
                Ok(SaslProgress::Authenticated { principal, message })
            }
            Ok(SaslStep::Password(check)) => self.check(check).await,
            Err(failure) => Err(failure),
        };
        if progress.is_err() {
            let pause = lock(&self.failures).pause(peer.origin(), Instant::now());
            sleep(pause).await;
        }
        progress
    }

    /// Checks a password, unless the same one was checked before.
    async fn check(&self, check: PasswordCheck) -> Result<SaslProgress, SaslFailure> {
        let name = check.name(&self.secret);
        let was_right = lock(&self.checked).has(&name) && check.is_known;
        let principal = if was_right { Some(check.principal()) } else { self.run(check).await };
        let principal = principal.ok_or(SaslFailure)?;
        if !was_right {
            lock(&self.checked).add(name);
        }
        Ok(SaslProgress::Authenticated { principal, message: Vec::new() })
    }

    async fn run(&self, check: PasswordCheck) -> Option<Principal> {
        let turn = Arc::clone(&self.checks).acquire_owned().await.expect("the semaphore stays open");
        let checked = tokio::task::spawn_blocking(move || {
            // The turn ends with the check, even when the client has left.
            let _turn = turn;
            check.run()
        });
        checked.await.ok()?
    }
}

/// The names of passwords that were right, in two generations: the older one is forgotten as a
/// whole.
#[derive(Debug, Default)]
struct CheckedPasswords {
    newer: HashSet<[u8; 32]>,
    older: HashSet<[u8; 32]>,
}

impl CheckedPasswords {
    fn has(&mut self, name: &[u8; 32]) -> bool {
        if self.newer.contains(name) {
            return true;
        }
        let is_older = self.older.remove(name);
        if is_older {
            self.add(*name);
        }
        is_older
    }

    fn add(&mut self, name: [u8; 32]) {
        if self.newer.len() == CHECKED_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(name);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| io::Error::other(format!("the system has no random numbers for SASL: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use quire::{Database, Durability, NewPassword};

    use super::*;

    async fn plain(authenticator: &SaslAuthenticator, database: &Database, password: &str) -> bool {
        let mut exchange = authenticator.begin(SaslMechanism::Plain).expect("begun");
        let message = format!("\0ann\0{password}");
        let address = "127.0.0.1:1".parse().expect("an address");
        let peer = Peer::Tcp { local: address, remote: address, tls: None };
        let (rules, now) = (database.access().rules(), database.now());
        authenticator.answer(&mut exchange, message.as_bytes(), &rules, now, &peer).await.is_ok()
    }

    #[tokio::test]
    async fn a_right_password_is_checked_once_until_the_user_gets_another() {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a database");
        database.access().create_user("ann", &[]).expect("created");
        database.access().set_password("ann", "first", NewPassword::default()).expect("set");
        let authenticator = SaslAuthenticator::new().expect("random numbers");
        assert!(plain(&authenticator, &database, "first").await);
        {
            let _all = authenticator.checks.acquire_many(CHECKS_AT_A_TIME as u32).await.expect("open");
            assert!(plain(&authenticator, &database, "first").await, "it needs no check");
        }
        assert!(!plain(&authenticator, &database, "second").await);
        database.access().set_password("ann", "second", NewPassword::default()).expect("set");
        assert!(!plain(&authenticator, &database, "first").await);
        assert!(plain(&authenticator, &database, "second").await);
        database.access().drop_password("ann").expect("dropped");
        assert!(!plain(&authenticator, &database, "second").await);
    }

    #[test]
    fn checked_passwords_are_bounded_and_used_ones_stay() {
        let mut checked = CheckedPasswords::default();
        let name = |number: usize| {
            let mut name = [0; 32];
            name[..8].copy_from_slice(&number.to_le_bytes());
            name
        };
        for number in 1..10 * CHECKED_MAX {
            checked.add(name(number));
            assert!(checked.has(&name(1)), "it is used all the time");
            assert!(checked.newer.len() <= CHECKED_MAX && checked.older.len() <= CHECKED_MAX);
        }
        assert!(!checked.has(&name(2)));
    }
}
