//! Things with a name and a dense id: the id is the index in a list that only grows.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Named things in the order of their creation.
#[derive(Debug)]
pub(crate) struct Catalogue<T> {
    things: Vec<(Arc<str>, T)>,
    ids: BTreeMap<Arc<str>, u32>,
}

impl<T> Default for Catalogue<T> {
    fn default() -> Self {
        Catalogue { things: Vec::new(), ids: BTreeMap::new() }
    }
}

impl<T> Catalogue<T> {
    /// The id that the next thing gets.
    pub(crate) fn next_id(&self) -> u32 {
        u32::try_from(self.things.len()).expect("fewer than four billion names")
    }

    /// Adds a thing.
    ///
    /// # Panics
    /// When the name is taken: `decide` looks first.
    pub(crate) fn add(&mut self, name: &str, thing: T) {
        let id = self.next_id();
        let name: Arc<str> = Arc::from(name);
        let taken = self.ids.insert(Arc::clone(&name), id);
        assert_eq!(taken, None, "the name {name:?} is given once");
        self.things.push((name, thing));
    }

    /// The id of the thing with this name.
    pub(crate) fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// The thing with this id, and its name.
    pub(crate) fn get(&self, id: u32) -> Option<(&str, &T)> {
        self.things.get(id as usize).map(|(name, thing)| (&**name, thing))
    }

    /// The thing with this id.
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.things.get_mut(id as usize).map(|(_, thing)| thing)
    }

    /// Everything in the order of the ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.things.iter().map(|(name, thing)| (&**name, thing))
    }

    /// The ids in the order of the names.
    pub(crate) fn ids_by_name(&self) -> impl Iterator<Item = u32> {
        self.ids.values().copied()
    }
}
