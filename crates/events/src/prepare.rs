//! Look-ups before a decision: the conditions and ids of appends, over the history up to now.
//!
//! Only one commit is decided at a time, and a condition may have to scan much old history. So the
//! scan is done before the turn, up to the last event of some history, and the decision only scans
//! later events. The decision is the same: [`AppendLookups`] has the matches and the position up to
//! which they hold. An empty one holds up to position zero.
//!
//! ```text
//! Events::prepare (which walks) ─▶ Preparation::look (over a history, no lock held) ─▶ Events::decide_prepared
//! ```

use alloc::vec::Vec;

use quire_model::{History, Place, Position, ReadError, ReadErrorKind};

use crate::check::check_looked_up;
use crate::codec::{Role, TagList};
use crate::{Append, Command, Condition, EventPosition, Events, Selection, StoreNumber};

/// The look-ups for the commands of a commit.
#[derive(Debug, Default)]
pub struct Preparation {
    /// In the order of the commands; as many as have something to be looked up, and those before
    /// them.
    appends: Vec<Option<AppendLookup>>,
}

/// The look-ups for an append.
#[derive(Debug)]
struct AppendLookup {
    store: StoreNumber,
    /// In the order of the append's conditions.
    conditions: Vec<(Selection, Kind)>,
    /// The tags of the ids that its events were given.
    ids: Vec<TagList>,
    gone_since: Position,
    /// See [`Preparation::steps`].
    steps: u64,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    FirstAfter(EventPosition),
    Last,
}

/// The results of the look-ups over a history.
#[derive(Debug, Default)]
pub struct AppendLookups {
    appends: Vec<Option<LookupResult>>,
}

/// The results for an append, up to and including the event `up_to` of its store.
#[derive(Debug)]
pub(crate) struct LookupResult {
    pub(crate) up_to: EventPosition,
    /// In the order of the conditions: the first match after `after`, or the last match.
    pub(crate) met: Vec<Option<EventPosition>>,
    /// The steps of the budget that the next condition, after those in `met`, exceeded.
    pub(crate) exceeded: Option<u64>,
    /// Whether an event has one of the ids.
    pub(crate) knows_id: bool,
    /// The record of the last deletion of events when this look-up was made.
    pub(crate) gone_since: Position,
}

impl Events {
    /// Whether these commands may have something to look up, whatever the state.
    pub fn is_worth_preparing(commands: &[Command<'_>]) -> bool {
        commands.iter().any(|command| match command {
            Command::Append(append) => {
                !append.conditions.is_empty() || append.events.iter().any(|event| event.id.is_some())
            }
            _ => false,
        })
    }

    /// The look-ups that these commands need. Reads no history.
    pub fn prepare(&self, commands: &[Command<'_>]) -> Preparation {
        let mut preparation = Preparation::default();
        for (index, command) in commands.iter().enumerate() {
            if let Command::Append(append) = command
                && let Some(asked) = self.ask(append)
            {
                preparation.appends.resize_with(index, || None);
                preparation.appends.push(Some(asked));
            }
        }
        preparation
    }

    fn ask(&self, append: &Append<'_>) -> Option<AppendLookup> {
        let store = self.store(append.store)?;
        // An invalid append is refused later, by its decision.
        check_looked_up(append).ok()?;
        let last = self.last(store);
        let is_new =
            |condition: &Condition<'_>| matches!(condition, Condition::FailIfMatches { after, .. } if *after >= last);
        let ids = append.events.iter().filter_map(|event| event.id);
        let ids: Vec<_> = ids.map(|id| TagList::of(Role::Id, store, id.as_bytes())).collect();
        if ids.is_empty() && append.conditions.iter().all(is_new) {
            return None;
        }
        let gone = self.gone(store);
        let of_condition = |condition: &Condition<'_>| match condition {
            Condition::FailIfMatches { query, after } => {
                (Selection::of(store, gone.clone(), query), Kind::FirstAfter(*after))
            }
            Condition::LastIs { query, .. } => (Selection::of(store, gone.clone(), query), Kind::Last),
        };
        let conditions: Vec<(Selection, Kind)> = append.conditions.iter().map(of_condition).collect();
        let of_condition = |(selection, kind): &(Selection, Kind)| {
            let events = match kind {
                Kind::FirstAfter(after) => last.get().saturating_sub(after.get()),
                Kind::Last => last.get(),
            };
            selection.steps(events)
        };
        let steps = conditions.iter().map(of_condition).fold(ids.len() as u64, u64::saturating_add);
        Some(AppendLookup { store, conditions, ids, gone_since: gone.since, steps })
    }
}

impl Preparation {
    /// Whether there is nothing to look up.
    pub fn is_empty(&self) -> bool {
        self.appends.is_empty()
    }

    /// The largest number of log entries that the look-ups may read. A look-up under one tag reads
    /// one entry; a look-up under several tags reads the entries of any of them.
    pub fn steps(&self) -> u64 {
        self.appends.iter().flatten().map(|asked| asked.steps).fold(0, u64::saturating_add)
    }

    /// Does the look-up in a history, which may end before or after the state that the preparation
    /// used.
    ///
    /// # Errors
    /// When the history can't be read.
    pub fn look(&self, history: &dyn History) -> Result<AppendLookups, ReadError> {
        let look = |asked: &Option<AppendLookup>| asked.as_ref().map(|asked| asked.look(history)).transpose();
        Ok(AppendLookups { appends: self.appends.iter().map(look).collect::<Result<_, _>>()? })
    }
}

impl AppendLookup {
    fn look(&self, history: &dyn History) -> Result<LookupResult, ReadError> {
        let last = match self.conditions.first().and_then(|(selection, _)| selection.store_tag()) {
            Some(store) => history.previous(&[store], Place::END)?,
            None => history.previous(&[TagList::of(Role::Store, self.store, b"").first()], Place::END)?,
        };
        let up_to = last.and_then(|entry| entry.sequence).map_or(EventPosition::ZERO, EventPosition::from);
        let gone_since = self.gone_since;
        let mut lookup = LookupResult { up_to, met: Vec::new(), exceeded: None, knows_id: false, gone_since };
        // The ids come first: a repeated append gets its answer whatever its conditions cost.
        for id in &self.ids {
            lookup.knows_id = lookup.knows_id || history.next(&[id.first()], Place::START)?.is_some();
        }
        for (selection, kind) in &self.conditions {
            let met = match kind {
                Kind::FirstAfter(after) if *after >= up_to => Ok(None),
                Kind::FirstAfter(after) => selection.first_after(history, *after),
                Kind::Last => selection.last(history),
            };
            let met = match met {
                Err(ReadError { kind: ReadErrorKind::TooCostly { steps_max, .. }, .. }) => {
                    lookup.exceeded = Some(steps_max);
                    break;
                }
                met => met?,
            };
            lookup.met.push(met.and_then(|entry| entry.sequence).map(EventPosition::from));
        }
        Ok(lookup)
    }
}

impl AppendLookups {
    /// Whether a look-up exceeded the budget of its request. The decision then refuses that
    /// condition, unless it ends before it.
    pub fn exceeds_budget(&self) -> bool {
        self.appends.iter().flatten().any(|lookup| lookup.exceeded.is_some())
    }

    /// The results for the command with this index.
    pub(crate) fn of(&self, command: usize) -> Option<&LookupResult> {
        self.appends.get(command)?.as_ref()
    }
}
