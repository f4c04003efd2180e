//! The one path of a write: decide all commands against the same state, append their effects as one
//! record, apply them.
//!
//! Every commit of the shard is a call of [`WriterState::decide_and_append`].

use quire_log::{Basis, RecordCopy, Woken, Writer};
use quire_model::{At, DecideError, Effects, History, Model, StepBudget, Timestamp};

use crate::audit;
use crate::claims::{ClaimingEffects, Claims, NameLimits};
use crate::commands::{Commands, Replies};
use crate::compaction::ForgottenTags;
use crate::creators::CreatorRules;
use crate::denial::Denial;
use crate::drafted::ListedEffects;
use crate::idempotency::{IdempotencySettings, KeyLookup};
use crate::models::Models;
use crate::office::ShardOffice;
use crate::permitted::{Authority, PermittedCommands};
use crate::refusal::{CommitRefusal, Reason};
use crate::{Error, ErrorKind, Result, events, graph, system};

/// The end of the log, and the state that follows from it: a writer holds both while it decides.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) writer: Writer,
    pub(crate) models: Models,
    /// Whether this shard decides commits.
    pub(crate) office: ShardOffice,
    /// The most that a commit made here may leave in the database.
    pub(crate) limits: NameLimits,
    /// How long keys of commits made here are kept.
    idempotency: IdempotencySettings,
    /// Blocks that the last decision looked up in graphs.
    pub(crate) lookups: graph::SlotLookups,
    /// The rules of the state, by which work that runs later is checked.
    pub(crate) creators: CreatorRules,
    /// Whether the log may hold a record that the models have not applied, or only in part. Visible
    /// to others only after a panic.
    pub(crate) is_torn: bool,
    /// Threads that wait for a record that is there now. They are woken after the lock.
    pub(crate) woken: Woken,
    /// Whether records of other processes were applied since this was last cleared.
    pub(crate) has_followed: bool,
    /// Tags whose events were forgotten and may still be in the log.
    pub(crate) forgotten: ForgottenTags,
}

/// The steps that a commit may take.
#[derive(Debug, Clone, Copy)]
pub struct CommitLimits<'b> {
    /// The most entries of the history that the decision scans. A commit that could scan more is
    /// not begun.
    pub brief_steps_max: u64,
    /// The budget of the request that commits. A decision that exceeds it is refused.
    pub budget: Option<&'b StepBudget>,
}

impl CommitLimits<'_> {
    /// No limit.
    pub const NONE: Self = CommitLimits { brief_steps_max: u64::MAX, budget: None };
}

/// A verdict, and the record that it rests on. It may leave the database once that record is
/// published.
#[derive(Debug)]
pub struct DecidedCommit {
    /// What the verdict rests on: its own record, or the last record before it.
    pub rests_on: Basis,
    /// Position and time of the commit, or its refusal, which counts the commands of its model: see
    /// [`CommitRefusal::part`].
    pub verdict: Result<At, Box<CommitRefusal>>,
    /// Whether the verdict is the first answer to an earlier copy of the commit. Nothing was done.
    pub is_replay: bool,
    /// Whether the verdict has no record of its own and follows from the state alone: it is a
    /// refusal, or the commit changes nothing. In a cluster, it is true only while this node leads.
    pub is_of_state: bool,
}

impl DecidedCommit {
    /// A verdict without a record of its own.
    pub(crate) fn of_state(rests_on: Basis, verdict: Result<At, Box<CommitRefusal>>) -> Self {
        DecidedCommit { rests_on, verdict, is_replay: false, is_of_state: true }
    }
}

/// Whether a decision ended because it needs more steps than its budget has.
pub(crate) fn is_too_costly(decided: &Result<DecidedCommit>) -> bool {
    match decided {
        Ok(DecidedCommit { verdict: Err(refused), .. }) => {
            matches!(refused.reason, Reason::Events(events::Refusal::TooCostly { .. }))
        }
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::TooCostly,
    }
}

impl WriterState {
    pub(crate) fn new(
        writer: Writer,
        models: Models,
        office: ShardOffice,
        limits: NameLimits,
        idempotency: IdempotencySettings,
    ) -> Self {
        WriterState {
            writer,
            models,
            office,
            limits,
            idempotency,
            lookups: graph::SlotLookups::default(),
            creators: CreatorRules::default(),
            is_torn: false,
            woken: Woken::default(),
            has_followed: false,
            forgotten: ForgottenTags::default(),
        }
    }

    /// Waits for this process's turn, checks and decides the commands at the time `now`, and
    /// appends and applies their effects: all or none. `prepared` holds what was scanned for the
    /// events before. After an acceptance `replies` holds the replies; earlier ones are cleared in
    /// any case. Reads of the decision claim their steps from `budget`.
    ///
    /// A dry run takes the same path up to the append, and drops the draft there as a refusal does.
    // Inlined into its only caller: the decision then stays in registers instead of going through
    // memory.
    #[inline(always)]
    pub(crate) fn decide_and_append(
        &mut self,
        budget: Option<StepBudget>,
        now: Timestamp,
        permitted: &PermittedCommands<'_, '_, '_>,
        prepared: &events::AppendLookups,
        replies: &mut Replies,
    ) -> Result<DecidedCommit> {
        assert!(!self.is_torn, "no commit is decided on a state that is behind the log");
        if self.writer.is_behind() {
            // Most records of other processes are applied before they have to wait for the turn.
            self.follow()?;
        }
        let mut turn = self.writer.turn()?;
        if !turn.is_settled() {
            while turn.follow()?.is_some() {
                let lookups = &mut graph::SlotLookups::default();
                apply_last(turn.writer(), &mut self.models, lookups, &mut self.forgotten, &mut self.is_torn)?;
                self.has_followed = true;
            }
            if self.has_followed {
                self.woken.join(turn.writer().publish_followed());
            }
        }
        let before = turn.writer().basis();
        // Under the turn: a node that no longer leads must not append.
        let Some(term) = self.office.term(before.mark.term) else {
            return Err(Error::new(ErrorKind::NotLeader, DEPOSED));
        };
        let mut draft = turn.begin_at(now, term);
        let (bounded, at);
        let history = match budget {
            None => draft.reader(),
            Some(_) => {
                bounded = draft.reader().clone().within(budget);
                &bounded
            }
        };
        at = draft.at();
        debug_assert_eq!(at.position, before.position().next(), "a commit follows the last record");
        replies.clear();
        let commands = permitted.commands();
        // Before the look-up of the key: its answer may be that of another client.
        let of_creator;
        let guard = match permitted.authority() {
            Authority::Owner => None,
            Authority::Client(guard) => Some(guard),
            Authority::Creator(creator) => {
                of_creator = self.creators.guard(&self.models.system, creator);
                of_creator.as_ref()
            }
        };
        match permitted.check(guard, &self.models, history) {
            Ok(()) => {}
            Err(Denial::Refused(refused)) => {
                return Ok(DecidedCommit::of_state(before, Err(refused)));
            }
            Err(Denial::Unreadable(error)) => return Err(error),
        }
        if let Some(key) = &commands.idempotency_key {
            match self.models.keys.look_up(history, at, key, replies)? {
                KeyLookup::Unknown => {}
                KeyLookup::Answered(first) => {
                    return Ok(DecidedCommit {
                        rests_on: before,
                        verdict: Ok(first),
                        is_replay: true,
                        is_of_state: false,
                    });
                }
                KeyLookup::Refused(refusal) => {
                    let refused = CommitRefusal { part: 0, reason: Reason::Idempotency(refusal) };
                    return Ok(DecidedCommit::of_state(before, Err(Box::new(refused))));
                }
            }
        }
        let hints = Hints { prepared, lookups: &mut self.lookups };
        let claiming =
            &mut ClaimingEffects::new(&mut draft, Claims::new(&self.models, &self.limits), guard, &self.creators);
        let (mut drafted, mut listed) = (Vec::new(), None);
        let effects: &mut dyn Effects =
            if commands.is_dry_run { listed.insert(ListedEffects::new(claiming, &mut drafted)) } else { claiming };
        match decide_all_models(&self.models, history, at, commands, hints, effects, replies) {
            Ok(()) => {}
            Err(Denial::Refused(refused)) => {
                return Ok(DecidedCommit::of_state(before, Err(refused)));
            }
            Err(Denial::Unreadable(error)) => return Err(error),
        }
        if let Some(key) = commands.idempotency_key
            && !(draft.is_empty() && replies.are_empty_fetches())
        {
            if commands.is_dry_run {
                let effects = &mut ListedEffects::new(&mut draft, &mut drafted);
                self.models.keys.store(self.idempotency, key, replies, effects);
            } else {
                self.models.keys.store(self.idempotency, key, replies, &mut draft);
            }
        }
        if draft.is_empty() {
            // It takes no position: a read that must see what this commit saw uses the last one.
            let verdict = Ok(At { position: before.position(), ..at });
            return Ok(DecidedCommit::of_state(before, verdict));
        }
        if commands.is_dry_run {
            draft.check_size()?;
            replies.drafted = drafted;
            return Ok(DecidedCommit::of_state(before, Ok(at)));
        }
        self.is_torn = true;
        let appended = if commands.free_space() { draft.append_to_free() } else { draft.append() };
        let appended = appended.inspect_err(|_| self.is_torn = false)?;
        apply_last(&self.writer, &mut self.models, &mut self.lookups, &mut self.forgotten, &mut self.is_torn)?;
        debug_assert_eq!(self.writer.mark().position, at.position, "the state follows from the commit's own record");
        self.woken.join(appended.woken);
        Ok(DecidedCommit { rests_on: appended.basis, verdict: Ok(at), is_replay: false, is_of_state: false })
    }

    /// Appends and applies a record of the leader.
    pub(crate) fn append_copy(&mut self, record: &RecordCopy<'_>) -> Result<()> {
        assert!(!self.is_torn, "no record follows a state that is behind the log");
        self.woken.join(self.writer.append_copy(record)?);
        let lookups = &mut graph::SlotLookups::default();
        apply_last(&self.writer, &mut self.models, lookups, &mut self.forgotten, &mut self.is_torn)?;
        self.has_followed = true;
        Ok(())
    }

    /// Applies records that other processes appended, and publishes here what they have published.
    /// That may include records that were applied earlier and were not durable then.
    ///
    /// # Errors
    /// When a record can't be read, or holds entries of a model that this program does not know.
    pub(crate) fn follow(&mut self) -> Result<()> {
        while self.writer.follow()?.is_some() {
            let lookups = &mut graph::SlotLookups::default();
            apply_last(&self.writer, &mut self.models, lookups, &mut self.forgotten, &mut self.is_torn)?;
            self.has_followed = true;
        }
        self.woken.join(self.writer.publish_followed());
        Ok(())
    }
}

/// Applies the last record to the models. `lookups` comes from the record's decision, if it was
/// made here.
pub(crate) fn apply_last(
    writer: &Writer,
    models: &mut Models,
    lookups: &mut graph::SlotLookups,
    forgotten: &mut ForgottenTags,
    is_torn: &mut bool,
) -> Result<()> {
    *is_torn = true;
    let applied = writer.take_in_appended(|entry| {
        forgotten.note(entry);
        models.apply_noted(entry, lookups)
    });
    applied.map_err(|unknown| Error::newer(writer.mark().position, &unknown))?;
    *is_torn = false;
    Ok(())
}

/// The error of a decision on a node that does not lead. The shard adds the leader.
const DEPOSED: &str = "this node does not lead the cluster; nothing was done";

/// Results of earlier look-ups, which save models the same look-up. They change no decision.
struct Hints<'h> {
    prepared: &'h events::AppendLookups,
    lookups: &'h mut graph::SlotLookups,
}

fn decide_all_models(
    models: &Models,
    history: &dyn History,
    at: At,
    commands: &Commands<'_, '_>,
    hints: Hints<'_>,
    effects: &mut dyn Effects,
    replies: &mut Replies,
) -> Result<(), Denial> {
    decide_model(&models.streams, history, at, commands.streams, effects, &mut replies.streams, Reason::Streams)?;
    audit::check_reserved(commands.events).map_err(|refused| Denial::Refused(Box::new(refused)))?;
    let with_audit = audit::with_audit(commands);
    if !with_audit.is_empty() {
        let events =
            models.events.decide_prepared(history, at, &with_audit, hints.prepared, effects, &mut replies.events);
        if let Err(DecideError::Refused { command, refusal }) = &events
            && *command == commands.events.len()
        {
            let reason = Reason::System(system::Refusal::Unaudited { reason: refusal.to_string() });
            return Err(Denial::Refused(Box::new(CommitRefusal { part: 0, reason })));
        }
        check_verdict(events, with_audit.len(), &replies.events, Reason::Events)?;
        // The audit events are no part of the caller's commit.
        replies.events.truncate(commands.events.len());
    }
    decide_model(&models.jobs, history, at, commands.jobs, effects, &mut replies.jobs, Reason::Jobs)?;
    if !commands.graph.is_empty() {
        let graph =
            models.graphs.decide_noting(history, at, commands.graph, hints.lookups, effects, &mut replies.graph);
        check_verdict(graph, commands.graph.len(), &replies.graph, Reason::Graph)?;
    }
    decide_model(&models.system, history, at, commands.system, effects, &mut replies.system, Reason::System)
}

/// Decides all commands of one model at once.
#[inline]
fn decide_model<M: Model>(
    model: &M,
    history: &dyn History,
    at: At,
    commands: &[M::Command<'_>],
    effects: &mut dyn Effects,
    replies: &mut Vec<M::Reply>,
    reason: fn(M::Refusal) -> Reason,
) -> Result<(), Denial> {
    if commands.is_empty() {
        return Ok(());
    }
    replies.reserve(commands.len());
    let decided = model.decide(history, at, commands, effects, replies);
    check_verdict(decided, commands.len(), replies, reason)
}

/// A model's verdict as the shard's. An accepting model gives one reply for each command.
fn check_verdict<Reply, Refusal>(
    decided: Result<(), DecideError<Refusal>>,
    commands: usize,
    replies: &[Reply],
    reason: fn(Refusal) -> Reason,
) -> Result<(), Denial> {
    match decided {
        Ok(()) => {
            assert_eq!(replies.len(), commands, "a model replies to every command");
            Ok(())
        }
        Err(DecideError::Refused { command, refusal }) => {
            assert!(command < commands, "a model refuses one of its commands");
            Err(Denial::Refused(Box::new(CommitRefusal { part: command, reason: reason(refusal) })))
        }
        Err(DecideError::Unreadable(error)) => Err(Denial::Unreadable(error.into())),
    }
}
