//! A client: it commits, claims and works for as long as it lives, and writes down what it was told, a line each.
//!
//! It does the same over HTTP and in a process of its own. Every commit of its own hangs on its last one, so that none
//! can be lost or doubled unseen; what it fetched it ends together with an event that says so.

mod embedded;
mod http;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use fastrand::Rng;

use embedded::Embedded;
pub(crate) use embedded::builder;
use http::Http;

use crate::ledger::{Line, Made};

pub(crate) const STORE: &str = "chaos/events";
pub(crate) const TOPIC: &str = "chaos";
pub(crate) const QUEUE: &str = "chaos/jobs";
pub(crate) const GRAPH: &str = "chaos/graph";
/// The kinds of blocks: of a client, of a commit, and of one whose job is done. An edge from the client to its commit has the second.
pub(crate) const MAKER: &str = "client";
pub(crate) const MADE: &str = "made";
pub(crate) const DONE: &str = "done";
/// Short, so that jobs of who was killed or stopped come to others.
pub(crate) const LEASE: Duration = Duration::from_millis(400);
/// Clients that come within such a time want the same claim.
const CLAIM_MS: u128 = 20;
/// A client rests so long after each answer, so that a round fits on a small disk.
const REST: Duration = Duration::from_millis(2);
/// And so long after trouble.
const REST_AFTER_TROUBLE: Duration = Duration::from_millis(50);

/// What a client is told to do.
#[derive(Debug, Clone, Args)]
pub(crate) struct Task {
    /// The folder of the database, to be opened in this process
    #[arg(long)]
    data: Option<PathBuf>,
    /// The address of a server, to be asked instead
    #[arg(long, conflicts_with = "data")]
    http: Option<String>,
    /// Whether a commit counts when it is synced
    #[arg(long)]
    sync: bool,
    /// No two clients at a time have the same
    #[arg(long)]
    name: String,
    /// No two clients of a name have the same
    #[arg(long)]
    run: u64,
}

/// What is asked of a database.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ask<'a> {
    /// Events, a message, a job and a block with an edge to it, if the last commit of this client's is that event.
    Make { id: &'a str, name: &'a str, last: u64 },
    /// An event that nobody else made.
    Claim { claim: &'a str, name: &'a str },
    /// Jobs.
    Fetch { count: u32, name: &'a str },
    /// The end of a job, and an event and a block that say so.
    Done { job: &'a str, token: &'a str, id: &'a str },
}

/// What was told of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Made(Made),
    Claimed {
        position: u64,
        event: u64,
    },
    /// Job, token, and the id that it was made with.
    Fetched(Vec<(String, String, String)>),
    Done {
        position: u64,
    },
    /// A condition did not hold: it met that event.
    Met(Option<u64>),
    /// The lease is another's.
    Stale,
}

/// Why there was no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Nothing happened: there is no space.
    Full,
    /// Nothing happened, or something: the system refused.
    Refused(String),
    /// The database takes nothing more until it is opened anew.
    Failed(String),
    /// Nobody knows what happened.
    Unknown(String),
}

/// Whom a client asks.
trait Database {
    fn ask(&mut self, ask: Ask<'_>) -> Result<Told, Trouble>;
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

    /// Works until it is killed.
    pub(crate) fn work(&self) {
        let mut database: Box<dyn Database> = match (&self.data, &self.http) {
            (Some(data), _) => Box::new(Embedded::new(data.clone(), self.sync)),
            (None, Some(address)) => Box::new(Http::new(address)),
            (None, None) => panic!("a client is told where its database is"),
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
                        Trouble::Full => Line::Full,
                        Trouble::Refused(message) => Line::Refused(message),
                        Trouble::Failed(message) => Line::Failed(message),
                        Trouble::Unknown(message) => Line::Unknown(message),
                    });
                    rest(REST_AFTER_TROUBLE);
                }
            }
        }
    }
}

/// What a client knows.
struct Client<'t> {
    name: &'t str,
    run: u64,
    number: u64,
    /// The event of its last commit, as far as it knows.
    last: u64,
}

impl Client<'_> {
    fn make(&mut self, database: &mut dyn Database) -> Result<(), Trouble> {
        self.number += 1;
        let id = format!("{}.{}.{}", self.name, self.run, self.number);
        match database.ask(Ask::Make { id: &id, name: self.name, last: self.last })? {
            Told::Made(made) => {
                self.last = made.event;
                tell(&Line::Made(id, made));
            }
            // A commit whose answer was lost, or one of who had the name before.
            Told::Met(last) => self.last = last.unwrap_or_default(),
            other => panic!("a commit is not answered by {other:?}"),
        }
        Ok(())
    }

    fn claim(&self, database: &mut dyn Database) -> Result<(), Trouble> {
        let claim = format!("claim:{}", now_ms() / CLAIM_MS);
        match database.ask(Ask::Claim { claim: &claim, name: self.name })? {
            Told::Claimed { position, event } => {
                tell(&Line::Claimed { claim, name: self.name.to_owned(), position, event });
            }
            Told::Met(_) => {}
            other => panic!("a claim is not answered by {other:?}"),
        }
        Ok(())
    }

    fn work(&self, database: &mut dyn Database, random: &mut Rng) -> Result<(), Trouble> {
        let fetched = match database.ask(Ask::Fetch { count: random.u32(1..5), name: self.name })? {
            Told::Fetched(fetched) => fetched,
            other => panic!("a fetch is not answered by {other:?}"),
        };
        for (job, token, _) in &fetched {
            tell(&Line::Got { job: job.clone(), token: token.clone() });
        }
        for (job, token, id) in fetched {
            // Some leases run out.
            if random.u8(0..12) == 0 {
                continue;
            }
            match database.ask(Ask::Done { job: &job, token: &token, id: &id })? {
                Told::Done { position } => tell(&Line::Done { id, position }),
                Told::Stale => tell(&Line::Stale),
                other => panic!("the end of a job is not answered by {other:?}"),
            }
        }
        Ok(())
    }
}

/// A line at once and whole, or no line.
fn tell(line: &Line) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the run reads");
}

#[expect(clippy::disallowed_methods, reason = "a client of its own process: nothing waits for anything")]
fn rest(duration: Duration) {
    std::thread::sleep(duration);
}

#[expect(clippy::disallowed_methods, reason = "what clients agree on without asking each other")]
fn now_ms() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later than 1970").as_millis()
}
