//! The four models as vectors and maps: what a commit does to them, refused whole when a part is. The oracle of a run.
//!
//! It is written against the documentation of the models, not against their code, and knows nothing of logs. Ids that only
//! the database gives are known by numbers here; see [`Book`](crate::book::Book).

use std::collections::{BTreeMap, BTreeSet};

/// A part of a commit. Small numbers are names, for stores, topics, queues, groups and blocks alike. `value` is unlike any
/// other. Times are microseconds.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Append {
        store: usize,
        tag: usize,
        events: usize,
        condition: Option<Condition>,
        value: u64,
    },
    /// One event with an id of the client's.
    AppendOnce {
        store: usize,
        tag: usize,
        id: u8,
        value: u64,
    },
    Produce {
        topic: usize,
        value: u64,
    },
    Offset {
        group: usize,
        topic: usize,
        offset: u64,
    },
    Enqueue {
        queue: usize,
        priority: u8,
        attempts_max: u16,
        run_at: Option<u64>,
        value: u64,
    },
    Fetch {
        queues: Vec<usize>,
        count: u32,
        lease_micros: u64,
    },
    Ack {
        job: usize,
        lease: u64,
    },
    Fail {
        job: usize,
        lease: u64,
        retry: Retry,
    },
    Heartbeat {
        job: usize,
        lease: u64,
        lease_micros: u64,
    },
    PutBlock {
        block: usize,
        must_be_new: bool,
        value: u64,
    },
    DeleteBlock {
        block: usize,
    },
    PutEdge {
        source: usize,
        target: usize,
    },
    DeleteEdge {
        source: usize,
        target: usize,
    },
}

/// What an append expects of the events with a tag.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    NoneWith { tag: usize, after: u64 },
    LastIs { tag: usize, position: u64 },
}

/// When a failed attempt is followed by another.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Retry {
    At(u64),
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Scheduled { run_at: u64 },
    Pending,
    Active { lease: u64, deadline: u64 },
    Retrying { due: u64 },
    Completed,
    Dead,
}

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) queue: usize,
    pub(crate) priority: u8,
    pub(crate) attempt: u16,
    pub(crate) attempts_max: u16,
    pub(crate) value: u64,
    pub(crate) phase: Phase,
}

/// What an accepted part is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Appended {
        positions: Option<(u64, u64)>,
        duplicate: bool,
    },
    Produced(u64),
    Done,
    /// The number of the new job.
    Enqueued(usize),
    /// The numbers of the jobs and of their leases.
    Fetched(Vec<(usize, u64)>),
    /// Whether the block or edge was there before.
    Was(bool),
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) tag: usize,
    pub(crate) id: Option<u8>,
    pub(crate) value: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    pub(crate) events: BTreeMap<usize, Vec<Event>>,
    pub(crate) topics: BTreeMap<usize, Vec<u64>>,
    pub(crate) offsets: BTreeMap<(usize, usize), u64>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) queues: BTreeSet<usize>,
    /// How many leases were granted.
    pub(crate) leases: u64,
    pub(crate) blocks: BTreeMap<usize, u64>,
    pub(crate) edges: BTreeSet<(usize, usize)>,
    /// The time of the last record, in microseconds.
    pub(crate) time: u64,
    /// Whether finished jobs may be gone.
    pub(crate) compacted: bool,
}

/// A commit in the making.
struct Draft {
    after: Naive,
    now: u64,
    jobs_before: usize,
    changed_jobs: BTreeSet<usize>,
    /// Whether anything is written.
    effects: bool,
}

impl Naive {
    /// The answers in the order of the parts, and whether the commit took a position; or the index of the part that is refused,
    /// and nothing has changed.
    ///
    /// The models decide one after the other, so of several parts that can't be, that of the first model is refused.
    pub(crate) fn commit(&mut self, parts: &[Part], now: u64) -> Result<(Vec<Answer>, bool), usize> {
        let now = now.max(self.time);
        let mut draft = self.draft(now);
        let mut answers = vec![Answer::Done; parts.len()];
        for model in 0..4 {
            for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.model() == model) {
                answers[index] = draft.take(part).ok_or(index)?;
            }
        }
        Ok((answers, self.adopt(draft)))
    }

    /// Takes in what time has brought, if it is time; says whether that took a position.
    pub(crate) fn tick(&mut self, now: u64) -> bool {
        let is_due = |job: &Job| match job.phase {
            Phase::Active { deadline: due, .. } | Phase::Scheduled { run_at: due } | Phase::Retrying { due } => {
                due <= now
            }
            Phase::Pending | Phase::Completed | Phase::Dead => false,
        };
        if !self.jobs.iter().any(is_due) {
            return false;
        }
        let mut draft = self.draft(now.max(self.time));
        for job in 0..draft.jobs_before {
            draft.settle(job);
        }
        self.adopt(draft)
    }

    fn draft(&self, now: u64) -> Draft {
        let jobs_before = self.jobs.len();
        Draft { after: self.clone(), now, jobs_before, changed_jobs: BTreeSet::new(), effects: false }
    }

    fn adopt(&mut self, draft: Draft) -> bool {
        if draft.effects {
            *self = Naive { time: draft.now, ..draft.after };
        }
        draft.effects
    }
}

impl Draft {
    fn take(&mut self, part: &Part) -> Option<Answer> {
        match *part {
            Part::Produce { topic, value } => {
                self.effects = true;
                let topic = self.after.topics.entry(topic).or_default();
                topic.push(value);
                Some(Answer::Produced(topic.len() as u64 - 1))
            }
            Part::Offset { group, topic, offset } => {
                self.after.topics.get(&topic)?;
                self.effects = true;
                self.after.offsets.insert((group, topic), offset);
                Some(Answer::Done)
            }
            Part::Append { store, tag, events, ref condition, value } => {
                self.holds(store, condition.as_ref()).then_some(())?;
                if events == 0 {
                    return Some(Answer::Appended { positions: None, duplicate: false });
                }
                self.effects = true;
                let store = self.after.events.entry(store).or_default();
                let first = store.len() as u64 + 1;
                store.extend(std::iter::repeat_n(Event { tag, id: None, value }, events));
                Some(Answer::Appended { positions: Some((first, store.len() as u64)), duplicate: false })
            }
            Part::AppendOnce { store, tag, id, value } => {
                let store = self.after.events.entry(store).or_default();
                if let Some(index) = store.iter().position(|event| event.id == Some(id)) {
                    let position = index as u64 + 1;
                    return Some(Answer::Appended { positions: Some((position, position)), duplicate: true });
                }
                self.effects = true;
                store.push(Event { tag, id: Some(id), value });
                let position = store.len() as u64;
                Some(Answer::Appended { positions: Some((position, position)), duplicate: false })
            }
            Part::Enqueue { queue, priority, attempts_max, run_at, value } => {
                self.effects = true;
                self.after.queues.insert(queue);
                let later = run_at.filter(|run_at| *run_at > self.now);
                let phase = later.map_or(Phase::Pending, |run_at| Phase::Scheduled { run_at });
                self.after.jobs.push(Job { queue, priority, attempt: 0, attempts_max, value, phase });
                Some(Answer::Enqueued(self.after.jobs.len() - 1))
            }
            Part::Fetch { ref queues, count, lease_micros } => {
                let mut fetched = Vec::new();
                // First what time has brought to all of the queues, then from one after the other.
                for number in 0..self.jobs_before {
                    if queues.contains(&self.after.jobs[number].queue) {
                        self.settle(number);
                    }
                }
                for queue in queues {
                    self.fetch(*queue, count as usize, lease_micros, &mut fetched);
                }
                Some(Answer::Fetched(fetched))
            }
            Part::Ack { job, lease } => {
                self.held(job, lease)?;
                self.set(job, Phase::Completed);
                Some(Answer::Done)
            }
            Part::Fail { job, lease, retry } => {
                self.held(job, lease)?;
                let Job { attempt, attempts_max, .. } = self.after.jobs[job];
                let phase = match retry {
                    Retry::At(time) if attempt < attempts_max => Phase::Retrying { due: time.max(self.now) },
                    _ => Phase::Dead,
                };
                self.set(job, phase);
                Some(Answer::Done)
            }
            Part::Heartbeat { job, lease, lease_micros } => {
                self.held(job, lease)?;
                self.set(job, Phase::Active { lease, deadline: self.now + lease_micros });
                Some(Answer::Done)
            }
            Part::PutBlock { block, must_be_new, value } => {
                self.effects = true;
                let was = self.after.blocks.insert(block, value).is_some();
                (!(must_be_new && was)).then_some(Answer::Was(was))
            }
            Part::DeleteBlock { block } => {
                let was = self.after.blocks.remove(&block).is_some();
                if was {
                    self.effects = true;
                    self.after.edges.retain(|(source, target)| *source != block && *target != block);
                }
                Some(Answer::Was(was))
            }
            Part::PutEdge { source, target } => {
                let both = self.after.blocks.contains_key(&source) && self.after.blocks.contains_key(&target);
                both.then_some(())?;
                self.effects = true;
                Some(Answer::Was(!self.after.edges.insert((source, target))))
            }
            Part::DeleteEdge { source, target } => {
                let was = self.after.edges.remove(&(source, target));
                self.effects |= was;
                Some(Answer::Was(was))
            }
        }
    }

    fn holds(&self, store: usize, condition: Option<&Condition>) -> bool {
        let events = self.after.events.get(&store).map_or(&[][..], Vec::as_slice);
        let last =
            |wanted: usize| events.iter().rposition(|event| event.tag == wanted).map_or(0, |index| index as u64 + 1);
        match condition {
            None => true,
            Some(Condition::NoneWith { tag, after }) => last(*tag) <= *after,
            Some(Condition::LastIs { tag, position }) => last(*tag) == *position,
        }
    }

    /// Leases the most urgent jobs, of those that were there before the commit the oldest first.
    fn fetch(&mut self, queue: usize, count: usize, lease_micros: u64, fetched: &mut Vec<(usize, u64)>) {
        if fetched.len() >= count {
            return;
        }
        // Nothing but time makes a job pending within a commit, and what time has brought may be fetched at once.
        let is_pending = |number: &usize| {
            let job = &self.after.jobs[*number];
            job.queue == queue && job.phase == Phase::Pending
        };
        let mut wanted: Vec<usize> = (0..self.jobs_before).filter(is_pending).collect();
        wanted.sort_by_key(|number| std::cmp::Reverse(self.after.jobs[*number].priority));
        wanted.truncate(count - fetched.len());
        for number in wanted {
            self.after.leases += 1;
            let lease = self.after.leases;
            self.after.jobs[number].attempt += 1;
            self.set(number, Phase::Active { lease, deadline: self.now + lease_micros });
            fetched.push((number, lease));
        }
    }

    /// Whether this lease holds the job.
    fn held(&mut self, job: usize, lease: u64) -> Option<()> {
        if job < self.jobs_before {
            self.settle(job);
        }
        let phase = self.after.jobs.get(job)?.phase;
        matches!(phase, Phase::Active { lease: held, .. } if held == lease).then_some(())
    }

    fn set(&mut self, job: usize, phase: Phase) {
        self.after.jobs[job].phase = phase;
        self.changed_jobs.insert(job);
        self.effects = true;
    }

    /// Takes in what time has brought to a job, unless the commit has changed it.
    fn settle(&mut self, number: usize) {
        if self.changed_jobs.contains(&number) {
            return;
        }
        let job = &self.after.jobs[number];
        match job.phase {
            Phase::Active { deadline, .. } if deadline <= self.now => {
                let dead = job.attempt >= job.attempts_max;
                self.set(number, if dead { Phase::Dead } else { Phase::Pending });
            }
            Phase::Scheduled { run_at: due } | Phase::Retrying { due } if due <= self.now => {
                self.set(number, Phase::Pending);
            }
            _ => {}
        }
    }
}

impl Part {
    /// Which model's it is, in the order in which they decide.
    fn model(&self) -> usize {
        match self {
            Part::Produce { .. } | Part::Offset { .. } => 0,
            Part::Append { .. } | Part::AppendOnce { .. } => 1,
            Part::Enqueue { .. }
            | Part::Fetch { .. }
            | Part::Ack { .. }
            | Part::Fail { .. }
            | Part::Heartbeat { .. } => 2,
            Part::PutBlock { .. } | Part::DeleteBlock { .. } | Part::PutEdge { .. } | Part::DeleteEdge { .. } => 3,
        }
    }
}
