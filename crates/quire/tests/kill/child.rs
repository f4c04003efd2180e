//! The process that is killed, or runs out of memory: threads that commit over all four models
//! until they die.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use quire::events::{Condition, EventPosition, NewEvent, Query, QueryItem, ReadOptions};
use quire::jobs::{self, FetchedJob, JobSpec};
use quire::{Commit, Database, Durability, Message, NewBlock, NewEdge, Reply, Sequence, streams};

use crate::ledger::{Made, tell_acked, tell_made};
use crate::limit::Limit;

pub(crate) const STORE: &str = "kill/events";
pub(crate) const TOPIC: &str = "kill-topic";
pub(crate) const QUEUE: &str = "kill/jobs";
pub(crate) const GRAPH: &str = "kill/graph";

/// The arguments of the child.
pub(crate) struct Task {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    /// Number of the run. No two runs in a directory have the same number.
    pub(crate) run: u64,
    pub(crate) threads: u64,
    pub(crate) limit: Option<Limit>,
}

impl Task {
    pub(crate) fn to_environment(&self, command: &mut Command) {
        command.env("QUIRE_KILL_PATH", &self.path);
        command.env("QUIRE_KILL_TASK", format!("{} {} {}", self.durability, self.run, self.threads));
        if let Some(limit) = self.limit {
            command.env("QUIRE_KILL_LIMIT", limit.to_text());
        }
    }

    pub(crate) fn from_environment() -> Option<Self> {
        let path = PathBuf::from(std::env::var_os("QUIRE_KILL_PATH")?);
        let task = std::env::var("QUIRE_KILL_TASK").expect("it comes with the path");
        let [durability, run, threads] = task.split(' ').collect::<Vec<_>>()[..] else { panic!("a task: {task}") };
        let durability = if durability == "os" { Durability::Os } else { Durability::Sync };
        let number = |text: &str| text.parse().expect("a number");
        let limit = std::env::var("QUIRE_KILL_LIMIT").ok().map(|limit| Limit::of_text(&limit));
        Some(Task { path, durability, run: number(run), threads: number(threads), limit })
    }

    pub(crate) fn commit_until_killed(&self) {
        // The test harness has begun a line.
        println!();
        // In every second run, checkpoints are replayed from the one before, as for a large state.
        let pause_bytes = if self.run.is_multiple_of(2) { 0 } else { u64::MAX };
        let builder = crate::builder(&self.path, self.durability).checkpoint_pause_bytes(pause_bytes);
        let begin_limit =
            |while_opening| self.limit.filter(|limit| limit.while_opening == while_opening).map(Limit::begin);
        if self.limit.is_some() {
            end_with_the_first_panic();
        }
        begin_limit(true);
        let database = builder.open().expect("the database opens");
        std::thread::scope(|scope| {
            for thread in 0..self.threads {
                let worker = Worker::new(&database, self.run, thread);
                scope.spawn(move || worker.work());
            }
            begin_limit(false);
        });
    }
}

/// A thread with an error ends the process, because the others may continue for long.
fn end_with_the_first_panic() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        std::process::exit(101);
    }));
}

/// One thread.
struct Worker<'d> {
    database: &'d Database,
    run: u64,
    /// The thread's number, the same in every run. It is the tag of its events and the group of its
    /// offsets.
    name: String,
    /// The last event that a thread of this name made.
    last: EventPosition,
    /// The last block that the thread put in this run.
    block: Option<String>,
}

impl<'d> Worker<'d> {
    fn new(database: &'d Database, run: u64, thread: u64) -> Self {
        let name = format!("thread:{thread}");
        let options = ReadOptions { backwards: true, limit: Some(1), ..ReadOptions::default() };
        let read = database.events(STORE).read(&made_by(&name), options).expect("readable");
        let last = read.events.first().map_or(EventPosition::ZERO, |event| event.position);
        Worker { database, run, name, last, block: None }
    }

    fn work(mut self) {
        for number in 0.. {
            self.make(&format!("{}.{}.{number}", self.run, self.name));
            if number % 3 == 2 {
                let queue = self.database.queue(QUEUE).lease(Duration::from_secs(3600));
                let jobs = queue.fetch(&self.name, 1).expect("durable");
                jobs.iter().for_each(|job| self.ack(job, self.run * 1_000_000 + number));
            }
        }
    }

    /// One commit over all models, under the condition that no other process appended an event in
    /// this thread's name.
    fn make(&mut self, id: &str) {
        let before = self.block.as_deref().unwrap_or(id);
        let commit = Commit::new()
            .append_if(
                STORE,
                [NewEvent::new("Made").tag(&self.name).data(id), NewEvent::new("Also").tag(id).data(id)],
                [Condition::last_is(made_by(&self.name), self.last)],
            )
            .produce(TOPIC, Message::new(id).key(&self.name))
            .enqueue(QUEUE, JobSpec::new(id.as_bytes()))
            .put_block(GRAPH, NewBlock::new(id, "thing").content(id.as_bytes()))
            .put_edge(GRAPH, NewEdge::new(id, "follows", before));
        let committed = self.database.commit(&commit).expect("durable").committed().expect("accepted");
        let [
            Reply::Events(appended),
            Reply::Streams(streams::Reply::Produced(produced)),
            Reply::Jobs(jobs::Reply::Enqueued { job, .. }),
            Reply::Graph(_),
            Reply::Graph(_),
        ] = committed.replies[..]
        else {
            panic!("the answers are those of the parts, not {:?}", committed.replies)
        };
        let event = appended.first.expect("two events");
        let made = Made { position: committed.at.position, event, offset: produced.base_offset, job };
        tell_made(id, made);
        self.last = event;
        self.block = Some(id.to_owned());
    }

    /// Acknowledges a job in the same commit as its consequences.
    fn ack(&self, job: &FetchedJob, offset: u64) {
        let id = std::str::from_utf8(&job.payload).expect("an id is text");
        let offset_text = offset.to_string();
        let once = Condition::fail_if_matches(Query::from(QueryItem::new().event_type("Acked").tag(id)));
        let commit = Commit::new()
            .ack(job.job, job.token, id.as_bytes())
            .append_if(STORE, [NewEvent::new("Acked").tag(id).metadata(&self.name).data(&offset_text)], [once])
            .commit_offset(&self.name, TOPIC, 0, Sequence::new(offset))
            .put_edge(GRAPH, NewEdge::new(id, "acked", id));
        let committed = self.database.commit(&commit).expect("durable").committed().expect("accepted");
        tell_acked(id, committed.at.position);
    }
}

fn made_by(name: &str) -> Query<'_> {
    Query::from(QueryItem::new().event_type("Made").tag(name))
}
