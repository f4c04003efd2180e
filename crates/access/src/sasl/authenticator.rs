//! The part of SASL that all connections of a server share.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use quire::Database;
use quire::system::{Principal, ScramMechanism};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

use super::SaslMechanism;
use super::exchange::{NONCE_BYTES, SaslExchange, SaslFailure, SaslStep};
use super::failures::{AttemptTurn, FailedAttempts, SaslAttempt};
use super::password::PasswordCheck;
use super::secret::SaslSecret;
use crate::oidc::TokenVerifier;
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
/// let progress = authenticator.answer(&mut exchange, message.as_bytes(), &db, &peer).await?;
/// let SaslProgress::Authenticated { principal, .. } = progress else { panic!("PLAIN has one message") };
/// assert_eq!(&*principal.name, "root");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SaslAuthenticator {
    /// The secret of the database, from the first message on.
    secret: OnceLock<SaslSecret>,
    /// Stands for the secret while the database takes no commits.
    stand_in: SaslSecret,
    checked: Mutex<CheckedPasswords>,
    checks: Arc<Semaphore>,
    /// `None` where no token is accepted.
    tokens: Option<Arc<TokenVerifier>>,
    failures: Mutex<FailedAttempts>,
    /// Wakes waiting attempts when another one has freed its turn.
    freed: Notify,
}

/// The response to a message of a client that has not failed. It shows no message.
#[derive(PartialEq, Eq)]
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
    /// The client is not authenticated. Send it this message. It answers, and fails then.
    Refused(Vec<u8>),
}

impl fmt::Debug for SaslProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SaslProgress::Challenge(_) => f.write_str("Challenge"),
            SaslProgress::Authenticated { principal, .. } => write!(f, "Authenticated({:?})", principal.name),
            SaslProgress::Refused(_) => f.write_str("Refused"),
        }
    }
}

impl SaslAuthenticator {
    /// Creates the state of a server of one database.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new() -> io::Result<Self> {
        Ok(SaslAuthenticator {
            secret: OnceLock::new(),
            stand_in: SaslSecret::new(random()?),
            checked: Mutex::default(),
            checks: Arc::new(Semaphore::new(CHECKS_AT_A_TIME)),
            tokens: None,
            failures: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Accepts tokens of an OpenID provider. Call it before the first exchange.
    pub fn accept_tokens(&mut self, tokens: Arc<TokenVerifier>) {
        self.tokens = Some(tokens);
    }

    /// The mechanisms that clients may choose, in the order in which they are offered.
    pub fn mechanisms(&self) -> impl Iterator<Item = SaslMechanism> {
        let has_tokens = self.tokens.is_some();
        SaslMechanism::ALL.into_iter().filter(move |mechanism| has_tokens || *mechanism != SaslMechanism::OauthBearer)
    }

    /// Begins the exchange of a connection.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn begin(&self, mechanism: SaslMechanism) -> io::Result<SaslExchange> {
        let exchange = SaslExchange::new(mechanism, random::<NONCE_BYTES>()?);
        Ok(self.tokens.iter().cloned().fold(exchange, SaslExchange::with_tokens))
    }

    /// Answers the next message of a client. `database` is that of the owner. After recent failures
    /// of the client's address, or for the user, the message waits for its turn.
    ///
    /// # Errors
    /// [`SaslFailure`], after a pause that grows with these failures. Close the connection. The
    /// failure counts even if the client does not wait for it. [`SaslProgress::Refused`] counts as
    /// a failure too.
    pub async fn answer(
        &self,
        exchange: &mut SaslExchange,
        message: &[u8],
        database: &Database,
        peer: &Peer,
    ) -> Result<SaslProgress, SaslFailure> {
        if exchange.is_refused() {
            // The failure counts already, and the client has waited for it.
            return Err(SaslFailure);
        }
        let secret = self.secret(database).await;
        let attempt = lock(&self.failures).begin(peer.origin(), exchange.user(message), Instant::now());
        let failures = if exchange.decides() { self.turn(&attempt).await? } else { 0 };
        // Read after the wait.
        let (rules, now) = (database.access().rules(), database.now());
        let progress = match exchange.answer(message, &rules, now, &secret) {
            Ok(SaslStep::Challenge(message)) => return Ok(SaslProgress::Challenge(message)),
            Ok(SaslStep::Authenticated { principal, message }) => {
                Ok(SaslProgress::Authenticated { principal, message })
            }
            Ok(SaslStep::Refused(message)) => Ok(SaslProgress::Refused(message)),
            Ok(SaslStep::Password(check)) => self.check(check, &secret, database, (&attempt, failures)).await,
            Err(failure) => Err(failure),
        };
        let pause = {
            let (mut failures, now) = (lock(&self.failures), Instant::now());
            match &progress {
                Ok(SaslProgress::Refused(_)) | Err(_) => failures.fail(&attempt, now),
                Ok(_) => {
                    failures.succeed(&attempt, now);
                    self.freed.notify_waiters();
                    return progress;
                }
            }
        };
        sleep(pause).await;
        progress
    }

    /// The secret of the database. A database that takes no commits, and has none yet, has a
    /// stand-in until the next restart.
    async fn secret(&self, database: &Database) -> SaslSecret {
        if let Some(secret) = self.secret.get() {
            return secret.clone();
        }
        let database = database.clone();
        let found = tokio::task::spawn_blocking(move || database.access().secret()).await;
        match found {
            Ok(Ok(secret)) => self.secret.get_or_init(|| SaslSecret::new(secret.0)).clone(),
            _ => self.stand_in.clone(),
        }
    }

    /// Waits for the turn of an attempt, and returns how many failures its address had then.
    async fn turn(&self, attempt: &SaslAttempt) -> Result<u32, SaslFailure> {
        loop {
            // Begun before the look, so that no wake is missed.
            let freed = self.freed.notified();
            let turn = lock(&self.failures).turn(attempt, Instant::now());
            match turn {
                AttemptTurn::Now(failures) => return Ok(failures),
                AttemptTurn::Later(at) => {
                    let _ = timeout_at(at, freed).await;
                }
                AttemptTurn::Never => return Err(SaslFailure),
            }
        }
    }

    /// Checks a password, unless the same one was checked before. The attempt has its turn, which
    /// it got after `failures` of its address.
    async fn check(
        &self,
        check: PasswordCheck,
        secret: &SaslSecret,
        database: &Database,
        (attempt, mut failures): (&SaslAttempt, u32),
    ) -> Result<SaslProgress, SaslFailure> {
        let name = check.name(secret);
        let message = Vec::new();
        if let Some(mechanism) = lock(&self.checked).find(&name) {
            return Ok(SaslProgress::Authenticated { principal: check.principal(mechanism), message });
        }
        let thread = loop {
            let thread = Arc::clone(&self.checks).acquire_owned().await.expect("the semaphore stays open");
            // Many attempts of an address without failures wait for the thread together. Once one
            // of them has failed, the others wait for their turns.
            if lock(&self.failures).failures_of(attempt, Instant::now()) == failures {
                break thread;
            }
            drop(thread);
            failures = self.turn(attempt).await?;
        };
        let (check, principal) = run(check, thread).await?;
        // The user may have been disabled, or got another password, during the check.
        let principal = principal.filter(|_| check.is_current(&database.access().rules())).ok_or(SaslFailure)?;
        if let Some(password) = &principal.password {
            lock(&self.checked).add(name, password.mechanism);
        }
        Ok(SaslProgress::Authenticated { principal, message })
    }
}

/// Runs a check on a thread of its own.
async fn run(
    check: PasswordCheck,
    thread: OwnedSemaphorePermit,
) -> Result<(PasswordCheck, Option<Principal>), SaslFailure> {
    let checked = tokio::task::spawn_blocking(move || {
        // The permit ends with the check, even when the client has left.
        let _thread = thread;
        let principal = check.run();
        (check, principal)
    });
    checked.await.map_err(|_| SaslFailure)
}

/// The names of passwords that were right, and the mechanisms whose credentials they fit. There are
/// two generations: the older one is forgotten as a whole.
#[derive(Debug, Default)]
struct CheckedPasswords {
    newer: HashMap<[u8; 32], ScramMechanism>,
    older: HashMap<[u8; 32], ScramMechanism>,
}

impl CheckedPasswords {
    fn find(&mut self, name: &[u8; 32]) -> Option<ScramMechanism> {
        if let Some(mechanism) = self.newer.get(name) {
            return Some(*mechanism);
        }
        let mechanism = self.older.remove(name)?;
        self.add(*name, mechanism);
        Some(mechanism)
    }

    fn add(&mut self, name: [u8; 32], mechanism: ScramMechanism) {
        if self.newer.len() == CHECKED_MAX {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(name, mechanism);
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
    use quire::{Durability, NewPassword};
    use tempfile::TempDir;
    use tokio::task::JoinSet;

    use super::*;

    fn database() -> (TempDir, Database) {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a database");
        database.access().create_user("ann", &[]).expect("created");
        (directory, database)
    }

    fn peer() -> Peer {
        let address = "127.0.0.1:1".parse().expect("an address");
        Peer::Tcp { local: address, remote: address, tls: None }
    }

    async fn plain(authenticator: &SaslAuthenticator, database: &Database, password: &str) -> bool {
        let mut exchange = authenticator.begin(SaslMechanism::Plain).expect("begun");
        let message = format!("\0ann\0{password}");
        authenticator.answer(&mut exchange, message.as_bytes(), database, &peer()).await.is_ok()
    }

    fn failures(authenticator: &SaslAuthenticator) -> u32 {
        let (failed, now) = (lock(&authenticator.failures), Instant::now());
        let attempt = failed.begin(peer().origin(), None, now);
        failed.failures_of(&attempt, now)
    }

    #[tokio::test]
    async fn a_right_password_is_checked_once_until_the_user_gets_another() {
        let (_directory, database) = database();
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

    #[tokio::test]
    async fn a_failure_counts_although_its_client_leaves() {
        let (_directory, database) = database();
        let authenticator = SaslAuthenticator::new().expect("random numbers");
        authenticator.secret(&database).await;
        tokio::select! {
            biased;
            _ = plain(&authenticator, &database, "qk_wrong") => panic!("the answer comes after a pause"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(failures(&authenticator), 1);
    }

    #[tokio::test]
    async fn attempts_at_once_wait_for_the_failures_of_each_other() {
        let (_directory, database) = database();
        let authenticator = Arc::new(SaslAuthenticator::new().expect("random numbers"));
        let mut attempts = JoinSet::new();
        for number in 0..40 {
            let (authenticator, database) = (Arc::clone(&authenticator), database.clone());
            attempts.spawn(async move { plain(&authenticator, &database, &format!("guess {number}")).await });
        }
        assert!(!attempts.join_next().await.expect("an attempt").expect("no panic"));
        let checked = failures(&authenticator);
        assert!((1..20).contains(&checked), "{checked} of 40 guesses were checked in one pause");
    }

    #[tokio::test]
    async fn made_up_salts_are_the_same_after_a_restart() {
        let (directory, database) = database();
        let challenge = async |database: &Database| {
            let authenticator = SaslAuthenticator::new().expect("random numbers");
            let mut exchange = SaslExchange::with_nonce(ScramMechanism::Sha256, "def");
            let message = b"n,,n=nobody,r=abc";
            authenticator.answer(&mut exchange, message, database, &peer()).await.expect("a challenge")
        };
        let before = challenge(&database).await;
        drop(database);
        let reopened = Database::open(directory.path()).expect("a database");
        assert_eq!(challenge(&reopened).await, before);
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
            checked.add(name(number), ScramMechanism::Sha256);
            assert!(checked.find(&name(1)).is_some(), "it is used all the time");
            assert!(checked.newer.len() <= CHECKED_MAX && checked.older.len() <= CHECKED_MAX);
        }
        assert_eq!(checked.find(&name(2)), None);
    }
}
