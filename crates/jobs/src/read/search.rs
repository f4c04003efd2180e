//! Finding jobs: by state, queue, kind, tags, times, attempts and errors, page by page.
//!
//! A search visits the jobs in an order in which each has one fixed place. So a page neither skips
//! nor repeats a job, and no list of seen jobs is needed:
//!
//! * unfinished and dead ones by id, from memory;
//! * completed or cancelled jobs of a queue, in the order of their ends, along the queue's tag.
//!   Each has ended there once, because such jobs never return. (While cleared jobs wait for their
//!   steps, and in a bulk change, cancelled jobs are found like all others.)
//! * those that are named, by id;
//! * everything else along the tags of a queue or a word: each job where it was enqueued, or where
//!   it was first moved into the queue.
//!
//! A name matches every queue that has, or had, it. A page examines a bounded number of jobs, so it
//! can be short, even empty, and still have a next one.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::{Bound, RangeBounds};

use quire_model::{Entry, History, Place, ReadError, ReadErrorKind, TagBuf};

use super::chain::Chain;
use super::logged::{JobEnd, ended, enqueued_at};
use super::names::queues_named;
use super::walk::TagWalk;
use crate::codec::{Effect, JobEdit, finished_tag, job_tag, jobs_of, queue_tag, unreadable, user_tag, user_tags};
use crate::id::QueueId;
use crate::{Cursor, Filter, JobId, JobState, Jobs, States};

/// The most jobs that one page scans.
pub const SEARCH_LOOKED_AT_MAX: usize = 10_000;

/// Some jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobPage {
    /// Their ids.
    pub jobs: Vec<JobId>,
    /// The cursor of the next page; `None` after the last page.
    pub next: Option<Cursor>,
    /// The number of scanned jobs.
    pub looked_at: usize,
}

/// The limits of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Jobs and ends after this place are skipped.
    pub(crate) up_to: Place,
    pub(crate) count_max: usize,
    pub(crate) looked_at_max: usize,
    /// Whether the search is for a bulk change: it finds jobs that matched at that place, even if
    /// they have ended since.
    pub(crate) is_bulk: bool,
}

impl Jobs {
    /// The jobs that a filter matches, at most `count_max`, after where the page before ended. See
    /// the module for the order.
    ///
    /// # Errors
    /// When an entry of the search can't be read.
    pub fn search(
        &self,
        history: &dyn History,
        filter: &Filter<'_>,
        after: Option<Cursor>,
        count_max: usize,
    ) -> Result<JobPage, ReadError> {
        let bounds = Bounds { up_to: Place::END, count_max, looked_at_max: SEARCH_LOOKED_AT_MAX, is_bulk: false };
        self.search_within(history, filter, after.unwrap_or(Cursor::START), bounds)
    }

    pub(crate) fn search_within(
        &self,
        history: &dyn History,
        filter: &Filter<'_>,
        after: Cursor,
        bounds: Bounds,
    ) -> Result<JobPage, ReadError> {
        let named = |name| queues_named(history, name, Place::START, Place::END);
        let queues = filter.queue.map(named).transpose()?;
        let mut search = Search { jobs: self, history, filter, queues, bounds, page: JobPage::default(), last: None };
        match (search.run(after), search.last) {
            // The page ends at the last examined job. The steps of the next job count for the next
            // page.
            (Err(ReadError { kind: ReadErrorKind::TooCostly { .. }, .. }), Some(last)) => {
                search.page.next = Some(last);
            }
            (searched, _) => searched?,
        }
        Ok(search.page)
    }
}

/// Returns the id after which a scan by id continues.
fn from(after: Cursor) -> Bound<JobId> {
    let at = JobId::new(after.place);
    if after.items == 0 { Bound::Included(at) } else { Bound::Excluded(at) }
}

struct Search<'s> {
    jobs: &'s Jobs,
    history: &'s dyn History,
    filter: &'s Filter<'s>,
    /// The queues that are wanted, in the order in which they were created; `None`: all.
    queues: Option<Vec<QueueId>>,
    bounds: Bounds,
    page: JobPage,
    /// The cursor at which the search continues when it exceeds the steps of its request.
    last: Option<Cursor>,
}

impl<'s> Search<'s> {
    fn run(&mut self, after: Cursor) -> Result<(), ReadError> {
        if let Some(ids) = self.filter.jobs {
            return self.named(ids, after);
        }
        let mut ended = self.filter.states.iter().filter(|state| state.is_finished() && *state != JobState::Dead);
        match (ended.next(), ended.next()) {
            (None, _) => self.remembered(after),
            (Some(state), None) if self.goes_along_ends(state, after) => self.ended(state, after),
            _ => self.everything(after),
        }
    }

    /// Tests a job. Returns whether the page continues; otherwise, it ends at `here`.
    fn look_at(&mut self, id: JobId, here: Cursor) -> Result<bool, ReadError> {
        self.history.claim(1)?;
        // The next page examines a job that exceeds the remaining steps.
        let matches = self.matches(id)?;
        self.page.looked_at += 1;
        self.page.jobs.extend(matches.then_some(id));
        self.last = Some(here);
        if self.page.jobs.len() >= self.bounds.count_max || self.page.looked_at >= self.bounds.looked_at_max {
            self.page.next = Some(here);
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether the search can follow the ends of jobs. A search that began along enqueues stays on
    /// them: its cursors count entries, not items.
    fn goes_along_ends(&self, state: JobState, after: Cursor) -> bool {
        let is_told = || match after {
            Cursor::START => !self.bounds.is_bulk && self.jobs.untold.is_empty(),
            Cursor { items, .. } => items > 0,
        };
        self.queues.is_some()
            && self.filter.states == States::of([state])
            && self.filter.tags.is_empty()
            && (state == JobState::Completed || is_told())
    }

    /// Searches the jobs with these ids.
    fn named(&mut self, ids: &[JobId], after: Cursor) -> Result<(), ReadError> {
        let wanted = (from(after), Bound::Included(JobId::new(self.bounds.up_to)));
        let mut ids: Vec<JobId> = ids.iter().copied().filter(|id| wanted.contains(id)).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            if !self.look_at(id, id.into())? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Searches the jobs in memory: unfinished and dead ones.
    fn remembered(&mut self, after: Cursor) -> Result<(), ReadError> {
        let (from, up_to) = (from(after), JobId::new(self.bounds.up_to));
        let mut live = self.live(from).peekable();
        let mut dead = self.dead(from).peekable();
        loop {
            let is_live_next = live.peek().is_some_and(|live| dead.peek().is_none_or(|dead| live < dead));
            let next = if is_live_next { live.next() } else { dead.next() };
            let Some(id) = next.filter(|id| *id <= up_to) else { return Ok(()) };
            if !self.look_at(id, id.into())? {
                return Ok(());
            }
        }
    }

    /// The unfinished jobs that may match, from an id on, in order.
    fn live(&self, from: Bound<JobId>) -> Box<dyn Iterator<Item = JobId> + 's> {
        if self.filter.states.iter().all(JobState::is_finished) {
            return Box::new(core::iter::empty());
        }
        match self.few() {
            Some(few) => {
                let is_behind = move |id: &JobId| (from, Bound::Unbounded).contains(id);
                Box::new(few.into_iter().filter(is_behind))
            }
            None => Box::new(self.jobs.jobs.entries_from(from).map(|(id, _)| *id)),
        }
    }

    /// The dead jobs that may match, from an id on, in order.
    fn dead(&self, from: Bound<JobId>) -> Box<dyn Iterator<Item = JobId> + 's> {
        if !self.filter.states.contains(JobState::Dead) {
            return Box::new(core::iter::empty());
        }
        let (named, all) = match &self.queues {
            Some(queues) => (Some(queues.iter().filter_map(|queue| self.jobs.queues.get(queue))), None),
            None => (None, Some(self.jobs.queues.values())),
        };
        let queues = named.into_iter().flatten().chain(all.into_iter().flatten());
        let mut queues: Vec<_> = queues.map(|queue| queue.dead.range((from, Bound::Unbounded)).copied()).collect();
        let first = |(number, ids): (usize, &mut _)| Some(Reverse((Iterator::next(ids)?, number)));
        let mut firsts: BinaryHeap<_> = queues.iter_mut().enumerate().filter_map(first).collect();
        Box::new(core::iter::from_fn(move || {
            let Reverse((id, number)) = firsts.pop()?;
            firsts.extend(queues[number].next().map(|next| Reverse((next, number))));
            Some(id)
        }))
    }

    /// The unfinished jobs of the queue in the wanted states, in order, when an index has them and
    /// they are few.
    fn few(&self) -> Option<Vec<JobId>> {
        let mut queues = self.queues.as_ref()?.iter().filter_map(|queue| self.jobs.queues.get(queue));
        let Some(queue) = queues.find(|queue| queue.destroyed_at.is_none()) else { return Some(Vec::new()) };
        let few = |state: JobState| {
            let timed = match state {
                JobState::Active => &queue.leased,
                JobState::Scheduled | JobState::Retrying => &queue.delayed,
                JobState::Held => return Some(queue.held.iter().copied().collect()),
                _ if queue.counts[state as usize] == 0 => return Some(Vec::new()),
                _ => return None,
            };
            (timed.len() <= self.bounds.looked_at_max).then(|| timed.keys().map(|(_, id)| *id).collect::<Vec<_>>())
        };
        let live = self.filter.states.iter().filter(|state| !state.is_finished());
        let mut ids = live.map(few).collect::<Option<Vec<_>>>()?.concat();
        ids.sort_unstable();
        ids.dedup();
        Some(ids)
    }

    /// The jobs of the queues that are completed, or cancelled.
    fn ended(&mut self, state: JobState, after: Cursor) -> Result<(), ReadError> {
        let tags: Vec<_> = self.queues.iter().flatten().map(|queue| Vec::from([finished_tag(*queue, state)])).collect();
        let mut walk = TagWalk::begin(self.history, tags, after.place)?;
        while let Some(entry) = walk.next(self.bounds.up_to)? {
            let skip = if entry.place == after.place { after.items as usize } else { 0 };
            for (number, id) in jobs_of(entry.tags).enumerate().skip(skip) {
                let id = id.map_err(|error| unreadable(entry.place, &error))?;
                let items = u32::try_from(number + 1).expect("an entry has few tags");
                if !self.look_at(id, Cursor { place: entry.place, items })? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn everything(&mut self, after: Cursor) -> Result<(), ReadError> {
        let words: Vec<TagBuf> = self.filter.tags.iter().map(|word| user_tag(word)).collect();
        let lists = match &self.queues {
            Some(queues) if words.is_empty() => queues.iter().map(|queue| Vec::from([queue_tag(*queue)])).collect(),
            _ => Vec::from([words]),
        };
        let begun = TagWalk::begin(self.history, lists, after.place);
        let mut walk = begun.inspect_err(|error| self.note_reached(error, after.place))?;
        let mut entries = 0;
        while let Some(entry) =
            walk.next(self.bounds.up_to).inspect_err(|error| self.note_reached(error, after.place))?
        {
            entries += 1;
            let here = Cursor { place: entry.place.after(), items: 0 };
            if let Some(id) = self.job_of(&entry)?
                && !self.look_at(id, here)?
            {
                return Ok(());
            }
            self.last = Some(here);
            if entries >= self.bounds.looked_at_max {
                self.page.next = Some(here);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Records the place that an exhausted search reached, if it is further than before.
    fn note_reached(&mut self, error: &ReadError, from: Place) {
        if let Some(place) = error.reached_place()
            && place > self.last.map_or(from, |last| last.place)
        {
            self.last = Some(Cursor { place, items: 0 });
        }
    }

    /// The job that an entry created or moved into the queue, if it was not in the queue before.
    fn job_of(&self, entry: &Entry<'_>) -> Result<Option<JobId>, ReadError> {
        if entry.kind.model != quire_model::ModelId::JOBS {
            return Ok(None);
        }
        Ok(match Effect::read(entry)? {
            Effect::Enqueued(_) => Some(JobId::new(entry.place)),
            Effect::Edited(edited) if self.filter.tags.is_empty() && self.is_first_move(&edited, entry.place)? => {
                Some(edited.job)
            }
            _ => None,
        })
    }

    /// Whether the edit at `place` moved a job into the queues for the first time.
    fn is_first_move(&self, edited: &JobEdit<'_>, place: Place) -> Result<bool, ReadError> {
        let Some(queues) = &self.queues else { return Ok(false) };
        if queues.contains(&edited.from) || !queues.contains(&edited.final_facts.queue) {
            return Ok(false);
        }
        match enqueued_at(self.history, edited.job)? {
            Some((_, enqueued)) if !queues.contains(&enqueued.queue) => {}
            _ => return Ok(false),
        }
        // Later entries about a job in a queue have both tags.
        let lists = queues.iter().map(|queue| Vec::from([queue_tag(*queue), job_tag(edited.job)]));
        let first = TagWalk::begin(self.history, lists, edited.job.place())?.next(place)?;
        Ok(first.is_some_and(|first| first.place == place))
    }

    fn matches(&self, id: JobId) -> Result<bool, ReadError> {
        let filter = self.filter;
        // Cleared jobs without a step are in memory, too.
        let (state, queue, attempt, last, finished_at) = match self.jobs.known(id) {
            Some(job) => (job.state, job.queue, job.attempt, job.last(), job.state.is_finished().then(|| job.until())),
            // A job whose enqueue entry was removed no longer exists.
            None => match ended(self.history, id)? {
                Some(_) if self.history.entry(id.place())?.is_none() => return Ok(false),
                Some(JobEnd { ended, status }) => {
                    (ended.state, ended.final_facts.queue, ended.attempt, ended.place, status.finished_at())
                }
                None => return Ok(false),
            },
        };
        let known = filter.states.contains(state)
            && self.queues.as_ref().is_none_or(|wanted| wanted.contains(&queue))
            && filter.attempts_min.is_none_or(|least| attempt >= least)
            && filter.finished_from.is_none_or(|from| finished_at.is_some_and(|at| at >= from))
            && filter.finished_before.is_none_or(|before| finished_at.is_some_and(|at| at < before));
        if !known {
            return Ok(false);
        }
        let of_entry = filter.kind.is_some()
            || !filter.tags.is_empty()
            || filter.enqueued_from.is_some()
            || filter.enqueued_before.is_some();
        if of_entry {
            let Some((entry, enqueued)) = enqueued_at(self.history, id)? else { return Ok(false) };
            let matches = filter.kind.is_none_or(|kind| kind == enqueued.kind)
                && filter.tags.iter().all(|word| user_tags(entry.tags).any(|own| own == *word))
                && filter.enqueued_from.is_none_or(|from| entry.time >= from)
                && filter.enqueued_before.is_none_or(|before| entry.time < before);
            if !matches {
                return Ok(false);
            }
        }
        let Some(error) = filter.error else { return Ok(true) };
        let mut chain = Chain { history: self.history, id, next: Some(last) };
        Ok(chain.find(|step| step.event.is_failure())?.is_some_and(|step| step.note.contains(error)))
    }
}
