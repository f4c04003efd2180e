//! A world of jobs with a clock that tests set, which restarts after every commit.
//!
//! The restart rebuilds every index from the saved jobs, so its equality with the live state says that each job stands
//! in exactly one index, under the right key.

use quire_jobs::{Command, FetchedJob, JobId, JobState, Jobs, NewJob, QueueStats, Refusal, Reply};
use quire_model::memory::World;
use quire_model::{Denied, Position, Timestamp};

pub(crate) const LEASE_MICROS: u64 = 10_000;

pub(crate) struct Yard {
    pub(crate) world: World<Jobs>,
    pub(crate) now: Timestamp,
}

impl Yard {
    pub(crate) fn new() -> Self {
        Yard { world: World::new(), now: Timestamp::from_micros(1_000_000) }
    }

    pub(crate) fn wait(&mut self, micros: u64) {
        self.now = self.now.plus_micros(micros);
    }

    /// Commits, and says which command was refused and why.
    pub(crate) fn commit(&mut self, commands: &[Command<'_>]) -> Result<Vec<Reply>, (usize, Refusal)> {
        let before = World::saved(&self.world.model);
        let outcome = self.world.commit(self.now, commands).map_err(|denied| match denied {
            Denied::Refused { command, refusal } => (command, refusal),
            Denied::Unreadable(error) => panic!("{error}"),
        });
        if outcome.is_err() {
            assert_eq!(World::saved(&self.world.model), before, "a refused commit changes nothing");
        }
        self.assert_restart_equal(self.world.log.tail());
        outcome
    }

    pub(crate) fn assert_restart_equal(&self, checkpoint: Position) {
        let restarted = self.world.restarted(checkpoint);
        assert_eq!(restarted, self.world.model, "the state restarted from a checkpoint at {checkpoint}");
        assert_eq!(World::saved(&restarted), World::saved(&self.world.model));
    }

    /// Commits one command that is not refused.
    pub(crate) fn one(&mut self, command: Command<'_>) -> Reply {
        self.commit(&[command]).expect("not refused").remove(0)
    }

    /// Commits one command that is refused.
    pub(crate) fn refusal(&mut self, command: Command<'_>) -> Refusal {
        self.commit(&[command]).expect_err("refused").1
    }

    pub(crate) fn enqueue(&mut self, queue: &str, job: NewJob<'_>) -> JobId {
        let Reply::Enqueued { job, .. } = self.one(Command::Enqueue { queue, job }) else { panic!("enqueued") };
        job
    }

    pub(crate) fn fetch(&mut self, queues: &[&str], count: u32) -> Vec<FetchedJob> {
        fetched(self.one(fetch(queues, count)))
    }

    pub(crate) fn state(&self, job: JobId) -> JobState {
        self.world.model.job(&self.world.log, job).expect("readable").expect("there").state()
    }

    pub(crate) fn stats(&self, queue: &str) -> QueueStats {
        self.world.model.queue_stats(queue).expect("the queue is there")
    }
}

pub(crate) fn fetch<'c>(queues: &'c [&'c str], count: u32) -> Command<'c> {
    Command::Fetch { queues, count, lease_micros: LEASE_MICROS, worker: "w1" }
}

pub(crate) fn fetched(reply: Reply) -> Vec<FetchedJob> {
    let Reply::Fetched(jobs) = reply else { panic!("fetched, not {reply:?}") };
    jobs
}
