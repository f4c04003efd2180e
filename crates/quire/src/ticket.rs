//! An answer that is told only once the log has published everything it rests on.

use std::pin::Pin;
use std::task::{Context, Poll};

use quire_log::{Log, Publication};
use quire_model::Position;

use crate::Result;

/// An answer in the making. In an `os` database it is there at once; in a `sync` database after the sync that covers it.
///
/// Dropping a ticket does not undo anything: what was committed is committed, and it will be durable.
#[derive(Debug)]
#[must_use = "nothing is promised before the ticket is waited for"]
pub struct Ticket<T> {
    log: Log,
    /// What the answer rests on: its own record, or the last that was appended when it was found.
    rests_on: Position,
    answer: T,
}

impl<T> Ticket<T> {
    pub(crate) fn new(log: Log, rests_on: Position, answer: T) -> Self {
        Ticket { log, rests_on, answer }
    }

    /// Waits for the answer. In a `sync` database this thread syncs, for all who wait.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed) when a sync failed: whether the commit survives is then unknown.
    pub fn wait(self) -> Result<T> {
        self.log.wait(self.rests_on)?;
        Ok(self.answer)
    }

    /// The same ticket with another answer, made from this one.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Ticket<U> {
        Ticket { log: self.log, rests_on: self.rests_on, answer: change(self.answer) }
    }
}

impl<T> IntoFuture for Ticket<T> {
    type Output = Result<T>;
    type IntoFuture = Answer<T>;

    fn into_future(self) -> Answer<T> {
        Answer { publication: self.log.publication(self.rests_on), answer: Some(self.answer) }
    }
}

/// The future of a [`Ticket`].
#[derive(Debug)]
pub struct Answer<T> {
    publication: Publication,
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
