//! The verdict about a commit, in the order and the numbers of its parts.

use quire_model::At;
use quire_shard::{CommitRefusal, Replies};

use crate::commit::Commit;
use crate::outcome::{AcceptedCommit, Outcome};
use crate::parts::{in_order, part_of};

/// An accepted commit, with its replies by model.
pub(crate) struct DecidedReplies<'r> {
    pub(crate) at: At,
    pub(crate) is_replay: bool,
    pub(crate) replies: &'r mut Replies,
}

/// Returns the replies of a verdict in the order of the parts. The index in a refusal still counts
/// only the commands of its model.
pub(crate) fn told(
    commit: &Commit<'_>,
    verdict: Result<DecidedReplies<'_>, CommitRefusal>,
) -> Result<AcceptedCommit, CommitRefusal> {
    verdict.map(|DecidedReplies { at, is_replay, replies }| AcceptedCommit {
        at,
        is_replay,
        replies: in_order(commit.parts(), replies),
    })
}

/// The outcome of a commit. The index in a refusal counts the parts of the commit.
pub(crate) fn outcome(commit: &Commit<'_>, verdict: Result<AcceptedCommit, CommitRefusal>) -> Outcome {
    match verdict {
        Ok(committed) => Outcome::Committed(committed),
        Err(mut refused) => {
            refused.part = part_of(commit.parts(), &refused);
            Outcome::Refused(refused)
        }
    }
}
