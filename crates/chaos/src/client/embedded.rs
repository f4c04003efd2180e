//! A client with an embedded database, alongside other processes.

use std::path::{Path, PathBuf};

use quire::events::{Condition, NewEvent, Query, QueryItem};
use quire::graph::Version;
use quire::jobs::{self, Backoff, JobId, JobSpec, LeaseToken};
use quire::{
    Builder, Commit, Durability, ErrorKind, Message, NewBlock, NewEdge, Outcome, Part, Profile, Reason, Reply, events,
    graph, streams,
};

use super::{
    AnswerError, ClientAnswer, ClientRequest, DONE, GRAPH, LEASE, MADE, MAKER, QUEUE, STORE, TOPIC, TestedDatabase,
};
use crate::ledger::PartPositions;

/// The result of every job, large enough to fill segments, and to reach a full disk, within a
/// second.
const RESULT: [u8; 8 << 10] = [b'.'; 8 << 10];

/// The settings of every opening: the server's.
pub(crate) fn builder(path: &Path, sync: bool) -> Builder {
    let durability = if sync { Durability::Sync } else { Durability::Os };
    quire::Database::builder(path).durability(durability).profile(Profile::SmallDisk)
}

pub(super) struct EmbeddedClient {
    path: PathBuf,
    sync: bool,
    /// `None` until it could be opened.
    database: Option<quire::Database>,
}

impl EmbeddedClient {
    pub(super) fn new(path: PathBuf, sync: bool) -> Self {
        EmbeddedClient { path, sync, database: None }
    }

    fn open(&mut self) -> Result<quire::Database, AnswerError> {
        if self.database.is_none() {
            self.database = Some(builder(&self.path, self.sync).open().map_err(trouble)?);
        }
        Ok(self.database.clone().expect("open"))
    }
}

impl TestedDatabase for EmbeddedClient {
    fn ask(&mut self, ask: ClientRequest<'_>) -> Result<ClientAnswer, AnswerError> {
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
                    ClientAnswer::ConditionFailed(position.map(events::EventPosition::get))
                }
                Reason::Jobs(jobs::Refusal::StaleLease { .. }) => ClientAnswer::Stale,
                other => panic!("{ask:?} was refused: {other}"),
            },
        })
    }
}

/// A job may lose many workers, and is worked off at the end of a round.
const AFTER_A_LOSS: Backoff<&[u64]> = Backoff::Fixed { micros: 20_000 };

fn commit<'a>(ask: ClientRequest<'a>, queues: &'a [&'a str]) -> Commit<'a> {
    let made_by = |name: &'a str| Query::from(QueryItem::new().event_type("Made").tag(name));
    match ask {
        ClientRequest::Make { id, name, last } => {
            let last = Condition::last_is(made_by(name), events::EventPosition::new(last));
            Commit::new()
                .append_if(STORE, [NewEvent::new("Made").tag(name).data(id)], [last])
                .produce(TOPIC, Message::new(id))
                .enqueue(
                    QUEUE,
                    JobSpec { attempts_max: u16::MAX, backoff: AFTER_A_LOSS, ..JobSpec::new(id.as_bytes()) },
                )
                .put_block(GRAPH, NewBlock::new(name, MAKER))
                .put_block(GRAPH, NewBlock::new(id, MADE).expect_version(Version::ABSENT))
                .put_edge(GRAPH, NewEdge::new(name, MADE, id))
        }
        ClientRequest::Claim { claim, name } => {
            let taken = Query::from(QueryItem::new().event_type("Claimed").tag(claim));
            let event = NewEvent::new("Claimed").tag(claim).data(name);
            Commit::new().append_if(STORE, [event], [Condition::fail_if_matches(taken)])
        }
        ClientRequest::Fetch { count, name } => Commit::new().part(Part::Jobs(jobs::Command::Fetch {
            queues,
            order: jobs::Order::Strict,
            count,
            lease_micros: u64::try_from(LEASE.as_micros()).expect("short"),
            worker: name,
        })),
        ClientRequest::Done { job, token, id } => {
            let job: JobId = job.parse().expect("a job");
            let token: LeaseToken = token.parse().expect("a token");
            Commit::new()
                .ack(job, token, &RESULT[..])
                .append(STORE, [NewEvent::new("Done").data(id)])
                .put_block(GRAPH, NewBlock::new(id, DONE))
        }
    }
}

fn told(position: u64, replies: &[Reply]) -> ClientAnswer {
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
            ClientAnswer::Made(PartPositions {
                position,
                event,
                offset: produced.base_offset.get(),
                job: job.to_string(),
            })
        }
        [Reply::Events(appended)] => {
            ClientAnswer::Claimed { position, event: appended.first.expect("one event").get() }
        }
        [Reply::Jobs(jobs::Reply::Fetched(fetched))] => {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("an id");
            let fetched = fetched.iter();
            ClientAnswer::Fetched(
                fetched.map(|job| (job.job.to_string(), job.token.to_string(), text(&job.payload))).collect(),
            )
        }
        [
            Reply::Jobs(jobs::Reply::Acked),
            Reply::Events(_),
            Reply::Graph(graph::Reply::BlockPut { created: false, .. }),
        ] => ClientAnswer::Done { position },
        other => panic!("unexpected reply {other:?}"),
    }
}

fn trouble(error: quire::Error) -> AnswerError {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::NoSpace => AnswerError::Full,
        ErrorKind::Failed => AnswerError::Failed(message),
        ErrorKind::Io => AnswerError::Refused(message),
        kind => panic!("{kind:?}: {message}"),
    }
}
