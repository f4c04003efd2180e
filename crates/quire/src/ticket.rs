//! A result that is available once the log has published the commits that it depends on.

use std::pin::Pin;
use std::task::{Context, Poll};

use quire_log::{Basis, Log, Publication};

use crate::Result;

/// An answer in the making. In an `os` database it is there at once; in a `sync` database after the
/// sync that covers it.
///
/// Dropping a ticket undoes nothing: the commit stands, and a background thread makes it durable.
#[derive(Debug)]
#[must_use = "nothing is promised before the ticket is waited for"]
pub struct Ticket<T> {
    foundation: Foundation,
    answer: T,
}

/// What an answer rests on: its own record, or the last that was appended when it was found. When
/// this is dropped, it is published already, or will be soon without a waiter.
#[derive(Debug)]
struct Foundation {
    log: Log,
    basis: Basis,
}

impl Drop for Foundation {
    fn drop(&mut self) {
        self.log.request(self.basis);
    }
}

impl<T> Ticket<T> {
    pub(crate) fn new(log: Log, rests_on: Basis, answer: T) -> Self {
        Ticket { foundation: Foundation { log, basis: rests_on }, answer }
    }

    /// Waits for the answer. In a `sync` database this thread syncs, for all who wait.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed) when a sync failed: whether the commit
    /// survives is then unknown. [`ErrorKind::Unsettled`](crate::ErrorKind::Unsettled) when the log
    /// was truncated before the commit was published.
    pub fn wait(self) -> Result<T> {
        self.foundation.log.wait(self.foundation.basis)?;
        Ok(self.answer)
    }

    /// The result, before it may be returned to a client.
    pub(crate) fn untold(&self) -> &T {
        &self.answer
    }

    /// The same ticket with another answer, made from this one.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Ticket<U> {
        Ticket { foundation: self.foundation, answer: change(self.answer) }
    }
}

impl<T> IntoFuture for Ticket<T> {
    type Output = Result<T>;
    type IntoFuture = Answer<T>;

    fn into_future(self) -> Answer<T> {
        let Foundation { log, basis } = &self.foundation;
        Answer { publication: log.publication(*basis), _foundation: self.foundation, answer: Some(self.answer) }
    }
}

/// The future of a [`Ticket`].
#[derive(Debug)]
pub struct Answer<T> {
    publication: Publication,
    _foundation: Foundation,
    answer: Option<T>,
}

/// The answer is moved out, never borrowed while pinned.
impl<T> Unpin for Answer<T> {}

impl<T> Future for Answer<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        Pin::new(&mut self.publication).poll(context).map(|published| {
            published?;
            Ok(self.answer.take().expect("a future is not polled after it is ready"))
        })
    }
}
