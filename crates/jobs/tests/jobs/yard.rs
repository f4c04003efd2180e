//! A world of jobs with a clock that tests set, which restarts after every commit.
//!
//! The restart rebuilds every index from the saved jobs, so its equality with the live state says
//! that each job stands in exactly one index, under the right key.

use quire_jobs::{Command, FetchedJob, JobId, JobSpec, JobState, JobView, Jobs, Order, QueueStats, Refusal, Reply};
use quire_model::memory::{MemoryLog, World};
use quire_model::{
    DecideError, Effects, Entry, History, Model, Place, Position, ReadError, ReadErrorKind, Sequence, StepBudget, Tag,
    Timestamp,
};

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
            DecideError::Refused { command, refusal } => (command, refusal),
            DecideError::Unreadable(error) => panic!("{error}"),
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

    pub(crate) fn enqueue(&mut self, queue: &str, job: JobSpec<'_>) -> JobId {
        let Reply::Enqueued { job, .. } = self.one(Command::Enqueue { queue, job }) else { panic!("enqueued") };
        job
    }

    pub(crate) fn fetch(&mut self, queues: &[&str], count: u32) -> Vec<FetchedJob> {
        fetched(self.one(fetch(queues, count)))
    }

    pub(crate) fn view(&self, job: JobId) -> Option<JobView> {
        self.world.model.job(&self.world.log, job).expect("readable")
    }

    pub(crate) fn state(&self, job: JobId) -> JobState {
        self.view(job).expect("there").state()
    }

    pub(crate) fn stats(&self, queue: &str) -> QueueStats {
        self.world.model.queue_stats(queue).expect("the queue is there")
    }
}

pub(crate) fn fetch<'c>(queues: &'c [&'c str], count: u32) -> Command<'c> {
    Command::Fetch { queues, order: Order::Strict, count, lease_micros: LEASE_MICROS, worker: "w1" }
}

pub(crate) fn fetched(reply: Reply) -> Vec<FetchedJob> {
    let Reply::Fetched(jobs) = reply else { panic!("fetched, not {reply:?}") };
    jobs
}

/// A log of which one entry can't be read, and whose reads claim a step each.
struct UnreadableLog<'l> {
    log: &'l MemoryLog,
    entry: Option<(Place, ReadErrorKind)>,
    budget: StepBudget,
}

impl History for UnreadableLog<'_> {
    fn entry(&self, place: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.claim(1)?;
        match self.entry {
            Some((unreadable, kind)) if unreadable == place => {
                Err(ReadError { kind, ..ReadError::damaged(Some(place), "a flipped bit") })
            }
            _ => self.log.entry(place),
        }
    }

    fn next(&self, tags: &[Tag<'_>], from: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.claim(1)?;
        self.log.next(tags, from)
    }

    fn previous(&self, tags: &[Tag<'_>], before: Place) -> Result<Option<Entry<'_>>, ReadError> {
        self.claim(1)?;
        self.log.previous(tags, before)
    }

    fn seek(&self, tag: Tag<'_>, sequence: Sequence) -> Result<Option<Entry<'_>>, ReadError> {
        self.claim(1)?;
        self.log.seek(tag, sequence)
    }

    fn claim(&self, steps: u64) -> Result<(), ReadError> {
        self.budget.claim(steps)
    }

    fn share_steps(&self, among: u64) {
        self.budget.share(among);
    }
}

impl Yard {
    /// Commits one command while an entry can't be read.
    pub(crate) fn one_while_unreadable(
        &mut self,
        entry: Place,
        kind: ReadErrorKind,
        command: Command<'_>,
    ) -> Result<Reply, ReadError> {
        self.one_with(Some((entry, kind)), StepBudget::unbounded(), command)
    }

    /// Commits one command whose decision may take this number of reads.
    pub(crate) fn one_within(&mut self, steps: u64, command: Command<'_>) -> Result<Reply, ReadError> {
        self.one_with(None, StepBudget::new(steps), command)
    }

    fn one_with(
        &mut self,
        entry: Option<(Place, ReadErrorKind)>,
        budget: StepBudget,
        command: Command<'_>,
    ) -> Result<Reply, ReadError> {
        let mut draft = self.world.log.draft(self.now);
        let mut replies = Vec::new();
        let (at, unreadable) = (draft.at(), UnreadableLog { log: &self.world.log, entry, budget });
        let decided = self.world.model.decide(&unreadable, at, &[command], &mut draft, &mut replies);
        match decided {
            Ok(()) => {}
            Err(DecideError::Unreadable(error)) => return Err(error),
            Err(DecideError::Refused { refusal, .. }) => panic!("{refusal}"),
        }
        let draft = draft.finish();
        for entry in self.world.log.append(draft) {
            self.world.model.apply(&entry);
        }
        self.assert_restart_equal(self.world.log.tail());
        Ok(replies.remove(0))
    }
}
