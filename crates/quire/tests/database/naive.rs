//! Four naive models: a commit changes vectors and maps, and is refused whole if one part is.

use std::collections::{BTreeMap, BTreeSet};

use quire::jobs::{JobId, LeaseToken};

/// A part of a commit. Small numbers are names, for stores, topics, queues and blocks alike; no two
/// parts have the same `value`.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Append {
        store: usize,
        tag: usize,
        events: usize,
        condition: Option<Condition>,
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
        value: u64,
    },
    Fetch {
        queue: usize,
        count: u32,
    },
    /// The job with this number, modulo the number of jobs.
    Ack {
        job: usize,
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

/// The expectation of an append about the events with a tag.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    NoneWith { tag: usize },
    LastIs { tag: usize, position: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Pending,
    Active,
    Completed,
}

#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) queue: usize,
    pub(crate) priority: u8,
    pub(crate) value: u64,
    pub(crate) standing: Standing,
    /// Known once the commit is answered.
    pub(crate) id: Option<JobId>,
    pub(crate) token: Option<LeaseToken>,
}

/// The reply to an accepted part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The positions of the first and last event; `None` without events.
    Appended(Option<(u64, u64)>),
    /// The offset.
    Produced(u64),
    Done,
    /// The number of the new job.
    Enqueued(usize),
    /// The numbers of the jobs.
    Fetched(Vec<usize>),
    /// Whether the block or edge existed before.
    Was(bool),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    /// By store: tag and value.
    pub(crate) events: BTreeMap<usize, Vec<(usize, u64)>>,
    pub(crate) topics: BTreeMap<usize, Vec<u64>>,
    pub(crate) offsets: BTreeMap<(usize, usize), u64>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) blocks: BTreeMap<usize, u64>,
    pub(crate) edges: BTreeSet<(usize, usize)>,
}

impl Naive {
    /// The replies in the order of the parts; or the index of the refused part, and no change.
    ///
    /// The models decide in a fixed order. So of several invalid parts, the first model's part is
    /// refused.
    pub(crate) fn commit(&mut self, parts: &[Part]) -> Result<Vec<Answer>, usize> {
        let mut after = self.clone();
        let mut answers = vec![Answer::Done; parts.len()];
        for model in 0..4 {
            for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.model() == model) {
                answers[index] = after.take(part, self.jobs.len()).ok_or(index)?;
            }
        }
        *self = after;
        Ok(answers)
    }

    fn take(&mut self, part: &Part, jobs_before: usize) -> Option<Answer> {
        match *part {
            Part::Produce { topic, value } => {
                let topic = self.topics.entry(topic).or_default();
                topic.push(value);
                Some(Answer::Produced(topic.len() as u64 - 1))
            }
            Part::Offset { group, topic, offset } => {
                self.topics.get(&topic)?;
                self.offsets.insert((group, topic), offset);
                Some(Answer::Done)
            }
            Part::Append { store, tag, events, ref condition, value } => {
                self.holds(store, condition.as_ref()).then_some(())?;
                if events == 0 {
                    return Some(Answer::Appended(None));
                }
                let store = self.events.entry(store).or_default();
                let first = store.len() as u64 + 1;
                store.extend(std::iter::repeat_n((tag, value), events));
                Some(Answer::Appended(Some((first, store.len() as u64))))
            }
            Part::Enqueue { queue, priority, value } => {
                let standing = Standing::Pending;
                self.jobs.push(Job { queue, priority, value, standing, id: None, token: None });
                Some(Answer::Enqueued(self.jobs.len() - 1))
            }
            Part::Fetch { queue, count } => Some(Answer::Fetched(self.fetch(queue, count, jobs_before))),
            Part::Ack { job } => {
                let job = &mut self.jobs[job % jobs_before.max(1)..].first_mut()?;
                (job.standing == Standing::Active && job.token.is_some()).then_some(())?;
                job.standing = Standing::Completed;
                Some(Answer::Done)
            }
            Part::PutBlock { block, must_be_new, value } => {
                let was = self.blocks.insert(block, value).is_some();
                (!(must_be_new && was)).then_some(Answer::Was(was))
            }
            Part::DeleteBlock { block } => {
                let was = self.blocks.remove(&block).is_some();
                if was {
                    self.edges.retain(|(source, target)| *source != block && *target != block);
                }
                Some(Answer::Was(was))
            }
            Part::PutEdge { source, target } => {
                let both = self.blocks.contains_key(&source) && self.blocks.contains_key(&target);
                both.then(|| Answer::Was(!self.edges.insert((source, target))))
            }
            Part::DeleteEdge { source, target } => Some(Answer::Was(self.edges.remove(&(source, target)))),
        }
    }

    fn holds(&self, store: usize, condition: Option<&Condition>) -> bool {
        let events = self.events.get(&store).map_or(&[][..], Vec::as_slice);
        let last =
            |wanted: usize| events.iter().rposition(|(tag, _)| *tag == wanted).map_or(0, |index| index as u64 + 1);
        match condition {
            None => true,
            Some(Condition::NoneWith { tag }) => last(*tag) == 0,
            Some(Condition::LastIs { tag, position }) => last(*tag) == *position,
        }
    }

    /// Leases the most urgent jobs that existed before the commit, oldest first.
    fn fetch(&mut self, queue: usize, count: u32, jobs_before: usize) -> Vec<usize> {
        let of_queue = |job: &Job| job.queue == queue && job.standing == Standing::Pending;
        let mut fetched: Vec<_> = (0..jobs_before).filter(|number| of_queue(&self.jobs[*number])).collect();
        fetched.sort_by_key(|number| std::cmp::Reverse(self.jobs[*number].priority));
        fetched.truncate(count as usize);
        for number in &fetched {
            self.jobs[*number].standing = Standing::Active;
            self.jobs[*number].token = None;
        }
        fetched
    }
}

impl Part {
    /// The number of the model, in the order in which the models decide.
    fn model(&self) -> usize {
        match self {
            Part::Produce { .. } | Part::Offset { .. } => 0,
            Part::Append { .. } => 1,
            Part::Enqueue { .. } | Part::Fetch { .. } | Part::Ack { .. } => 2,
            _ => 3,
        }
    }
}
