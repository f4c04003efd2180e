//! Messages between nodes.

use quire_log::Term;
use quire_model::Position;
use raft::eraftpb::{Message, MessageType};

use super::{MemberSet, NodeId, RecordPlace, Shipment, Vote, term};

/// A message to another node. Records and files travel beside it: see [`PeerMessage::records`] and
/// [`PeerMessage::shipment`].
#[derive(Debug, Clone, PartialEq)]
pub struct PeerMessage(pub(crate) Message);

impl PeerMessage {
    /// The node that sent it.
    ///
    /// # Panics
    /// Never: the agreement makes no message without a sender.
    pub fn from(&self) -> NodeId {
        NodeId::new(self.0.from).expect("a message has a sender")
    }

    /// The node that it is for.
    ///
    /// # Panics
    /// Never: the agreement makes no message without a receiver.
    pub fn to(&self) -> NodeId {
        NodeId::new(self.0.to).expect("a message has a receiver")
    }

    /// The term of its sender.
    pub fn term(&self) -> Term {
        term(self.0.term)
    }

    /// The records whose bytes travel with it, and the record before them.
    pub fn records(&self) -> Option<(RecordPlace, Vec<RecordPlace>)> {
        let message = &self.0;
        let is_append = message.get_msg_type() == MessageType::MsgAppend && !message.get_entries().is_empty();
        is_append.then(|| {
            let before = RecordPlace { position: Position::new(message.index), term: term(message.log_term) };
            (before, message.get_entries().iter().map(super::place).collect())
        })
    }

    /// The shipment whose files travel with it.
    pub fn shipment(&self) -> Option<Shipment> {
        (self.0.get_msg_type() == MessageType::MsgSnapshot).then(|| {
            let metadata = self.0.get_snapshot().get_metadata();
            Shipment {
                place: RecordPlace { position: Position::new(metadata.index), term: term(metadata.term) },
                members: MemberSet::of_raft(metadata.get_conf_state()),
            }
        })
    }

    /// The vote that the message rests on: one for its sender, or one that it grants.
    pub fn vote(&self) -> Option<Vote> {
        let message = &self.0;
        let node = match message.get_msg_type() {
            MessageType::MsgRequestVote => self.from(),
            MessageType::MsgRequestVoteResponse if !message.reject => self.to(),
            _ => return None,
        };
        Some(Vote { term: self.term(), node: Some(node) })
    }

    /// The position up to which the sender says that it has the records of the leader on disk.
    pub fn acknowledged(&self) -> Option<Position> {
        let is_reply = self.0.get_msg_type() == MessageType::MsgAppendResponse && !self.0.reject;
        is_reply.then(|| Position::new(self.0.index))
    }

    /// Whether the message says all that an earlier one says: both acknowledge records to the same
    /// leader, and it acknowledges at least as many.
    pub(super) fn replaces(&self, earlier: &Self) -> bool {
        let is_same = (self.0.to, self.0.term) == (earlier.0.to, earlier.0.term);
        let counts = self.acknowledged().zip(earlier.acknowledged());
        is_same && counts.is_some_and(|(own, earlier)| own >= earlier) && self.0.commit >= earlier.0.commit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_acknowledgement_replaces_an_earlier_one_of_the_same_leader() {
        let acknowledgement = |to, term, index| {
            let mut message = Message { to, term, index, ..Message::default() };
            message.set_msg_type(MessageType::MsgAppendResponse);
            PeerMessage(message)
        };
        let earlier = acknowledgement(2, 3, 10);
        assert!(acknowledgement(2, 3, 11).replaces(&earlier));
        assert!(acknowledgement(2, 3, 10).replaces(&earlier));
        assert!(!acknowledgement(2, 3, 9).replaces(&earlier), "it says less");
        assert!(!acknowledgement(2, 4, 11).replaces(&earlier), "it is of another term");
        assert!(!acknowledgement(1, 3, 11).replaces(&earlier), "it is for another node");
        let mut refusal = acknowledgement(2, 3, 11);
        refusal.0.reject = true;
        assert!(!refusal.replaces(&earlier) && !acknowledgement(2, 3, 11).replaces(&refusal));
    }
}
