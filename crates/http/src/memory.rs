//! The memory budget of all large responses, from when they are built until their clients have read
//! them.
//!
//! A response without memory does not wait, because its data would take memory meanwhile. It is
//! dropped, and its client gets the time to retry. Invariant: the claimed memory never exceeds the
//! budget. So responses use no more, however many clients read slowly.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Problem;

/// Responses up to this size are not counted: each connection has at most one, and connections are
/// limited.
pub(crate) const SMALL_BYTES: usize = 64 << 10;

/// The bytes of one permit: a semaphore does not have enough permits for every byte.
const PERMIT_BYTES: usize = 1 << 10;

/// When to retry, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// The memory budget; see the module.
#[derive(Debug, Clone)]
pub(crate) struct ResponseMemory {
    permits: Arc<Semaphore>,
    bytes_max: u64,
}

/// The memory of one response, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    memory: ResponseMemory,
    /// The number of bytes claimed.
    grown: usize,
    held: Option<OwnedSemaphorePermit>,
    /// The number of permits held, including those of parts.
    taken: usize,
    /// Whether it continues without free memory, because it reports a completed request.
    is_lenient: bool,
}

impl ResponseMemory {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let permits = usize::try_from(bytes_max).unwrap_or(usize::MAX) / PERMIT_BYTES;
        ResponseMemory { permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))), bytes_max }
    }

    /// An empty claim for a response that may be refused.
    pub(crate) fn claim(&self) -> Claim {
        Claim { memory: self.clone(), grown: 0, held: None, taken: 0, is_lenient: false }
    }

    /// An empty claim for the response to a completed request. It counts as far as there is memory,
    /// and never fails.
    pub(crate) fn claim_of_done(&self) -> Claim {
        Claim { is_lenient: true, ..self.claim() }
    }

    /// Checks that there is memory for another large response, before a request with an unknown
    /// response size is executed.
    ///
    /// # Errors
    /// When less than a sixteenth is free.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let left = (self.permits.available_permits() * PERMIT_BYTES) as u64;
        if left >= self.bytes_max / 16 { Ok(()) } else { Err(full()) }
    }
}

impl Claim {
    /// Claims `bytes` more; the first [`SMALL_BYTES`] are not counted.
    ///
    /// # Errors
    /// When there is too little memory now, or the response exceeds the whole budget.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.grown = self.grown.saturating_add(bytes);
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        self.take(self.grown.saturating_sub(SMALL_BYTES).div_ceil(PERMIT_BYTES).saturating_sub(held))
    }

    /// Claims `bytes` separately; they are released when the returned part is dropped.
    ///
    /// # Errors
    /// Like [`Claim::grow`].
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
            "the response exceeds {most} bytes, the limit for all responses together (`quire serve --http-memory-bytes-max`): request less at once"
        ))
    }
}

fn full() -> Problem {
    Problem::short_of_memory("the memory for responses is in use by other clients: retry later")
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
        let memory = ResponseMemory::new(200 << 10);
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
        let memory = ResponseMemory::new(100 << 10);
        let mut done = memory.claim_of_done();
        assert!(done.apart(100 << 10).expect("it is lenient").is_some());
        let held = done.apart(60 << 10).expect("it is lenient").expect("there is room again");
        assert!(done.apart(60 << 10).expect("it is lenient").is_none());
        drop(held);
        assert_eq!(code(memory.check()), None);
    }
}
