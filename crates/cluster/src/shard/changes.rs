//! The changes of members in the log of a node, and the rules for new ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use quire_log::RecordCopy;
use quire_model::Position;
use quire_system::{ClusterMember, MemberRecord, MemberRole, System, member_record_kind};

use crate::agreement::{MemberChange, MemberSet, NodeId};

/// The changes in a log, by the positions of their records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MemberChanges(BTreeMap<Position, MemberChange>);

/// Why a change of the members is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// Ask the leader.
    NotLeader,
    /// Repeat it later: the change before is not complete, or the leader is new.
    Busy,
    /// The change is invalid, with the reason.
    Invalid(String),
    /// Look whether it happened: this node stopped leading meanwhile.
    Unsettled,
    /// Ask another node: this one has stopped.
    Stopped,
}

impl fmt::Display for ChangeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeRefusal::NotLeader => f.write_str("this node is not the leader"),
            ChangeRefusal::Busy => f.write_str("another change of the members is not complete; repeat the request"),
            ChangeRefusal::Invalid(reason) => f.write_str(reason),
            ChangeRefusal::Unsettled => f.write_str("this node stopped leading; the change may or may not survive"),
            ChangeRefusal::Stopped => f.write_str("this node has stopped"),
        }
    }
}

impl std::error::Error for ChangeRefusal {}

/// The change that sets a node to this role.
fn change_of(node: NodeId, role: MemberRole) -> MemberChange {
    match role {
        MemberRole::Voter => MemberChange::default().voter(node),
        MemberRole::Learner => MemberChange::default().learner(node),
        MemberRole::Removed => MemberChange::default().removed(node),
    }
}

/// The member that a record sets, if it sets one.
pub(super) fn member_of(record: &RecordCopy<'_>) -> Option<MemberRecord> {
    let entry = record.first_entry();
    (entry.kind == member_record_kind()).then(|| MemberRecord::decode(entry.body).ok()).flatten()
}

/// The change that a member record carries.
pub(super) fn change_in(record: &MemberRecord) -> Option<MemberChange> {
    NodeId::new(record.node).map(|node| change_of(node, record.member.role))
}

/// The members that no record after `since` has set.
pub(super) fn earlier_members(system: &System, since: Position) -> BTreeSet<NodeId> {
    let of = |is_meant: fn(Position, Position) -> bool| {
        let changes = system.member_changes().filter(move |(at, ..)| is_meant(*at, since));
        changes.filter_map(|(_, node, _)| NodeId::new(node)).collect::<BTreeSet<_>>()
    };
    let later = of(|at, since| at > since);
    of(|at, since| at <= since).into_iter().filter(|node| !later.contains(node)).collect()
}

impl MemberChanges {
    /// The changes after the record `since` that a state has applied.
    pub(super) fn of(system: &System, since: Position) -> Self {
        let changes = system.member_changes().filter(|(at, ..)| *at > since);
        let changes = changes.filter_map(|(at, node, role)| Some((at, change_of(NodeId::new(node)?, role))));
        MemberChanges(changes.collect())
    }

    pub(super) fn at(&self, position: Position) -> Option<&MemberChange> {
        self.0.get(&position)
    }

    pub(super) fn before(&self, position: Position) -> Option<Position> {
        self.0.range(..position).next_back().map(|(position, _)| *position)
    }

    pub(super) fn note(&mut self, position: Position, change: MemberChange) {
        self.0.insert(position, change);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate_after(&mut self, kept: Position) {
        self.0.retain(|position, _| *position <= kept);
    }

    /// The members after all changes up to `position`.
    pub(super) fn apply_to(&self, initial: MemberSet, position: Position) -> MemberSet {
        self.0.range(..=position).fold(initial, |members, (_, change)| members.after(change))
    }
}

/// Checks that a member may follow the one that is known by its number.
///
/// # Errors
/// The reason.
pub(super) fn check_member(known: Option<&ClusterMember>, node: NodeId, wanted: &ClusterMember) -> Result<(), String> {
    if !wanted.addresses.is_short() {
        return Err("an address of a member has more than 256 bytes".to_owned());
    }
    match known {
        None if wanted.role == MemberRole::Removed => Err(format!("node {node} is not a member")),
        None => Ok(()),
        Some(known) if known.role == MemberRole::Removed => {
            Err(format!("node {node} was removed; join with a number that no node has had"))
        }
        Some(known) if known.incarnation != wanted.incarnation => Err(format!(
            "number {node} belongs to a node with another data directory; remove that node, and join with a number that no node has had"
        )),
        Some(known) if known.role == MemberRole::Voter && wanted.role == MemberRole::Learner => {
            Err(format!("node {node} is a voter"))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use quire_system::MemberAddresses;

    use super::*;

    #[test]
    fn a_number_is_used_once() {
        let node = NodeId::new(2).expect("not zero");
        let member = |role, incarnation| ClusterMember { role, incarnation, addresses: MemberAddresses::default() };
        let check = |known: Option<(MemberRole, u128)>, role| {
            let known = known.map(|(role, incarnation)| member(role, incarnation));
            check_member(known.as_ref(), node, &member(role, 7))
        };
        assert_eq!(check(None, MemberRole::Learner), Ok(()));
        assert!(check(None, MemberRole::Removed).unwrap_err().contains("not a member"));
        assert_eq!(check(Some((MemberRole::Learner, 7)), MemberRole::Voter), Ok(()));
        assert_eq!(check(Some((MemberRole::Voter, 7)), MemberRole::Removed), Ok(()));
        assert_eq!(check(Some((MemberRole::Voter, 7)), MemberRole::Voter), Ok(()), "with another address");
        assert!(check(Some((MemberRole::Voter, 7)), MemberRole::Learner).unwrap_err().contains("is a voter"));
        assert!(
            check(Some((MemberRole::Voter, 8)), MemberRole::Learner).unwrap_err().contains("another data directory")
        );
        assert!(check(Some((MemberRole::Removed, 7)), MemberRole::Learner).unwrap_err().contains("was removed"));
        let long = MemberAddresses { grpc: "a".repeat(300), ..MemberAddresses::default() };
        let long = ClusterMember { addresses: long, ..member(MemberRole::Learner, 7) };
        assert!(check_member(None, node, &long).unwrap_err().contains("256 bytes"));
    }
}
