//! The members of a cluster, and changes of them.
//!
//! A change takes effect on a node when its record is published there, as `raft` and etcd do it.
//! A change of one member is one record. A change of several is two: the first begins the joint
//! configuration, in which a majority of the old and one of the new voters must agree, and
//! [`MemberChange::leave`] ends it.

use std::collections::BTreeSet;

use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};

use super::NodeId;

/// The nodes that take part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberSet {
    /// They vote, and a majority of them publishes.
    pub voters: BTreeSet<NodeId>,
    /// The voters before a change of several members, until [`MemberChange::leave`].
    pub outgoing: BTreeSet<NodeId>,
    /// They have the log, and do not vote.
    pub learners: BTreeSet<NodeId>,
    /// Outgoing voters that become learners at the end of the change.
    pub learners_next: BTreeSet<NodeId>,
}

/// A change of the members, which a record carries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberChange {
    voters: Vec<NodeId>,
    learners: Vec<NodeId>,
    removed: Vec<NodeId>,
}

impl MemberSet {
    /// A cluster of these voters.
    pub fn of_voters(voters: impl IntoIterator<Item = NodeId>) -> Self {
        MemberSet { voters: voters.into_iter().collect(), ..MemberSet::default() }
    }

    /// Whether a change of several members is not complete.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether the node is a member.
    pub fn contains(&self, node: NodeId) -> bool {
        [&self.voters, &self.outgoing, &self.learners].into_iter().any(|nodes| nodes.contains(&node))
    }

    /// Whether these nodes are a majority of the voters, and of the outgoing ones.
    pub fn is_majority(&self, has: impl Fn(NodeId) -> bool) -> bool {
        let of = |nodes: &BTreeSet<NodeId>| {
            nodes.is_empty() || nodes.iter().filter(|node| has(**node)).count() > nodes.len() / 2
        };
        of(&self.voters) && of(&self.outgoing)
    }

    /// The members after a change of one member.
    pub(crate) fn after(mut self, change: &MemberChange) -> Self {
        assert_eq!((change.len(), self.is_joint()), (1, false), "a change of one member");
        for node in change.voters.iter().chain(&change.learners).chain(&change.removed) {
            self.voters.remove(node);
            self.learners.remove(node);
        }
        self.voters.extend(&change.voters);
        self.learners.extend(&change.learners);
        self
    }

    pub(super) fn to_raft(&self) -> ConfState {
        let list = |nodes: &BTreeSet<NodeId>| nodes.iter().map(|node| node.get()).collect::<Vec<_>>();
        let mut state = ConfState::default();
        state.set_voters(list(&self.voters));
        state.set_voters_outgoing(list(&self.outgoing));
        state.set_learners(list(&self.learners));
        state.set_learners_next(list(&self.learners_next));
        state
    }

    pub(super) fn of_raft(state: &ConfState) -> Self {
        let set = |nodes: &[u64]| nodes.iter().filter_map(|node| NodeId::new(*node)).collect();
        MemberSet {
            voters: set(state.get_voters()),
            outgoing: set(state.get_voters_outgoing()),
            learners: set(state.get_learners()),
            learners_next: set(state.get_learners_next()),
        }
    }
}

impl MemberChange {
    /// Makes the node a voter.
    #[must_use]
    pub fn voter(mut self, node: NodeId) -> Self {
        self.voters.push(node);
        self
    }

    /// Makes the node a learner.
    #[must_use]
    pub fn learner(mut self, node: NodeId) -> Self {
        self.learners.push(node);
        self
    }

    /// Removes the node.
    #[must_use]
    pub fn removed(mut self, node: NodeId) -> Self {
        self.removed.push(node);
        self
    }

    /// Ends a change of several members.
    pub fn leave() -> Self {
        MemberChange::default()
    }

    fn len(&self) -> usize {
        self.voters.len() + self.learners.len() + self.removed.len()
    }

    pub(super) fn to_raft(&self) -> ConfChangeV2 {
        let kinds = [
            (ConfChangeType::AddNode, &self.voters),
            (ConfChangeType::AddLearnerNode, &self.learners),
            (ConfChangeType::RemoveNode, &self.removed),
        ];
        let single = |kind, node: &NodeId| {
            let mut single = ConfChangeSingle::default();
            single.set_change_type(kind);
            single.set_node_id(node.get());
            single
        };
        let singles = kinds.iter().flat_map(|(kind, nodes)| nodes.iter().map(move |node| single(*kind, node)));
        let mut change = ConfChangeV2::default();
        change.set_changes(singles.collect::<Vec<_>>().into());
        // Without `Explicit`, `raft` would append the end of the change by itself, without a
        // record.
        if self.len() > 1 {
            change.set_transition(ConfChangeTransition::Explicit);
        }
        change
    }
}
