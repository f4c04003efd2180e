//! The ends of an edge, and the directions in which edges are followed.

/// The direction in which edges are followed.
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
    /// The ends of edges at which neighbours in this direction are.
    pub(crate) const fn ends(self) -> &'static [End] {
        match self {
            Direction::Outgoing => &[End::Target],
            Direction::Incoming => &[End::Source],
            Direction::Both => &[End::Target, End::Source],
        }
    }

    /// The direction that leads back.
    pub(crate) const fn reversed(self) -> Direction {
        match self {
            Direction::Outgoing => Direction::Incoming,
            Direction::Incoming => Direction::Outgoing,
            Direction::Both => Direction::Both,
        }
    }
}

/// One of the two ends of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The block that the edge leaves.
    Source,
    /// The block that the edge enters.
    Target,
}

impl End {
    /// The other end of the edge.
    pub(crate) const fn opposite(self) -> End {
        match self {
            End::Source => End::Target,
            End::Target => End::Source,
        }
    }
}
