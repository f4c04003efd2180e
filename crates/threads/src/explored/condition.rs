//! A condition variable over loom's, which lacks the waits with a predicate.

use std::time::Duration;

use loom::sync::{LockResult, MutexGuard};

/// Like the standard library's type. A wait with a timeout ends only when it is notified.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    #[expect(missing_docs, reason = "the standard library documents the method")]
    pub fn new() -> Self {
        Condvar::default()
    }

    #[expect(missing_docs, reason = "the standard library documents the method")]
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut is_waiting: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while is_waiting(&mut guard) {
            guard = self.0.wait(guard)?;
        }
        Ok(guard)
    }

    #[expect(missing_docs, reason = "the standard library documents the method")]
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _at_most: Duration,
        is_waiting: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        Ok((self.wait_while(guard, is_waiting).unwrap_or_else(std::sync::PoisonError::into_inner), ()))
    }

    #[expect(missing_docs, reason = "the standard library documents the method")]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    #[expect(missing_docs, reason = "the standard library documents the method")]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
