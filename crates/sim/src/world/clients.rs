//! The clients: their commits, the answers, and state changes by time.

use fastrand::Rng;
use quire::{CommitRefusal, Durability, Duty, ErrorKind, IdempotencyRefusal, Outcome, Reason};

use super::repeats::SentCommit;
use super::{SimWorld, SubmittedCommit, Violation};
use crate::naive::{NaiveKey, NaiveOutcome};
use crate::{book, check};

impl SimWorld<'_> {
    /// Submits a commit, and waits for it half of the time.
    pub(super) fn commit(&mut self, random: &mut Rng) -> Result<(), Violation> {
        let waiting = self.clients.len();
        self.submit(random)?;
        if self.clients.len() > waiting && random.bool() { self.wait_for(waiting) } else { Ok(()) }
    }

    /// Submits a commit, and does not wait.
    pub(super) fn submit(&mut self, random: &mut Rng) -> Result<(), Violation> {
        let database = self.database();
        let (SentCommit { parts, key, book }, is_again) = self.next_commit(random);
        let texts: Vec<_> = parts.iter().map(|part| book::text(book::value_of(part))).collect();
        let queues: Vec<_> = parts.iter().map(book::queues_of).collect();
        let mut commit = book.commit(&parts, &texts, &queues);
        let request =
            key.map(|key| NaiveKey { key, request: database.fingerprint(&commit).expect("messages are small") });
        if let Some(key) = key {
            commit = commit.idempotency_key(book::key_text(key));
        }
        let mut after = self.newest().clone();
        let expected = after.commit_with_key(&parts, request, database.now().as_micros());
        let took_position = matches!(expected, NaiveOutcome::Committed { took_position: true, .. });

        let before = database.statistics().commits;
        let submitted = database.submit(&commit);
        let shown = format!("{} parts{}", parts.len(), if is_again { " again" } else { "" });
        if !self.process.lives() {
            self.maybes.extend(took_position.then(|| vec![after]));
            self.say("COMMIT", &format!("{shown}, and died"));
            return Ok(());
        }
        let took = database.statistics().commits - before;
        match submitted {
            Ok(_) if took != u64::from(took_position) => {
                Err(format!("{parts:?} took {took} positions, expected {expected:?}"))
            }
            Ok(ticket) => {
                if took_position {
                    self.timeline.push(after);
                    self.maybes.clear();
                }
                self.say("COMMIT", &format!("{shown}, {}", how(&expected)));
                let (process, position) = (self.process.number(), self.tail());
                self.clients.push(SubmittedCommit { process, ticket, position, parts, expected });
                Ok(())
            }
            Err(error)
                if error.kind() == ErrorKind::TooLarge && texts.iter().map(String::len).sum::<usize>() > 2000 =>
            {
                self.say("COMMIT", &format!("{shown}, too large"));
                Ok(())
            }
            Err(error) if self.excused(&error) => {
                // Parts refused for lack of space wrote nothing.
                let may_be_there = took_position && error.kind() != ErrorKind::NoSpace;
                self.maybes.extend(may_be_there.then(|| vec![after]));
                self.say("COMMIT", &format!("{shown}, {:?}", error.kind()));
                if error.kind() == ErrorKind::Failed { self.reopen("FAILED") } else { Ok(()) }
            }
            Err(error) => Err(format!("{parts:?} failed without a fault: {:?}: {error}", error.kind())),
        }
    }

    /// Answers one of the waiting clients.
    pub(super) fn wait(&mut self, random: &mut Rng) -> Result<(), Violation> {
        let process = self.process.number();
        let own: Vec<_> = (0..self.clients.len()).filter(|client| self.clients[*client].process == process).collect();
        random.choice(own).map_or(Ok(()), |client| self.wait_for(client))
    }

    pub(super) fn wait_for(&mut self, client: usize) -> Result<(), Violation> {
        if client >= self.clients.len() {
            return Ok(());
        }
        let SubmittedCommit { ticket, position, parts, expected, .. } = self.clients.remove(client);
        let outcome = ticket.wait();
        if !self.process.lives() {
            self.say("WAIT", "and died");
            return Ok(());
        }
        match (outcome, expected.clone()) {
            (
                Ok(Outcome::Committed(committed)),
                NaiveOutcome::Committed { ref answers, .. } | NaiveOutcome::Answered { ref answers, .. },
            ) => {
                self.acknowledged(position);
                let first = match expected {
                    NaiveOutcome::Answered { record, .. } => Some(usize::try_from(record).expect("small")),
                    _ => None,
                };
                if committed.is_replay != first.is_some() {
                    return Err(format!("{parts:?} was answered {committed:?}, expected {expected:?}"));
                }
                let naive = &self.timeline[first.unwrap_or(position)];
                if committed.replies.len() != answers.len() {
                    return Err(format!("{parts:?} was answered {:?}", committed.replies));
                }
                let at = usize::try_from(committed.at.position.get()).expect("small");
                if first.map_or(at != position && at != position + 1, |first| at != first) {
                    return Err(format!("{parts:?} got position {at}, expected {position}: {expected:?}"));
                }
                for (answer, reply) in answers.iter().zip(&committed.replies) {
                    check::answer(&mut self.book, naive, answer, reply)
                        .map_err(|found| format!("{parts:?} at {position}: {found}"))?;
                }
                self.say("WAIT", "ok");
                Ok(())
            }
            (Ok(Outcome::Refused(refused)), expected) if is_expected(&refused, &expected) => {
                // A refusal rests on the records before it.
                self.acknowledged(position);
                self.say("WAIT", "refused");
                Ok(())
            }
            (Ok(outcome), expected) => Err(format!("{parts:?} returned {outcome:?}, expected {expected:?}")),
            (Err(error), _) if self.excused(&error) => {
                self.say("WAIT", &format!("{:?}", error.kind()));
                self.reopen("FAILED")
            }
            (Err(error), _) => Err(format!("waiting failed without a fault: {error}")),
        }
    }

    /// A client got an answer that rests on this position.
    pub(super) fn acknowledged(&mut self, position: usize) {
        if self.plan.durability == Durability::Sync {
            self.safe = self.safe.max(position);
        }
    }

    /// Applies due state changes.
    pub(super) fn tick(&mut self) -> Result<(), Violation> {
        let seen = self.seen();
        let mut after = self.newest().clone();
        let changed = after.tick(self.database().now().as_micros());
        let done = self.database().carry_out(Duty::Tick);
        if !self.process.lives() {
            self.maybes.extend(changed.then(|| vec![after]));
            self.say("DUTY", "Tick, and died");
            return Ok(());
        }
        match &done {
            // The process may not know other processes' appends. Its decision includes all of them.
            Ok(false) if seen < self.tail() => {}
            Ok(true) if seen < self.tail() && !changed => {}
            Ok(took) if *took != changed => return Err(format!("a tick returned {took}, expected {changed}")),
            Ok(true) => {
                self.timeline.push(after);
                self.maybes.clear();
            }
            Ok(false) => {}
            Err(_) => self.maybes.extend(changed.then(|| vec![after])),
        }
        self.concluded("DUTY Tick", done.map(|_| ()), |_| ())
    }
}

/// The expected outcome, for the trace.
fn how(expected: &NaiveOutcome) -> &'static str {
    match expected {
        NaiveOutcome::Committed { .. } => "taken",
        NaiveOutcome::Answered { .. } => "known",
        NaiveOutcome::Refused { .. } | NaiveOutcome::KeyReused { .. } => "refused",
    }
}

/// Whether a refusal is the expected one.
fn is_expected(refused: &CommitRefusal, expected: &NaiveOutcome) -> bool {
    match (&refused.reason, expected) {
        (Reason::Idempotency(IdempotencyRefusal::KeyReused { position, .. }), NaiveOutcome::KeyReused { record }) => {
            position.get() == *record
        }
        (Reason::Idempotency(_), _) => false,
        (_, NaiveOutcome::Refused { part }) => refused.part == *part,
        _ => false,
    }
}
