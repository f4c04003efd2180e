//! The neighbours of a block, lazily and in a defined order.
//!
//! The order: outgoing edges before incoming ones, then edge types in the order in which the graph first saw them, then
//! the id of the block at the other end. It does not depend on when edges were put, so a page that ends at a neighbour
//! goes on behind it, also when edges come and go in between. Nothing here reads the log.

use alloc::collections::{btree_map, btree_set};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Included};

use quire_model::Place;

use crate::codec::EdgeKey;
use crate::{BlockId, Graph};

/// Which way to follow edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From source to target.
    Outgoing,
    /// From target to source.
    Incoming,
    /// First from source to target, then from target to source.
    Both,
}

impl Direction {
    /// Where neighbours in this direction stand on their edges.
    pub(crate) const fn ends(self) -> &'static [End] {
        match self {
            Direction::Outgoing => &[End::Target],
            Direction::Incoming => &[End::Source],
            Direction::Both => &[End::Target, End::Source],
        }
    }
}

/// One of the two ends of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Where it leaves.
    Source,
    /// Where it arrives.
    Target,
}

/// A block at the other end of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbour<'a> {
    /// The block. It may be missing when the edge was put with `allow_missing`.
    pub block: BlockId,
    /// The type of the edge.
    pub edge_type: &'a str,
    /// Which end of the edge the neighbour is: the target of an outgoing edge, the source of an incoming one.
    pub end: End,
}

impl Graph {
    /// The neighbours of a block: one for each edge, so the same block can come several times, and a block with an edge
    /// to itself is its own neighbour, in both directions. A block that is not there has the edges that were put with
    /// `allow_missing`, if any.
    ///
    /// `edge_types`: only along edges of these types; none at all means of every type. A type that the graph never saw has
    /// no edges. `after`: only what comes behind this one; the neighbour need not be there any more.
    pub fn neighbours<'a>(
        &'a self,
        block: BlockId,
        direction: Direction,
        edge_types: &[&str],
        after: Option<Neighbour<'_>>,
    ) -> impl Iterator<Item = Neighbour<'a>> + use<'a> {
        let types = self.type_ranges(edge_types);
        let after = after.map(|after| {
            // Behind a type that the graph never saw there is nothing.
            let edge_type = self.edge_types.number(after.edge_type).unwrap_or(u32::MAX);
            (after.end, EdgeKey { near: block, edge_type, far: after.block })
        });
        let ends = direction.ends().iter().filter_map(move |end| match after {
            Some((End::Source, _)) if *end == End::Target => None,
            Some((side, key)) if *end == side => Some((*end, Some(key))),
            _ => Some((*end, None)),
        });
        ends.flat_map(move |(end, after)| {
            types.clone().into_iter().flat_map(move |types| {
                self.hops(block, end, types, after).map(move |key| {
                    let edge_type = self.edge_types.name(key.edge_type);
                    Neighbour { block: key.far, edge_type, end }
                })
            })
        })
    }

    /// How many neighbours [`Graph::neighbours`] would give. Takes time in their number.
    pub fn degree(&self, block: BlockId, direction: Direction, edge_types: &[&str]) -> usize {
        let types = self.type_ranges(edge_types);
        let count = |end: &End| types.iter().map(|types| self.hops(block, *end, *types, None).count()).sum::<usize>();
        direction.ends().iter().map(count).sum()
    }

    /// The numbers of these edge types as disjoint ascending ranges.
    pub(crate) fn type_ranges(&self, edge_types: &[&str]) -> Vec<TypeRange> {
        if edge_types.is_empty() {
            return [TypeRange { first: 0, last: u32::MAX }].into();
        }
        let mut numbers: Vec<u32> = edge_types.iter().filter_map(|name| self.edge_types.number(name)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| TypeRange { first: number, last: number }).collect()
    }

    /// The edges of a block whose other block is this end of them, of these types, behind `after`.
    pub(crate) fn hops(&self, near: BlockId, end: End, types: TypeRange, after: Option<EdgeKey>) -> Hops<'_> {
        let first = EdgeKey { near, edge_type: types.first, far: BlockId::MIN };
        let last = EdgeKey { near, edge_type: types.last, far: BlockId::MAX };
        let from = match after {
            // The range of the map must not end before it begins.
            Some(after) if after >= last => return Hops::None,
            Some(after) if after >= first => Excluded(after),
            _ => Included(first),
        };
        match end {
            End::Target => Hops::Outgoing(self.outgoing.range((from, Included(last)))),
            End::Source => Hops::Incoming(self.incoming.range((from, Included(last)))),
        }
    }
}

/// Edge types by number, from `first` to `last`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeRange {
    first: u32,
    last: u32,
}

/// Edges of one block, seen from it.
pub(crate) enum Hops<'a> {
    Outgoing(btree_map::Range<'a, EdgeKey, Place>),
    Incoming(btree_set::Range<'a, EdgeKey>),
    None,
}

impl<'a> Iterator for Hops<'a> {
    type Item = &'a EdgeKey;

    fn next(&mut self) -> Option<&'a EdgeKey> {
        match self {
            Hops::Outgoing(keys) => keys.next().map(|(key, _)| key),
            Hops::Incoming(keys) => keys.next(),
            Hops::None => None,
        }
    }
}
