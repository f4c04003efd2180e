//! What an agreement asks of its node: the log, the vote, and the network.

use quire_log::Term;
use quire_model::Position;

use super::{MemberChange, MemberSet, NodeState, PeerMessage, RecordPlace, Vote};

/// The files that a node gets when the leader no longer has the records that follow its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipment {
    /// The last record that the files hold.
    pub place: RecordPlace,
    /// The members at that record.
    pub members: MemberSet,
}

/// The node of an [`Agreement`](super::Agreement): its log, its vote and its network.
///
/// The agreement calls the methods in the order in which they must take effect. When one fails, the
/// node must stop: the agreement gives the failure to its caller, and must be dropped.
pub trait MemberNode {
    /// The reason why the node must stop.
    type Failure;

    /// The vote that was saved last.
    fn vote(&self) -> Vote;

    /// The record before the first one that the node can send. A new node has the default. The
    /// start is never after [`compactable`](super::Agreement::compactable).
    fn start(&self) -> RecordPlace;

    /// The position up to which the records are known to be published when the agreement begins,
    /// such as that of a checkpoint.
    fn published(&self) -> Position {
        self.start().position
    }

    /// The members that are in force at [`MemberNode::published`].
    fn published_members(&self) -> MemberSet;

    /// The last record of the log, synced or not.
    fn last(&self) -> RecordPlace;

    /// The term of a record from [`MemberNode::start`] to [`MemberNode::last`].
    fn term(&self, position: Position) -> Option<Term>;

    /// The bytes of a record. They bound the records of one message.
    fn record_bytes(&self, _position: Position) -> u64 {
        0
    }

    /// The change of the members that a record carries.
    fn change(&self, position: Position) -> Option<MemberChange>;

    /// The last record before this position that carries a change of the members, if it is after
    /// the start.
    fn change_before(&self, position: Position) -> Option<Position>;

    /// The files that a node gets whose next records are gone. They hold all changes of the members
    /// that are in force. `None` while there are none: it is asked again.
    fn shipment(&self) -> Option<Shipment>;

    /// Saves the vote. It is on disk when this returns.
    ///
    /// # Errors
    /// When it could not be saved.
    fn save_vote(&mut self, vote: Vote) -> Result<(), Self::Failure>;

    /// Appends records that a leader sent. Their bytes came with the message that the agreement is
    /// [receiving](super::Agreement::receive). If the log has records after `after`, they are of a
    /// leader that lost its office, and are truncated first.
    ///
    /// # Errors
    /// When the log can't be changed.
    fn take(&mut self, after: RecordPlace, records: &[RecordPlace]) -> Result<(), Self::Failure>;

    /// Appends the record that begins the term of this node as the leader. The node must append
    /// nothing else between its vote and this record.
    ///
    /// # Errors
    /// When the log can't be changed.
    fn begin_term(&mut self, place: RecordPlace) -> Result<(), Self::Failure>;

    /// Replaces the log by the files of a shipment, all of which came with the message that the
    /// agreement is receiving. They are on disk and published when this returns.
    ///
    /// # Errors
    /// When the files can't be installed.
    fn install(&mut self, shipment: &Shipment) -> Result<(), Self::Failure>;

    /// Publishes all records up to this one.
    ///
    /// # Errors
    /// When the log has failed.
    fn publish(&mut self, place: RecordPlace) -> Result<(), Self::Failure>;

    /// Notes the members that are in force from this record on, after a change was published or
    /// installed.
    fn set_members(&mut self, since: Position, members: &MemberSet);

    /// Notes the role of the node. A node that is no longer the leader must not append, from before
    /// this returns on.
    fn set_state(&mut self, state: NodeState);

    /// Sends a message. It may be lost, delayed or repeated.
    fn send(&mut self, message: PeerMessage);
}
