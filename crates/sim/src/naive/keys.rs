//! Idempotency keys: a commit whose key is kept has its first replies, and changes nothing.

use quire::Fingerprint;

use super::{Draft, Naive, NaiveReply, Part};

/// How long, and how many keys are kept.
pub(crate) const KEPT_MS: u64 = 60_000;
pub(crate) const KEYS_MAX: u32 = 6;

/// The key of a commit, and the fingerprint of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NaiveKey {
    pub(crate) key: u64,
    pub(crate) request: Fingerprint,
}

/// A kept key.
#[derive(Debug, Clone)]
pub(crate) struct AnsweredKey {
    pub(crate) key: NaiveKey,
    /// The parts, for a comparison that does not rest on the fingerprint of the database.
    parts: String,
    pub(crate) record: u64,
    /// The time from which on it is not kept.
    end: u64,
    answers: Vec<NaiveReply>,
}

/// The expected outcome of a commit.
#[derive(Debug, Clone)]
pub(crate) enum NaiveOutcome {
    /// The commit happens; if it has an effect, it takes a position.
    Committed { answers: Vec<NaiveReply>, took_position: bool },
    /// The commit happened before, at this position.
    Answered { answers: Vec<NaiveReply>, record: u64 },
    /// This part is refused.
    Refused { part: usize },
    /// Another commit, at this position, has the key.
    KeyReused { record: u64 },
}

impl Naive {
    /// Commits these parts, with a key.
    pub(crate) fn commit_with_key(&mut self, parts: &[Part], key: Option<NaiveKey>, now: u64) -> NaiveOutcome {
        if let Some((sent, known)) = key.and_then(|sent| Some((sent, self.answered(sent.key, now)?))) {
            let record = known.record;
            return match sent == known.key && known.parts == shown(parts) {
                true => NaiveOutcome::Answered { answers: known.answers.clone(), record },
                false => NaiveOutcome::KeyReused { record },
            };
        }
        let mut draft = self.draft(now);
        match draft.decide(parts) {
            Err(part) => NaiveOutcome::Refused { part },
            Ok(answers) => {
                let is_empty = |answer: &NaiveReply| matches!(answer, NaiveReply::Fetched(jobs) if jobs.is_empty());
                if let Some(key) = key
                    && (draft.effects || !answers.iter().all(is_empty))
                {
                    draft.keep(key, shown(parts), &answers);
                }
                NaiveOutcome::Committed { answers, took_position: self.adopt(draft) }
            }
        }
    }

    /// The commit that has a key at a time.
    pub(crate) fn answered(&self, key: u64, now: u64) -> Option<&AnsweredKey> {
        let now = now.max(self.time);
        self.keys.iter().rev().find(|known| known.key.key == key).filter(|known| now < known.end)
    }
}

impl Draft {
    fn keep(&mut self, key: NaiveKey, parts: String, answers: &[NaiveReply]) {
        let keys = &mut self.after.keys;
        let expired = keys.iter().take_while(|known| known.end <= self.now).count();
        keys.drain(..expired.max((keys.len() + 1).saturating_sub(KEYS_MAX as usize)));
        let end = self.now + KEPT_MS * 1_000;
        keys.push(AnsweredKey { key, parts, record: self.record, end, answers: answers.to_vec() });
        self.effects = true;
    }
}

/// The parts as text, in the order of the models: their order in a commit is not in a fingerprint.
fn shown(parts: &[Part]) -> String {
    let mut parts: Vec<_> = parts.iter().collect();
    parts.sort_by_key(|part| part.model());
    format!("{parts:?}")
}
