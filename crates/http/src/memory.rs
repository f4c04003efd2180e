//! The memory of requests and responses: claimed from the byte budget for the client of the running
//! request.
//!
//! The connection sets the client of each request, and `response::aside` takes it to another
//! thread. A claim without a running request belongs to the server itself.
//!
//! A response without memory does not wait, because its data would take memory meanwhile. It is
//! dropped, and its client gets the time to retry.

use quire_access::budget::{BudgetCaller, BudgetRefusal, ByteBudget, ByteClaim, FREE_BYTES, FrontEnd, running_caller};

use crate::error::Problem;

/// The size of the pieces of a response, each with a claim of its own.
pub(crate) const PIECE_BYTES: usize = FREE_BYTES;

/// The memory that a response of unknown size needs at least, before its request is carried out.
const RESPONSE_BYTES: usize = 4 * FREE_BYTES;

/// The access to the byte budget; see the module.
#[derive(Debug, Clone)]
pub(crate) struct ResponseMemory {
    server: BudgetCaller,
}

/// The memory of one request or response, released when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    bytes: ByteClaim,
    /// Whether it continues without free memory, because it reports a completed request.
    is_lenient: bool,
}

impl ResponseMemory {
    pub(crate) fn new(budget: &ByteBudget) -> Self {
        ResponseMemory { server: budget.caller(FrontEnd::Http, None) }
    }

    /// The client of the running request.
    pub(crate) fn caller(&self) -> BudgetCaller {
        running_caller().unwrap_or_else(|| self.server.clone())
    }

    /// An empty claim that may be refused.
    pub(crate) fn claim(&self) -> Claim {
        Claim { bytes: self.caller().claim(), is_lenient: false }
    }

    /// An empty claim for the response to a completed request. It never fails.
    pub(crate) fn claim_of_done(&self) -> Claim {
        Claim { is_lenient: true, ..self.claim() }
    }

    /// Checks that there is memory for a response of unknown size, before jobs are leased. Uses the
    /// reserve.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn check_for_jobs(&self) -> Result<(), BudgetRefusal> {
        self.caller().check(RESPONSE_BYTES, true)
    }
}

impl Claim {
    /// Claims `bytes` more.
    ///
    /// # Errors
    /// When there is too little memory now, or the response exceeds the whole budget.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        if self.is_lenient {
            self.bytes.grow_anyway(bytes);
            return Ok(());
        }
        Ok(self.bytes.grow(bytes)?)
    }

    /// The claimed bytes, for a read that claims what it returns.
    pub(crate) fn bytes_mut(&mut self) -> &mut ByteClaim {
        &mut self.bytes
    }

    /// Claims or releases bytes, so that the claim has `bytes`.
    ///
    /// # Errors
    /// Like [`Claim::grow`].
    pub(crate) fn cover(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes.shrink_to(bytes);
        self.grow(bytes - self.bytes.bytes())
    }

    /// Releases `bytes` of the claim.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.bytes.shrink_to(self.bytes.bytes().saturating_sub(bytes));
    }

    /// Claims `bytes` separately; they are released when the returned part is dropped.
    ///
    /// # Errors
    /// Like [`Claim::grow`].
    pub(crate) fn apart(&mut self, bytes: usize) -> Result<ByteClaim, Problem> {
        self.grow(bytes)?;
        Ok(self.bytes.split(bytes))
    }
}

#[cfg(test)]
mod tests {
    use quire_access::budget::handle_for;

    use super::*;

    fn code<T>(result: Result<T, Problem>) -> Option<&'static str> {
        result.err().map(|problem| problem.code())
    }

    #[tokio::test]
    async fn a_claim_gets_free_memory_and_returns_it() {
        // 15 MiB without the reserve.
        let budget = ByteBudget::new(16 << 20);
        let memory = ResponseMemory::new(&budget);
        let claimed = |bytes: usize| {
            let memory = &memory;
            handle_for(budget.caller(FrontEnd::Http, None), async move {
                let mut claim = memory.claim();
                claim.grow(PIECE_BYTES + bytes).map(|()| claim)
            })
        };
        let mut held = claimed(8 << 20).await.expect("there is room");
        assert_eq!(code(claimed(8 << 20).await), Some("overloaded"));
        assert_eq!(code(claimed(16 << 20).await), Some("too_large"));
        let apart = held.apart(2 << 20).expect("there is room");
        drop(held);
        assert_eq!(budget.usage().bytes_used, (2 << 20) - PIECE_BYTES as u64);
        drop((claimed(13 << 20).await.expect("there is room"), apart));
        assert_eq!(budget.usage().bytes_used, 0);
    }

    #[tokio::test]
    async fn finished_work_is_always_answered_and_jobs_have_the_reserve_of_memory() {
        let budget = ByteBudget::new(16 << 20);
        let memory = ResponseMemory::new(&budget);
        let mut all = budget.caller(FrontEnd::Http, None).claim();
        all.grow(PIECE_BYTES + (15 << 20)).expect("it is alone");
        handle_for(budget.caller(FrontEnd::Http, None), async {
            assert_eq!(code(memory.claim().grow(PIECE_BYTES + 1)), Some("overloaded"));
            assert!(memory.check_for_jobs().is_ok());
            let held = memory.claim_of_done().apart(PIECE_BYTES + (1 << 20)).expect("it is lenient");
            assert!(memory.check_for_jobs().is_err(), "the reserve is in use");
            drop(held);
            assert!(memory.check_for_jobs().is_ok());
        })
        .await;
    }
}
