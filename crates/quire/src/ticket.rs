//! A result that is available once the log has published the commits that it depends on.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use quire_log::{Basis, Log, Publication, WaitDeadline, WaitOutcome};

use crate::confirmation::Confirmation;
use crate::durations::TimedCommit;
use crate::{Error, Result};

/// A pending result. In an `os` database the result is available at once. In a `sync` database it
/// is available after the sync that covers it.
///
/// Dropping a ticket undoes nothing: the commit stands, and a background thread makes it durable.
///
/// ```
/// use quire::{Commit, Message};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let orders: Vec<u32> = (1..=3).collect();
/// let commit = orders.iter().fold(Commit::new(), |commit, order| {
///     commit.produce("orders", Message::new(format!("order {order}")))
/// });
/// let ticket = db.submit(&commit)?; // decided, and not durable yet
/// let parts = ticket.map(|outcome| outcome.committed().map(|done| done.replies.len())).wait()??;
/// assert_eq!(parts, orders.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is promised before the ticket is waited for"]
pub struct Ticket<T> {
    foundation: Foundation,
    answer: T,
}

/// The record that a result depends on: its own record, or the last one appended before the lookup.
/// A dropped foundation is published already, or will be soon without a waiter.
#[derive(Debug)]
struct Foundation {
    log: Log,
    basis: Basis,
    /// The commit, when it is timed.
    timed: Option<TimedCommit>,
    confirmation: Option<Confirmation>,
    /// The limit of a wait by [`Ticket::wait`]; `None` without one.
    at_most: Option<Duration>,
}

impl Drop for Foundation {
    fn drop(&mut self) {
        self.log.request(self.basis);
    }
}

impl Foundation {
    /// Waits within the limit, if there is one. Another record may be published at the position:
    /// [`Log::wait`] determines that afterwards.
    fn reach(&self) -> Result<()> {
        let Some(at_most) = self.at_most else { return Ok(()) };
        match self.log.sleep(self.basis.mark.position, WaitDeadline::after(at_most))? {
            WaitOutcome::Published => Ok(()),
            WaitOutcome::Behind | WaitOutcome::TimedOut => Err(Error::unconfirmed_here()),
        }
    }

    /// The error of a record that is never published. A read of this node has changed nothing, and
    /// may be repeated.
    fn explain(&self, error: quire_log::Error) -> Error {
        match error {
            quire_log::Error::Unsettled { .. } if self.at_most.is_some() => Error::unconfirmed_here(),
            error => error.into(),
        }
    }

    /// Records the duration of the commit, once it is published.
    fn end_timing(&mut self) {
        if let Some(commit) = self.timed.take() {
            commit.end(self.log.clock());
        }
    }
}

impl<T> Ticket<T> {
    pub(crate) fn new(log: Log, rests_on: Basis, answer: T) -> Self {
        let foundation = Foundation { log, basis: rests_on, timed: None, confirmation: None, at_most: None };
        Ticket { foundation, answer }
    }

    /// The ticket of a result for which [`Ticket::wait`] waits at most this long.
    pub(crate) fn within(mut self, at_most: Option<Duration>) -> Self {
        self.foundation.at_most = at_most;
        self
    }

    /// The ticket of a commit that is timed until it is published.
    pub(crate) fn timed(mut self, commit: Option<TimedCommit>) -> Self {
        self.foundation.timed = commit;
        self
    }

    /// The ticket of a result that is available after this.
    pub(crate) fn after(mut self, confirmation: Option<Confirmation>) -> Self {
        self.foundation.confirmation = confirmation;
        self
    }

    /// Waits for the result. In a `sync` database, this thread syncs for all waiting threads.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed) when a sync failed. The commit may or may
    /// not survive in that case. [`ErrorKind::Unsettled`](crate::ErrorKind::Unsettled) when the log
    /// was truncated before the commit was published.
    /// [`ErrorKind::NotLeader`](crate::ErrorKind::NotLeader) when the commit changes nothing or is
    /// refused, and this node of a cluster no longer leads. The same kind when a read of
    /// [`Database::local`](crate::Database::local) rests on records that no majority confirms.
    pub fn wait(mut self) -> Result<T> {
        self.foundation.reach()?;
        self.foundation.log.wait(self.foundation.basis).map_err(|error| self.foundation.explain(error))?;
        self.foundation.confirmation.take().map_or(Ok(()), Confirmation::wait)?;
        self.foundation.end_timing();
        Ok(self.answer)
    }

    /// Returns the result before it may be returned to a client.
    pub(crate) fn untold(&self) -> &T {
        &self.answer
    }

    /// Returns a ticket for `change` applied to the result.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Ticket<U> {
        Ticket { foundation: self.foundation, answer: change(self.answer) }
    }
}

impl<T> IntoFuture for Ticket<T> {
    type Output = Result<T>;
    type IntoFuture = Answer<T>;

    fn into_future(self) -> Answer<T> {
        let Foundation { log, basis, .. } = &self.foundation;
        let publication = log.publication(*basis);
        Answer { publication, is_published: false, foundation: self.foundation, answer: Some(self.answer) }
    }
}

/// The future of a [`Ticket`].
#[derive(Debug)]
pub struct Answer<T> {
    publication: Publication,
    is_published: bool,
    foundation: Foundation,
    answer: Option<T>,
}

/// The result is moved out, never borrowed while pinned.
impl<T> Unpin for Answer<T> {}

impl<T> Future for Answer<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if !self.is_published {
            let published = ready!(Pin::new(&mut self.publication).poll(context));
            published.map_err(|error| self.foundation.explain(error))?;
            self.is_published = true;
        }
        if let Some(confirmation) = &mut self.foundation.confirmation {
            ready!(confirmation.poll(context))?;
            self.foundation.confirmation = None;
        }
        self.foundation.end_timing();
        Poll::Ready(Ok(self.answer.take().expect("a future is not polled after it is ready")))
    }
}
