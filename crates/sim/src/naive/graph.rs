//! A graph as the list of all that ever happened to it: what it is like now, and what it was like, is told from the list.

use std::collections::{BTreeMap, BTreeSet};

use super::{Answer, Draft};

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    pub(crate) is_there: bool,
    changes: Vec<Change>,
    /// The first record as of which it can be read.
    pub(crate) from: u64,
    pub(super) kept_ms: Option<u64>,
    /// How many versions of a block are kept, however old, and how many at times.
    versions: u64,
    versions_min: Option<u64>,
}

/// Something that happened to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    pub(crate) record: u64,
    pub(super) time: u64,
    pub(crate) what: Changed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Changed {
    BlockPut { block: usize, version: u64, value: u64 },
    BlockDeleted { block: usize },
    EdgePut { source: usize, target: usize },
    EdgeDeleted { source: usize, target: usize },
}

impl Changed {
    /// The block that it puts or deletes.
    fn block(self) -> Option<usize> {
        match self {
            Changed::BlockPut { block, .. } | Changed::BlockDeleted { block } => Some(block),
            Changed::EdgePut { .. } | Changed::EdgeDeleted { .. } => None,
        }
    }
}

/// A graph after one of its changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// The version and value of each block.
    pub(crate) blocks: BTreeMap<usize, (u64, u64)>,
    pub(crate) edges: BTreeSet<(usize, usize)>,
    /// New blocks get the version behind it.
    deleted_version_max: u64,
}

impl Known {
    fn take(&mut self, what: Changed) {
        match what {
            Changed::BlockPut { block, version, value } => drop(self.blocks.insert(block, (version, value))),
            Changed::BlockDeleted { block } => {
                let (version, _) = self.blocks.remove(&block).expect("only what is there is deleted");
                self.deleted_version_max = self.deleted_version_max.max(version);
                self.edges.retain(|(source, target)| *source != block && *target != block);
            }
            Changed::EdgePut { source, target } => drop(self.edges.insert((source, target))),
            Changed::EdgeDeleted { source, target } => drop(self.edges.remove(&(source, target))),
        }
    }
}

impl Graph {
    /// As it was after a record.
    pub(crate) fn as_of(&self, record: u64) -> Known {
        let mut known = Known::default();
        self.changes.iter().take_while(|change| change.record <= record).for_each(|change| known.take(change.what));
        known
    }

    pub(crate) fn newest(&self) -> Known {
        self.as_of(u64::MAX)
    }

    /// Its changes from where its history begins on.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.record >= self.from)
    }

    /// The last change up to this record and before this time, if its history does not begin there or later.
    pub(super) fn last_before(&self, time: u64, record: u64) -> Option<u64> {
        let old = self.changes.iter().rfind(|change| change.record <= record && change.time < time);
        old.map(|change| change.record).filter(|record| *record > self.from)
    }

    /// The puts and deletions of a block that are told, newest first, as records and versions; and how many of them there must be, where a
    /// compaction may have taken what was kept no longer at some time.
    pub(crate) fn versions(&self, block: usize) -> (Vec<(u64, Option<u64>)>, usize) {
        let told = self.versions_kept(block, self.versions);
        let least = self.versions_kept(block, self.versions_min.unwrap_or_default()).len();
        (told, least)
    }

    fn versions_kept(&self, block: usize, count: u64) -> Vec<(u64, Option<u64>)> {
        let newest = self.newest().blocks.get(&block).map(|(version, _)| *version);
        let kept_from = newest.map_or(u64::MAX, |newest| newest.saturating_sub(count.max(1) - 1));
        let own: Vec<_> = self.changes.iter().filter(|change| change.what.block() == Some(block)).collect();
        let version = |change: &Change| match change.what {
            Changed::BlockPut { version, .. } => Some(version),
            _ => None,
        };
        let is_told = |at: usize| match version(own[at]) {
            _ if own[at].record >= self.from => true,
            None => false,
            Some(version_put) => {
                let newer = &own[at + 1..];
                let begins_with_it = newer.first().is_none_or(|newer| newer.record > self.from);
                begins_with_it || version_put >= kept_from && newer.iter().all(|newer| version(newer).is_some())
            }
        };
        let told = (0..own.len()).rev().take_while(|at| is_told(*at));
        told.map(|at| (own[at].record, version(own[at]))).collect()
    }
}

impl Draft {
    pub(super) fn put_block(&mut self, block: usize, must_be_new: bool, value: u64) -> Option<Answer> {
        let known = self.after.graph.newest();
        let found = known.blocks.get(&block).map(|(version, _)| *version);
        let version = found.unwrap_or(known.deleted_version_max) + 1;
        self.change(Changed::BlockPut { block, version, value });
        (!(must_be_new && found.is_some())).then_some(Answer::Was(found.is_some()))
    }

    pub(super) fn delete_block(&mut self, block: usize) -> Option<Answer> {
        let was = self.after.graph.newest().blocks.contains_key(&block);
        if was {
            self.change(Changed::BlockDeleted { block });
        }
        Some(Answer::Was(was))
    }

    pub(super) fn put_edge(&mut self, source: usize, target: usize) -> Option<Answer> {
        let known = self.after.graph.newest();
        [source, target].iter().all(|block| known.blocks.contains_key(block)).then_some(())?;
        self.change(Changed::EdgePut { source, target });
        Some(Answer::Was(known.edges.contains(&(source, target))))
    }

    pub(super) fn delete_edge(&mut self, source: usize, target: usize) -> Option<Answer> {
        let was = self.after.graph.newest().edges.contains(&(source, target));
        if was {
            self.change(Changed::EdgeDeleted { source, target });
        }
        Some(Answer::Was(was))
    }

    pub(super) fn keep_graph(&mut self, kept_ms: Option<u64>, versions: u64) -> Option<Answer> {
        let graph = &mut self.after.graph;
        graph.versions_min = Some(graph.versions_min.unwrap_or_default().min(versions));
        (graph.is_there, graph.kept_ms, graph.versions) = (true, kept_ms, versions);
        self.effects = true;
        Some(Answer::Done)
    }

    pub(super) fn trim_graph(&mut self, from: u64) -> Option<Answer> {
        (from <= self.record).then_some(())?;
        let graph = &mut self.after.graph;
        if graph.is_there && from > graph.from {
            graph.from = from;
            self.effects = true;
        }
        Some(Answer::Starts(graph.from))
    }

    fn change(&mut self, what: Changed) {
        self.effects = true;
        self.after.graph.is_there = true;
        self.after.graph.changes.push(Change { record: self.record, time: self.now, what });
    }
}
