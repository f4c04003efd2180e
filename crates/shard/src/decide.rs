//! The one path of a write: decide all parts against the same state, append their effects as one record, apply them.
//!
//! Every commit goes through [`State::commit`], whoever asks and whatever it holds.

use quire_log::{Woken, Writer};
use quire_model::{At, Denied, Effects, History, Model, Position, Timestamp};

use crate::erasing::Erasing;
use crate::models::Models;
use crate::refusal::{Reason, Refused};
use crate::{Error, Result, events, graph, jobs, streams};

/// What a writer holds while it decides: the log's end and the state that follows from it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) writer: Writer,
    pub(crate) models: Models,
    /// Where the last decision found what it asked graphs for.
    pub(crate) looked: graph::Looked,
    /// Whether a record may be in the log that is not, or not wholly, in the models. Only seen by others after a panic.
    pub(crate) behind: bool,
    /// Whoever waited for a record that is there now: to be woken behind the lock.
    pub(crate) owed: Woken,
    /// Whether anything was followed since this was last set back.
    pub(crate) followed: bool,
    /// What was forgotten and may still be in the log.
    pub(crate) erasing: Erasing,
}

/// The commands of a commit, by model; in each, in the order of the parts.
#[derive(Debug, Default, Clone, Copy)]
pub struct Commands<'p, 'c> {
    /// Of topics and consumer groups.
    pub streams: &'p [streams::Command<'c>],
    /// Of event stores.
    pub events: &'p [events::Command<'c>],
    /// Of queues.
    pub jobs: &'p [jobs::Command<'c>],
    /// Of graphs.
    pub graph: &'p [graph::Command<'c>],
}

impl Commands<'_, '_> {
    /// Whether they do nothing but say what is needed no more.
    #[inline]
    pub(crate) fn free_space(&self) -> bool {
        self.streams.iter().all(streams::Command::frees_space)
            && self.events.iter().all(events::Command::frees_space)
            && self.jobs.iter().all(jobs::Command::frees_space)
            && self.graph.iter().all(graph::Command::frees_space)
    }
}

/// The answers, by model; in each, in the order of the commands. Whoever commits again and again keeps one, for its capacity.
#[derive(Debug, Default)]
pub struct Replies {
    /// Of topics and consumer groups.
    pub streams: Vec<streams::Reply>,
    /// Of event stores.
    pub events: Vec<events::Appended>,
    /// Of queues.
    pub jobs: Vec<jobs::Reply>,
    /// Of graphs.
    pub graph: Vec<graph::Reply>,
}

/// A decision, and what it rests on: it may be told once that position is published.
#[derive(Debug)]
pub struct Decided {
    /// The position that the verdict rests on.
    pub rests_on: Position,
    /// Position and time of the commit, or its refusal, which counts the commands of its model: see [`Refused::part`].
    pub verdict: Result<At, Box<Refused>>,
}

impl Replies {
    /// No answers, and no memory for any.
    pub const fn new() -> Self {
        Replies { streams: Vec::new(), events: Vec::new(), jobs: Vec::new(), graph: Vec::new() }
    }

    /// How many answers there is room for, of the model that has the most.
    pub fn room(&self) -> usize {
        let of_log = self.streams.capacity().max(self.events.capacity());
        of_log.max(self.jobs.capacity()).max(self.graph.capacity())
    }

    #[inline]
    fn clear(&mut self) {
        self.streams.clear();
        self.events.clear();
        self.jobs.clear();
        self.graph.clear();
    }
}

impl State {
    /// Commits these commands, all or none, at the time `now`, when it is this process's turn. Whoever waited for the record is
    /// owed to be woken behind the lock. `prepared` is what was looked up for the events before. The answers to an accepted commit are in
    /// `replies`; what was there before is gone in any case.
    // What it decides stays in registers where it is inlined, which is once; through memory it would be waited for.
    #[inline(always)]
    pub(crate) fn commit(
        &mut self,
        now: Timestamp,
        commands: &Commands<'_, '_>,
        prepared: &events::Prepared,
        replies: &mut Replies,
    ) -> Result<Decided> {
        if self.writer.is_behind() {
            // Most of what others appended is taken in before they have to wait for it.
            self.follow()?;
        }
        let mut turn = self.writer.turn()?;
        if !turn.is_settled() {
            while turn.follow()?.is_some() {
                apply_last(
                    turn.writer(),
                    &mut self.models,
                    &mut graph::Looked::default(),
                    &mut self.erasing,
                    &mut self.behind,
                )?;
                self.followed = true;
            }
            if self.followed {
                self.owed.join(turn.writer().publish_followed());
            }
        }
        let before = turn.writer().mark().position;
        let mut draft = turn.begin_at(now);
        let (history, at) = (draft.reader(), draft.at());
        replies.clear();
        let help = Help { prepared, looked: &mut self.looked };
        match decide(&self.models, history, at, commands, help, &mut draft, replies) {
            Ok(()) => {}
            Err(Denial::Refused(refused)) => return Ok(Decided { rests_on: before, verdict: Err(refused) }),
            Err(Denial::Unreadable(error)) => return Err(error),
        }
        if draft.is_empty() {
            // It has no position of its own: reads that are to see what it saw go by the last one.
            return Ok(Decided { rests_on: before, verdict: Ok(At { position: before, ..at }) });
        }
        self.behind = true;
        let appended = if commands.free_space() { draft.append_to_free() } else { draft.append() };
        let appended = appended.inspect_err(|_| self.behind = false)?;
        apply_last(&self.writer, &mut self.models, &mut self.looked, &mut self.erasing, &mut self.behind)?;
        self.owed.join(appended.woken);
        Ok(Decided { rests_on: at.position, verdict: Ok(at) })
    }

    /// Takes in what others appended and this process has not seen yet, and publishes here what they have published: that may be
    /// what was taken in before, when it was not durable yet.
    ///
    /// # Errors
    /// When it can't be read, or holds entries of a model that this program does not know.
    pub(crate) fn follow(&mut self) -> Result<()> {
        while self.writer.follow()?.is_some() {
            apply_last(
                &self.writer,
                &mut self.models,
                &mut graph::Looked::default(),
                &mut self.erasing,
                &mut self.behind,
            )?;
            self.followed = true;
        }
        self.owed.join(self.writer.publish_followed());
        Ok(())
    }
}

/// Takes the last record into the models; `looked` is of its decision, if it was decided here.
fn apply_last(
    writer: &Writer,
    models: &mut Models,
    looked: &mut graph::Looked,
    erasing: &mut Erasing,
    behind: &mut bool,
) -> Result<()> {
    *behind = true;
    let taken_in = writer.take_in_appended(|entry| {
        erasing.note(entry);
        models.apply_noted(entry, looked)
    });
    taken_in.map_err(|unknown| Error::newer(writer.mark().position, &unknown))?;
    *behind = false;
    Ok(())
}

/// What spares models a look, before a decision and behind it, and changes nothing.
struct Help<'h> {
    prepared: &'h events::Prepared,
    looked: &'h mut graph::Looked,
}

enum Denial {
    Refused(Box<Refused>),
    Unreadable(Error),
}

fn decide(
    models: &Models,
    history: &dyn History,
    at: At,
    commands: &Commands<'_, '_>,
    help: Help<'_>,
    effects: &mut dyn Effects,
    replies: &mut Replies,
) -> Result<(), Denial> {
    ask(&models.streams, history, at, commands.streams, effects, &mut replies.streams, Reason::Streams)?;
    if !commands.events.is_empty() {
        let events =
            models.events.decide_prepared(history, at, commands.events, help.prepared, effects, &mut replies.events);
        told(events, commands.events.len(), &replies.events, Reason::Events)?;
    }
    ask(&models.jobs, history, at, commands.jobs, effects, &mut replies.jobs, Reason::Jobs)?;
    if !commands.graph.is_empty() {
        let graph = models.graphs.decide_noting(history, at, commands.graph, help.looked, effects, &mut replies.graph);
        told(graph, commands.graph.len(), &replies.graph, Reason::Graph)?;
    }
    Ok(())
}

/// Has one model decide all its commands of the commit at once.
#[inline]
fn ask<M: Model>(
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
    told(decided, commands.len(), replies, reason)
}

/// What a model said, with as many replies as it had commands.
fn told<Reply, Refusal>(
    decided: Result<(), Denied<Refusal>>,
    commands: usize,
    replies: &[Reply],
    reason: fn(Refusal) -> Reason,
) -> Result<(), Denial> {
    match decided {
        Ok(()) => {
            assert_eq!(replies.len(), commands, "a model answers every command");
            Ok(())
        }
        Err(Denied::Refused { command, refusal }) => {
            Err(Denial::Refused(Box::new(Refused { part: command, reason: reason(refusal) })))
        }
        Err(Denied::Unreadable(error)) => Err(Denial::Unreadable(error.into())),
    }
}
