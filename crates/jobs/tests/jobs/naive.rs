//! The naive model: a list of jobs, scanned for every command.
//!
//! It applies time at the beginning of every commit; the real model does so on demand. It gives
//! full replies, with two exceptions. It copies ids and tokens from the real reply. And it does not
//! predict the turns of groups: the result of a fetch is checked against the rules.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use quire_jobs::{
    Change, Clash, Command, FetchedJob, JobId, JobSpec, JobState, LeaseToken, QueueChange, QueueSettings, QueueStats,
    Rate, Refusal, Reply, Retry, Unique, UniqueHold, UniqueScope,
};
use quire_model::{Place, Timestamp};

#[derive(Debug, Clone)]
struct Job {
    id: JobId,
    queue: &'static str,
    spec: JobSpec<'static>,
    attempt: u16,
    state: JobState,
    /// When `state` ends by itself.
    until: Timestamp,
    run_until: Option<Timestamp>,
    token: Option<LeaseToken>,
    checkpoint: Option<&'static [u8]>,
    /// Until when it has its key; `None` for one without.
    key: Option<Hold>,
    /// Changed by the commit under way, not by time.
    fresh: bool,
    /// Whether its queue was destroyed after it was finished.
    orphan: bool,
    /// How many attempts were lost.
    losses: u32,
    /// Cleared with its queue by the commit under way.
    cleared: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Hold {
    Finished,
    Started,
    At(Timestamp),
}

#[derive(Debug, Clone, Default)]
struct Queue {
    settings: QueueSettings,
    starts: Vec<Timestamp>,
    group_starts: BTreeMap<&'static str, Vec<Timestamp>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    now: Timestamp,
    jobs: Vec<Job>,
    queues: BTreeMap<&'static str, Queue>,
    /// Every lease ever granted.
    pub(crate) leases: Vec<(JobId, LeaseToken)>,
}

fn window(rate: Option<Rate>, starts: &[Timestamp], now: Timestamp) -> bool {
    let Some(Rate::SlidingWindow { count, window_micros }) = rate else { return true };
    starts.iter().filter(|start| start.plus_micros(window_micros) > now).count() < count as usize
}

/// Whether a queue with this many unfinished jobs accepts one more.
fn room(queue: &str, live: u64, jobs_max: Option<u32>) -> Result<(), Refusal> {
    match jobs_max {
        Some(jobs_max) if live >= u64::from(jobs_max) => {
            Err(Refusal::Overloaded { queue: queue.into(), jobs_max, retry_after_micros: 100_000 })
        }
        _ => Ok(()),
    }
}

impl Naive {
    pub(crate) fn begin_commit(&mut self, now: Timestamp) {
        self.now = now;
        for job in &mut self.jobs {
            (job.fresh, job.cleared) = (false, false);
            if job.state == JobState::Active && job.until <= now {
                job.losses += 1;
                job.state = match job.losses {
                    _ if job.attempt >= job.spec.attempts_max => JobState::Dead,
                    1 => JobState::Pending,
                    _ => JobState::Retrying,
                };
                if job.state == JobState::Retrying {
                    job.until = job.until.plus_micros(job.spec.backoff.delay_micros(job.attempt));
                }
            }
            let waits = !job.state.is_finished() && job.state != JobState::Active;
            if waits && job.spec.expires_at.is_some_and(|time| time <= now) {
                job.state = JobState::Dead;
            }
            if matches!(job.state, JobState::Scheduled | JobState::Retrying) && job.until <= now {
                job.state = JobState::Pending;
            }
        }
    }

    /// The answer to a command. `real` is the real answer, when the commit was not refused.
    pub(crate) fn answer(&mut self, command: &Command<'static>, real: Option<&Reply>) -> Result<Reply, Refusal> {
        let now = self.now;
        match *command {
            Command::Enqueue { queue, job } => self.enqueue(queue, job, real),
            Command::Fetch { queues, count, lease_micros, .. } => Ok(self.fetch(queues, count, lease_micros, real)),
            Command::Ack { job, token, .. } => {
                self.held(job, token)?.finish(JobState::Completed);
                Ok(Reply::Acked)
            }
            Command::Fail { job, token, retry, .. } => {
                let job = self.held(job, token)?;
                let retry_at = match retry {
                    Retry::Never => None,
                    _ if job.attempt >= job.spec.attempts_max => None,
                    Retry::At(time) => Some(time.max(now)),
                    Retry::Backoff => Some(now.plus_micros(job.spec.backoff.delay_micros(job.attempt))),
                };
                job.state = if retry_at.is_some() { JobState::Retrying } else { JobState::Dead };
                job.until = retry_at.unwrap_or(now);
                job.fresh = true;
                Ok(Reply::Failed { retry_at })
            }
            Command::Snooze { job, token, until } => {
                let job = self.held(job, token)?;
                job.attempt -= 1;
                job.wait_until(until, now);
                Ok(Reply::Snoozed { until: until.max(now) })
            }
            Command::Heartbeat { job, token, lease_micros, checkpoint, .. } => {
                let job = self.held(job, token)?;
                if let Some(micros) = lease_micros {
                    let deadline = now.plus_micros(micros);
                    job.until = job.run_until.map_or(deadline, |until| until.min(deadline));
                }
                job.checkpoint = checkpoint.or(job.checkpoint);
                Ok(Reply::Extended { deadline: job.until })
            }
            Command::Change { job, change } => self.change(job, change),
            Command::SetQueue { queue, change } => {
                self.set(queue, change);
                Ok(Reply::QueueSet)
            }
            Command::Clear { queue } => self.clear(queue, |job| job.state != JobState::Active),
            Command::Destroy { queue } => {
                let cleared = self.clear(queue, |_| true)?;
                self.queues.remove(queue);
                self.jobs.iter_mut().filter(|job| job.queue == queue).for_each(|job| job.orphan = true);
                Ok(cleared)
            }
            Command::Each(commands) => {
                let real = if let Some(Reply::Each(real)) = real { Some(real) } else { None };
                let real = |index: usize| real.and_then(|real| real[index].as_ref().ok());
                Ok(Reply::Each(commands.iter().enumerate().map(|(n, command)| self.answer(command, real(n))).collect()))
            }
            // Only the real model knows how many due jobs remained.
            Command::Tick | Command::Bulk { .. } => match real {
                Some(Reply::Ticked { jobs, .. }) => Ok(Reply::Ticked { jobs: *jobs, more: false }),
                _ => Ok(Reply::Ticked { jobs: 0, more: false }),
            },
        }
    }

    fn enqueue(&mut self, queue: &'static str, spec: JobSpec<'static>, real: Option<&Reply>) -> Result<Reply, Refusal> {
        let now = self.now;
        if self.queues.get(queue).is_some_and(|queue| queue.settings.draining) {
            return Err(Refusal::QueueDraining { queue: queue.into() });
        }
        let (live, jobs_max) = (self.live(queue), self.jobs_max(queue));
        let room = |leaving| room(queue, live - leaving, jobs_max);
        if let Some(unique) = spec.unique {
            let holder = self.jobs.iter_mut().find(|job| job.has_this_key(unique, queue, now));
            if let Some(holder) = holder {
                let duplicate = Reply::Enqueued { job: holder.id, state: holder.state, duplicate: true };
                match unique.clash {
                    Clash::Reject => return Err(Refusal::Duplicate { job: holder.id }),
                    Clash::Keep => return Ok(duplicate),
                    Clash::Replace if holder.state == JobState::Active => return Ok(duplicate),
                    Clash::Replace => {
                        let leaves = !holder.state.is_finished() && holder.queue == queue;
                        room(u64::from(leaves))?;
                        if !holder.state.is_finished() {
                            holder.finish(JobState::Cancelled);
                        }
                        holder.key = None;
                    }
                    Clash::Extend => {
                        if let (Some(Hold::At(_)), UniqueHold::For(micros)) = (holder.key, unique.hold) {
                            holder.key = Some(Hold::At(now.plus_micros(micros)));
                        }
                        if holder.state == JobState::Scheduled {
                            holder.wait_until(spec.run_at.unwrap_or(now), now);
                        }
                        return Ok(Reply::Enqueued { job: holder.id, state: holder.state, duplicate: true });
                    }
                }
            }
        }
        self.room(queue)?;
        let id = match real {
            Some(Reply::Enqueued { job, .. }) => *job,
            _ => JobId::new(Place::END),
        };
        self.queues.entry(queue).or_default();
        let mut job = Job {
            id,
            queue,
            spec,
            attempt: 0,
            state: JobState::Pending,
            until: now,
            run_until: None,
            token: None,
            checkpoint: None,
            key: spec.unique.map(|unique| Hold::new(unique.hold, now)),
            fresh: true,
            orphan: false,
            losses: 0,
            cleared: false,
        };
        job.wait_until(spec.run_at.unwrap_or(now), now);
        let state = job.state;
        self.jobs.push(job);
        Ok(Reply::Enqueued { job: id, state, duplicate: false })
    }

    /// Whether a job may be fetched now.
    fn may_start(&self, job: &Job) -> bool {
        let Some(queue) = self.queues.get(job.queue) else { return false };
        let settings = queue.settings;
        let active = |own: &dyn Fn(&Job) -> bool| {
            self.jobs.iter().filter(|other| other.state == JobState::Active && own(other)).count()
        };
        let in_queue = |other: &Job| other.queue == job.queue;
        let in_group = |other: &Job| in_queue(other) && other.spec.group == job.spec.group;
        let starts = queue.group_starts.get(job.spec.group).map_or(&[][..], Vec::as_slice);
        job.state == JobState::Pending
            && !job.fresh
            && !settings.paused
            && settings.active_max.is_none_or(|most| active(&in_queue) < most as usize)
            && settings.group_active_max.is_none_or(|most| active(&in_group) < most as usize)
            && window(settings.rate, &queue.starts, self.now)
            && window(settings.group_rate, starts, self.now)
    }

    /// The jobs of which a fetch may take any next: the most urgent of the first queue that has
    /// some, the oldest of each group.
    fn next(&self, queues: &[&str]) -> Vec<usize> {
        for queue in queues {
            let ready: Vec<usize> = (0..self.jobs.len())
                .filter(|index| self.jobs[*index].queue == *queue && self.may_start(&self.jobs[*index]))
                .collect();
            let Some(most) = ready.iter().map(|index| self.jobs[*index].spec.priority).max() else { continue };
            let mut firsts: BTreeMap<&str, (Reverse<quire_jobs::Priority>, JobId, usize)> = BTreeMap::new();
            for index in ready {
                let job = &self.jobs[index];
                let key = (Reverse(job.spec.priority), job.id, index);
                firsts.entry(job.spec.group).and_modify(|first| *first = (*first).min(key)).or_insert(key);
            }
            return firsts.into_values().filter(|first| first.0.0 == most).map(|first| first.2).collect();
        }
        Vec::new()
    }

    fn fetch(&mut self, queues: &[&str], count: u32, lease_micros: u64, real: Option<&Reply>) -> Reply {
        let real: &[FetchedJob] = if let Some(Reply::Fetched(jobs)) = real { jobs } else { &[] };
        let mut fetched = Vec::new();
        for number in 0..count as usize {
            let next = self.next(queues);
            let chosen = real.get(number).and_then(|job| next.iter().find(|index| self.jobs[**index].id == job.job));
            let Some(index) = chosen.or(next.first()).copied() else { break };
            let now = self.now;
            let job = &mut self.jobs[index];
            let token = real.get(number).map_or(LeaseToken::new(Place::END), |job| job.token);
            let lease = now.plus_micros(lease_micros);
            job.run_until = job.spec.timeout_micros.map(|micros| now.plus_micros(micros));
            job.state = JobState::Active;
            job.attempt += 1;
            job.until = job.run_until.map_or(lease, |until| until.min(lease));
            job.token = Some(token);
            if job.key == Some(Hold::Started) {
                job.key = None;
            }
            self.leases.push((job.id, token));
            fetched.push(FetchedJob {
                job: job.id,
                token,
                queue: job.queue.into(),
                kind: job.spec.kind.into(),
                group: job.spec.group.into(),
                attempt: job.attempt,
                attempts_max: job.spec.attempts_max,
                priority: job.spec.priority,
                payload: job.spec.payload.into(),
                checkpoint: job.checkpoint.map(Into::into),
                deadline: job.until,
                run_until: job.run_until,
            });
            let (queue, group) = (job.queue, job.spec.group);
            let queue = self.queues.get_mut(queue).expect("there");
            queue.starts.push(now);
            queue.group_starts.entry(group).or_default().push(now);
        }
        Reply::Fetched(fetched)
    }

    /// How many unfinished jobs a queue has.
    fn live(&self, queue: &str) -> u64 {
        self.jobs.iter().filter(|job| job.queue == queue && !job.state.is_finished()).count() as u64
    }

    fn jobs_max(&self, queue: &str) -> Option<u32> {
        self.queues.get(queue).and_then(|queue| queue.settings.jobs_max)
    }

    fn room(&self, queue: &str) -> Result<(), Refusal> {
        room(queue, self.live(queue), self.jobs_max(queue))
    }

    fn find(&mut self, id: JobId) -> Result<&mut Job, Refusal> {
        self.jobs.iter_mut().find(|job| job.id == id).ok_or(Refusal::UnknownJob { job: id })
    }

    fn held(&mut self, id: JobId, token: LeaseToken) -> Result<&mut Job, Refusal> {
        let job = self.find(id)?;
        let held = job.state == JobState::Active && job.token == Some(token);
        if held { Ok(job) } else { Err(Refusal::StaleLease { job: id, state: job.state }) }
    }

    /// Whether a job, if it is active, may be moved to a queue.
    fn active_room(&self, id: JobId, queue: &str) -> Result<(), Refusal> {
        let job = self.jobs.iter().find(|job| job.id == id).expect("it was found");
        let Some(settings) = self.queues.get(queue).map(|queue| queue.settings) else { return Ok(()) };
        let active = |own: &dyn Fn(&Job) -> bool| {
            let active = |other: &&Job| other.state == JobState::Active && other.queue == queue && own(other);
            self.jobs.iter().filter(active).count()
        };
        let in_group = active(&|other| other.spec.group == job.spec.group);
        let full = [
            ("active_max", settings.active_max, active(&|_| true)),
            ("group_active_max", settings.group_active_max, in_group),
        ];
        let full = full.into_iter().find_map(|(setting, most, active)| {
            most.filter(|most| active >= *most as usize).map(|most| (setting, most))
        });
        match full {
            Some((setting, most)) if job.state == JobState::Active => {
                Err(Refusal::TooManyActive { queue: queue.into(), setting, most })
            }
            _ => Ok(()),
        }
    }

    /// Refuses a key of a job in a queue when another job has it there.
    fn rival(&self, id: JobId, unique: Unique<'static>, queue: &str) -> Result<(), Refusal> {
        match self.jobs.iter().find(|job| job.id != id && job.has_this_key(unique, queue, self.now)) {
            Some(rival) => Err(Refusal::Duplicate { job: rival.id }),
            None => Ok(()),
        }
    }

    fn change(&mut self, id: JobId, change: Change<'static>) -> Result<Reply, Refusal> {
        use JobState::{Active, Held, Pending, Retrying, Scheduled};
        let now = self.now;
        let job = self.find(id)?;
        let waits = matches!(job.state, Scheduled | Pending | Retrying);
        let wrong = Err(Refusal::WrongState { job: id, state: job.state });
        if job.cleared {
            return wrong;
        }
        match change {
            Change::Delete => {
                self.jobs.retain(|job| job.id != id);
                return Ok(Reply::Changed { state: None });
            }
            Change::Retry { payload } if job.state == JobState::Dead => {
                // Of a queue that was destroyed it goes to another of its name.
                let queue = job.queue;
                self.room(queue)?;
                self.queues.entry(queue).or_default();
                let (unique, was_orphan) = (self.find(id)?.spec.unique, self.find(id)?.orphan);
                let again = unique.map(|unique| unique.hold).filter(|hold| !matches!(hold, UniqueHold::For(_)));
                if let (Some(unique), Some(_)) = (unique, again) {
                    self.rival(id, unique, queue)?;
                }
                let job = self.find(id)?;
                job.orphan = false;
                if was_orphan && unique.is_some_and(|unique| unique.scope == UniqueScope::Queue) {
                    job.key = None;
                }
                job.key = again.map(|hold| Hold::new(hold, now)).or(job.key);
                job.spec.payload = payload.unwrap_or(job.spec.payload);
                (job.state, job.attempt, job.spec.expires_at, job.fresh) = (Pending, 0, None, true);
                job.losses = 0;
            }
            _ if job.state.is_finished() => return wrong,
            Change::Cancel { .. } => job.finish(JobState::Cancelled),
            Change::Hold { .. } if waits => (job.state, job.fresh) = (Held, true),
            Change::Release if job.state == Held => (job.state, job.fresh) = (Pending, true),
            Change::Reschedule { run_at } if waits => job.wait_until(run_at, now),
            Change::Priority(priority) => (job.spec.priority, job.fresh) = (priority, true),
            Change::AttemptsMax(attempts) if attempts < job.attempt + u16::from(job.state != Active) => {
                let least = job.attempt + u16::from(job.state != Active);
                return Err(Refusal::TooFewAttempts { job: id, least });
            }
            Change::AttemptsMax(attempts) => (job.spec.attempts_max, job.fresh) = (attempts, true),
            Change::Payload(payload) if job.state != Active => (job.spec.payload, job.fresh) = (payload, true),
            Change::Move { queue } => {
                let from = job.queue;
                let is_draining = self.queues.get(queue).is_some_and(|queue| queue.settings.draining);
                if from != queue && is_draining {
                    return Err(Refusal::QueueDraining { queue: queue.into() });
                }
                if from != queue {
                    self.room(queue)?;
                    self.active_room(id, queue)?;
                    let job = self.find(id)?;
                    if let Some(unique) = job.spec.unique.filter(|_| job.has_key(now)) {
                        self.rival(id, unique, queue)?;
                    }
                }
                self.queues.entry(queue).or_default();
                let job = self.find(id)?;
                (job.queue, job.fresh) = (queue, true);
            }
            _ => return wrong,
        }
        Ok(Reply::Changed { state: Some(self.find(id)?.state) })
    }

    fn set(&mut self, queue: &'static str, change: QueueChange) {
        let queue = self.queues.entry(queue).or_default();
        match change {
            QueueChange::Paused(paused) => queue.settings.paused = paused,
            QueueChange::Draining(draining) => queue.settings.draining = draining,
            QueueChange::JobsMax(most) => queue.settings.jobs_max = most,
            QueueChange::ActiveMax(most) => queue.settings.active_max = most,
            QueueChange::Retention(micros) => queue.settings.retention_micros = micros,
            QueueChange::GroupActiveMax(most) => queue.settings.group_active_max = most,
            QueueChange::Rate(rate) => {
                if queue.settings.rate != rate {
                    queue.starts.clear();
                }
                queue.settings.rate = rate;
            }
            QueueChange::GroupRate(rate) => {
                if queue.settings.group_rate != rate {
                    queue.group_starts.clear();
                }
                queue.settings.group_rate = rate;
            }
        }
    }

    fn clear(&mut self, queue: &str, wanted: impl Fn(&Job) -> bool) -> Result<Reply, Refusal> {
        if !self.queues.contains_key(queue) {
            return Err(Refusal::UnknownQueue { queue: queue.into() });
        }
        let gone = |job: &&mut Job| job.queue == queue && !job.state.is_finished() && wanted(job);
        let cleared = self.jobs.iter_mut().filter(gone).map(|job| {
            job.finish(JobState::Cancelled);
            job.cleared = true;
        });
        let cleared = cleared.count();
        Ok(Reply::Cleared { jobs: cleared as u64 })
    }

    /// Those of queues that had the name before, too.
    pub(crate) fn ids(&self, queue: &str, state: JobState) -> Vec<JobId> {
        self.jobs.iter().filter(|job| job.queue == queue && job.state == state).map(|job| job.id).collect()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (JobId, JobState, u16, &[u8])> {
        self.jobs.iter().map(|job| (job.id, job.state, job.attempt, job.spec.payload))
    }

    pub(crate) fn stats(&self, queue: &str) -> Option<QueueStats> {
        let own = |job: &&Job| job.queue == queue && !job.orphan;
        let count = |state| self.jobs.iter().filter(own).filter(|job| job.state == state).count() as u64;
        self.queues.contains_key(queue).then(|| QueueStats {
            scheduled: count(JobState::Scheduled),
            pending: count(JobState::Pending),
            active: count(JobState::Active),
            retrying: count(JobState::Retrying),
            held: count(JobState::Held),
            completed: count(JobState::Completed),
            cancelled: count(JobState::Cancelled),
            dead: count(JobState::Dead),
        })
    }

    /// The number of jobs that can be fetched from a queue while none of them ends.
    pub(crate) fn fetchable(&self, queue: &'static str) -> usize {
        let mut after = self.clone();
        after.begin_commit(self.now);
        let Reply::Fetched(jobs) = after.fetch(&[queue], 1_000, 1_000_000, None) else { unreachable!() };
        jobs.len()
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let live = self.jobs.iter().filter(|job| !job.state.is_finished());
        let ends = live.flat_map(|job| {
            let timed = matches!(job.state, JobState::Scheduled | JobState::Retrying | JobState::Active);
            let expires = job.spec.expires_at.filter(|_| job.state != JobState::Active);
            [timed.then_some(job.until), expires]
        });
        ends.flatten().min()
    }

    /// That no job was ever leased twice under one token.
    pub(crate) fn assert_tokens_unique(&self) {
        let leases: BTreeSet<_> = self.leases.iter().collect();
        assert_eq!(leases.len(), self.leases.len(), "each lease of a job has a token of its own");
    }
}

impl Hold {
    fn new(hold: UniqueHold, now: Timestamp) -> Self {
        match hold {
            UniqueHold::UntilFinished => Hold::Finished,
            UniqueHold::UntilStarted => Hold::Started,
            UniqueHold::For(micros) => Hold::At(now.plus_micros(micros)),
        }
    }
}

impl Job {
    fn finish(&mut self, state: JobState) {
        self.state = state;
        self.fresh = true;
        if state == JobState::Cancelled {
            self.key = None;
        }
    }

    fn wait_until(&mut self, time: Timestamp, now: Timestamp) {
        self.state = if time > now { JobState::Scheduled } else { JobState::Pending };
        self.until = time;
        self.fresh = true;
    }

    fn has_key(&self, now: Timestamp) -> bool {
        match self.key {
            None => false,
            Some(Hold::At(time)) => time > now,
            Some(Hold::Finished | Hold::Started) => !self.state.is_finished(),
        }
    }

    fn has_this_key(&self, unique: Unique<'static>, queue: &str, now: Timestamp) -> bool {
        let own = self.spec.unique.filter(|own| own.key == unique.key && own.scope == unique.scope);
        let in_scope = |own: Unique<'_>| own.scope == UniqueScope::Everywhere || self.queue == queue && !self.orphan;
        own.is_some_and(in_scope) && self.has_key(now)
    }
}
