//! Which node of a cluster answers the reads of a database value.

/// The node that answers reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadSource {
    /// The leader.
    Leader,
    /// This node, whichever node leads: see [`Database::local`](crate::Database::local).
    ThisNode,
}
