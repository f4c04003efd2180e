//! The decision loop: project, decide, append under the condition; again from the start when
//! something came between.

use quire_shard::{Reason, Refused};

use crate::events::{Appended, NewEvent, Refusal};
use crate::handles::events::EventStore;
use crate::handles::projection::{Project, Projected};
use crate::{Error, Result};

impl EventStore {
    /// Decides on what has happened: folds it into a state, has `handler` decide, and appends what
    /// it gives back under the condition that nothing which the state rests on has happened since.
    /// When something has, it does so again, at most `tries` times in all: each time another writer
    /// has succeeded.
    ///
    /// What the handler rejects is the inner error, and nothing is appended. Without events there
    /// is nothing to append, and the answer has no positions.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the condition failed each time, or the events can't be appended
    /// at all; and the errors of [`EventStore::project`] and [`EventStore::append_if`].
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
    ) -> Result<Result<Appended, E>> {
        self.decide_on(tries, || self.project(projection()), handler)
    }

    /// As [`EventStore::decide`], on states that are made in another way: by a
    /// [`SavedProjection`](crate::SavedProjection), which spares the folding of a long past.
    /// `project` is called for each try.
    ///
    /// # Errors
    /// As [`EventStore::decide`], and those of `project`.
    pub fn decide_on<'e, S, E>(
        &self,
        tries: u32,
        mut project: impl FnMut() -> Result<Projected<S>>,
        mut handler: impl FnMut(S) -> Result<Vec<NewEvent<'e>>, E>,
    ) -> Result<Result<Appended, E>> {
        let mut left = Tries::new(tries);
        loop {
            let projected = project()?;
            let events = match handler(projected.state) {
                Ok(events) => events,
                Err(rejected) => return Ok(Err(rejected)),
            };
            if events.is_empty() {
                return Ok(Ok(Appended::NOTHING));
            }
            match self.submit_if(events, [projected.condition])?.wait()? {
                Ok(mut appended) => return Ok(Ok(appended.pop().expect("one command has one answer"))),
                Err(refused) => left.again_after(refused)?,
            }
        }
    }
}

/// How often a decision is made again because another writer was faster.
pub(super) struct Tries {
    all: u32,
    left: u32,
}

impl Tries {
    pub(super) fn new(tries: u32) -> Self {
        Tries { all: tries, left: tries }
    }

    /// Whether to decide again, after this refusal.
    ///
    /// # Errors
    /// When it is no condition that failed, or there is no try left.
    pub(super) fn again_after(&mut self, refused: Refused) -> Result<()> {
        self.left = self.left.saturating_sub(1);
        match refused.reason {
            Reason::Events(Refusal::ConditionFailed { .. }) if self.left > 0 => Ok(()),
            Reason::Events(Refusal::ConditionFailed { .. }) => {
                let message = format!("another writer was faster {} times: {}", self.all, refused.reason);
                Err(Error::refused(refused, message))
            }
            _ => Err(refused.into()),
        }
    }
}
