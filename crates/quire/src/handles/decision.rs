//! The decision loop: project, decide, append under the condition; again from the start when something came between.

use quire_shard::{Reason, Refused};

use crate::events::{Appended, EventId, NewEvent, Refusal};
use crate::handles::events::EventStore;
use crate::handles::projection::{Project, Projected};
use crate::{Error, ErrorKind, Result};

/// An event to be appended, owning its bytes: what a handler gives back.
///
/// ```
/// use quire::Fact;
///
/// let fact = Fact::new("CourseDefined").tag("course:c1").data(r#"{"capacity": 15}"#);
/// assert_eq!(fact.event_type, "CourseDefined");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fact {
    /// The client's id, which makes the append idempotent.
    pub id: Option<EventId>,
    /// What happened.
    pub event_type: String,
    /// Whom it concerns.
    pub tags: Vec<Vec<u8>>,
    /// What else the client knows.
    pub metadata: Vec<u8>,
    /// The payload.
    pub data: Vec<u8>,
}

impl Fact {
    /// An event of this type, without anything else.
    pub fn new(event_type: impl Into<String>) -> Self {
        Fact { event_type: event_type.into(), ..Fact::default() }
    }

    /// With this id.
    #[must_use]
    pub fn id(mut self, id: EventId) -> Self {
        self.id = Some(id);
        self
    }

    /// With this tag too.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<Vec<u8>>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// With this metadata.
    #[must_use]
    pub fn metadata(mut self, metadata: impl Into<Vec<u8>>) -> Self {
        self.metadata = metadata.into();
        self
    }

    /// With this payload.
    #[must_use]
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// The same, borrowed.
    pub fn as_event(&self) -> NewEvent<'_> {
        NewEvent {
            id: self.id,
            event_type: &self.event_type,
            tags: self.tags.iter().map(Vec::as_slice).collect(),
            metadata: &self.metadata,
            data: &self.data,
        }
    }
}

impl EventStore<'_> {
    /// Decides on what has happened: folds it into a state, has `handler` decide, and appends what it gives back under the
    /// condition that nothing which the state rests on has happened since. When something has, it does so again, at most
    /// `tries` times in all: each time another writer has succeeded.
    ///
    /// What the handler rejects is the inner error, and nothing is appended. Without events there is nothing to append, and
    /// the answer has no positions.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the condition failed each time, or the events can't be appended at all; and the errors
    /// of [`EventStore::project`] and [`EventStore::append_if`].
    ///
    /// # Example
    /// ```
    /// use quire::events::QueryItem;
    /// use quire::{Database, Durability, Fact, Projection};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
    /// let claim = |name: &str| {
    ///     let tag = format!("username:{name}");
    ///     let claimed = || Projection::new(QueryItem::new().tag(&tag), false, |claimed, _| *claimed = true);
    ///     db.events("accounts").decide(10, claimed, |claimed| match claimed {
    ///         true => Err("the name is taken"),
    ///         false => Ok(vec![Fact::new("AccountRegistered").tag(tag.as_str())]),
    ///     })
    /// };
    /// assert!(claim("ada")?.is_ok());
    /// assert_eq!(claim("ada")?, Err("the name is taken"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide<P: Project, E>(
        &self,
        tries: u32,
        projection: impl Fn() -> P,
        handler: impl FnMut(P::State) -> Result<Vec<Fact>, E>,
    ) -> Result<Result<Appended, E>> {
        self.decide_on(tries, || self.project(projection()), handler)
    }

    /// As [`EventStore::decide`], on states that are made in another way: by a [`SavedProjection`](crate::SavedProjection), which spares the
    /// folding of a long past. `project` is called for each try.
    ///
    /// # Errors
    /// As [`EventStore::decide`], and those of `project`.
    pub fn decide_on<S, E>(
        &self,
        tries: u32,
        mut project: impl FnMut() -> Result<Projected<S>>,
        mut handler: impl FnMut(S) -> Result<Vec<Fact>, E>,
    ) -> Result<Result<Appended, E>> {
        let mut left = Tries::new(tries);
        loop {
            let projected = project()?;
            let facts = match handler(projected.state) {
                Ok(facts) => facts,
                Err(rejected) => return Ok(Err(rejected)),
            };
            if facts.is_empty() {
                return Ok(Ok(Appended::NOTHING));
            }
            match self.submit_if(facts.iter().map(Fact::as_event), [projected.condition])?.wait()? {
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
                Err(Error::new(ErrorKind::Refused, message))
            }
            _ => Err(refused.into()),
        }
    }
}
