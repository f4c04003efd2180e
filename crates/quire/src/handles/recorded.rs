//! Commands that are recorded with the events they cause. One commit writes both, and the commands
//! go to a separate store. Ids link them.
//!
//! A command has an id, so it is decided once. A repeated command returns its first result,
//! whatever has happened since. The events have the id in their metadata, as JSON:
//! `{"causation":"<command>","correlation":"<what it belongs to>"}`.

use std::borrow::Cow;

use crate::Result;
use crate::commit::Commit;
use crate::events::{AppendResult, Condition, EventId, NewEvent, QueryItem};
use crate::handles::decision::Tries;
use crate::handles::events::EventStore;
use crate::handles::projection::ProjectedState;
use crate::outcome::{Outcome, Reply};

/// A command to record.
///
/// ```
/// use quire::events::{NewEvent, QueryItem};
/// use quire::{CommandRecord, Database, RecordedDecision, Durability, Projection};
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
/// let store = db.events("school");
/// let id = "7f1c3a52-8f5e-4c0e-9d0a-5b8f6a3e1c11".parse()?;
/// let enrol = CommandRecord::new("school/commands", id, "Enrol").data(r#"{"student":1}"#);
/// let enrolled = || store.project(Projection::new(QueryItem::new().tag("student:1"), 0, |count, _| *count += 1));
/// let once = |count: u32| if count == 0 { Ok(vec![NewEvent::new("Enrolled").tag("student:1")]) } else { Err("enrolled already") };
///
/// assert!(matches!(store.decide_recorded(5, &enrol, enrolled, once)?, Ok(RecordedDecision::Now(_))));
/// assert_eq!(store.decide_recorded(5, &enrol, enrolled, once)?, Ok(RecordedDecision::Before));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRecord<'c> {
    /// The store that records the commands.
    pub store: &'c str,
    /// The id of the command, drawn by its sender. A repeated command has the same id.
    pub id: EventId,
    /// The type of the command.
    pub command_type: &'c str,
    /// The payload of the command.
    pub data: Vec<u8>,
    /// The correlation, such as a request or a process of several commands. `None` when this
    /// command starts one.
    pub correlation: Option<EventId>,
}

/// The result of a recorded command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedDecision {
    /// The command was decided now, and caused these events.
    Now(AppendResult),
    /// The command was decided and recorded before. The events that it caused then have its id as
    /// `causation`.
    Before,
}

impl<'c> CommandRecord<'c> {
    /// Returns a command of this type, to be recorded in a store, without data.
    pub const fn new(store: &'c str, id: EventId, command_type: &'c str) -> Self {
        CommandRecord { store, id, command_type, data: Vec::new(), correlation: None }
    }

    /// Sets the data.
    #[must_use]
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Sets the correlation.
    #[must_use]
    pub const fn correlation(mut self, correlation: EventId) -> Self {
        self.correlation = Some(correlation);
        self
    }

    fn tag(&self) -> String {
        format!("command:{}", self.id)
    }

    /// Returns the metadata of the command's events. A command without a correlation is the
    /// correlation of its events.
    fn metadata(&self) -> String {
        let correlation = self.correlation.unwrap_or(self.id);
        format!("{{\"causation\":\"{}\",\"correlation\":\"{correlation}\"}}", self.id)
    }
}

impl EventStore {
    /// Decides like [`EventStore::decide_on`], and records the command in the same commit as its
    /// events. The record goes to the command's store, with the tag `command:<id>`. Events without
    /// metadata get the command's metadata.
    ///
    /// # Errors
    /// As [`EventStore::decide_on`].
    pub fn decide_recorded<'e, S, E>(
        &self,
        tries: u32,
        command: &CommandRecord<'_>,
        mut project: impl FnMut() -> Result<ProjectedState<S>>,
        mut handler: impl FnMut(S) -> Result<Vec<NewEvent<'e>>, E>,
    ) -> Result<Result<RecordedDecision, E>> {
        let (tag, metadata) = (command.tag(), command.metadata());
        let correlation = command.correlation.map(|id| format!("{{\"correlation\":\"{id}\"}}")).unwrap_or_default();
        let recorded = || QueryItem::new().tag(&tag);
        let mut left = Tries::new(tries);
        loop {
            let before = self.database().events(command.store).read(&recorded().into(), one())?;
            if !before.events.is_empty() {
                return Ok(Ok(RecordedDecision::Before));
            }
            let projected = project()?;
            let mut events = match handler(projected.state) {
                Ok(events) => events,
                Err(rejected) => return Ok(Err(rejected)),
            };
            for event in events.iter_mut().filter(|event| event.metadata.is_empty()) {
                event.metadata = Cow::Borrowed(metadata.as_bytes());
            }
            let record = NewEvent::new(command.command_type).id(command.id).tag(&tag);
            let record = record.metadata(&correlation).data(&command.data);
            // The events come first. When both stores are the same, the record would otherwise
            // violate the condition of the events.
            let mut commit = Commit::new();
            commit = commit.append_if(self.name(), events.iter().map(NewEvent::as_borrowed), [projected.condition]);
            commit = commit.append_if(command.store, [], [Condition::fail_if_matches(recorded())]);
            commit = commit.append(command.store, [record]);
            match self.database().commit(&commit)? {
                Outcome::Committed(committed) => match committed.replies.first() {
                    Some(Reply::Events(appended)) => return Ok(Ok(RecordedDecision::Now(*appended))),
                    other => unreachable!("an append is answered by its model, not by {other:?}"),
                },
                Outcome::Refused(refused) => left.again_after(refused)?,
            }
        }
    }
}

/// One event suffices to know whether the command was recorded.
fn one() -> crate::events::ReadOptions {
    crate::events::ReadOptions { limit: Some(1), ..Default::default() }
}
