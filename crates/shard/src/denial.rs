//! The end of a decision without a commit.

use crate::error::Error;
use crate::refusal::CommitRefusal;

/// Why commands are not decided.
#[derive(Debug)]
pub(crate) enum Denial {
    /// They are refused.
    Refused(Box<CommitRefusal>),
    /// The history that the decision needs cannot be read.
    Unreadable(Error),
}
