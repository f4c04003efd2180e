//! The state as the commands of one commit leave it, before anyone has applied them.
//!
//! The draft's view of a job overrides the state. Consecutive steps of one cause in one queue go
//! into one entry. The entry is pushed before another entry, or at the end.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;

use quire_model::{At, ClaimRefusal, Creator, Effects, PermissionRefusal, Place, Release, ResourceClaim, Touch};

use super::changed::ChangedJobs;
use super::draft_queue::{DraftQueue, GROUP_UNKNOWN};
use super::table::Table;
use crate::codec::{Effect, FinalFacts, Run, Step, To, push_enqueued};
use crate::id::QueueId;
use crate::job::{Holder, Job, Key, KeyEnd, RareFields, TransitionResult};
use crate::queue::Queue;
use crate::state::{JOB_BYTES, new_job_memory};
use crate::{Cause, JobId, JobSpec, JobState, Jobs, LeaseToken, QueueSettings};

/// A step to be taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextStep<'a> {
    pub(crate) cause: Cause,
    pub(crate) to: To,
    /// The number of attempts that have started then.
    pub(crate) attempt: u16,
    /// The result or the error.
    pub(crate) detail: &'a [u8],
    /// The worker or the reason that all steps of a call share.
    pub(crate) shared: &'a str,
}

impl NextStep<'_> {
    /// A step without detail and shared text.
    pub(crate) fn new(cause: Cause, to: To, attempt: u16) -> Self {
        NextStep { cause, to, attempt, detail: b"", shared: "" }
    }
}

pub(crate) struct Draft<'d> {
    pub(crate) state: &'d Jobs,
    pub(crate) at: At,
    effects: &'d mut dyn Effects,
    run: Run,
    changed: ChangedJobs,
    /// Whether it took jobs of the state by clearing or destroying their queue.
    has_cleared: bool,
    /// Whether a later command may change a job that this commit ended.
    remembers_ends: bool,
    queues: Table<QueueId, DraftQueue<'d>>,
    /// `None` until there is any of it.
    rest: Option<Box<RareChanges>>,
}

/// The changes that most commits do not make.
#[derive(Debug, Default)]
struct RareChanges {
    /// Queues that this commit created, and under `None` names that it freed.
    names: BTreeMap<String, Option<QueueId>>,
    created: u32,
    /// The last steps of jobs that ended in this commit, or that were cleared before: place, final
    /// facts and attempt. Unless the draft remembers all ends, it has only jobs that time ended and
    /// cleared jobs.
    over: BTreeMap<JobId, (Place, FinalFacts, u16)>,
    extras: BTreeMap<JobId, RareFields>,
    groups: BTreeMap<JobId, String>,
    keys: BTreeMap<Key, Option<Holder>>,
}

impl<'d> Draft<'d> {
    #[inline]
    pub(crate) fn new(state: &'d Jobs, at: At, effects: &'d mut dyn Effects, remembers_ends: bool) -> Self {
        let run = Run::new(effects);
        Draft {
            state,
            at,
            effects,
            run,
            changed: ChangedJobs::default(),
            has_cleared: false,
            remembers_ends,
            queues: Table::default(),
            rest: None,
        }
    }

    fn rest(&mut self) -> &mut RareChanges {
        self.rest.get_or_insert_default()
    }

    /// Pushes the entry under construction, unless it has no steps. Later steps begin other
    /// entries.
    pub(crate) fn flush(&mut self) {
        self.run.push(self.effects);
    }

    /// Gives back the memory that it encoded in.
    pub(crate) fn give_back(&mut self) {
        self.run.give_back(self.effects);
    }

    /// Pushes an effect, of a queue when it is one of its life-cycle events.
    pub(crate) fn push(&mut self, effect: &Effect<'_>, queue: Option<QueueId>) -> Place {
        self.flush();
        effect.push(self.effects, queue).place
    }

    /// Returns the place of the entry that takes the next step of this cause.
    fn place_of_step(&mut self, cause: Cause, queue: QueueId, shared: &str) -> Place {
        if !self.run.takes(cause, queue, shared) {
            self.run.push(self.effects);
            self.run.begin(cause, queue, shared);
        }
        // A run is pushed before any other entry, so it gets the place of the next entry.
        self.effects.next_place()
    }

    /// The token of a lease in this queue that is granted next.
    pub(crate) fn next_token(&mut self, queue: QueueId, worker: &str) -> LeaseToken {
        LeaseToken::new(self.place_of_step(Cause::Leased, queue, worker))
    }

    /// The queue with this name, if it exists.
    pub(crate) fn queue(&self, name: &str) -> Option<QueueId> {
        match self.rest.as_ref().and_then(|rest| rest.names.get(name)) {
            Some(known) => *known,
            None => self.state.queue_ids.get(name).copied(),
        }
    }

    /// The queue of this name in the state.
    pub(crate) fn stored_queue(&self, id: QueueId) -> Option<&'d Queue> {
        self.state.queues.get(&id)
    }

    /// Adds a queue that was not there.
    pub(crate) fn create_queue(&mut self, name: &str) -> Result<QueueId, ClaimRefusal> {
        self.effects.claim(ResourceClaim::Queue(name))?;
        let queue = QueueId(self.state.queues_created + self.rest.as_ref().map_or(0, |rest| rest.created));
        self.push(&Effect::QueueCreated { queue, name }, Some(queue));
        let rest = self.rest();
        rest.created += 1;
        rest.names.insert(String::from(name), Some(queue));
        Ok(queue)
    }

    /// Claims the memory of a job that becomes live. `rare` says whether it has rare fields besides
    /// a key of `key` bytes.
    pub(crate) fn claim_job(
        &mut self,
        queue: Option<QueueId>,
        group: &str,
        rare: bool,
        key: Option<usize>,
    ) -> Result<(), ClaimRefusal> {
        let stored = queue.and_then(|queue| self.stored_queue(queue));
        let is_known = stored.is_some_and(|queue| queue.groups.number(group).is_some());
        let bytes = new_job_memory((!is_known).then_some(group), rare, key);
        self.effects.claim(ResourceClaim::JobBytes(bytes))
    }

    /// Whether the client of the commit may touch this: see [`Effects::permit`].
    pub(crate) fn permit(&self, touch: Touch<'_>) -> Result<(), Option<PermissionRefusal>> {
        self.effects.permit(touch)
    }

    /// See [`Effects::creator`].
    pub(crate) fn creator(&self) -> Option<Creator> {
        self.effects.creator()
    }

    /// See [`Effects::admits`].
    pub(crate) fn admits(&self, creator: &Creator) -> bool {
        self.effects.admits(creator)
    }

    /// See [`Effects::permit_creator`].
    pub(crate) fn permit_creator(&self, creator: &Creator, touch: Touch<'_>) -> Result<(), Option<PermissionRefusal>> {
        self.effects.permit_creator(creator, touch)
    }

    pub(crate) fn settings(&self, queue: QueueId) -> QueueSettings {
        match self.queues.get(queue) {
            Some(draft) => draft.settings(),
            None => self.stored_queue(queue).map(|queue| queue.settings).unwrap_or_default(),
        }
    }

    pub(crate) fn set_queue(&mut self, queue: QueueId, settings: QueueSettings) {
        self.push(&Effect::QueueSet { queue, settings }, Some(queue));
        let (state, draft) = (self.state, draft_queue(&mut self.queues, self.state, queue));
        let counted = draft.settings().group_active_max.is_some();
        draft.set(settings);
        if settings.group_active_max.is_some() && !counted {
            let group = |job: &Job| (job.queue == queue && job.state == JobState::Active).then_some(job.group);
            draft.recount(self.changed.iter().flat_map(|(id, standing)| {
                let before = state.jobs.get(&id).and_then(group).map(|group| (group, -1));
                let after = standing.live().and_then(group).map(|group| (group, 1));
                before.into_iter().chain(after)
            }));
        }
    }

    /// Cancels the jobs of a queue that are not active; of a `destroyed` queue, all jobs. Returns
    /// their number.
    pub(crate) fn clear(&mut self, queue: QueueId, name: &str, destroyed: bool) -> u64 {
        let gone = |job: &Job| job.queue == queue && (destroyed || job.state != JobState::Active);
        let mut jobs = self.left_count(queue, destroyed);
        for standing in self.changed.standings_mut() {
            if standing.live().is_some_and(gone) {
                *standing = TransitionResult::Finished(JobState::Cancelled);
                jobs += 1;
            }
        }
        if destroyed {
            self.push(&Effect::QueueDestroyed { queue }, Some(queue));
            self.effects.release(Release::Queue(name));
            self.rest().names.insert(String::from(name), None);
        } else {
            self.push(&Effect::QueueCleared { queue }, Some(queue));
        }
        self.has_cleared = true;
        let draft = self.draft_queue(queue);
        draft.live -= i64::try_from(jobs).expect("jobs are counted in memory");
        draft.cleared = true;
        draft.destroyed |= destroyed;
        jobs
    }

    /// Returns the number of stored jobs of a queue that this commit has neither changed nor
    /// cleared: of those that are not active, or of all.
    fn left_count(&self, queue: QueueId, also_active: bool) -> u64 {
        let Some(stored) = self.stored_queue(queue) else { return 0 };
        let draft = self.queues.get(queue);
        let (is_cleared, is_destroyed) = draft.map_or((false, false), |draft| (draft.cleared, draft.destroyed));
        let is_left = |state: JobState| match state {
            JobState::Active => also_active && !is_destroyed,
            state => !state.is_finished() && !is_cleared && !is_destroyed,
        };
        let left = JobState::ALL.into_iter().filter(|state| is_left(*state));
        let left: u64 = left.map(|state| stored.counts[state as usize]).sum();
        let changed = self.changed.iter().filter(|(id, _)| {
            let job = self.state.known(*id);
            job.is_some_and(|job| job.queue == queue && is_left(job.state))
        });
        left - changed.count() as u64
    }

    /// Returns the number of unfinished jobs in a queue.
    pub(crate) fn live_count(&self, queue: QueueId) -> u64 {
        let stored = self.stored_queue(queue).map_or(0, Queue::live_count);
        stored.saturating_add_signed(self.queues.get(queue).map_or(0, |draft| draft.live))
    }

    /// Returns the number of active jobs in a queue.
    pub(crate) fn active_count(&self, queue: QueueId) -> u64 {
        let stored = self.stored_queue(queue).map_or(0, |queue| queue.leased.len() as u64);
        stored.saturating_add_signed(self.queues.get(queue).map_or(0, DraftQueue::active))
    }

    /// Returns the number of active jobs in a group of a queue.
    pub(crate) fn group_active_count(&self, queue: QueueId, group: &str) -> u64 {
        let groups = self.stored_queue(queue).map(|queue| &queue.groups);
        let stored = groups.and_then(|groups| Some(groups.get(groups.number(group)?).active)).unwrap_or(0);
        let counts = |id: JobId, job: &Job| {
            job.queue == queue && job.state == JobState::Active && self.group_name(id, job) == group
        };
        // Jobs that the commit has put into the group have no number of the group when the state
        // has no such group.
        let by = self.changed.iter().map(|(id, standing)| {
            let before = self.state.jobs.get(&id).is_some_and(|job| counts(id, job));
            i64::from(standing.live().is_some_and(|job| counts(id, job))) - i64::from(before)
        });
        u64::from(stored).saturating_add_signed(by.sum())
    }

    fn draft_queue(&mut self, queue: QueueId) -> &mut DraftQueue<'d> {
        draft_queue(&mut self.queues, self.state, queue)
    }

    /// Adds a job. Later commands see it, but only later commits fetch it: a fetch reads the
    /// history, which does not have its payload yet.
    pub(crate) fn enqueue(&mut self, queue: QueueId, job: &JobSpec<'_>) -> (JobId, JobState) {
        self.flush();
        let run_at = job.run_at.filter(|run_at| *run_at > self.at.time);
        let id = push_enqueued(self.effects, self.run.buffer(), queue, run_at, job);
        let mut live = Job::enqueued(id, queue, GROUP_UNKNOWN, job.priority, job.attempts_max);
        if let Some(run_at) = run_at {
            live.state = JobState::Scheduled;
            live.set_until(run_at);
        }
        self.draft_queue(queue).live += 1;
        self.changed.insert(id, TransitionResult::Live(live));
        if !job.group.is_empty() {
            self.rest().groups.insert(id, String::from(job.group));
        }
        if job.expires_at.is_some() || job.retention_micros.is_some() {
            let (expires_at, retention_micros) = (job.expires_at, job.retention_micros);
            self.set_extra(id, RareFields { expires_at, retention_micros, ..RareFields::default() });
        }
        (id, live.state)
    }

    /// The job as the commit leaves it; `None` when it is neither live nor changed by this commit.
    pub(crate) fn job(&self, id: JobId) -> Option<TransitionResult> {
        if let Some(standing) = self.changed.get(id) {
            return Some(*standing);
        }
        let job = self.stored_live(id)?;
        Some(if self.is_cleared(job) {
            TransitionResult::Finished(JobState::Cancelled)
        } else {
            TransitionResult::Live(*job)
        })
    }

    /// The same job with its current state, if it is live.
    #[inline]
    pub(crate) fn live(&self, id: JobId) -> Option<&Job> {
        match self.changed.get(id) {
            Some(standing) => standing.live(),
            None => self.stored_live(id).filter(|job| !self.is_cleared(job)),
        }
    }

    /// The job as the commits before leave it, if it is live.
    #[inline]
    fn stored_live(&self, id: JobId) -> Option<&'d Job> {
        self.state.jobs.get(&id).filter(|job| !job.state.is_finished() && self.state.detached_at(job).is_none())
    }

    /// Whether this commit has cleared a job that it has not changed.
    fn is_cleared(&self, job: &Job) -> bool {
        self.has_cleared && self.queues.get(job.queue).is_some_and(|draft| draft.has_taken(job))
    }

    /// Whether this commit has changed a job.
    pub(crate) fn has_changed(&self, id: JobId) -> bool {
        self.changed.contains(id)
    }

    /// The [`RareFields`] of a job.
    pub(crate) fn extra(&self, id: JobId, job: &Job) -> Option<&RareFields> {
        self.rest.as_ref().and_then(|rest| rest.extras.get(&id)).or_else(|| self.state.extra(id, job))
    }

    /// The rare properties of a job that this commit enqueued.
    pub(crate) fn own_extra(&mut self, id: JobId) -> &mut RareFields {
        self.rest().extras.entry(id).or_default()
    }

    pub(crate) fn set_extra(&mut self, id: JobId, extra: RareFields) {
        self.rest().extras.insert(id, extra);
    }

    /// The name of a job's group.
    pub(crate) fn group_name(&self, id: JobId, job: &Job) -> String {
        if job.group == GROUP_UNKNOWN {
            return self.rest.as_ref().and_then(|rest| rest.groups.get(&id)).cloned().unwrap_or_default();
        }
        String::from(&*self.state.queue(job.queue).groups.get(job.group).name)
    }

    /// The job that took a key last, whether it still has it or not.
    pub(crate) fn key_taker(&self, key: &Key) -> Option<Holder> {
        self.rest.as_ref().and_then(|rest| rest.keys.get(key)).copied().unwrap_or_else(|| self.state.key_holder(key))
    }

    /// The job that has a key now.
    pub(crate) fn key_holder(&self, key: &Key) -> Option<Holder> {
        let holder = self.key_taker(key)?;
        let standing = self.job(holder.job);
        let held = match (holder.until, standing) {
            (KeyEnd::At(time), None | Some(TransitionResult::Live(_))) => time > self.at.time,
            (KeyEnd::At(time), Some(TransitionResult::Finished(state))) => {
                time > self.at.time && state != JobState::Cancelled
            }
            (KeyEnd::Finished, Some(TransitionResult::Live(_))) => true,
            (KeyEnd::Started, Some(TransitionResult::Live(job))) => job.attempt == 0,
            _ => false,
        };
        held.then_some(holder)
    }

    pub(crate) fn take_key(&mut self, key: Key, holder: Holder) {
        self.rest().keys.insert(key, Some(holder));
    }

    pub(crate) fn free_key(&mut self, key: Key) {
        self.rest().keys.insert(key, None);
    }

    /// Returns the facts about a finished job for its last entry.
    pub(crate) fn final_facts(&self, id: JobId, job: &Job) -> FinalFacts {
        job.final_facts(id, self.extra(id, job))
    }

    /// Adds a step of a live job to the record. `shared` holds for all steps of an entry.
    pub(crate) fn step(&mut self, id: JobId, job: &Job, next: NextStep<'_>) {
        let NextStep { cause, to, attempt, detail, shared } = next;
        let place = self.place_of_step(cause, job.queue, shared);
        let standing = job.after(cause, &to, attempt, place);
        self.run.add(&Step { job: id, before: job.last(), attempt, to, detail });
        match (cause, to) {
            (_, To::Completed(final_facts) | To::Cancelled(final_facts) | To::Dead(final_facts))
                if self.remembers_ends =>
            {
                self.rest().over.insert(id, (place, final_facts, attempt));
            }
            (Cause::LeaseExpired | Cause::TimedOut | Cause::Expired, To::Dead(final_facts)) => {
                self.rest().over.insert(id, (place, final_facts, attempt));
            }
            // It was cancelled before, with its queue.
            (Cause::Cancelled, To::Cancelled(final_facts)) if job.state.is_finished() => {
                self.rest().over.insert(id, (place, final_facts, attempt));
            }
            _ => drop(self.rest.as_mut().and_then(|rest| rest.over.remove(&id))),
        }
        self.set(id, job, standing, matches!(cause, Cause::Due | Cause::LeaseExpired | Cause::TimedOut));
    }

    /// The last step of a job that ended in this commit, or that was cleared before.
    pub(crate) fn over(&self, id: JobId) -> Option<(Place, FinalFacts, u16)> {
        self.rest.as_ref()?.over.get(&id).copied()
    }

    /// Removes a job that finished in this commit or before it.
    pub(crate) fn delete_finished(
        &mut self,
        id: JobId,
        final_facts: FinalFacts,
        before: Place,
        attempt: u16,
        from: JobState,
    ) {
        self.place_of_step(Cause::Deleted, final_facts.queue, "");
        let step = Step { job: id, before, attempt, to: To::Deleted(final_facts), detail: &[from as u8] };
        self.run.add(&step);
        self.changed.insert(id, TransitionResult::Deleted);
    }

    /// Notes that a job is another one than before. `offered`: it may be fetched by this commit
    /// when it is pending.
    pub(crate) fn set(&mut self, id: JobId, before: &Job, after: TransitionResult, offered: bool) {
        let draft = self.draft_queue(before.queue);
        match before.state {
            JobState::Active => draft.add_active(before.group, -1),
            JobState::Pending => draft.withdraw(id, before),
            _ => {}
        }
        match &after {
            TransitionResult::Live(job) => {
                let draft = if job.queue == before.queue {
                    draft
                } else {
                    draft.live -= 1;
                    let draft = self.draft_queue(job.queue);
                    draft.live += 1;
                    draft
                };
                match job.state {
                    JobState::Active => draft.add_active(job.group, 1),
                    JobState::Pending if offered => draft.offer(id, job),
                    _ => {}
                }
            }
            _ if before.state.is_finished() => {}
            _ => {
                draft.live -= 1;
                self.effects.release(Release::JobBytes(JOB_BYTES));
            }
        }
        self.changed.insert(id, after);
    }

    /// Stores the queue and the group of a job when the state does not have them.
    pub(crate) fn set_moved(&mut self, id: JobId, before: &Job, mut after: Job, group: String) {
        let stored = self.stored_queue(after.queue).filter(|_| after.state == JobState::Active);
        after.group = stored.and_then(|queue| queue.groups.number(&group)).unwrap_or(GROUP_UNKNOWN);
        self.rest().groups.insert(id, group);
        self.set(id, before, TransitionResult::Live(after), false);
    }

    /// Notes that a finished job is live again.
    pub(crate) fn set_revived(&mut self, id: JobId, job: Job, group: String, extra: RareFields) {
        let rest = self.rest();
        rest.groups.insert(id, group);
        rest.extras.insert(id, extra);
        self.draft_queue(job.queue).live += 1;
        self.changed.insert(id, TransitionResult::Live(job));
    }

    /// Takes the next job of a queue, within the limits of the queue. The caller leases the job, or
    /// reports why it can't be read.
    pub(crate) fn take_pending(&mut self, queue: QueueId) -> Option<(JobId, Job)> {
        let (changed, state, now) = (&self.changed, self.state, self.at.time);
        let may_run = |id: JobId, offered: bool| {
            let job = match changed.get(id) {
                Some(standing) => standing.live().filter(|job| offered && job.state == JobState::Pending)?,
                None => state.jobs.get(&id).filter(|_| !offered)?,
            };
            let expires_at = state.extra(id, job).and_then(|extra| extra.expires_at);
            expires_at.is_none_or(|time| time > now).then_some(job)
        };
        draft_queue(&mut self.queues, state, queue).take(now, may_run).map(|(id, job)| (id, *job))
    }
}

/// The changes of the commit to a queue.
fn draft_queue<'t, 'd>(
    queues: &'t mut Table<QueueId, DraftQueue<'d>>,
    state: &'d Jobs,
    queue: QueueId,
) -> &'t mut DraftQueue<'d> {
    queues.get_or(queue, || DraftQueue::new(state.queues.get(&queue)))
}
