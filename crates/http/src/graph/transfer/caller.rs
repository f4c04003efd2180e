//! Whether the client of an import is still there: without it, nothing more is read or committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Problem;

/// The client of an import, as the import sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct ImportClient(Arc<AtomicBool>);

/// Lives as long as the client waits for the response. Its drop ends the import.
#[derive(Debug)]
pub(super) struct ResponseGuard(ImportClient);

impl ImportClient {
    /// Returns the value that the response keeps.
    pub(super) fn waiting(&self) -> ResponseGuard {
        ResponseGuard(self.clone())
    }

    /// Checks that the client waits.
    ///
    /// # Errors
    /// A problem that no client reads.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.0.load(Ordering::Relaxed) { Err(Problem::cancelled()) } else { Ok(()) }
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_counts_as_disconnected_when_its_response_is_dropped() {
        let caller = ImportClient::default();
        let waiting = caller.waiting();
        assert!(caller.check().is_ok());
        drop(waiting);
        assert!(caller.check().is_err());
    }
}
