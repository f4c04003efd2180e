//! Commits that clients send again with their idempotency keys: whether or not they got an answer,
//! and whatever happened to the first copy.

use fastrand::Rng;

use super::SimWorld;
use crate::book::{self, Book};
use crate::naive::Part;

/// Commits that clients remember. The database keeps fewer keys.
const SENT_MAX: usize = 9;

/// The seed of the draws about keys.
const KEYS: u64 = 0x6b65_7973;

/// A commit as a client sends it, and sends it again.
#[derive(Debug, Clone)]
pub(super) struct SentCommit {
    pub(super) parts: Vec<Part>,
    pub(super) key: Option<u64>,
    /// The ids and tokens that the client knew. A copy has the same ones.
    pub(super) book: Book,
}

impl SimWorld<'_> {
    /// Draws the commit of a client: a new one, sometimes with a key; or a copy of one with a key;
    /// or a new one with a key that another commit has. Returns whether it is a copy.
    pub(super) fn next_commit(&mut self, random: &mut Rng) -> (SentCommit, bool) {
        let naive = self.timeline.last().expect("the timeline begins with an empty model");
        // Drawn apart, so that the parts of a seed stay as they are.
        let mut keys = Rng::with_seed(random.get_seed() ^ KEYS);
        let sent = if self.sent.is_empty() { None } else { self.sent.get(keys.usize(0..self.sent.len())) };
        if keys.u8(0..4) == 0
            && let Some(sent) = sent
        {
            let now = self.database().now().as_micros();
            let is_known = sent.key.is_some_and(|key| naive.answered(key, now).is_some());
            if is_known || sent.parts.iter().all(|part| book::may_be_repeated(part, naive)) {
                return (sent.clone(), true);
            }
        }
        let another = sent.and_then(|sent| sent.key).filter(|_| keys.u8(0..16) == 0);
        let parts = self.book.parts(naive, random);
        let may_have_key = keys.u8(0..3) == 0 && !parts.iter().any(book::is_of_subscription);
        let key = another.or_else(|| may_have_key.then(|| keys.u64(..)));
        let commit = SentCommit { parts, key, book: self.book.clone() };
        if may_have_key {
            self.sent.push_back(commit.clone());
            if self.sent.len() > SENT_MAX {
                self.sent.pop_front();
            }
        }
        (commit, false)
    }
}
