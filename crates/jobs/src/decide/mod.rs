//! From commands to effects: which job a fetch leases, which leases are valid, which changes time
//! brings.
//!
//! Pure. Every form of a command (alone, in an `Each`, in a commit with others) uses
//! [`Decision::command`]. A refused command pushes no effect of its own. It may push the changes
//! that time brought to its job: they are valid either way.

mod changed;
mod draft;
mod draft_queue;
mod table;

mod enqueue;
mod fetch;
mod held;

mod change;
mod queues;

mod bulk;
mod time;

use alloc::vec::Vec;

use quire_model::{
    At, DecideError, Effects, History, Operation, PermissionRefusal, ResourceKind, Timestamp, decide_in_order,
};

use self::draft::Draft;
use crate::id::QueueId;
use crate::name::check_queue_name;
use crate::{Command, JobLimit, Jobs, Refusal, Reply};

pub(crate) fn decide(
    state: &Jobs,
    history: &dyn History,
    at: At,
    commands: &[Command<'_>],
    effects: &mut dyn Effects,
    replies: &mut Vec<Reply>,
) -> Result<(), DecideError<Refusal>> {
    let mut draft = Draft::new(state, at, effects, commands.iter().any(changes_jobs));
    let mut decision =
        Decision { state, history, at, now: at.time, draft: &mut draft, bulks_begun: 0, has_advanced_bulk: false };
    let decided = decision.all(commands, replies);
    draft.give_back();
    decided
}

/// Whether a command may change a job that an earlier command of the commit ended.
fn changes_jobs(command: &Command<'_>) -> bool {
    match command {
        Command::Change { .. } | Command::Tick => true,
        Command::Each(commands) => commands.iter().any(changes_jobs),
        _ => false,
    }
}

/// Why a command is not decided.
type Stop = quire_model::Stop<Refusal>;

struct Decision<'d, 'w> {
    state: &'d Jobs,
    history: &'d dyn History,
    at: At,
    now: Timestamp,
    draft: &'w mut Draft<'d>,
    /// The number of bulk changes that earlier commands of the commit began.
    bulks_begun: u64,
    /// Whether an earlier command of the commit advanced a bulk change. The state does not have its
    /// progress yet.
    has_advanced_bulk: bool,
}

/// The destination of replies to accepted commands: the commit, or commands that succeed or fail by
/// themselves.
enum Answers<'r> {
    All(&'r mut Vec<Reply>),
    Each(&'r mut Vec<Result<Reply, Refusal>>),
}

impl Answers<'_> {
    #[inline]
    fn push(&mut self, reply: Reply) {
        match self {
            Answers::All(replies) => replies.push(reply),
            Answers::Each(answers) => answers.push(Ok(reply)),
        }
    }
}

impl Decision<'_, '_> {
    fn all(&mut self, commands: &[Command<'_>], replies: &mut Vec<Reply>) -> Result<(), DecideError<Refusal>> {
        decide_in_order(commands, |_, command| self.command(command, &mut Answers::All(replies)))?;
        self.draft.flush();
        Ok(())
    }

    fn command(&mut self, command: &Command<'_>, answers: &mut Answers<'_>) -> Result<(), Stop> {
        // By reference: an enqueue has 184 bytes, and copying it takes longer than reading it in
        // place.
        let reply = match command {
            // A copy of its reply would take longer, too, so the reply is written in place.
            Command::Enqueue { queue, job } => return self.enqueue(queue, job, answers),
            Command::Fetch { queues, order, count, lease_micros, worker } => {
                Ok(Reply::Fetched(self.fetch(queues, *order, *count, *lease_micros, worker)?))
            }
            Command::Ack { job, token, result } => self.ack(*job, *token, result),
            Command::Fail { job, token, error, retry } => self.fail(*job, *token, error, *retry),
            Command::Snooze { job, token, until } => self.snooze(*job, *token, *until),
            Command::Heartbeat { job, token, lease_micros, progress, checkpoint } => {
                self.heartbeat(*job, *token, *lease_micros, *progress, *checkpoint)
            }
            Command::Change { job, change } => Ok(Reply::Changed { state: self.change(*job, change)? }),
            Command::SetQueue { queue, change } => Ok(self.set_queue(queue, *change)?),
            Command::Clear { queue } => Ok(self.clear(queue, false)?),
            Command::Destroy { queue } => Ok(self.clear(queue, true)?),
            Command::Bulk { filter, change } => Ok(self.begin_bulk(*filter, *change)?),
            Command::Each(commands) => self.each(commands),
            Command::Tick => self.tick(),
        };
        answers.push(reply?);
        Ok(())
    }

    fn each(&mut self, commands: &[Command<'_>]) -> Result<Reply, Stop> {
        JobLimit::EachCommands.check(commands.len() as u64)?;
        let mut answers = Vec::with_capacity(commands.len());
        for command in commands {
            if let Command::Each(_) = command {
                answers.push(Err(Refusal::NestedEach));
                continue;
            }
            if let Err(refusal) = self.permit(command)? {
                answers.push(Err(refusal));
                continue;
            }
            match self.command(command, &mut Answers::Each(&mut answers)) {
                Ok(()) => {}
                Err(Stop::Refused(refusal)) => answers.push(Err(refusal)),
                Err(unreadable) => return Err(unreadable),
            }
        }
        Ok(Reply::Each(answers))
    }

    /// Checks the permissions of a command that is refused without its commit.
    fn permit(&self, command: &Command<'_>) -> Result<Result<(), Refusal>, Stop> {
        let mut permitted = Ok(());
        self.state.touched(self.history, command, &mut |touch| {
            if permitted.is_ok() {
                permitted = self.draft.permit(touch);
            }
        })?;
        Ok(permitted.map_err(|denied| match (denied, command.job()) {
            // The same answer as for a job that does not exist.
            (None, Some(job)) => Refusal::UnknownJob { job },
            (Some(refusal), _) => Refusal::NotPermitted(refusal),
            // The queue of the job that holds the unique key of an enqueue.
            (None, None) => Refusal::NotPermitted(PermissionRefusal::every(ResourceKind::Queue, Operation::Write)),
        }))
    }

    /// The queue with this name, created when missing.
    fn queue_for(&mut self, name: &str) -> Result<QueueId, Refusal> {
        check_queue_name(name)?;
        if let Some(queue) = self.draft.queue(name) {
            return Ok(queue);
        }
        Ok(self.draft.create_queue(name)?)
    }
}
