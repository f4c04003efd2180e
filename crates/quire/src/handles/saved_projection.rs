//! A projection whose state is saved under a name. It folds only the events appended since it was
//! saved.
//!
//! The saved state holds nothing that the events do not. A state of another version, or an
//! unreadable one, is folded again from the start. Several callers may update the same projection
//! at once. When two callers save, the save that has seen fewer events is refused; this loses
//! nothing.

use std::sync::Arc;

use quire_model::Operation;
use quire_shard::{Commands, Reason};

use crate::events::{self, Command, Condition, EventPosition, EventView, Query, ReadOptions, Refusal, SaveProjection};
use crate::handles::events::EventStore;
use crate::handles::projection::ProjectedState;
use crate::{Error, ErrorKind, Result};

/// Number of folded events after which the state is saved, by default.
const SAVE_AFTER_EVENTS: u64 = 1_000;

/// A named projection. See [`EventStore::projection`].
///
/// It suits frequent queries, and decisions based on a long history:
///
/// ```
/// use quire::events::{NewEvent, QueryItem};
/// use quire::{Database, Durability};
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
/// let store = db.events("accounts");
/// let deposited = || QueryItem::new().event_type("Deposited").tag("account:1");
/// let balance = || {
///     store.projection("balance/1").save_after(100).with(
///         deposited(),
///         |state| state.map_or(Some(0u64), |bytes| bytes.try_into().ok().map(u64::from_le_bytes)),
///         |balance, event| *balance += u64::from(event.data[0]),
///         |balance| balance.to_le_bytes().to_vec(),
///     )
/// };
/// store.append([NewEvent::new("Deposited").tag("account:1").data(&[7])])?;
/// let done = store.decide_on(5, balance, |balance| match balance {
///     0..100 => Ok(vec![NewEvent::new("Deposited").tag("account:1").data([9])]),
///     _ => Err("the account is full"),
/// })?;
/// assert!(done.is_ok());
/// assert_eq!(balance()?.state, 16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct SavedProjection {
    store: EventStore,
    name: Arc<str>,
    version: u32,
    save_after: u64,
}

impl SavedProjection {
    pub(super) fn new(store: EventStore, name: &str) -> Self {
        SavedProjection { store, name: name.into(), version: 0, save_after: SAVE_AFTER_EVENTS }
    }

    /// Sets the version of the folding code. A state of another version is folded again from the
    /// start. Default: 0.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Sets the number of events, folded since the last save, after which the state is saved again.
    /// 0 never saves. Default: 1,000.
    #[must_use]
    pub fn save_after(mut self, events: u64) -> Self {
        self.save_after = events;
        self
    }

    /// Returns the state with all matching events folded into it, and the condition that no new one
    /// was appended since.
    ///
    /// `read` decodes the saved bytes into a state. For `None`, `read` returns the first state. It
    /// returns `None` when it can't decode the bytes. `write` encodes the state to save.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid query, or when `read` returns no first state.
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`], and the errors of
    /// [`Database::commit`](crate::Database::commit).
    pub fn with<'q, S>(
        &self,
        query: impl Into<Query<'q>>,
        read: impl Fn(Option<&[u8]>) -> Option<S>,
        mut fold: impl FnMut(&mut S, &EventView<'_>),
        write: impl FnOnce(&S) -> Vec<u8>,
    ) -> Result<ProjectedState<S>> {
        let query = query.into().into_owned();
        let (base, found) = match self.load()? {
            Some((position, bytes)) => match read(Some(&bytes)) {
                Some(state) => (position, Some(state)),
                None => (EventPosition::ZERO, None),
            },
            None => (EventPosition::ZERO, None),
        };
        let first = || Error::new(ErrorKind::Invalid, "the projection has no first state");
        let mut state = found.map_or_else(|| read(None).ok_or_else(first), Ok)?;
        let mut folded = 0u64;
        let options = ReadOptions { after: base, ..ReadOptions::default() };
        let head = self.store.visit(&query, options, |event| {
            folded += 1;
            fold(&mut state, &event);
        })?;
        if self.save_after > 0 && folded >= self.save_after {
            self.save(base, head, &write(&state))?;
        }
        Ok(ProjectedState { state, condition: Condition::fail_if_matches_after(query.every_match(), head), head })
    }

    /// Deletes the saved state. The next read folds all events from the start.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when there is no saved state, and the errors of
    /// [`Database::commit`](crate::Database::commit).
    pub fn drop_state(&self) -> Result<()> {
        self.store.change(Command::DropProjection { store: self.store.name(), name: &self.name })
    }

    /// Returns the saved state of this version, and the last event folded into it.
    ///
    /// # Errors
    /// As [`SavedProjection::load_any`].
    pub fn load(&self) -> Result<Option<(EventPosition, Vec<u8>)>> {
        let loaded = self.load_any()?.filter(|(saved, _)| saved.version == self.version);
        Ok(loaded.map(|(saved, state)| (saved.position, state)))
    }

    /// Returns the saved state, of any version.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`] and [`ErrorKind::Failed`].
    pub fn load_any(&self) -> Result<Option<(events::SavedProjection, Vec<u8>)>> {
        let database = self.store.database();
        loop {
            let look = |view: &crate::ReadView<'_>| view.events.projection(self.store.name(), &self.name);
            let Some(saved) = database.read_for(self.store.resource(), Operation::Read, look)?.wait()? else {
                return Ok(None);
            };
            let history = database.history();
            if let Some(entry) = quire_model::History::entry(&history, saved.place)? {
                let state = events::SavedProjection::state(&entry).expect("the state's place was recorded");
                return Ok(Some((saved, state.to_vec())));
            }
            // Another caller saved a new state meanwhile, and compaction deleted the older one.
        }
    }

    /// Saves a state that was folded from the saved one at `base` up to `position`.
    ///
    /// # Errors
    /// As [`Database::commit`](crate::Database::commit). A newer saved state is no error.
    fn save(&self, base: EventPosition, position: EventPosition, state: &[u8]) -> Result<()> {
        let (name, version) = (&*self.name, self.version);
        let save = SaveProjection { store: self.store.name(), name, version, base, position, state };
        let commands = Commands { events: &[Command::SaveProjection(save)], ..Commands::default() };
        match self.store.database().decide(commands)?.wait()? {
            Ok(_) => Ok(()),
            Err(refused) if matches!(refused.reason, Reason::Events(Refusal::ProjectionMoved { .. })) => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }
}
