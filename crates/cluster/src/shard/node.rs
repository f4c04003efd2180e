//! [`ShardNode`]: the log, the vote and the messages of a shard, for its agreement.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use quire_log::{Office, RecordCopy, Term};
use quire_model::Position;
use quire_shard::{ClusterLeader, Error, ErrorKind, NodeOffice, Result, Shard};
use quire_system::{ClusterMember, MemberRecord, MemberRole};

use super::changes::{ChangeRefusal, MemberChanges, change_in, check_member, earlier_members, member_of};
use super::packet::PeerPacket;
use super::terms::TermStarts;
use crate::agreement::{
    Agreement, MemberChange, MemberNode, MemberSet, NodeId, NodeRole, NodeState, PeerMessage, RecordPlace, Shipment,
    Vote,
};

/// What makes a node the one that the others know.
#[derive(Debug, Clone)]
pub struct NodeIdentity {
    /// Its number.
    pub node: NodeId,
    /// A random number, made with its directory. A node with another directory is another node.
    pub incarnation: u128,
    /// The members before the first record that changes them: the founder itself, and none on a
    /// node that joined.
    pub members: MemberSet,
    /// The last record before the cluster, on its founder. Members that are set by records up to it
    /// are those of an earlier cluster, and count no more.
    pub since: Position,
}

/// The node of a cluster whose records are those of a shard. The shard was opened as a member.
pub struct ShardNode {
    shard: Arc<Shard>,
    identity: NodeIdentity,
    vote: Vote,
    /// The record before the first one that the node can send. Earlier ones may be compacted.
    start: RecordPlace,
    terms: TermStarts,
    changes: MemberChanges,
    /// How often `changes` changed.
    change_count: u64,
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
    pub fn new(shard: Arc<Shard>, identity: NodeIdentity) -> Result<Self> {
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
        let published = log.published();
        let (first, last) = (log.compacted_end(), log.appended());
        if first > published {
            let message = format!(
                "the log in {} was compacted up to record {first}, and no checkpoint is after it; remove this node from the cluster, and join with an empty directory and another number",
                log.directory().display()
            );
            return Err(Error::new(ErrorKind::Damaged, message));
        }
        let terms = TermStarts::of(log, first, last)?;
        // A node that got the files of another one has seen their terms, and gave no vote in them.
        let is_new = office.is_none();
        let vote = office.map_or_else(Vote::default, |office| Vote { term: office.term, node: office.vote });
        let vote = if vote.term < terms.last() { Vote { term: terms.last(), node: None } } else { vote };
        let start = RecordPlace { position: first, term: terms.at(first) };
        let changes = MemberChanges::of(&shard.access_state()?.1, identity.since);
        let mut node = ShardNode {
            shard,
            identity,
            vote,
            start,
            terms,
            changes,
            change_count: 0,
            published,
            state: None,
            received: Vec::new(),
            outbox: Vec::new(),
        };
        if is_new {
            // From now on, a missing vote is a lost one.
            node.save_vote(vote)?;
        }
        Ok(node)
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

    /// Notes what was compacted since the last call, and which records compaction must leave: those
    /// from `needed` on.
    pub fn note_compaction(&mut self, needed: Position) {
        let first = self.shard.log().compacted_end();
        self.start = RecordPlace { position: first, term: self.terms.at(first) };
        self.shard.keep_from(needed);
    }

    /// How often the changes of members in the log have changed since the start.
    pub(crate) fn change_count(&self) -> u64 {
        self.change_count
    }

    /// The members of this cluster by their numbers, with those that were removed.
    ///
    /// # Errors
    /// The failure of the shard.
    pub(crate) fn members(&self) -> Result<BTreeMap<NodeId, ClusterMember>> {
        let system = self.shard.access_state()?.1;
        let earlier = earlier_members(&system, self.identity.since);
        let members = system.members().filter_map(|(node, member)| Some((NodeId::new(node)?, member.clone())));
        Ok(members.filter(|(node, _)| !earlier.contains(node)).collect())
    }

    /// The nodes whose removal is after `published`: it still needs their agreement, and may be
    /// truncated. Each with the position of the removal.
    ///
    /// # Errors
    /// The failure of the shard.
    pub(crate) fn leaving(&self, published: Position) -> Result<BTreeMap<NodeId, Position>> {
        let system = self.shard.access_state()?.1;
        let open = system.member_changes().filter(|(at, _, role)| *at > published && *role == MemberRole::Removed);
        Ok(open.filter_map(|(at, node, _)| Some((NodeId::new(node)?, at))).collect())
    }

    /// The members of an earlier cluster that are not removed yet, on the founder of this one.
    ///
    /// # Errors
    /// The failure of the shard.
    pub(crate) fn earlier_members(&self) -> Result<Vec<(NodeId, ClusterMember)>> {
        let system = self.shard.access_state()?.1;
        let earlier = earlier_members(&system, self.identity.since);
        let members = earlier.into_iter().filter_map(|node| Some((node, system.member(node.get())?.clone())));
        Ok(members.filter(|(_, member)| member.role != MemberRole::Removed).collect())
    }

    /// Passes the leader on to clients, with the addresses that are known now.
    pub(crate) fn note_leader(&self) -> Result<()> {
        let Some(state) = self.state.filter(|state| state.role != NodeRole::Leader) else { return Ok(()) };
        let leader = match state.leader.filter(|leader| *leader != self.identity.node) {
            Some(leader) => {
                let system = self.shard.access_state()?.1;
                let addresses = system.member(leader.get()).map(|member| member.addresses.clone());
                Some(Arc::new(ClusterLeader { node: leader.get(), addresses: addresses.unwrap_or_default() }))
            }
            None => None,
        };
        self.shard.stand_down(leader)
    }

    fn note_change(&mut self, position: Position, change: MemberChange) {
        self.changes.note(position, change);
        self.change_count += 1;
    }

    /// The last record that is on disk here.
    pub fn durable(&self) -> RecordPlace {
        let position = self.shard.log().durable();
        RecordPlace { position, term: self.terms.at(position) }
    }

    fn append_member(&mut self, record: &MemberRecord, change: MemberChange) -> Result<Position> {
        let position = self.shard.append_member(record)?.position;
        self.note_change(position, change);
        Ok(position)
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
        let changes: Vec<_> = copies.iter().filter_map(|copy| Some((copy.mark().position, member_of(copy)?))).collect();
        self.shard.append_copies(copies)?;
        for (position, record) in changes {
            change_in(&record).into_iter().for_each(|change| self.note_change(position, change));
        }
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

impl Agreement<ShardNode> {
    /// Appends the record that sets a member, if this node leads and the change before is complete.
    /// The inner result is the position of the record: the change is complete when it is published.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn set_member(&mut self, node: NodeId, member: &ClusterMember) -> Result<Result<Position, ChangeRefusal>> {
        let system = self.node().shard.access_state()?.1;
        let record = MemberRecord { node: node.get(), member: member.clone() };
        let Some(change) = change_in(&record) else { unreachable!("the number of a node is not zero") };
        if self.may_append().is_none() {
            return Ok(Err(ChangeRefusal::NotLeader));
        }
        if !self.may_change_members() {
            return Ok(Err(ChangeRefusal::Busy));
        }
        // `raft` may have given a transfer up since the last tick.
        self.resume_office()?;
        let fits = check_member(system.member(node.get()), node, member).and_then(|()| self.check_change(&change));
        if let Err(reason) = fits {
            return Ok(Err(ChangeRefusal::Invalid(reason)));
        }
        // Before the record: its entries have the type that their record has.
        self.appended()?;
        if !self.may_change_members() {
            return Ok(Err(ChangeRefusal::Busy));
        }
        let position = self.node_mut().append_member(&record, change)?;
        self.appended()?;
        Ok(Ok(position))
    }

    /// Hands the office over to a voter. This node decides no commits meanwhile; see
    /// [`resume_office`](Self::resume_office).
    ///
    /// # Errors
    /// The failure of the node.
    pub fn hand_over_to(&mut self, node: NodeId) -> Result<Result<(), ChangeRefusal>> {
        if self.may_append().is_none() {
            return Ok(Err(ChangeRefusal::NotLeader));
        }
        if !self.members().voters.contains(&node) {
            return Ok(Err(ChangeRefusal::Invalid(format!("node {node} is not a voter"))));
        }
        self.node().shard.hand_over(true)?;
        self.appended()?;
        self.transfer(node)?;
        // `raft` ignores a transfer that is none, such as one to this node.
        self.resume_office()?;
        Ok(Ok(()))
    }

    /// Decides commits again where this node kept its office although it was to hand it over. The
    /// owner calls it after each tick.
    ///
    /// # Errors
    /// The failure of the node.
    pub fn resume_office(&mut self) -> Result<()> {
        if self.may_append().is_some() { self.node().shard.hand_over(false) } else { Ok(()) }
    }
}

impl MemberNode for ShardNode {
    type Failure = Error;

    fn vote(&self) -> Vote {
        self.vote
    }

    fn start(&self) -> RecordPlace {
        self.start
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

    fn published_members(&self) -> MemberSet {
        self.changes.apply_to(self.identity.members.clone(), self.published)
    }

    fn change(&self, position: Position) -> Option<MemberChange> {
        self.changes.at(position).cloned()
    }

    fn change_before(&self, position: Position) -> Option<Position> {
        self.changes.before(position)
    }

    fn shipment(&self) -> Option<Shipment> {
        // The files travel by themselves: the node fetches them when it gets this message.
        let position = self.shard.log().published();
        let place = RecordPlace { position, term: self.terms.at(position) };
        Some(Shipment { place, members: self.changes.apply_to(self.identity.members.clone(), position) })
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
            let before = self.changes.len();
            self.changes.truncate_after(after.position);
            self.change_count += u64::from(self.changes.len() < before);
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
        let message =
            format!("a message with the files up to {} can't be received while the node runs", shipment.place);
        Err(Error::new(ErrorKind::Invalid, message))
    }

    fn publish(&mut self, place: RecordPlace) -> Result<()> {
        let log = self.shard.log();
        let mark = log.mark_at(place.position)?.filter(|mark| mark.term == place.term);
        let mark = mark.ok_or_else(|| Error::new(ErrorKind::Damaged, format!("the log lost {place}")))?;
        Ok(log.publish(mark)?)
    }

    fn set_members(&mut self, _since: Position, _members: &MemberSet) {
        // The state has them.
    }

    fn set_state(&mut self, state: NodeState) {
        self.state = Some(state);
        let (node, leader) = (self.identity.node.get(), state.leader.map(NodeId::get));
        self.shard.note_node(NodeOffice { node, term: state.term, leader });
        // A shard that failed decides nothing either.
        let _ = self.note_leader();
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
