//! The plan of a walk: its direction, its results, and its bounds.

use quire_model::{History, ReadError, steps_of_parsing};

use crate::{Block, BlockId, Direction};

/// In which order a walk visits blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraversalOrder {
    /// By distance from the start; at the same distance by when the block before it on the way was
    /// visited; then in the order of that block's neighbours.
    BreadthFirst,
    /// A block, then everything after its first neighbour, then everything after its second:
    /// preorder, each block once, when the walk first reaches it. Depth and step are those of the
    /// path that the walk took, which need not be a shortest one. The walk turns round at
    /// [`WalkPlan::depth_max`] and does not expand a block twice. So a bound on depth may leave out
    /// a block that is near on another path only, and [`WalkBound::Depth`] then reports that.
    DepthFirst,
}

/// The plan of a walk: its directions and its limits.
#[derive(Debug, Clone, Copy)]
pub struct WalkPlan<'p> {
    /// In which order.
    pub order: TraversalOrder,
    /// The direction in which edges are followed.
    pub direction: Direction,
    /// Only along edges of these types; none at all means of every type.
    pub edge_types: &'p [&'p str],
    /// The filter of returned blocks. Starts are returned in any case.
    pub filter: BlockFilter<'p>,
    /// Another block that the filter does not bear on, as the starts: where ways end.
    pub exempt: Option<BlockId>,
    /// Whether to continue from blocks that are not returned.
    pub through_others: bool,
    /// Whether to visit missing blocks: ends of edges that were put with `allow_missing`. `false`
    /// excludes these blocks and the paths through them.
    pub with_missing: bool,
    /// Whether to give the edges between the blocks that are given, too. Breadth first only.
    pub with_edges: bool,
    /// The most edges between a start and a visited block.
    pub depth_max: usize,
    /// The most visited blocks, including the starts. It bounds the memory of a breadth-first walk
    /// at 32 bytes a block. A depth-first walk also remembers all neighbours of visited blocks.
    pub visited_max: usize,
    /// The most returned blocks.
    pub results_max: usize,
}

impl Default for WalkPlan<'_> {
    /// Breadth first along outgoing edges of every type, 10 edges away and 10,000 blocks at most.
    fn default() -> Self {
        WalkPlan {
            order: TraversalOrder::BreadthFirst,
            direction: Direction::Outgoing,
            edge_types: &[],
            filter: BlockFilter::default(),
            exempt: None,
            through_others: true,
            with_missing: true,
            with_edges: false,
            depth_max: 10,
            visited_max: 10_000,
            results_max: usize::MAX,
        }
    }
}

/// A filter of blocks. A block matches when it meets every given condition. A missing block matches
/// only the empty filter.
#[derive(Clone, Copy, Default)]
pub struct BlockFilter<'p> {
    /// The kinds; an empty list accepts every kind.
    pub kinds: &'p [&'p str],
    /// With all of these tags. Reads the block's entry in the log.
    pub tags: &'p [&'p str],
    /// A test of the block, for example of its metadata. Reads the block's entry in the log.
    pub test: Option<&'p (dyn Fn(&Block<'_>) -> bool + Sync)>,
    /// How many times the test parses the metadata of a block. Each claims steps by the length of
    /// the metadata.
    pub test_parses: u64,
}

impl BlockFilter<'_> {
    /// Whether nothing is said, so that every block matches.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && !self.reads()
    }

    /// Whether the block's entry has to be read.
    pub(crate) fn reads(&self) -> bool {
        !self.tags.is_empty() || self.test.is_some()
    }

    /// Whether a block matches.
    pub fn matches(&self, block: &Block<'_>) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.contains(&block.kind);
        kind && self.has_tags(block) && self.test.is_none_or(|test| test(block))
    }

    /// Whether a block of a matching kind matches. Claims the steps of the test first.
    pub(crate) fn matches_beyond_kind(&self, block: &Block<'_>, history: &dyn History) -> Result<bool, ReadError> {
        if !self.has_tags(block) {
            return Ok(false);
        }
        let Some(test) = self.test else { return Ok(true) };
        let steps = self.test_parses.saturating_mul(steps_of_parsing(block.metadata.len()));
        if steps > 0 {
            history.claim(steps)?;
        }
        Ok(test(block))
    }

    fn has_tags(&self, block: &Block<'_>) -> bool {
        // An entry has few tags, so each is searched for among them.
        self.tags.iter().all(|asked| block.tags().any(|tag| tag == *asked))
    }
}

impl core::fmt::Debug for BlockFilter<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BlockFilter")
            .field("kinds", &self.kinds)
            .field("tags", &self.tags)
            .field("test", &self.test.is_some())
            .finish()
    }
}

/// The limit that kept a walk from visiting or returning a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkBound {
    /// [`WalkPlan::depth_max`]: there is more behind it. Breadth first everything within it was
    /// visited.
    Depth,
    /// [`WalkPlan::visited_max`].
    Visited,
    /// [`WalkPlan::results_max`].
    Results,
    /// The caller stopped the walk because of its time limit.
    Time,
    /// The caller stopped the walk because its request used up its steps.
    Steps,
}

impl WalkBound {
    /// Whether the caller stopped the walk.
    pub(crate) fn is_a_stop(self) -> bool {
        matches!(self, WalkBound::Time | WalkBound::Steps)
    }
}
