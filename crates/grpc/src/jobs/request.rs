//! Converts requests into commands. Payloads are borrowed.

use quire::jobs::{
    BACKOFF_FIRST_MICROS, BACKOFF_MAX_MICROS, Backoff, Clash, Command, JobId, JobSpec, LeaseToken, Order, Priority,
    Reply, Retry, Unique, UniqueHold, UniqueScope,
};
use quire::{Commit, Database, Outcome, Part, Ticket, Timestamp};
use tonic::Status;

use super::each_answered;
use crate::error::{ItemFault, failed, refused_item};
use crate::idempotency::CallKey;
use crate::proto;
use crate::proto::job_report::{Fail, What, fail};
use crate::proto::unique_key::{self, Hold};
use crate::proto::{JobRefusal, JobReport, UniqueKey, backoff};

/// The default lease, in microseconds.
pub(crate) const LEASE_MICROS_DEFAULT: u64 = 30_000_000;

/// Maximum number of items in a call or a frame.
const ITEMS_MAX: usize = 1_024;

/// The reply to an item.
pub(super) type CommandReply = Result<Reply, Box<JobRefusal>>;

/// A commit of the valid items; the invalid ones have their errors.
#[derive(Debug)]
pub(super) struct PendingItems {
    /// For each item, its error if it is invalid.
    faults: Vec<Option<ItemFault>>,
    ticket: Ticket<Outcome>,
}

/// Commits the valid items, each decided by itself.
pub(super) fn submit_each<'c>(
    database: &Database,
    key: &CallKey,
    commands: impl ExactSizeIterator<Item = Result<Command<'c>, ItemFault>>,
) -> Result<PendingItems, Status> {
    if commands.len() > ITEMS_MAX {
        let given = u32::try_from(commands.len()).unwrap_or(u32::MAX);
        return Err(ItemFault::out_of_range("the number of items", given, ITEMS_MAX as u32).into());
    }
    let mut good = Vec::with_capacity(commands.len());
    let faults = commands.map(|command| command.map(|command| good.push(command)).err()).collect();
    let ticket = database.submit(&key.on(Commit::new().part(Part::Jobs(Command::Each(&good))))).map_err(failed)?;
    Ok(PendingItems { faults, ticket })
}

impl PendingItems {
    /// One reply for each item, in order, and whether they are those of an earlier copy.
    pub(super) async fn answers(self) -> Result<(Vec<CommandReply>, bool), Status> {
        let (answers, is_replay) = each_answered(self.ticket).await?;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().expect("an each returns a reply for each command");
        let of = |fault: Option<ItemFault>| match fault {
            Some(fault) => Err(Box::new(fault.into())),
            None => next().map_err(|refusal| Box::new(refused_item(&refusal))),
        };
        Ok((self.faults.into_iter().map(of).collect(), is_replay))
    }
}

/// The commands of a call or a frame: each decided by itself, in one commit.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) reports: Vec<JobReport>,
    pub(super) enqueue: Vec<proto::NewJob>,
}

impl Items {
    pub(super) fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.enqueue.is_empty()
    }

    /// Commits them: reports first.
    pub(super) fn submit(&self, database: &Database, key: &CallKey) -> Result<PendingItems, Status> {
        let tags: Vec<Vec<&str>> =
            self.enqueue.iter().map(|job| job.tags.iter().map(String::as_str).collect()).collect();
        let reports = self.reports.iter().map(report);
        let enqueues = self.enqueue.iter().zip(&tags).map(|(job, tags)| enqueue(job, tags));
        let commands: Vec<_> = reports.chain(enqueues).collect();
        submit_each(database, key, commands.into_iter())
    }
}

/// The parameters of a fetch.
#[derive(Debug)]
pub(super) struct FetchOptions {
    pub(super) queues: Vec<String>,
    pub(super) weights: Vec<u32>,
    pub(super) lease_us: Option<u64>,
    pub(super) worker: String,
    /// Whether to include the events of deliveries.
    pub(super) with_events: bool,
}

impl FetchOptions {
    pub(super) fn submit(&self, database: &Database, count: u32) -> Result<Ticket<Outcome>, Status> {
        let queues: Vec<&str> = self.queues.iter().map(String::as_str).collect();
        let order = if self.weights.is_empty() { Order::Strict } else { Order::Weighted(&self.weights) };
        let lease_micros = self.lease_us.unwrap_or(LEASE_MICROS_DEFAULT);
        let fetch = Command::Fetch { queues: &queues, order, count, lease_micros, worker: &self.worker };
        database.submit(&Commit::new().part(Part::Jobs(fetch))).map_err(failed)
    }
}

/// The command that enqueues a job. `tags` are those of the job.
pub(crate) fn enqueue<'r>(job: &'r proto::NewJob, tags: &'r [&'r str]) -> Result<Command<'r>, ItemFault> {
    let or = JobSpec::new(&job.payload);
    if job.jitter_percent > 0
        && let Some(proto::Backoff { kind: Some(backoff::Kind::None(_)) }) = &job.backoff
    {
        return Err(ItemFault::invalid("jitter_percent requires a backoff"));
    }
    let new = JobSpec {
        kind: &job.kind,
        priority: job.priority.map_or(Ok(or.priority), |number| small("priority", number).map(Priority::new))?,
        run_at: job.run_at_us.map(Timestamp::from_micros),
        expires_at: job.expires_at_us.map(Timestamp::from_micros),
        timeout_micros: job.timeout_us,
        attempts_max: job.attempts_max.map_or(Ok(or.attempts_max), |number| attempts("attempts_max", number))?,
        backoff: job.backoff.as_ref().map_or(Ok(or.backoff), backoff_of)?,
        jitter_percent: small("jitter_percent", job.jitter_percent)?,
        group: &job.group,
        unique: job.unique.as_ref().map(unique).transpose()?,
        retention_micros: job.retention_us,
        tags,
        ..or
    };
    Ok(Command::Enqueue { queue: &job.queue, job: new })
}

/// A number of at most 8 bits.
pub(super) fn small(name: &str, number: u32) -> Result<u8, ItemFault> {
    u8::try_from(number).map_err(|_| ItemFault::out_of_range(name, number, 255))
}

/// A number of attempts.
pub(super) fn attempts(name: &str, number: u32) -> Result<u16, ItemFault> {
    u16::try_from(number).map_err(|_| ItemFault::out_of_range(name, number, u32::from(u16::MAX)))
}

/// Checks a choice that must be `true` when it is given.
pub(crate) fn chosen(name: &str, said: bool) -> Result<(), ItemFault> {
    let fault = || ItemFault::invalid(format!("{name} must be true or left out"));
    said.then_some(()).ok_or_else(fault)
}

fn backoff_of(given: &proto::Backoff) -> Result<Backoff<&[u64]>, ItemFault> {
    // An absent field is 0 in a message; a constant wait is therefore a kind of its own.
    let growing = |by: &backoff::Growing| {
        let or = |given, default| if given == 0 { default } else { given };
        (or(by.first_us, BACKOFF_FIRST_MICROS), or(by.max_us, BACKOFF_MAX_MICROS))
    };
    Ok(match &given.kind {
        None => return Err(ItemFault::invalid("the backoff has no kind: give one, or leave the backoff out")),
        Some(backoff::Kind::None(said)) => {
            chosen("backoff.none", *said)?;
            Backoff::None
        }
        Some(backoff::Kind::FixedUs(micros)) => Backoff::Fixed { micros: *micros },
        Some(backoff::Kind::Linear(by)) => {
            let (base_micros, max_micros) = growing(by);
            Backoff::Linear { base_micros, max_micros }
        }
        Some(backoff::Kind::Exponential(by)) => {
            let (base_micros, max_micros) = growing(by);
            Backoff::Exponential { base_micros, max_micros }
        }
        Some(backoff::Kind::List(list)) => Backoff::List(&list.waits_us),
    })
}

fn unique(key: &UniqueKey) -> Result<Unique<'_>, ItemFault> {
    let clash = unique_key::Clash::try_from(key.clash);
    Ok(Unique {
        key: &key.key,
        scope: if key.everywhere { UniqueScope::Everywhere } else { UniqueScope::Queue },
        hold: match key.hold {
            None => UniqueHold::UntilFinished,
            Some(Hold::UntilStarted(said)) => {
                chosen("unique.until_started", said)?;
                UniqueHold::UntilStarted
            }
            Some(Hold::ForUs(micros)) => UniqueHold::For(micros),
        },
        clash: match clash.map_err(|_| ItemFault::invalid(format!("unknown clash {}", key.clash)))? {
            unique_key::Clash::Keep => Clash::Keep,
            unique_key::Clash::Reject => Clash::Reject,
            unique_key::Clash::Replace => Clash::Replace,
            unique_key::Clash::Extend => Clash::Extend,
        },
    })
}

/// The job and the lease in a report.
pub(super) fn named(report: &JobReport) -> Result<(JobId, LeaseToken), ItemFault> {
    let unknown = |what: &str, text: &str| ItemFault::invalid(format!("{text:?} is not the {what}"));
    let job = report.job.parse().map_err(|_| unknown("id of a job", &report.job))?;
    let token = report.token.parse().map_err(|_| unknown("token of a lease", &report.token))?;
    Ok((job, token))
}

/// The result in a report.
pub(crate) fn report(report: &JobReport) -> Result<Command<'_>, ItemFault> {
    let (job, token) = named(report)?;
    Ok(match &report.what {
        Some(What::Ack(ack)) => Command::Ack { job, token, result: &ack.result },
        Some(What::Fail(Fail { error, retry })) => {
            let retry = match retry {
                None => Retry::Backoff,
                Some(fail::Retry::RetryAtUs(at)) => Retry::At(Timestamp::from_micros(*at)),
                Some(fail::Retry::Never(said)) => {
                    chosen("fail.never", *said)?;
                    Retry::Never
                }
            };
            Command::Fail { job, token, error, retry }
        }
        Some(What::Snooze(snooze)) => Command::Snooze { job, token, until: Timestamp::from_micros(snooze.until_us) },
        Some(What::Heartbeat(beat)) => Command::Heartbeat {
            job,
            token,
            lease_micros: beat.lease_us,
            progress: beat.progress.as_deref(),
            checkpoint: beat.checkpoint.as_deref(),
        },
        None => return Err(ItemFault::invalid(format!("the report on job {job} has no result"))),
    })
}
