//! A query resolved for one store: as walks over tags of the log.
//!
//! An item becomes one walk for each of its types, over that type's tag and the item's tags at
//! once; an item without types one walk over its tags; an item without either the walk over the
//! store. The answer to a query is the union of its walks, in log order.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use quire_model::{Entry, History, Place, ReadError, Tag};

use crate::check::{check_name, check_query};
use crate::codec::{Role, TagList};
use crate::gone::DeletedEvents;
use crate::{EventPosition, Events, Query, QueryItem, SelectRefusal, StoreNumber};

/// The walks over a store that answer a query. It borrows nothing, so that a long-lived reader can
/// keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The tag of the store; `None` while nothing was appended to it.
    pub(crate) store: Option<TagList>,
    pub(crate) items: Vec<SelectedItem>,
    pub(crate) gone: DeletedEvents,
}

/// The walks of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelectedItem {
    pub(crate) only_last_event: bool,
    pub(crate) walks: Vec<TagList>,
}

impl Events {
    /// Resolves a query for a store. For a store without events, the selection is empty and stays
    /// empty. To wait for the first event of such a store, select again.
    ///
    /// # Errors
    /// When the store's name or the query is invalid.
    pub fn select(&self, store: &str, query: &Query<'_>) -> Result<Selection, SelectRefusal> {
        check_name(store).map_err(SelectRefusal::InvalidName)?;
        check_query(query).map_err(SelectRefusal::InvalidQuery)?;
        Ok(match self.store(store) {
            Some(store) => Selection::of(store, self.gone(store).clone(), query),
            None => Selection { store: None, items: Vec::new(), gone: DeletedEvents::default() },
        })
    }
}

impl Selection {
    /// Resolves a query that was checked.
    pub(crate) fn of(store: StoreNumber, gone: DeletedEvents, query: &Query<'_>) -> Self {
        let selects_all = |item: &&QueryItem<'_>| item.is_match_all() && !item.only_last_event;
        let items = match query.items.iter().find(selects_all) {
            // This scan of the whole store includes the events of the other items.
            Some(all) => vec![SelectedItem::of(store, all)],
            None => necessary(&query.items).map(|item| SelectedItem::of(store, item)).collect(),
        };
        Selection { store: Some(TagList::of(Role::Store, store, b"")), items, gone }
    }

    /// The tag of all events of the store, to wait on for new ones; `None` for a store without
    /// events.
    pub fn store_tag(&self) -> Option<Tag<'_>> {
        self.store.as_ref().map(TagList::first)
    }

    /// The first match after `after`.
    pub(crate) fn first_after<'h>(
        &self,
        history: &'h dyn History,
        after: EventPosition,
    ) -> Result<Option<Entry<'h>>, ReadError> {
        let Some(from) = self.place_after(history, after)? else { return Ok(None) };
        let mut first: Option<Entry<'h>> = None;
        for walk in self.walks() {
            let found = walk.with_slice(|tags| self.gone.next(history, tags, from))?;
            first = first.into_iter().chain(found).min_by_key(|entry| entry.place);
        }
        Ok(first)
    }

    /// The last match of all.
    pub(crate) fn last<'h>(&self, history: &'h dyn History) -> Result<Option<Entry<'h>>, ReadError> {
        let mut last: Option<Entry<'h>> = None;
        for walk in self.walks() {
            let found = walk.with_slice(|tags| self.gone.previous(history, tags, Place::END))?;
            last = last.into_iter().chain(found).max_by_key(|entry| entry.place);
        }
        Ok(last)
    }

    /// The place where a scan of the events after `after` begins; `None` when there are none.
    pub(crate) fn place_after(&self, history: &dyn History, after: EventPosition) -> Result<Option<Place>, ReadError> {
        let after = after.max(self.gone.trimmed);
        self.store.as_ref().map_or(Ok(None), |store| place_behind(history, store, after))
    }

    /// The largest number of entries that the search for the first or last match among `events`
    /// events may read.
    pub(crate) fn steps(&self, events: u64) -> u64 {
        self.walks().map(|walk| if walk.iter().nth(1).is_none() { 1 } else { events }).fold(0, u64::saturating_add)
    }

    fn walks(&self) -> impl Iterator<Item = &TagList> {
        self.items.iter().flat_map(|item| &item.walks)
    }
}

/// The most items of a query that are compared with each other.
const COMPARED_ITEMS_MAX: usize = 32;

/// The items without those of which another one selects every match anyway: projections of one
/// subject often ask for the same events.
fn necessary<'i, 'q>(items: &'i [QueryItem<'q>]) -> impl Iterator<Item = &'i QueryItem<'q>> {
    let compared = if items.len() <= COMPARED_ITEMS_MAX { items } else { &[] };
    let mut known = BTreeSet::new();
    items.iter().enumerate().filter_map(move |(index, item)| {
        // In a longer query, only equal items are dropped.
        if compared.is_empty() && !known.insert(item) {
            return None;
        }
        let mut others = compared.iter().enumerate().filter(|(other, _)| *other != index);
        // Of two items that select the same events, the first one stays.
        let is_covered = others.any(|(number, other)| covers(other, item) && (number < index || !covers(item, other)));
        (!is_covered).then_some(item)
    })
}

/// Whether one item selects all that another one does.
fn covers(item: &QueryItem<'_>, other: &QueryItem<'_>) -> bool {
    !item.only_last_event
        && item.tags.iter().all(|tag| other.tags.contains(tag))
        && (item.types.is_empty()
            || (!other.types.is_empty() && other.types.iter().all(|event_type| item.types.contains(event_type))))
}

/// Returns the place where a walk over a store's events after `after` begins; `None` when there are
/// none.
pub(crate) fn place_after(
    history: &dyn History,
    store: StoreNumber,
    after: EventPosition,
) -> Result<Option<Place>, ReadError> {
    place_behind(history, &TagList::of(Role::Store, store, b""), after)
}

fn place_behind(history: &dyn History, store: &TagList, after: EventPosition) -> Result<Option<Place>, ReadError> {
    if after == EventPosition::ZERO {
        return Ok(Some(Place::START));
    }
    Ok(history.seek(store.first(), after.next().sequence())?.map(|entry| entry.place))
}

impl SelectedItem {
    fn of(store: StoreNumber, item: &QueryItem<'_>) -> Self {
        let label_bytes: usize = item.tags.iter().map(|tag| tag.len()).sum();
        let mut tags = TagList::with_room(item.tags.len(), label_bytes);
        for tag in &item.tags {
            tags.push(Role::Tag, store, tag);
        }
        let walks = if !item.types.is_empty() {
            let of_type = |event_type: &[u8]| {
                let mut walk = tags.clone();
                walk.push(Role::Type, store, event_type);
                walk
            };
            item.types.iter().map(|event_type| of_type(event_type.as_bytes())).collect()
        } else if !item.tags.is_empty() {
            vec![tags]
        } else {
            vec![TagList::of(Role::Store, store, b"")]
        };
        SelectedItem { only_last_event: item.only_last_event, walks }
    }
}
