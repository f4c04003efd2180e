//! A graph made of a map and a list.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quire::graph::BlockId;

use crate::steps::{Step, TYPES};

/// Everything that one read returns of a graph:
///
/// * Each block's version and content.
/// * Each block's edges, incoming or not, with their types and far blocks.
/// * A walk breadth first from the first block, with depths.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) blocks: Vec<Option<(u64, String)>>,
    pub(crate) neighbours: Vec<Vec<(bool, String, usize)>>,
    pub(crate) walk: Vec<(usize, usize)>,
}

/// A number that distinguishes one read from all others (FNV-1a, by Fowler, Noll and Vo).
pub(crate) fn digest(shown: &Shown) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{shown:?}").bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// See the module.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Naive {
    blocks: BTreeMap<usize, (u64, String)>,
    /// Source, type, target.
    edges: BTreeSet<(usize, usize, usize)>,
    /// Types in the order of their first use.
    types: Vec<usize>,
    deleted_version_max: u64,
}

impl Naive {
    /// Carries out a step that is accepted. Returns its reply.
    pub(crate) fn take(&mut self, step: &Step) -> String {
        match step {
            Step::PutBlock { block, content, .. } => {
                let before = self.blocks.get(block).map(|(version, _)| *version);
                let version = before.unwrap_or(self.deleted_version_max) + 1;
                self.blocks.insert(*block, (version, content.clone()));
                format!("put:{version}:{}", before.is_none())
            }
            Step::DeleteBlock { block } => {
                let Some((version, _)) = self.blocks.remove(block) else { return "deleted:0".to_owned() };
                self.edges.retain(|(source, _, target)| source != block && target != block);
                self.deleted_version_max = self.deleted_version_max.max(version);
                format!("deleted:{version}")
            }
            Step::PutEdge { source, edge_type, target, .. } => {
                if !self.types.contains(edge_type) {
                    self.types.push(*edge_type);
                }
                format!("edge:{}", self.edges.insert((*source, *edge_type, *target)))
            }
            Step::DeleteEdge { source, edge_type, target } => {
                format!("no-edge:{}", self.edges.remove(&(*source, *edge_type, *target)))
            }
        }
    }

    /// Whether a step is accepted.
    pub(crate) fn accepts(&self, step: &Step) -> bool {
        match step {
            Step::PutBlock { block, expect, .. } => {
                expect.is_none_or(|expect| expect == self.blocks.get(block).map_or(0, |(version, _)| *version))
            }
            Step::PutEdge { source, target, allow_missing, .. } => {
                *allow_missing || (self.blocks.contains_key(source) && self.blocks.contains_key(target))
            }
            Step::DeleteBlock { .. } | Step::DeleteEdge { .. } => true,
        }
    }

    pub(crate) fn shown(&self, names: &[String]) -> Shown {
        let blocks: Vec<_> = (0..names.len()).map(|block| self.blocks.get(&block).cloned()).collect();
        let neighbours = |block: usize| {
            let of_end = |is_source: bool| self.far(block, is_source, names).into_iter();
            let both =
                [false, true].into_iter().flat_map(|is_source| of_end(is_source).map(move |far| (is_source, far)));
            both.map(|(is_source, (edge_type, far))| (is_source, TYPES[edge_type].to_owned(), far)).collect()
        };
        let walk = self.blocks.keys().next().map_or(Vec::new(), |start| self.walk(*start, names));
        Shown { blocks, neighbours: (0..names.len()).map(neighbours).collect(), walk }
    }

    /// Types and far blocks of a block's edges at one end, in the order that is promised.
    fn far(&self, block: usize, is_source: bool, names: &[String]) -> Vec<(usize, usize)> {
        let near_and_far = |(source, edge_type, target): &(usize, usize, usize)| match is_source {
            true => (*target, *edge_type, *source),
            false => (*source, *edge_type, *target),
        };
        let edges = self.edges.iter().map(near_and_far).filter(|(near, ..)| *near == block);
        let mut far: Vec<(usize, usize)> = edges.map(|(_, edge_type, far)| (edge_type, far)).collect();
        let rank = |edge_type: usize| self.types.iter().position(|seen| *seen == edge_type);
        far.sort_by_key(|(edge_type, far)| (rank(*edge_type), BlockId::of_name(&names[*far])));
        far
    }

    fn walk(&self, start: usize, names: &[String]) -> Vec<(usize, usize)> {
        let (mut seen, mut queue, mut visits) = (BTreeSet::from([start]), VecDeque::from([(start, 0)]), Vec::new());
        while let Some((block, depth)) = queue.pop_front() {
            visits.push((block, depth));
            for (_, far) in self.far(block, false, names) {
                if seen.insert(far) {
                    queue.push_back((far, depth + 1));
                }
            }
        }
        visits
    }
}
