//! The neighbours of a block, lazily and in a defined order.
//!
//! The order: outgoing edges before incoming ones, then edge types in the order in which the graph
//! first saw them, then the id of the block at the other end. It does not depend on the times of
//! puts, so the next page continues correctly after the last neighbour, even when edges change in
//! between. Nothing here reads the log.

use alloc::vec::Vec;

use crate::adjacency::Hops;
use crate::names::narrow;
use crate::{BlockId, Direction, End, Graph};

/// A block at the other end of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbour<'a> {
    /// The block. It may be missing when the edge was put with `allow_missing`.
    pub block: BlockId,
    /// The type of the edge.
    pub edge_type: &'a str,
    /// The end of the edge at which the neighbour is: the target of an outgoing edge, the source of
    /// an incoming one.
    pub end: End,
}

impl Graph {
    /// Returns the neighbours of a block, one for each edge. So the same block can occur several
    /// times, and a block with an edge to itself is its own neighbour, in both directions. A
    /// missing block may have edges that were put with `allow_missing`.
    ///
    /// `edge_types`: only along edges of these types; an empty list means every type. A type that
    /// the graph never saw has no edges. `after`: only neighbours after this one, which may have
    /// been deleted.
    #[inline]
    pub fn neighbours<'a>(
        &'a self,
        block: BlockId,
        direction: Direction,
        edge_types: &[&str],
        after: Option<Neighbour<'_>>,
    ) -> impl Iterator<Item = Neighbour<'a>> + use<'a> {
        let after = after.map(|after| {
            // No edges follow a type that the graph does not know.
            let edge_type = self.edge_types.number(after.edge_type).map(narrow);
            (after.end, edge_type.map_or((u16::MAX, BlockId::MAX), |edge_type| (edge_type, after.block)))
        });
        let ends: &[End] = match (after, direction) {
            (Some((End::Source, _)), Direction::Outgoing) => &[],
            (Some((End::Source, _)), _) => &[End::Source],
            _ => direction.ends(),
        };
        let after = after.filter(|(end, _)| ends.first() == Some(end)).map(|(_, edge)| edge);
        let slot = self.adjacency.slot(block);
        let (slot, ends) = slot.map_or((0, [].as_slice()), |slot| (slot, ends));
        Neighbours { graph: self, types: self.types(edge_types), slot, ends, range: 0, after, hops: None }
    }

    /// Returns the number of neighbours that [`Graph::neighbours`] would return, without reading
    /// any.
    pub fn degree(&self, block: BlockId, direction: Direction, edge_types: &[&str]) -> usize {
        let Some(slot) = self.adjacency.slot(block) else { return 0 };
        let types = self.types(edge_types);
        let count = |end: &End| types.ranges().map(|types| self.adjacency.degree(slot, *end, types)).sum::<usize>();
        direction.ends().iter().map(count).sum()
    }

    /// The numbers of these edge types; none at all means every type.
    #[inline]
    pub(crate) fn types(&self, names: &[&str]) -> Types {
        match names {
            [] => Types::Every,
            [name] => Types::One(self.edge_types.number(name).map(narrow)),
            names => {
                let mut numbers: Vec<u16> =
                    names.iter().filter_map(|name| self.edge_types.number(name).map(narrow)).collect();
                numbers.sort_unstable();
                numbers.dedup();
                Types::Several(numbers)
            }
        }
    }
}

/// The requested edge types, by their numbers in a graph. Most requests need no allocation.
#[derive(Debug, Clone)]
pub(crate) enum Types {
    Every,
    /// `None` for a type that the graph does not know.
    One(Option<u16>),
    /// In order, each once.
    Several(Vec<u16>),
}

impl Types {
    /// Returns the number of ranges of types.
    pub(crate) fn len(&self) -> usize {
        match self {
            Types::Every => 1,
            Types::One(number) => usize::from(number.is_some()),
            Types::Several(numbers) => numbers.len(),
        }
    }

    /// Disjoint ascending ranges, from first to last type.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u16, u16)> {
        (0..).map_while(|index| self.range(index))
    }

    /// The range with this index.
    #[inline]
    pub(crate) fn range(&self, index: usize) -> Option<(u16, u16)> {
        let one = |number: u16| (number, number);
        match self {
            Types::Every => (index == 0).then_some((u16::MIN, u16::MAX)),
            Types::One(number) => number.filter(|_| index == 0).map(one),
            Types::Several(numbers) => numbers.get(index).copied().map(one),
        }
    }

    /// Whether a type is requested.
    pub(crate) fn contains(&self, number: u16) -> bool {
        match self {
            Types::Every => true,
            Types::One(asked) => *asked == Some(number),
            Types::Several(numbers) => numbers.binary_search(&number).is_ok(),
        }
    }
}

/// See [`Graph::neighbours`]: the edges at each end, in each range of types, in order.
struct Neighbours<'a> {
    graph: &'a Graph,
    types: Types,
    slot: u32,
    /// The current end, and the ends after it.
    ends: &'static [End],
    /// The next range of types.
    range: usize,
    /// The edge of the first end after which to begin.
    after: Option<(u16, BlockId)>,
    /// The edges of the range before that one.
    hops: Option<Hops<'a>>,
}

impl<'a> Iterator for Neighbours<'a> {
    type Item = Neighbour<'a>;

    #[inline]
    fn next(&mut self) -> Option<Neighbour<'a>> {
        let adjacency = &self.graph.adjacency;
        loop {
            let end = *self.ends.first()?;
            if let Some(hop) = self.hops.as_mut().and_then(Iterator::next) {
                let edge_type = self.graph.edge_types.name(u32::from(hop.edge_type));
                return Some(Neighbour { block: adjacency.id(hop.far), edge_type, end });
            }
            self.hops = match self.types.range(self.range) {
                Some((_, last)) if self.after.is_some_and(|(after, _)| after > last) => None,
                Some(range) => Some(adjacency.hops(self.slot, end, range, self.after)),
                None => {
                    (self.ends, self.range, self.after) = (&self.ends[1..], 0, None);
                    continue;
                }
            };
            self.range += 1;
        }
    }
}
