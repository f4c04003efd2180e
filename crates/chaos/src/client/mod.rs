//! A client: it commits, claims and works until it is killed, and prints a line for each answer.
//!
//! It does the same over HTTP as with an embedded database. Every commit depends on the client's
//! previous one, so that a lost or duplicate commit is noticed. It ends each fetched job together
//! with an event.

mod embedded;
mod http;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use fastrand::Rng;

use embedded::EmbeddedClient;
pub(crate) use embedded::builder;
use http::HttpSession;

use crate::ledger::{Line, PartPositions};

pub(crate) const STORE: &str = "chaos/events";
pub(crate) const TOPIC: &str = "chaos";
pub(crate) const QUEUE: &str = "chaos/jobs";
pub(crate) const GRAPH: &str = "chaos/graph";
/// The kinds of blocks: of a client, of a commit, and of a commit whose job is done. An edge from
/// the client to its commit has the second.
pub(crate) const MAKER: &str = "client";
pub(crate) const MADE: &str = "made";
pub(crate) const DONE: &str = "done";
/// Short, so that other clients get the jobs of a killed or stopped one.
pub(crate) const LEASE: Duration = Duration::from_millis(400);
/// Clients that ask within this time try to get the same claim.
const CLAIM_MS: u128 = 20;
/// The pause of a client after each answer, so that a round fits on a small disk.
const REST: Duration = Duration::from_millis(2);
/// The pause after an error.
const REST_AFTER_TROUBLE: Duration = Duration::from_millis(50);

/// The options of a client.
#[derive(Debug, Clone, Args)]
pub(crate) struct Task {
    /// The directory of the database to open in this process
    #[arg(long)]
    data: Option<PathBuf>,
    /// The address of the server to use instead
    #[arg(long, conflicts_with = "data")]
    http: Option<String>,
    /// Whether a commit counts when it is synced
    #[arg(long)]
    sync: bool,
    /// Unique among the clients that run at a time
    #[arg(long)]
    name: String,
    /// The number of this run of the client; unique among runs with the same name
    #[arg(long)]
    run: u64,
}

/// The operations of a client on a database.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClientRequest<'a> {
    /// Commits events, a message, a job and a block with an edge to it, if this client's last
    /// commit is that event.
    Make { id: &'a str, name: &'a str, last: u64 },
    /// Appends an event unless another client has made it.
    Claim { claim: &'a str, name: &'a str },
    /// Fetches jobs.
    Fetch { count: u32, name: &'a str },
    /// Completes a job, with an event and a block that record it.
    Done { job: &'a str, token: &'a str, id: &'a str },
}

/// The answer to a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientAnswer {
    Made(PartPositions),
    Claimed {
        position: u64,
        event: u64,
    },
    /// Job, token, and the id of its commit.
    Fetched(Vec<(String, String, String)>),
    Done {
        position: u64,
    },
    /// The claim was refused because of this event.
    ConditionFailed(Option<u64>),
    /// Another client has the lease.
    Stale,
}

/// Why there was no answer.
#[derive(Debug)]
pub(crate) enum AnswerError {
    /// The disk is full; nothing was committed.
    Full,
    /// The system refused an operation; the commit may have happened.
    Refused(String),
    /// The database accepts no commit until it is opened again.
    Failed(String),
    /// The commit may have happened.
    Unknown(String),
}

/// The connection to a database.
trait TestedDatabase {
    fn ask(&mut self, ask: ClientRequest<'_>) -> Result<ClientAnswer, AnswerError>;
}

impl Task {
    pub(crate) fn embedded(data: PathBuf, sync: bool, name: &str, run: u64) -> Self {
        Task { data: Some(data), http: None, sync, name: name.to_owned(), run }
    }

    pub(crate) fn over_http(address: &str, name: &str, run: u64) -> Self {
        Task { data: None, http: Some(address.to_owned()), sync: false, name: name.to_owned(), run }
    }

    pub(crate) fn to_arguments(&self, command: &mut Command) {
        command.arg("client").args(["--name", &self.name, "--run", &self.run.to_string()]);
        if let Some(data) = &self.data {
            command.arg("--data").arg(data);
        }
        if let Some(http) = &self.http {
            command.args(["--http", http]);
        }
        if self.sync {
            command.arg("--sync");
        }
    }

    /// Runs until it is killed.
    pub(crate) fn work(&self) {
        let mut database: Box<dyn TestedDatabase> = match (&self.data, &self.http) {
            (Some(data), _) => Box::new(EmbeddedClient::new(data.clone(), self.sync)),
            (None, Some(address)) => Box::new(HttpSession::new(address)),
            (None, None) => panic!("a client has the path or the address of its database"),
        };
        let mut client = Client { name: &self.name, run: self.run, number: 0, last: 0 };
        let mut random = Rng::with_seed(self.run << 32 | self.name.bytes().map(u64::from).sum::<u64>());
        loop {
            let done = match random.u8(0..8) {
                0..4 => client.make(&mut *database),
                4 => client.claim(&mut *database),
                _ => client.work(&mut *database, &mut random),
            };
            match done {
                Ok(()) => rest(REST),
                Err(trouble) => {
                    tell(&match trouble {
                        AnswerError::Full => Line::Full,
                        AnswerError::Refused(message) => Line::Refused(message),
                        AnswerError::Failed(message) => Line::Failed(message),
                        AnswerError::Unknown(message) => Line::Unknown(message),
                    });
                    rest(REST_AFTER_TROUBLE);
                }
            }
        }
    }
}

/// The state of a client.
struct Client<'t> {
    name: &'t str,
    run: u64,
    number: u64,
    /// The event of its last known commit.
    last: u64,
}

impl Client<'_> {
    fn make(&mut self, database: &mut dyn TestedDatabase) -> Result<(), AnswerError> {
        self.number += 1;
        let id = format!("{}.{}.{}", self.name, self.run, self.number);
        match database.ask(ClientRequest::Make { id: &id, name: self.name, last: self.last })? {
            ClientAnswer::Made(made) => {
                self.last = made.event;
                tell(&Line::Made(id, made));
            }
            // A commit whose answer was lost, or one of an earlier client of this name.
            ClientAnswer::ConditionFailed(last) => self.last = last.unwrap_or_default(),
            other => panic!("unexpected answer to a commit: {other:?}"),
        }
        Ok(())
    }

    fn claim(&self, database: &mut dyn TestedDatabase) -> Result<(), AnswerError> {
        let claim = format!("claim:{}", now_ms() / CLAIM_MS);
        match database.ask(ClientRequest::Claim { claim: &claim, name: self.name })? {
            ClientAnswer::Claimed { position, event } => {
                tell(&Line::Claimed { claim, name: self.name.to_owned(), position, event });
            }
            ClientAnswer::ConditionFailed(_) => {}
            other => panic!("unexpected answer to a claim: {other:?}"),
        }
        Ok(())
    }

    fn work(&self, database: &mut dyn TestedDatabase, random: &mut Rng) -> Result<(), AnswerError> {
        let fetched = match database.ask(ClientRequest::Fetch { count: random.u32(1..5), name: self.name })? {
            ClientAnswer::Fetched(fetched) => fetched,
            other => panic!("unexpected answer to a fetch: {other:?}"),
        };
        for (job, token, _) in &fetched {
            tell(&Line::Got { job: job.clone(), token: token.clone() });
        }
        for (job, token, id) in fetched {
            // Some leases expire.
            if random.u8(0..12) == 0 {
                continue;
            }
            match database.ask(ClientRequest::Done { job: &job, token: &token, id: &id })? {
                ClientAnswer::Done { position } => tell(&Line::Done { id, position }),
                ClientAnswer::Stale => tell(&Line::Stale),
                other => panic!("unexpected answer to the end of a job: {other:?}"),
            }
        }
        Ok(())
    }
}

/// Prints the whole line at once, or nothing.
fn tell(line: &Line) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the run reads");
}

#[expect(clippy::disallowed_methods, reason = "the pauses of a test client are real time")]
fn rest(duration: Duration) {
    std::thread::sleep(duration);
}

#[expect(clippy::disallowed_methods, reason = "the clients' shared clock")]
fn now_ms() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later than 1970").as_millis()
}
