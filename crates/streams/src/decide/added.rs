//! The additions of a commit to the state, for decisions on its later commands.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use quire_model::Sequence;

use crate::catalogue::Catalogue;
use crate::producers::Window;
use crate::roster::Roster;
use crate::{Generation, GroupId, KeptSettings, ProducerId, TopicId, TopicSettings};

/// See the module.
#[derive(Debug)]
pub(crate) struct CommitAdditions<'c> {
    pub(crate) topics: NewNames<'c, TopicShape>,
    /// The topics that were there and are changed.
    pub(crate) altered: BTreeMap<TopicId, TopicShape>,
    /// The ends of the partitions that this commit produces to, when a command of it may ask for
    /// them.
    pub(crate) ends: BTreeMap<(TopicId, u32), Sequence>,
    /// The new first offsets of partitions whose records this commit deletes.
    pub(crate) starts: BTreeMap<(TopicId, u32), Sequence>,
    pub(crate) groups: NewNames<'c, ()>,
    pub(crate) generations: BTreeMap<GroupId, Generation>,
    /// Whether the generation that this commit begins has members.
    pub(crate) generation_has_members: BTreeMap<GroupId, bool>,
    /// The batches of idempotent producers in this commit, and the windows that they extend.
    pub(crate) windows: BTreeMap<(ProducerId, TopicId, u32), Window>,
    pub(crate) producers_given: u64,
    /// The rosters that this commit changes, as it leaves them.
    pub(crate) rosters: BTreeMap<(GroupId, TopicId), Roster>,
    pub(crate) members_given: u64,
    /// The offsets that it commits, when a later command may read them.
    pub(crate) offsets: BTreeMap<(GroupId, TopicId, u32), Option<Sequence>>,
    pub(crate) protections: BTreeMap<(GroupId, TopicId), bool>,
}

/// The properties of a topic that decisions need.
#[derive(Debug, Clone)]
pub(crate) struct TopicShape {
    pub(crate) partitions: u32,
    pub(crate) settings: TopicSettings,
    pub(crate) kept: KeptSettings,
}

impl CommitAdditions<'_> {
    /// The additions of a commit without commands.
    pub(crate) const NOTHING: &'static CommitAdditions<'static> = &CommitAdditions::new();

    const fn new() -> Self {
        CommitAdditions {
            topics: NewNames::new(),
            altered: BTreeMap::new(),
            ends: BTreeMap::new(),
            starts: BTreeMap::new(),
            groups: NewNames::new(),
            generations: BTreeMap::new(),
            generation_has_members: BTreeMap::new(),
            windows: BTreeMap::new(),
            producers_given: 0,
            rosters: BTreeMap::new(),
            members_given: 0,
            offsets: BTreeMap::new(),
            protections: BTreeMap::new(),
        }
    }
}

impl Default for CommitAdditions<'_> {
    fn default() -> Self {
        CommitAdditions::new()
    }
}

/// The additions of the commit to a catalogue: ids continue after those of the catalogue.
#[derive(Debug)]
pub(crate) struct NewNames<'c, T> {
    ids: BTreeMap<&'c str, u32>,
    things: Vec<T>,
    /// The ids that the commit deletes, from the catalogue or from its own additions.
    pub(crate) gone: BTreeSet<u32>,
}

impl<'c, T> NewNames<'c, T> {
    const fn new() -> Self {
        NewNames { ids: BTreeMap::new(), things: Vec::new(), gone: BTreeSet::new() }
    }

    pub(crate) fn id<K>(&self, name: &str, catalogue: &Catalogue<K>) -> Option<u32> {
        let newest = self.ids.get(name).copied().or_else(|| catalogue.id(name));
        newest.filter(|id| !self.gone.contains(id))
    }

    pub(crate) fn get<K>(&self, id: u32, catalogue: &Catalogue<K>) -> Option<&T> {
        self.things.get(id.checked_sub(catalogue.next_id())? as usize)
    }

    /// The name of one of the additions.
    pub(crate) fn name(&self, id: u32) -> Option<&'c str> {
        self.ids.iter().find(|(_, known)| **known == id).map(|(name, _)| *name)
    }

    pub(crate) fn next_id<K>(&self, catalogue: &Catalogue<K>) -> u32 {
        catalogue.next_id() + self.things.len() as u32
    }

    pub(crate) fn add<K>(&mut self, name: &'c str, thing: T, catalogue: &Catalogue<K>) -> u32 {
        let id = self.next_id(catalogue);
        self.ids.insert(name, id);
        self.things.push(thing);
        id
    }
}
