//! The memory that all large answers have together, from when they are put together until their clients have read them.
//!
//! An answer that finds none is not waited with, since what it is made of would stand there meanwhile: it is dropped, and its client is told when to ask
//! again. Invariant: what is claimed is at most what there is, so however many clients read slowly, answers take no more.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Problem;

/// What is not larger than this is not counted: there is at most one of it for each connection, and of those there is a limit.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// What a permit stands for: a semaphore has not enough for every byte.
const PERMIT_BYTES: usize = 1 << 10;

/// When to ask again, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    permits: Arc<Semaphore>,
    bytes_max: u64,
}

/// What one answer has of it, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    memory: Memory,
    /// How many bytes it grew by.
    grown: usize,
    held: Option<OwnedSemaphorePermit>,
    /// How many permits it took, with those that are held apart.
    taken: usize,
    /// Whether it goes on without where there is none: what it answers is done.
    is_lenient: bool,
}

impl Memory {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let permits = usize::try_from(bytes_max).unwrap_or(usize::MAX) / PERMIT_BYTES;
        Memory { permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))), bytes_max }
    }

    /// Nothing yet, for an answer that can be refused.
    pub(crate) fn claim(&self) -> Claim {
        Claim { memory: self.clone(), grown: 0, held: None, taken: 0, is_lenient: false }
    }

    /// Nothing yet, for the answer to what was done: it is counted as far as there is room, and given in any case.
    pub(crate) fn claim_of_done(&self) -> Claim {
        Claim { is_lenient: true, ..self.claim() }
    }

    /// That there is room for another large answer, which may not be known to be one before something is done for it.
    ///
    /// # Errors
    /// When less than a sixteenth of it is left.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let left = (self.permits.available_permits() * PERMIT_BYTES) as u64;
        if left >= self.bytes_max / 16 { Ok(()) } else { Err(full()) }
    }
}

impl Claim {
    /// Takes so many bytes more; the first [`SMALL_BYTES`] are not counted.
    ///
    /// # Errors
    /// When there is no room now, or the answer takes more than all answers may.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.grown = self.grown.saturating_add(bytes);
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        self.take(self.grown.saturating_sub(SMALL_BYTES).div_ceil(PERMIT_BYTES).saturating_sub(held))
    }

    /// Takes so many bytes of their own, which are given back when what this gives is dropped.
    ///
    /// # Errors
    /// As [`Claim::grow`].
    pub(crate) fn apart(&mut self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        let permits = bytes.div_ceil(PERMIT_BYTES);
        self.take(permits)?;
        Ok(self.held.as_mut().and_then(|held| held.split(permits)))
    }

    fn take(&mut self, permits: usize) -> Result<(), Problem> {
        if permits == 0 {
            return Ok(());
        }
        let taken = u32::try_from(permits).ok().and_then(|permits| {
            let all = Arc::clone(&self.memory.permits);
            all.try_acquire_many_owned(permits).ok()
        });
        match (taken, &mut self.held) {
            (Some(taken), Some(held)) => held.merge(taken),
            (Some(taken), none) => *none = Some(taken),
            (None, _) if self.is_lenient => return Ok(()),
            (None, _) if ((self.taken + permits) * PERMIT_BYTES) as u64 > self.memory.bytes_max => {
                return Err(self.too_large());
            }
            (None, _) => return Err(full()),
        }
        self.taken += permits;
        Ok(())
    }

    fn too_large(&self) -> Problem {
        let most = self.memory.bytes_max;
        Problem::too_large(format!(
            "the answer takes more than {most} bytes, which is what all answers may take together (`quire serve --http-memory-bytes-max`): \
             ask for less at once"
        ))
    }
}

fn full() -> Problem {
    Problem::short_of_memory("answers that others have not read yet take the memory that there is for them; ask again")
        .fact("retry_after_ms", RETRY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: Result<(), Problem>) -> Option<&'static str> {
        result.err().map(|problem| problem.code())
    }

    #[test]
    fn what_is_claimed_is_what_others_lack_and_comes_back() {
        let memory = Memory::new(200 << 10);
        let mut one = memory.claim();
        assert_eq!(code(one.grow(SMALL_BYTES + (100 << 10))), None);
        assert_eq!(code(memory.check()), None);
        let mut other = memory.claim();
        assert_eq!(code(other.grow(SMALL_BYTES + (101 << 10))), Some("short_of_memory"));
        drop(other);
        let mut other = memory.claim();
        let apart = other.apart(100 << 10).expect("there is room");
        assert_eq!(code(memory.check()), Some("short_of_memory"));
        assert_eq!(code(one.grow(1)), Some("short_of_memory"));
        drop(apart);
        assert_eq!(code(one.grow(101 << 10)), Some("too_large"));
        drop(one);
        assert_eq!(code(memory.claim().grow(SMALL_BYTES + (200 << 10))), None);
    }

    #[test]
    fn what_was_done_is_answered_in_any_case() {
        let memory = Memory::new(100 << 10);
        let mut done = memory.claim_of_done();
        assert!(done.apart(100 << 10).expect("it is lenient").is_some());
        let held = done.apart(60 << 10).expect("it is lenient").expect("there is room again");
        assert!(done.apart(60 << 10).expect("it is lenient").is_none());
        drop(held);
        assert_eq!(code(memory.check()), None);
    }
}
