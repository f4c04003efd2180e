//! Named objects with ids. Ids ascend from 0, and the id of a deleted object is never given again.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::ops::Bound;

/// Named things in the order of their creation.
#[derive(Debug)]
pub(crate) struct Catalogue<T> {
    next_id: u32,
    things: BTreeMap<u32, (Arc<str>, T)>,
    ids: BTreeMap<Arc<str>, u32>,
}

impl<T> Default for Catalogue<T> {
    fn default() -> Self {
        Catalogue { next_id: 0, things: BTreeMap::new(), ids: BTreeMap::new() }
    }
}

impl<T> Catalogue<T> {
    /// The id that the next thing gets.
    pub(crate) fn next_id(&self) -> u32 {
        self.next_id
    }

    /// Returns the number of things.
    pub(crate) fn len(&self) -> usize {
        self.things.len()
    }

    /// Adds a thing with this id, which is the next or a later one.
    ///
    /// # Panics
    /// When the id or the name is in use: `decide` checks both first.
    pub(crate) fn add(&mut self, id: u32, name: &str, thing: T) {
        assert!(id >= self.next_id, "ids ascend: {id} follows {}", self.next_id);
        self.next_id = id.checked_add(1).expect("fewer than four billion names");
        let name: Arc<str> = Arc::from(name);
        let taken = self.ids.insert(Arc::clone(&name), id);
        assert_eq!(taken, None, "the name {name:?} is given once");
        self.things.insert(id, (name, thing));
    }

    /// Continues with the id `next_id`, when all things with lower ids are deleted.
    pub(crate) fn skip_to(&mut self, next_id: u32) {
        self.next_id = self.next_id.max(next_id);
    }

    /// Takes a thing out. Its name is free again, its id is not.
    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let (name, thing) = self.things.remove(&id)?;
        self.ids.remove(&name);
        Some(thing)
    }

    /// The id of the thing with this name.
    pub(crate) fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// The thing with this id, and its name.
    pub(crate) fn get(&self, id: u32) -> Option<(&str, &T)> {
        self.things.get(&id).map(|(name, thing)| (&**name, thing))
    }

    /// The thing with this id.
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.things.get_mut(&id).map(|(_, thing)| thing)
    }

    /// Everything in the order of the ids: id, name, thing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &str, &T)> {
        self.things.iter().map(|(id, (name, thing))| (*id, &**name, thing))
    }

    /// The ids in the order of the names.
    pub(crate) fn ids_by_name(&self) -> impl Iterator<Item = u32> {
        self.ids.values().copied()
    }

    /// The ids in the order of the names, from `name` on, which need not exist.
    pub(crate) fn ids_from(&self, name: &str) -> impl Iterator<Item = u32> {
        self.ids.range::<str, _>((Bound::Included(name), Bound::Unbounded)).map(|(_, id)| *id)
    }
}
