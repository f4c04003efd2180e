//! The ends of an edge, and the directions in which edges are followed.

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
