//! A graph as the list of its changes, from which its current and earlier states are computed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, NaiveReply};

/// The graph; see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    pub(crate) is_there: bool,
    changes: Vec<NaiveChange>,
    /// The first record at which it can be read.
    pub(crate) from: u64,
    pub(super) kept_ms: Option<u64>,
    /// The number of versions of a block that are kept, and the retention in time.
    versions: u64,
    versions_min: Option<u64>,
}

/// A change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NaiveChange {
    pub(crate) record: u64,
    pub(super) time: u64,
    pub(crate) what: NaiveEffect,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum NaiveEffect {
    BlockPut { block: usize, version: u64, value: u64 },
    BlockDeleted { block: usize },
    EdgePut { source: usize, target: usize },
    EdgeDeleted { source: usize, target: usize },
}

impl NaiveEffect {
    /// The block that it puts or deletes.
    fn block(self) -> Option<usize> {
        match self {
            NaiveEffect::BlockPut { block, .. } | NaiveEffect::BlockDeleted { block } => Some(block),
            NaiveEffect::EdgePut { .. } | NaiveEffect::EdgeDeleted { .. } => None,
        }
    }
}

/// A graph after one of its changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NaiveGraphState {
    /// The version and value of each block.
    pub(crate) blocks: BTreeMap<usize, (u64, u64)>,
    pub(crate) edges: BTreeSet<(usize, usize)>,
    /// New blocks get the next version.
    deleted_version_max: u64,
}

impl NaiveGraphState {
    fn take(&mut self, what: NaiveEffect) {
        match what {
            NaiveEffect::BlockPut { block, version, value } => drop(self.blocks.insert(block, (version, value))),
            NaiveEffect::BlockDeleted { block } => {
                let (version, _) = self.blocks.remove(&block).expect("only an existing block is deleted");
                self.deleted_version_max = self.deleted_version_max.max(version);
                self.edges.retain(|(source, target)| *source != block && *target != block);
            }
            NaiveEffect::EdgePut { source, target } => drop(self.edges.insert((source, target))),
            NaiveEffect::EdgeDeleted { source, target } => drop(self.edges.remove(&(source, target))),
        }
    }
}

impl Graph {
    /// Its state as of a record.
    pub(crate) fn as_of(&self, record: u64) -> NaiveGraphState {
        let mut known = NaiveGraphState::default();
        self.changes.iter().take_while(|change| change.record <= record).for_each(|change| known.take(change.what));
        known
    }

    pub(crate) fn newest(&self) -> NaiveGraphState {
        self.as_of(u64::MAX)
    }

    /// Its changes from the start of its history.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &NaiveChange> {
        self.changes.iter().filter(|change| change.record >= self.from)
    }

    /// The last change up to this record and before this time, unless the history begins there or
    /// later.
    pub(super) fn last_before(&self, time: u64, record: u64) -> Option<u64> {
        let old = self.changes.iter().rfind(|change| change.record <= record && change.time < time);
        old.map(|change| change.record).filter(|record| *record > self.from)
    }

    /// The puts and deletions of a block, newest first, as records and versions. The second value
    /// is the number that must be returned; a compaction may have removed the others.
    pub(crate) fn versions(&self, block: usize) -> (Vec<(u64, Option<u64>)>, usize) {
        let told = self.versions_kept(block, self.versions);
        let least = self.versions_kept(block, self.versions_min.unwrap_or_default()).len();
        (told, least)
    }

    fn versions_kept(&self, block: usize, count: u64) -> Vec<(u64, Option<u64>)> {
        let newest = self.newest().blocks.get(&block).map(|(version, _)| *version);
        let kept_from = newest.map_or(u64::MAX, |newest| newest.saturating_sub(count.max(1) - 1));
        let own: Vec<_> = self.changes.iter().filter(|change| change.what.block() == Some(block)).collect();
        let version = |change: &NaiveChange| match change.what {
            NaiveEffect::BlockPut { version, .. } => Some(version),
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
    pub(super) fn put_block(&mut self, block: usize, must_be_new: bool, value: u64) -> Option<NaiveReply> {
        let known = self.after.graph.newest();
        let found = known.blocks.get(&block).map(|(version, _)| *version);
        let version = found.unwrap_or(known.deleted_version_max) + 1;
        self.change(NaiveEffect::BlockPut { block, version, value });
        (!(must_be_new && found.is_some())).then_some(NaiveReply::Was(found.is_some()))
    }

    pub(super) fn delete_block(&mut self, block: usize) -> Option<NaiveReply> {
        let was = self.after.graph.newest().blocks.contains_key(&block);
        if was {
            self.change(NaiveEffect::BlockDeleted { block });
        }
        Some(NaiveReply::Was(was))
    }

    pub(super) fn put_edge(&mut self, source: usize, target: usize) -> Option<NaiveReply> {
        let known = self.after.graph.newest();
        [source, target].iter().all(|block| known.blocks.contains_key(block)).then_some(())?;
        self.change(NaiveEffect::EdgePut { source, target });
        Some(NaiveReply::Was(known.edges.contains(&(source, target))))
    }

    pub(super) fn delete_edge(&mut self, source: usize, target: usize) -> Option<NaiveReply> {
        let was = self.after.graph.newest().edges.contains(&(source, target));
        if was {
            self.change(NaiveEffect::EdgeDeleted { source, target });
        }
        Some(NaiveReply::Was(was))
    }

    pub(super) fn keep_graph(&mut self, kept_ms: Option<u64>, versions: u64) -> Option<NaiveReply> {
        let graph = &mut self.after.graph;
        graph.versions_min = Some(graph.versions_min.unwrap_or_default().min(versions));
        (graph.is_there, graph.kept_ms, graph.versions) = (true, kept_ms, versions);
        self.effects = true;
        Some(NaiveReply::Done)
    }

    pub(super) fn trim_graph(&mut self, from: u64) -> Option<NaiveReply> {
        (from <= self.record).then_some(())?;
        let graph = &mut self.after.graph;
        if graph.is_there && from > graph.from {
            graph.from = from;
            self.effects = true;
        }
        Some(NaiveReply::Starts(graph.from))
    }

    fn change(&mut self, what: NaiveEffect) {
        self.effects = true;
        self.after.graph.is_there = true;
        self.after.graph.changes.push(NaiveChange { record: self.record, time: self.now, what });
    }
}
