//! The office of a shard that is a node of a cluster: whether it may decide commits, in which term,
//! and which node does otherwise.
//!
//! The office changes under the lock of the state, which each decision holds. So no commit of a
//! lost office is appended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use quire_log::{Log, Publisher, Term};
use quire_model::Position;

use crate::cluster::ClusterControl;
use crate::error::{Error, ErrorKind, Result};
use crate::leader::{ClusterLeader, NodeOffice};
use crate::system::MemberRole;

/// Which commits a shard decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardOffice {
    /// All: the shard has no other nodes.
    Alone,
    /// Those of a leader, in its term.
    Leading(Term),
    /// None, while the leader of this term hands its office over.
    HandingOver(Term),
    /// None: another node leads, or none does.
    Following,
}

impl ShardOffice {
    /// The office of a shard that was just opened.
    pub(crate) fn of(log: &Log) -> Self {
        match log.settings().publisher {
            Publisher::Log => ShardOffice::Alone,
            Publisher::Owner => ShardOffice::Following,
        }
    }

    /// The term of the next record, which follows a record of the term `last`. `None` when the
    /// shard decides no commits.
    #[inline]
    pub(crate) fn term(self, last: Term) -> Option<Term> {
        match self {
            ShardOffice::Alone => Some(last),
            ShardOffice::Leading(term) => Some(term),
            ShardOffice::HandingOver(_) | ShardOffice::Following => None,
        }
    }
}

/// What requests see of the office, without a lock.
#[derive(Debug, Default)]
pub(crate) struct OfficeStatus {
    /// From which published position on the shard serves clients: `ALWAYS`, `NEVER`, or the
    /// position of the record that began its term.
    serves_from: AtomicU64,
    /// The first record that other nodes may still need from this one. No record is compacted
    /// until the node has said so.
    needed_from: AtomicU64,
    /// The leader, as clients reach it.
    leader: Mutex<Option<Arc<ClusterLeader>>>,
    /// `None` until the node of the cluster has begun.
    node: Mutex<Option<NodeOffice>>,
    control: OnceLock<Arc<dyn ClusterControl>>,
}

const ALWAYS: u64 = 0;
const NEVER: u64 = u64::MAX;

impl OfficeStatus {
    pub(crate) fn of(office: ShardOffice) -> Self {
        let serves_from = if office == ShardOffice::Alone { ALWAYS } else { NEVER };
        OfficeStatus { serves_from: AtomicU64::new(serves_from), ..OfficeStatus::default() }
    }

    /// Whether the shard is a node of a cluster.
    pub(crate) fn is_member(&self) -> bool {
        self.serves_from.load(Ordering::Acquire) != ALWAYS
    }

    /// Whether the shard is the leader of a cluster, or has no other nodes.
    pub(crate) fn decides(&self) -> bool {
        self.serves_from.load(Ordering::Acquire) != NEVER
    }

    /// Notes that the shard leads from the record at `begun` on. Called under the lock of the
    /// state.
    pub(crate) fn leads_from(&self, begun: Position) {
        assert!(begun > Position::ZERO, "a term begins with a record");
        self.serves_from.store(begun.get(), Ordering::Release);
    }

    /// Notes that the shard does not lead. Called under the lock of the state.
    pub(crate) fn stands_down(&self) {
        self.serves_from.store(NEVER, Ordering::Release);
    }

    /// Notes the first record that other nodes may still need from this one.
    pub(crate) fn set_needed_from(&self, position: Position) {
        self.needed_from.store(position.get(), Ordering::Release);
    }

    pub(crate) fn needed_from(&self) -> Position {
        Position::new(self.needed_from.load(Ordering::Acquire))
    }

    pub(crate) fn set_control(&self, control: Arc<dyn ClusterControl>) {
        let _ = self.control.set(control);
    }

    pub(crate) fn control(&self) -> Option<Arc<dyn ClusterControl>> {
        self.control.get().cloned()
    }

    pub(crate) fn note_node(&self, node: NodeOffice) {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = Some(node);
    }

    pub(crate) fn node(&self) -> Option<NodeOffice> {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_leader(&self, leader: Option<Arc<ClusterLeader>>) {
        *self.leader.lock().unwrap_or_else(PoisonError::into_inner) = leader;
    }

    pub(crate) fn leader(&self) -> Option<Arc<ClusterLeader>> {
        self.leader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that the shard serves clients now. A new leader first publishes a record of its own
    /// term: until then it does not know all commits that were acknowledged before.
    #[inline]
    pub(crate) fn check_serves(&self, published: impl FnOnce() -> Position) -> Result<()> {
        let from = self.serves_from.load(Ordering::Acquire);
        if from == ALWAYS || (from != NEVER && published().get() >= from) { Ok(()) } else { Err(self.not_leader()) }
    }

    /// The error of a decision, with the leader where this node does not lead.
    #[cold]
    pub(crate) fn explain(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::NotLeader { self.not_leader() } else { error }
    }

    /// Why the cluster has no leader, as far as this node knows.
    fn why_no_leader(&self) -> String {
        let status = self.control().map(|control| control.status());
        let members = status.iter().flat_map(|status| &status.members);
        let (mut voters, mut connected) = (0, 0);
        for voter in members.filter(|member| member.member.role == MemberRole::Voter) {
            voters += 1;
            connected += usize::from(voter.is_connected);
        }
        let needed = voters / 2 + 1;
        if voters > 0 && connected < needed {
            return format!(
                "the cluster has no leader: {connected} of {voters} voters are connected, and {needed} are needed; start the others, or repair their connections"
            );
        }
        "the cluster has no leader now; repeat the request".to_owned()
    }

    /// The error of a request that only a leader carries out.
    #[cold]
    pub(crate) fn not_leader(&self) -> Error {
        let leader = self.leader();
        let message = match (self.decides(), &leader) {
            (true, _) => {
                "this node leads, and does not serve yet or hands its office over; repeat the request".to_owned()
            }
            (false, Some(leader)) => format!("this node is not the leader; send the request to {leader}"),
            (false, None) => self.why_no_leader(),
        };
        Error::not_leader(message, leader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::MemberAddresses;

    #[test]
    fn a_leader_serves_from_the_publication_of_its_first_record_on() {
        let status = OfficeStatus::of(ShardOffice::Following);
        let refusal = |published| {
            status.check_serves(|| Position::new(published)).map_err(|error| {
                assert_eq!(error.kind(), ErrorKind::NotLeader);
                error.to_string()
            })
        };
        assert!(refusal(9).unwrap_err().contains("no leader now"));
        let addresses = MemberAddresses { http: "10.0.0.2:7070".into(), ..MemberAddresses::default() };
        let leader = Arc::new(ClusterLeader { node: 2, addresses });
        status.set_leader(Some(Arc::clone(&leader)));
        assert!(refusal(9).unwrap_err().contains("send the request to node 2 (HTTP at 10.0.0.2:7070)"));
        assert_eq!(status.check_serves(|| Position::new(9)).unwrap_err().leader(), Some(&*leader));
        status.leads_from(Position::new(7));
        assert!(refusal(6).unwrap_err().contains("does not serve yet"));
        assert_eq!(refusal(7), Ok(()));
        status.stands_down();
        assert!(refusal(9).is_err());
        assert!(OfficeStatus::of(ShardOffice::Alone).check_serves(|| Position::ZERO).is_ok());
    }
}
