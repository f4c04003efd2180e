//! A process that is killed: threads that enqueue, and threads that fetch and finish the fetched
//! jobs, in batches.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command as Process;
use std::time::Duration;

use quire::jobs::{Backoff, Command, JobSpec, Order, Priority, Reply, Retry};
use quire::{Commit, Database, Durability, Part};

use crate::random::Random;
use crate::{FREE, LIMITED};

/// Short, so that jobs of dead processes come back while the others work.
pub(crate) const LEASE: Duration = Duration::from_millis(300);
/// A producer pauses while this many jobs of a queue wait.
const PENDING_MAX: u64 = 500;

/// The arguments of the child.
pub(crate) struct Task {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    /// Number of the child. No two children have the same number.
    pub(crate) run: u64,
}

impl Task {
    pub(crate) fn to_environment(&self, command: &mut Process) {
        command.env("QUIRE_WORKERS_PATH", &self.path);
        command.env("QUIRE_WORKERS_TASK", format!("{} {}", self.durability, self.run));
    }

    pub(crate) fn from_environment() -> Option<Self> {
        let path = PathBuf::from(std::env::var_os("QUIRE_WORKERS_PATH")?);
        let task = std::env::var("QUIRE_WORKERS_TASK").expect("it comes with the path");
        let (durability, run) = task.split_once(' ').expect("a task");
        let durability = if durability == "os" { Durability::Os } else { Durability::Sync };
        Some(Task { path, durability, run: run.parse().expect("a number") })
    }

    pub(crate) fn work_until_killed(&self) {
        // A thread that ends by itself ends the process, which then can't be killed.
        std::panic::set_hook(Box::new(|panic| {
            eprintln!("{panic}");
            std::process::abort();
        }));
        // After the test harness's line about the start of a test.
        tell([String::new()]);
        let database = &crate::builder(&self.path, self.durability).open().expect("the database opens");
        std::thread::scope(|scope| {
            for (thread, queue) in [FREE, LIMITED].into_iter().enumerate() {
                let random = Random::new(self.run * 10 + thread as u64);
                scope.spawn(move || produce(database, queue, random));
            }
            for thread in 2..5 {
                let random = Random::new(self.run * 10 + thread);
                scope.spawn(move || work(database, &format!("{}-{thread}", self.run), random));
            }
        });
    }
}

/// Enqueues until it dies, but never far ahead of the workers.
fn produce(database: &Database, queue: &str, mut random: Random) {
    loop {
        let pending = database.queue(queue).stats().expect("readable").map_or(0, |stats| stats.pending);
        if pending >= PENDING_MAX {
            database.wait_after(database.published(), Duration::from_millis(20)).expect("not failed");
            continue;
        }
        let groups = ["", "a", "b", "c", "d", "e"];
        let jobs: Vec<JobSpec<'_>> = (0..1 + random.below(64))
            .map(|_| JobSpec {
                group: groups[usize::try_from(random.below(6)).expect("few")],
                priority: Priority::new(u8::try_from(random.below(3)).expect("small")),
                attempts_max: u16::MAX,
                // A job may lose many workers, and is worked off at the end.
                backoff: Backoff::Fixed { micros: 20_000 },
                ..JobSpec::new(b"{}")
            })
            .collect();
        let commands: Vec<Command<'_>> = jobs.into_iter().map(|job| Command::Enqueue { queue, job }).collect();
        let answers = database.queue(queue).each(&commands).expect("durable");
        let enqueued = answers.into_iter().map(|answer| match answer {
            Ok(Reply::Enqueued { job, .. }) => format!("enqueued {job}"),
            other => panic!("an enqueue is not answered by {other:?}"),
        });
        tell(enqueued);
    }
}

/// Fetches and finishes jobs until it dies.
fn work(database: &Database, name: &str, mut random: Random) {
    loop {
        let seen = database.published();
        let fetch = Command::Fetch {
            queues: &[FREE, LIMITED],
            order: Order::Weighted(&[1, 1]),
            count: 1 + u32::try_from(random.below(16)).expect("small"),
            lease_micros: u64::try_from(LEASE.as_micros()).expect("short"),
            worker: name,
        };
        let fetched = database.commit(&Commit::new().part(Part::Jobs(fetch))).expect("durable");
        let [quire::Reply::Jobs(Reply::Fetched(jobs))] = &fetched.committed().expect("accepted").replies[..] else {
            panic!("a fetch is answered by jobs")
        };
        if jobs.is_empty() {
            database.wait_after(seen, Duration::from_millis(20)).expect("not failed");
            continue;
        }
        tell(jobs.iter().map(|job| format!("got {} {}", job.job, job.token)));
        let ends: Vec<Command<'_>> = jobs
            .iter()
            .filter_map(|job| {
                let (job, token) = (job.job, job.token);
                match random.below(20) {
                    // Its lease expires.
                    0 => None,
                    1 => Some(Command::Fail {
                        job,
                        token,
                        error: "on purpose",
                        retry: Retry::At(quire::Timestamp::ZERO),
                    }),
                    2 => Some(Command::Snooze { job, token, until: quire::Timestamp::ZERO }),
                    _ => Some(Command::Ack { job, token, result: b"" }),
                }
            })
            .collect();
        let answers = database.queue(FREE).each(&ends).expect("durable");
        let acked = ends.iter().zip(&answers).filter_map(|(end, answer)| match (end, answer) {
            (Command::Ack { job, token, .. }, Ok(_)) => Some(format!("acked {job} {token}")),
            _ => None,
        });
        tell(acked);
    }
}

/// Writes each line whole at once, or not at all.
fn tell(lines: impl IntoIterator<Item = String>) {
    let mut out = std::io::stdout().lock();
    let lines: String = lines.into_iter().map(|line| line + "\n").collect();
    out.write_all(lines.as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
}
