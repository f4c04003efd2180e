//! The neighbours of a block, lazily and in a defined order.
//!
//! The order: outgoing edges before incoming ones, then edge types in the order in which the graph first saw them, then
//! the id of the block at the other end. It does not depend on when edges were put, so a page that ends at a neighbour
//! goes on behind it, also when edges come and go in between. Nothing here reads the log.

use alloc::vec::Vec;

use crate::apply::narrow;
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
        let slot = self.adjacency.slot(block);
        let after = after.map(|after| {
            // Behind a type that the graph never saw there is nothing.
            let edge_type = self.edge_types.number(after.edge_type).map(narrow);
            (after.end, edge_type.map_or((u16::MAX, BlockId::MAX), |edge_type| (edge_type, after.block)))
        });
        let ends = direction.ends().iter().filter_map(move |end| match after {
            Some((End::Source, _)) if *end == End::Target => None,
            Some((side, edge)) if *end == side => Some((*end, Some(edge))),
            _ => Some((*end, None)),
        });
        let ends = slot.into_iter().flat_map(move |slot| ends.clone().map(move |(end, after)| (slot, end, after)));
        ends.flat_map(move |(slot, end, after)| {
            let types =
                types.clone().into_iter().filter(move |(_, last)| after.is_none_or(|(after, _)| after <= *last));
            types.flat_map(move |types| {
                self.adjacency.hops(slot, end, types, after).map(move |hop| Neighbour {
                    block: self.adjacency.id(hop.far),
                    edge_type: self.edge_types.name(u32::from(hop.edge_type)),
                    end,
                })
            })
        })
    }

    /// How many neighbours [`Graph::neighbours`] would give. Looks at none of them.
    pub fn degree(&self, block: BlockId, direction: Direction, edge_types: &[&str]) -> usize {
        let Some(slot) = self.adjacency.slot(block) else { return 0 };
        let types = self.type_ranges(edge_types);
        let count = |end: &End| types.iter().map(|types| self.adjacency.degree(slot, *end, *types)).sum::<usize>();
        direction.ends().iter().map(count).sum()
    }

    /// The numbers of these edge types as disjoint ascending ranges, from first to last.
    pub(crate) fn type_ranges(&self, edge_types: &[&str]) -> Vec<(u16, u16)> {
        if edge_types.is_empty() {
            return [(u16::MIN, u16::MAX)].into();
        }
        let mut numbers: Vec<u16> =
            edge_types.iter().filter_map(|name| self.edge_types.number(name).map(narrow)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| (number, number)).collect()
    }
}
