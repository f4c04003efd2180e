//! A client with the database in its own process, beside others.

use std::path::{Path, PathBuf};

use quire::events::{Condition, NewEvent, Query, QueryItem};
use quire::graph::Version;
use quire::jobs::{self, JobId, LeaseToken, NewJob};
use quire::{
    Builder, Commit, Durability, ErrorKind, Message, NewBlock, NewEdge, Outcome, Part, Profile, Reason, Reply, events,
    graph, streams,
};

use super::{Ask, DONE, Database, GRAPH, LEASE, MADE, MAKER, QUEUE, STORE, TOPIC, Told, Trouble};
use crate::ledger::Made;

/// The result of every job: so much that segments are filled, and a full disk is met, within a second.
const RESULT: [u8; 8 << 10] = [b'.'; 8 << 10];

/// How everybody opens the database: as the server does.
pub(crate) fn builder(path: &Path, sync: bool) -> Builder {
    let durability = if sync { Durability::Sync } else { Durability::Os };
    quire::Database::builder(path).durability(durability).profile(Profile::SmallDisk)
}

pub(super) struct Embedded {
    path: PathBuf,
    sync: bool,
    /// `None` until it could be opened.
    database: Option<quire::Database>,
}

impl Embedded {
    pub(super) fn new(path: PathBuf, sync: bool) -> Self {
        Embedded { path, sync, database: None }
    }

    fn open(&mut self) -> Result<quire::Database, Trouble> {
        if self.database.is_none() {
            self.database = Some(builder(&self.path, self.sync).open().map_err(trouble)?);
        }
        Ok(self.database.clone().expect("open"))
    }
}

impl Database for Embedded {
    fn ask(&mut self, ask: Ask<'_>) -> Result<Told, Trouble> {
        let database = self.open()?;
        let outcome = database.commit(&commit(ask, &[QUEUE]));
        drop(database);
        let outcome = outcome.map_err(|error| {
            if error.kind() == ErrorKind::Failed {
                self.database = None;
            }
            trouble(error)
        })?;
        Ok(match outcome {
            Outcome::Committed(committed) => told(committed.at.position.get(), &committed.replies),
            Outcome::Refused(refused) => match refused.reason {
                Reason::Events(events::Refusal::ConditionFailed { position, .. }) => {
                    Told::Met(position.map(events::EventPosition::get))
                }
                Reason::Jobs(jobs::Refusal::StaleLease { .. }) => Told::Stale,
                other => panic!("{ask:?} was refused: {other}"),
            },
        })
    }
}

fn commit<'a>(ask: Ask<'a>, queues: &'a [&'a str]) -> Commit<'a> {
    let made_by = |name: &'a str| Query::from(QueryItem::new().event_type("Made").tag(name));
    match ask {
        Ask::Make { id, name, last } => {
            let last = Condition::last_is(made_by(name), events::EventPosition::new(last));
            Commit::new()
                .append_if(STORE, [NewEvent::new("Made").tag(name).data(id)], [last])
                .produce(TOPIC, Message::new(id))
                .enqueue(QUEUE, NewJob { attempts_max: u16::MAX, ..NewJob::new(id.as_bytes()) })
                .put_block(GRAPH, NewBlock::new(name, MAKER))
                .put_block(GRAPH, NewBlock::new(id, MADE).expect_version(Version::ABSENT))
                .put_edge(GRAPH, NewEdge::new(name, MADE, id))
        }
        Ask::Claim { claim, name } => {
            let taken = Query::from(QueryItem::new().event_type("Claimed").tag(claim));
            let event = NewEvent::new("Claimed").tag(claim).data(name);
            Commit::new().append_if(STORE, [event], [Condition::fail_if_matches(taken)])
        }
        Ask::Fetch { count, name } => Commit::new().part(Part::Jobs(jobs::Command::Fetch {
            queues,
            order: jobs::Order::Strict,
            count,
            lease_micros: u64::try_from(LEASE.as_micros()).expect("short"),
            worker: name,
        })),
        Ask::Done { job, token, id } => {
            let job: JobId = job.parse().expect("a job");
            let token: LeaseToken = token.parse().expect("a token");
            Commit::new()
                .ack(job, token, &RESULT)
                .append(STORE, [NewEvent::new("Done").data(id)])
                .put_block(GRAPH, NewBlock::new(id, DONE))
        }
    }
}

fn told(position: u64, replies: &[Reply]) -> Told {
    match replies {
        [
            Reply::Events(appended),
            Reply::Streams(streams::Reply::Produced(produced)),
            Reply::Jobs(jobs::Reply::Enqueued { job, .. }),
            Reply::Graph(graph::Reply::BlockPut { .. }),
            Reply::Graph(graph::Reply::BlockPut { created: true, .. }),
            Reply::Graph(graph::Reply::EdgePut { created: true }),
        ] => {
            let event = appended.first.expect("one event").get();
            Told::Made(Made { position, event, offset: produced.base_offset.get(), job: job.to_string() })
        }
        [Reply::Events(appended)] => Told::Claimed { position, event: appended.first.expect("one event").get() },
        [Reply::Jobs(jobs::Reply::Fetched(fetched))] => {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("an id");
            let fetched = fetched.iter();
            Told::Fetched(fetched.map(|job| (job.job.to_string(), job.token.to_string(), text(&job.payload))).collect())
        }
        [
            Reply::Jobs(jobs::Reply::Acked),
            Reply::Events(_),
            Reply::Graph(graph::Reply::BlockPut { created: false, .. }),
        ] => Told::Done { position },
        other => panic!("no commit of ours is answered by {other:?}"),
    }
}

fn trouble(error: quire::Error) -> Trouble {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::NoSpace => Trouble::Full,
        ErrorKind::Failed => Trouble::Failed(message),
        ErrorKind::Io => Trouble::Refused(message),
        kind => panic!("{kind:?}: {message}"),
    }
}
