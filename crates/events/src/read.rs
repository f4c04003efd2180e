//! Reads: the walks of a selection merged into one, in log order, each event once.
//!
//! A reading ends at the head that it found when it began. So a decision based on it can be
//! appended under the condition that nothing matches after that head. Each scan holds a few entries
//! at a time: memory does not grow with the number of matches.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::ops::ControlFlow;

use quire_model::{Entry, History, Place, Position, ReadError, Tag};

use crate::codec::{Role, TagList};
use crate::gone::DeletedEvents;
use crate::{EventId, EventPosition, EventView, Events, Selection, StoreNumber};

/// The number of entries that a walk requests at a time.
const FEW: usize = 16;

/// The part of the matching events to read, and the order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Only events after this position.
    pub after: EventPosition,
    /// Only events up to and including this position. An item's last event is then its last up to
    /// here.
    pub up_to: Option<EventPosition>,
    /// Only events before this position: where a backward reading continues. Unlike `up_to`, it
    /// does not change which event is an item's last.
    pub before: Option<EventPosition>,
    /// Reads from the last event to the first.
    pub backwards: bool,
    /// The largest number of events.
    pub limit: Option<u64>,
}

impl ReadOptions {
    /// Makes a reading continue after the event `last`; an earlier reading returned `given` events.
    pub fn go_on(&mut self, last: EventPosition, given: u64) {
        if self.backwards {
            self.before = Some(last);
        } else {
            self.after = last;
        }
        self.limit = self.limit.map(|limit| limit.saturating_sub(given));
    }
}

impl Events {
    /// The position of the last event of a store in this history, including deleted events; zero
    /// when the store never had one.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn head(&self, history: &dyn History, store: &str) -> Result<EventPosition, ReadError> {
        let Some(store) = self.store(store) else { return Ok(EventPosition::ZERO) };
        let last = history.previous(&[TagList::of(Role::Store, store, b"").first()], Place::END)?;
        let last = last.and_then(|entry| entry.sequence).map_or(EventPosition::ZERO, EventPosition::from);
        Ok(last.max(self.gone(store).head))
    }

    /// The event with this id, the client's own or derived; `None` when the store has none.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn event_by_id<'h>(
        &self,
        history: &'h dyn History,
        store: &str,
        id: EventId,
    ) -> Result<Option<EventView<'h>>, ReadError> {
        self.store(store).map_or(Ok(None), |store| find(history, store, self.gone(store), id))
    }

    /// The event at this position; `None` when the position has none or it was deleted.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn event_at<'h>(
        &self,
        history: &'h dyn History,
        store: &str,
        position: EventPosition,
    ) -> Result<Option<EventView<'h>>, ReadError> {
        self.store(store).map_or(Ok(None), |store| at(history, store, self.gone(store), position))
    }
}

/// Finds an event by its id: a client's by its tag, a derived one by the position that it names.
fn find<'h>(
    history: &'h dyn History,
    store: StoreNumber,
    gone: &DeletedEvents,
    id: EventId,
) -> Result<Option<EventView<'h>>, ReadError> {
    match find_given(history, store, gone, id, Place::START)? {
        Some(event) => Ok(Some(event)),
        None => find_derived(history, store, gone, id),
    }
}

/// Finds an event from this place on by its client's id.
pub(crate) fn find_given<'h>(
    history: &'h dyn History,
    store: StoreNumber,
    gone: &DeletedEvents,
    id: EventId,
    from: Place,
) -> Result<Option<EventView<'h>>, ReadError> {
    let tags = TagList::of(Role::Id, store, id.as_bytes());
    Ok(gone.next(history, &[tags.first()], from)?.and_then(|entry| EventView::of(&entry)))
}

/// Finds an event by the id that was derived for it.
pub(crate) fn find_derived<'h>(
    history: &'h dyn History,
    store: StoreNumber,
    gone: &DeletedEvents,
    id: EventId,
) -> Result<Option<EventView<'h>>, ReadError> {
    let Some(position) = id.derived_position() else { return Ok(None) };
    Ok(at(history, store, gone, position)?.filter(|event| event.id() == id))
}

fn at<'h>(
    history: &'h dyn History,
    store: StoreNumber,
    gone: &DeletedEvents,
    position: EventPosition,
) -> Result<Option<EventView<'h>>, ReadError> {
    let found = history.seek(TagList::of(Role::Store, store, b"").first(), position.sequence())?;
    let found = found.filter(|entry| !gone.has(entry));
    Ok(found.and_then(|entry| EventView::of(&entry)).filter(|event| event.position == position))
}

/// A place after the store's event at this position and before all later ones, which may be
/// damaged; `None` when there are no later ones.
fn end_of(history: &dyn History, store: Tag<'_>, last: EventPosition) -> Result<Option<Place>, ReadError> {
    match history.seek(store, last.sequence()) {
        Ok(Some(entry)) if entry.sequence == Some(last.sequence()) => Ok(Some(entry.place.after())),
        // It is out of the log, or damaged itself.
        _ => Ok(history.seek(store, last.next().sequence())?.map(|entry| entry.place)),
    }
}

impl Selection {
    /// Makes `options` continue where a reading exceeded its steps. `reached` is
    /// [`ReadError::reached_place`]. Returns whether the reading made progress.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn resume_at(
        &self,
        history: &dyn History,
        options: &mut ReadOptions,
        reached: Place,
    ) -> Result<bool, ReadError> {
        let Some(store) = &self.store else { return Ok(false) };
        let last = history.previous(&[store.first()], reached)?.and_then(|entry| entry.sequence);
        let (last, begun) = (last.map_or(EventPosition::ZERO, EventPosition::from), *options);
        if options.backwards {
            let before = last.next();
            options.before = Some(options.before.map_or(before, |begun| begun.min(before)));
        } else {
            options.after = options.after.max(last);
        }
        Ok(*options != begun)
    }

    /// Begins to read the selected events.
    ///
    /// # Errors
    /// When the log can't be read.
    pub fn read<'s, 'h>(
        &'s self,
        history: &'h dyn History,
        options: ReadOptions,
    ) -> Result<SelectedEvents<'s, 'h>, ReadError> {
        let mut reading = SelectedEvents {
            history,
            gone: &self.gone,
            // The last events may be deleted and compacted. The head is never below its earlier
            // value.
            head: self.gone.head,
            start: Place::START,
            end: Place::START,
            before: Place::START,
            backwards: options.backwards,
            left: options.limit.unwrap_or(u64::MAX),
            cursors: Vec::new(),
            spent: Vec::new(),
            queue: BinaryHeap::new(),
        };
        let Some(store) = &self.store else { return Ok(reading) };
        let Some(last) = history.previous(&[store.first()], Place::END)? else { return Ok(reading) };
        let last_position = last.sequence.expect("an event takes a number of its store");
        reading.head = reading.head.max(last_position.into());
        let Some(start) = self.place_after(history, options.after)? else { return Ok(reading) };
        reading.start = start;
        reading.end = last.place.after();
        if let Some(up_to) = options.up_to.filter(|up_to| *up_to < reading.head)
            && let Some(end) = end_of(history, store.first(), up_to)?
        {
            reading.end = end;
        }
        reading.before = reading.end;
        if let Some(before) = options.before.filter(|before| *before <= reading.head) {
            let end = match before.get().checked_sub(1) {
                None => Some(Place::START),
                Some(last) => end_of(history, store.first(), EventPosition::new(last))?,
            };
            reading.before = end.map_or(reading.end, |end| reading.end.min(end));
        }
        for item in &self.items {
            let walks = item.walks.iter().map(|walk| walk.iter().collect::<Vec<_>>());
            if item.only_last_event {
                reading.cursors.push(ItemCursor::new(walks.collect(), true));
            } else {
                reading.cursors.extend(walks.map(|walk| ItemCursor::new(vec![walk], false)));
            }
        }
        reading.spent.extend(0..reading.cursors.len());
        Ok(reading)
    }
}

/// The selected events, in order. The iteration ends after an error.
pub struct SelectedEvents<'s, 'h> {
    history: &'h dyn History,
    gone: &'s DeletedEvents,
    head: EventPosition,
    /// Events are at or after this place ...
    start: Place,
    /// ... and before this one.
    before: Place,
    /// An item's last event is its last before this place.
    end: Place,
    backwards: bool,
    left: u64,
    cursors: Vec<ItemCursor<'s, 'h>>,
    /// The cursors whose entry was returned. They move on before the next event is read.
    spent: Vec<usize>,
    /// The other cursors that have an entry or an error, next one first.
    queue: BinaryHeap<Reverse<(Rank, usize)>>,
}

/// The order of a place in the direction of the reading: the lower rank comes first. At the same
/// place, an error comes where its scan continues: forwards before the event at the place,
/// backwards after it.
type Rank = (u64, u32, bool);

/// The direction of a walk, and how many more entries it may have to return.
#[derive(Debug, Clone, Copy)]
enum WalkDirection {
    Backwards,
    Forwards { most: usize },
}

/// A walk, or the walks of an item of which only the last event is wanted.
struct ItemCursor<'s, 'h> {
    walks: Vec<Vec<Tag<'s>>>,
    only_last_event: bool,
    at: Option<Entry<'h>>,
    /// The error, when the next entry can't be read.
    failed: Option<ReadError>,
    /// The place from which to continue a search that exceeded its share of the steps.
    paused: Option<Place>,
    /// The entries that were read last, going forwards, and the number of them already returned.
    few: Vec<Entry<'h>>,
    passed: usize,
}

impl<'s, 'h> ItemCursor<'s, 'h> {
    fn new(walks: Vec<Vec<Tag<'s>>>, only_last_event: bool) -> Self {
        ItemCursor { walks, only_last_event, at: None, failed: None, paused: None, few: Vec::new(), passed: 0 }
    }

    /// The next entry of a forward scan from `start` on that is not deleted. `most` is the number
    /// of entries still wanted.
    fn forwards(
        &mut self,
        history: &'h dyn History,
        gone: &DeletedEvents,
        start: Place,
        most: usize,
    ) -> Result<Option<Entry<'h>>, ReadError> {
        loop {
            if self.passed == self.few.len() {
                let behind_few = self.few.last().map(|last| last.place.after());
                let from = self.paused.take().or(behind_few).unwrap_or(start);
                self.few.clear();
                self.passed = 0;
                let asked = history.next_few(&self.walks[0], from, most.min(FEW), &mut self.few);
                asked.inspect_err(|error| self.paused = error.reached_place().or(Some(from)))?;
            }
            let Some(entry) = self.few.get(self.passed) else { return Ok(None) };
            self.passed += 1;
            if !gone.has(entry) {
                return Ok(Some(*entry));
            }
        }
    }

    /// Moves to the next entry in `start..before`, or to none. An item's last event is its last
    /// before `end`.
    fn advance(
        &mut self,
        history: &'h dyn History,
        gone: &DeletedEvents,
        start: Place,
        before: Place,
        end: Place,
        wanted: WalkDirection,
    ) -> Result<Option<Entry<'h>>, ReadError> {
        let given = self.at.take();
        let found = if self.only_last_event {
            let mut last: Option<Entry<'h>> = None;
            for walk in &self.walks {
                // No place is nearer to the last event: a reading that continues searches again.
                let found = gone.previous(history, walk, end).map_err(|error| error.reached(|| None))?;
                last = last.into_iter().chain(found).max_by_key(|entry| entry.place);
            }
            // Once its event is given out there is nothing more to find.
            self.walks.clear();
            last
        } else {
            let found = match wanted {
                WalkDirection::Backwards => {
                    let behind_given = given.map(|entry| entry.place);
                    let from = self.paused.take().or(behind_given).unwrap_or(before);
                    let found = gone.previous(history, &self.walks[0], from);
                    found.inspect_err(|error| self.paused = error.reached_place().or(Some(from)))
                }
                WalkDirection::Forwards { most } => self.forwards(history, gone, start, most),
            };
            match found {
                // The next entry is outside of the range to read.
                Err(error) if error.place.is_some_and(|place| is_outside(place.position, start, before)) => None,
                found => found?,
            }
        };
        self.at = found.filter(|entry| start <= entry.place && entry.place < before);
        Ok(self.at)
    }
}

fn view<'h>(entry: &Entry<'h>) -> EventView<'h> {
    EventView::of(entry).expect("only events carry the tags of a selection")
}

/// Whether `start..before` contains no part of a record. Of a damaged record, only the position is
/// known.
fn is_outside(record: Position, start: Place, before: Place) -> bool {
    record < start.position || record > before.position || record == before.position && before.index == 0
}

impl<'h> SelectedEvents<'_, 'h> {
    /// The last position of the store when the reading began: what follows it was not read.
    ///
    /// The position for a condition on everything that a query selects: append under the condition
    /// that nothing matches the query after this position. A reading limited by `up_to` or `limit`
    /// has no such position.
    pub fn head(&self) -> EventPosition {
        self.head
    }

    /// Passes the events that are left to `visit`, in order, until `visit` breaks. For many events,
    /// this is faster than the iteration: forwards along a single walk, it is a
    /// [scan](History::scan).
    ///
    /// # Errors
    /// When the log can't be read. The events before were passed.
    pub fn visit(self, visit: &mut dyn FnMut(EventView<'h>) -> ControlFlow<()>) -> Result<(), ReadError> {
        match &self.cursors[..] {
            [only] if !self.backwards && !only.only_last_event => self.scan_walk(only, visit),
            _ => {
                for event in self {
                    if visit(event?).is_break() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    fn scan_walk(
        &self,
        only: &ItemCursor<'_, 'h>,
        visit: &mut dyn FnMut(EventView<'h>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let (mut left, start) = (self.left, only.at.map_or(self.start, |last| last.place.after()));
        if left == 0 || self.spent.is_empty() {
            return Ok(());
        }
        self.history.scan(&only.walks[0], start, self.before, &mut |entry| {
            if self.gone.has(entry) {
                return ControlFlow::Continue(());
            }
            left -= 1;
            let visited = visit(view(entry));
            if left == 0 { ControlFlow::Break(()) } else { visited }
        })
    }

    fn rank(&self, place: Place, is_error: bool) -> Rank {
        let (position, index) = (place.position.get(), place.index);
        if self.backwards { (!position, !index, is_error) } else { (position, index, !is_error) }
    }

    fn step(&mut self) -> Result<Option<EventView<'h>>, ReadError> {
        let wanted = match self.backwards {
            true => WalkDirection::Backwards,
            false => WalkDirection::Forwards { most: usize::try_from(self.left).unwrap_or(usize::MAX) },
        };
        if let [only] = &mut self.cursors[..] {
            // A single cursor needs no merge. A finished scan stays where it is.
            let is_over = self.spent.pop().is_none();
            let found = if is_over {
                None
            } else {
                only.advance(self.history, self.gone, self.start, self.before, self.end, wanted)?
            };
            self.spent.extend(found.map(|_| 0));
            return Ok(found.as_ref().map(view));
        }
        loop {
            self.advance_spent(wanted)?;
            let Some(Reverse((rank, index))) = self.queue.pop() else { return Ok(None) };
            let failed = self.cursors[index].failed.take();
            self.spent.push(index);
            match failed {
                // The walk used up its share of the steps. It continues with what others left.
                Some(error) if error.is_too_costly() && self.history.claim(1).is_ok() => continue,
                Some(error) => return Err(error),
                None => {}
            }
            // An event that several walks meet is given out once.
            while let Some(Reverse((next, _))) = self.queue.peek()
                && *next == rank
            {
                self.spent.extend(self.queue.pop().map(|Reverse((_, index))| index));
            }
            let entry = self.cursors[index].at.as_ref().expect("a cursor in the queue has an entry");
            return Ok(Some(view(entry)));
        }
    }

    /// Moves the spent cursors on. Each may take an equal part of the steps left, so that a reading
    /// that continues later advances along every walk.
    fn advance_spent(&mut self, wanted: WalkDirection) -> Result<(), ReadError> {
        while let Some(index) = self.spent.pop() {
            self.history.share_steps(self.spent.len() as u64 + 1);
            let cursor = &mut self.cursors[index];
            let (place, is_error) =
                match cursor.advance(self.history, self.gone, self.start, self.before, self.end, wanted) {
                    Ok(Some(entry)) => (entry.place, false),
                    Ok(None) => continue,
                    // The error is returned in its turn: other walks may have readable entries
                    // before it.
                    Err(error) => {
                        let Some(place) = error.place.or(error.reached_place()) else {
                            self.history.share_steps(1);
                            return Err(error);
                        };
                        cursor.failed = Some(error);
                        (place, true)
                    }
                };
            self.queue.push(Reverse((self.rank(place, is_error), index)));
        }
        self.history.share_steps(1);
        Ok(())
    }
}

impl<'h> Iterator for SelectedEvents<'_, 'h> {
    type Item = Result<EventView<'h>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let step = self.step();
        self.left = if step.is_ok() { self.left - 1 } else { 0 };
        step.transpose()
    }
}

impl fmt::Debug for SelectedEvents<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectedEvents")
            .field("head", &self.head)
            .field("start", &self.start)
            .field("before", &self.before)
            .field("backwards", &self.backwards)
            .field("walks", &self.cursors.len())
            .finish_non_exhaustive()
    }
}
