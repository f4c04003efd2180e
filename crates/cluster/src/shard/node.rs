//! [`ShardNode`]: the log, the vote and the messages of a shard, for its agreement.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use quire_log::{Office, RecordCopy, Term};
use quire_model::Position;
use quire_shard::{Error, ErrorKind, Result, Shard};

use super::packet::PeerPacket;
use super::terms::TermStarts;
use crate::agreement::{
    MemberChange, MemberNode, MemberSet, NodeId, NodeRole, NodeState, PeerMessage, RecordPlace, Shipment, Vote,
};

/// What makes a node the one that the others know.
#[derive(Debug, Clone)]
pub struct NodeIdentity {
    /// Its number.
    pub node: NodeId,
    /// A random number, made with its directory. A node with another directory is another node.
    pub incarnation: u128,
    /// The members of the cluster.
    pub members: MemberSet,
}

/// The names of the other nodes, as clients reach them. Shared with the owner of the node, which
/// learns the names.
#[derive(Debug, Clone, Default)]
pub struct NodeNames(Arc<Mutex<BTreeMap<NodeId, Arc<str>>>>);

impl NodeNames {
    /// Notes how clients reach a node.
    pub fn note(&self, node: NodeId, name: impl Into<Arc<str>>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node, name.into());
    }

    /// How clients reach a node; its number if nothing else is known.
    pub fn of(&self, node: NodeId) -> Arc<str> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned();
        known.unwrap_or_else(|| format!("node {node}").into())
    }
}

/// The node of a cluster whose records are those of a shard. The shard was opened as a member. All
/// members are voters, and they never change.
pub struct ShardNode {
    shard: Arc<Shard>,
    identity: NodeIdentity,
    names: NodeNames,
    vote: Vote,
    terms: TermStarts,
    /// The position up to which the records were published when the node began.
    published: Position,
    state: Option<NodeState>,
    /// The records that came with the message that is being received.
    received: Vec<u8>,
    outbox: Vec<PeerPacket>,
}

impl ShardNode {
    /// The node of a shard that was opened as a member of a cluster.
    ///
    /// # Errors
    /// When the vote or the log can't be read, or belongs to another incarnation.
    pub fn new(shard: Arc<Shard>, identity: NodeIdentity, names: NodeNames) -> Result<Self> {
        let log = shard.log();
        let office = log.office()?;
        if let Some(office) = &office
            && office.incarnation != identity.incarnation
        {
            let message = format!(
                "the vote in {} belongs to another incarnation of node {}; replace the node",
                log.directory().display(),
                identity.node
            );
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        let terms = TermStarts::of(log, log.appended())?;
        let vote = office.map_or_else(Vote::default, |office| Vote { term: office.term, node: office.vote });
        let published = log.published();
        Ok(ShardNode {
            shard,
            identity,
            names,
            vote,
            terms,
            published,
            state: None,
            received: Vec::new(),
            outbox: Vec::new(),
        })
    }

    /// The shard.
    pub fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    /// Takes the records that come with the next message.
    pub fn receives(&mut self, records: Vec<u8>) {
        self.received = records;
    }

    /// Takes the messages to send, in order.
    pub fn take_outbox(&mut self) -> Vec<PeerPacket> {
        std::mem::take(&mut self.outbox)
    }

    /// The last record that is on disk here.
    pub fn durable(&self) -> RecordPlace {
        let position = self.shard.log().durable();
        RecordPlace { position, term: self.terms.at(position) }
    }

    /// Appends those received records that the agreement names.
    fn append_received(&mut self, places: &[RecordPlace]) -> Result<()> {
        let Some(first) = places.first() else { return Ok(()) };
        let received = std::mem::take(&mut self.received);
        let (mut bytes, mut copies) = (&received[..], Vec::with_capacity(places.len()));
        while !bytes.is_empty() && copies.len() < places.len() {
            let copy = RecordCopy::verify(bytes)?;
            bytes = &bytes[copy.bytes().len()..];
            if copy.mark().position >= first.position {
                copies.push(copy);
            }
        }
        let is_named = |(copy, place): (&RecordCopy<'_>, &RecordPlace)| {
            (copy.mark().position, copy.mark().term) == (place.position, place.term)
        };
        if copies.len() != places.len() || !copies.iter().zip(places).all(is_named) {
            let message = format!("the bytes of {first} did not come with its message");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.shard.append_copies(copies)?;
        places.iter().for_each(|place| self.terms.note(place.position, place.term));
        Ok(())
    }

    /// The bytes of the records of a message. `None` when the log no longer holds one of them: the
    /// message is then not sent, as if it was lost.
    fn records_of(&self, message: &PeerMessage) -> Option<Vec<u8>> {
        let mut records = Vec::new();
        let reader = self.shard.log().reader_of_appended();
        for place in message.records().map_or_else(Vec::new, |(_, places)| places) {
            let (mark, bytes) = reader.whole_record(place.position).ok()??;
            if mark.term != place.term {
                return None;
            }
            records.extend_from_slice(bytes);
        }
        Some(records)
    }
}

impl MemberNode for ShardNode {
    type Failure = Error;

    fn vote(&self) -> Vote {
        self.vote
    }

    fn start(&self) -> (RecordPlace, MemberSet) {
        (RecordPlace::default(), self.identity.members.clone())
    }

    fn published(&self) -> Position {
        self.published
    }

    fn last(&self) -> RecordPlace {
        // The records of a leader after the one that began its term are of its term.
        RecordPlace { position: self.shard.log().appended(), term: self.terms.last() }
    }

    fn term(&self, position: Position) -> Option<Term> {
        (position <= self.shard.log().appended()).then(|| self.terms.at(position))
    }

    fn record_bytes(&self, position: Position) -> u64 {
        let reader = self.shard.log().reader_of_appended();
        // An unreadable record is not sent.
        reader.whole_record(position).ok().flatten().map_or(0, |(_, bytes)| bytes.len() as u64)
    }

    fn change(&self, _position: Position) -> Option<MemberChange> {
        None
    }

    fn change_before(&self, _position: Position) -> Option<Position> {
        None
    }

    fn shipment(&self) -> Option<Shipment> {
        // Each node keeps each record, so every other node can continue from its own last one.
        None
    }

    fn save_vote(&mut self, vote: Vote) -> Result<()> {
        let office = Office {
            term: vote.term,
            vote: vote.node,
            incarnation: self.identity.incarnation,
            // Only a node that acknowledges what is not on its disk must know whether it lost it.
            boot: 0,
            is_clean: false,
        };
        self.shard.log().save_office(&office)?;
        self.vote = vote;
        Ok(())
    }

    fn take(&mut self, after: RecordPlace, records: &[RecordPlace]) -> Result<()> {
        let log = self.shard.log();
        if log.appended() > after.position {
            let mark = log.mark_at(after.position)?.filter(|mark| mark.term == after.term);
            let mark = mark.ok_or_else(|| Error::new(ErrorKind::Damaged, format!("the log lost {after}")))?;
            self.shard.truncate_after(mark)?;
            self.terms.truncate_after(after.position);
        }
        self.append_received(records)
    }

    fn begin_term(&mut self, place: RecordPlace) -> Result<()> {
        let begun = self.shard.begin_term(place.term, self.identity.node.get())?;
        assert_eq!(begun.position, place.position, "a term begins with the record after the last one");
        self.terms.note(place.position, place.term);
        Ok(())
    }

    fn install(&mut self, shipment: &Shipment) -> Result<()> {
        let message = format!("a shipment up to {} arrived, and all nodes keep all records", shipment.place);
        Err(Error::new(ErrorKind::Invalid, message))
    }

    fn publish(&mut self, place: RecordPlace) -> Result<()> {
        let log = self.shard.log();
        let mark = log.mark_at(place.position)?.filter(|mark| mark.term == place.term);
        let mark = mark.ok_or_else(|| Error::new(ErrorKind::Damaged, format!("the log lost {place}")))?;
        Ok(log.publish(mark)?)
    }

    fn set_members(&mut self, _since: Position, members: &MemberSet) {
        assert_eq!(*members, self.identity.members, "the members never change");
    }

    fn set_state(&mut self, state: NodeState) {
        self.state = Some(state);
        if state.role != NodeRole::Leader {
            let leader = state.leader.filter(|leader| *leader != self.identity.node);
            // A shard that failed decides nothing either.
            let _ = self.shard.stand_down(leader.map(|leader| self.names.of(leader)));
        }
    }

    fn send(&mut self, message: PeerMessage) {
        if let Some(records) = self.records_of(&message) {
            self.outbox.push(PeerPacket { message, records });
        }
    }
}

impl fmt::Debug for ShardNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardNode")
            .field("identity", &self.identity)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
