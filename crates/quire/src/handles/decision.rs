//! The decision loop: project, decide, and append under a condition. It starts again when another
//! writer appended in between.

use quire_shard::{CommitRefusal, Reason};

use crate::events::{AppendResult, NewEvent, Refusal};
use crate::handles::events::EventStore;
use crate::handles::projection::{Project, ProjectedState};
use crate::{Error, Result};

impl EventStore {
    /// Folds events into a state, calls `handler` to decide, and appends the events that `handler`
    /// returns. The append requires that no event of the state's query was appended since. When the
    /// condition fails, another writer has succeeded. The loop then starts again, with at most
    /// `tries` attempts in all.
    ///
    /// An error of the handler is the inner error, and nothing is appended. When the handler
    /// returns no events, nothing is appended, and the result has no positions.
    ///
    /// # Errors
    /// `ErrorKind::Refused` when the condition failed each time, or the events are refused for
    /// another reason. The errors of [`EventStore::project`] and [`EventStore::append_if`].
    ///
    /// # Example
    /// ```
    /// use quire::events::{NewEvent, QueryItem};
    /// use quire::{Database, Durability, Projection};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// let claim = |name: &str| {
    ///     let tag = format!("username:{name}");
    ///     let claimed = || Projection::new(QueryItem::new().tag(&tag), false, |claimed, _| *claimed = true);
    ///     db.events("accounts").decide(10, claimed, |claimed| match claimed {
    ///         true => Err("the name is taken"),
    ///         false => Ok(vec![NewEvent::new("AccountRegistered").tag(tag.as_str())]),
    ///     })
    /// };
    /// assert!(claim("ada")?.is_ok());
    /// assert_eq!(claim("ada")?, Err("the name is taken"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide<'e, P: Project, E>(
        &self,
        tries: u32,
        projection: impl Fn() -> P,
        handler: impl FnMut(P::State) -> Result<Vec<NewEvent<'e>>, E>,
    ) -> Result<Result<AppendResult, E>> {
        self.decide_on(tries, || self.project(projection()), handler)
    }

    /// Decides like [`EventStore::decide`], on states from another source. A
    /// [`SavedProjection`](crate::SavedProjection), for example, avoids folding a long history.
    /// Each attempt calls `project`.
    ///
    /// # Errors
    /// As [`EventStore::decide`], and the errors of `project`.
    pub fn decide_on<'e, S, E>(
        &self,
        tries: u32,
        mut project: impl FnMut() -> Result<ProjectedState<S>>,
        mut handler: impl FnMut(S) -> Result<Vec<NewEvent<'e>>, E>,
    ) -> Result<Result<AppendResult, E>> {
        let mut left = Tries::new(tries);
        loop {
            let projected = project()?;
            let events = match handler(projected.state) {
                Ok(events) => events,
                Err(rejected) => return Ok(Err(rejected)),
            };
            if events.is_empty() {
                return Ok(Ok(AppendResult::NOTHING));
            }
            match self.submit_if(events, [projected.condition])?.wait()? {
                Ok(mut appended) => return Ok(Ok(appended.pop().expect("one command has one answer"))),
                Err(refused) => left.again_after(refused)?,
            }
        }
    }
}

/// The remaining attempts. Each attempt fails when another writer commits first.
pub(super) struct Tries {
    all: u32,
    left: u32,
}

impl Tries {
    pub(super) fn new(tries: u32) -> Self {
        Tries { all: tries, left: tries }
    }

    /// Notes this refusal, and allows another attempt.
    ///
    /// # Errors
    /// Returns the refusal, if it is not a failed condition, or if no attempt remains.
    pub(super) fn again_after(&mut self, refused: CommitRefusal) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        match refused.reason {
            Reason::Events(Refusal::ConditionFailed { .. }) if self.left > 0 => Ok(()),
            Reason::Events(Refusal::ConditionFailed { .. }) => {
                let message =
                    format!("other writers committed first in each of {} attempts: {}", self.all, refused.reason);
                Err(Error::refused(refused, message))
            }
            _ => Err(refused.into()),
        }
    }
}
