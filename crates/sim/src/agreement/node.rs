//! A simulated node: a log whose synced part survives a crash, a vote, and messages to send.

use std::collections::BTreeMap;

use quire::Position;
use quire_cluster::{
    MemberChange, MemberNode, MemberSet, NodeId, NodeRole, NodeState, PeerMessage, RecordPlace, Shipment, Vote,
};

/// A record of a simulated log. Its chain covers all records up to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChainedRecord {
    pub(super) place: RecordPlace,
    pub(super) chain: u64,
    pub(super) change: Option<MemberChange>,
}

/// What a crash leaves.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeDisk {
    pub(super) vote: Vote,
    /// The record before the first one of `records`.
    pub(super) start: RecordPlace,
    pub(super) start_chain: u64,
    /// The members at `start`.
    pub(super) members: MemberSet,
    pub(super) records: Vec<ChainedRecord>,
    /// How many of `records` are synced.
    pub(super) synced: usize,
}

/// A message on its way, with the records and files that travel beside it.
#[derive(Debug, Clone)]
pub(super) struct Packet {
    pub(super) message: PeerMessage,
    pub(super) records: Vec<ChainedRecord>,
    pub(super) files_chain: Option<u64>,
}

/// A node that runs.
#[derive(Debug)]
pub(super) struct SimulatedNode {
    pub(super) id: NodeId,
    pub(super) disk: NodeDisk,
    pub(super) state: Option<NodeState>,
    pub(super) published: RecordPlace,
    /// The members in force.
    pub(super) members: MemberSet,
    pub(super) outbox: Vec<Packet>,
    /// The records that came with the message that is being received.
    pub(super) received: Vec<ChainedRecord>,
    pub(super) received_files: Option<u64>,
    /// After how many further changes of the disk the process dies.
    pub(super) fuse: Option<u32>,
    /// A violation that the node has seen.
    pub(super) violation: Option<String>,
    /// The members by the position from which on they are in force.
    members_at: BTreeMap<Position, MemberSet>,
}

/// The process has died.
#[derive(Debug)]
pub(super) struct ProcessDied;

/// The chain of a record that follows a record with `before`.
pub(super) fn chain(before: u64, place: RecordPlace, payload: u64) -> u64 {
    let mut bytes = [0; 32];
    let numbers = [before, place.position.get(), place.term.get().into(), payload];
    for (slot, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

impl NodeDisk {
    /// The last record.
    pub(super) fn last(&self) -> RecordPlace {
        self.records.last().map_or(self.start, |record| record.place)
    }

    fn last_chain(&self) -> u64 {
        self.records.last().map_or(self.start_chain, |record| record.chain)
    }

    /// The record of a position.
    pub(super) fn record(&self, position: Position) -> Option<&ChainedRecord> {
        let index = position.get().checked_sub(self.start.position.get() + 1)?;
        self.records.get(usize::try_from(index).ok()?)
    }

    /// Whether the log has this record.
    pub(super) fn has(&self, place: RecordPlace) -> bool {
        place.position <= self.start.position || self.record(place.position).is_some_and(|record| record.place == place)
    }

    /// The chain up to a position that the log holds.
    pub(super) fn chain_at(&self, position: Position) -> Option<u64> {
        if position == self.start.position {
            return Some(self.start_chain);
        }
        self.record(position).map(|record| record.chain)
    }

    /// The last synced position.
    pub(super) fn synced_position(&self) -> Position {
        Position::new(self.start.position.get() + self.synced as u64)
    }
}

impl SimulatedNode {
    pub(super) fn new(id: NodeId, mut disk: NodeDisk) -> Self {
        disk.synced = disk.records.len();
        SimulatedNode {
            id,
            published: disk.start,
            members: disk.members.clone(),
            members_at: BTreeMap::from([(disk.start.position, disk.members.clone())]),
            disk,
            state: None,
            outbox: Vec::new(),
            received: Vec::new(),
            received_files: None,
            fuse: None,
            violation: None,
        }
    }

    /// Appends a record of its own.
    pub(super) fn append(&mut self, place: RecordPlace, payload: u64, change: Option<MemberChange>) {
        let chain = chain(self.disk.last_chain(), place, payload);
        self.disk.records.push(ChainedRecord { place, chain, change });
    }

    /// The last published and synced position up to which all changes of the members are in force:
    /// that of a checkpoint.
    pub(super) fn settled(&self) -> Position {
        let limit = self.published.position.min(self.disk.synced_position());
        let in_force = *self.members_at.last_key_value().expect("from the start on").0;
        let waits = |record: &&ChainedRecord| record.change.is_some() && record.place.position > in_force;
        let waiting = self.disk.records.iter().find(waits).map(|record| record.place.position);
        waiting.map_or(limit, |change| limit.min(Position::new(change.get() - 1)))
    }

    /// Drops the records up to a settled position.
    pub(super) fn compact(&mut self, up_to: Position) {
        let record = self.disk.record(up_to).expect("it is in the log");
        let (place, chain) = (record.place, record.chain);
        let members = self.members_at.range(..=up_to).next_back().expect("from the start on").1.clone();
        let disk = &mut self.disk;
        let dropped = usize::try_from(up_to.get() - disk.start.position.get()).expect("few");
        disk.records.drain(..dropped);
        disk.synced -= dropped;
        (disk.start, disk.start_chain, disk.members) = (place, chain, members);
    }

    /// One change of the disk: the process may die before it.
    fn burn(&mut self) -> Result<(), ProcessDied> {
        match &mut self.fuse {
            Some(0) => Err(ProcessDied),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}

impl MemberNode for SimulatedNode {
    type Failure = ProcessDied;

    fn vote(&self) -> Vote {
        self.disk.vote
    }

    fn start(&self) -> RecordPlace {
        self.disk.start
    }

    fn published_members(&self) -> MemberSet {
        self.disk.members.clone()
    }

    fn last(&self) -> RecordPlace {
        self.disk.last()
    }

    fn term(&self, position: Position) -> Option<quire_log::Term> {
        if position == self.disk.start.position {
            return Some(self.disk.start.term);
        }
        self.disk.record(position).map(|record| record.place.term)
    }

    fn change(&self, position: Position) -> Option<MemberChange> {
        self.disk.record(position)?.change.clone()
    }

    fn change_before(&self, position: Position) -> Option<Position> {
        let records = self.disk.records.iter().rev().skip_while(|record| record.place.position >= position);
        records.into_iter().find(|record| record.change.is_some()).map(|record| record.place.position)
    }

    fn shipment(&self) -> Option<Shipment> {
        let position = self.settled();
        let term = self.term(position)?;
        let members = self.members_at.range(..=position).next_back()?.1.clone();
        (position > Position::ZERO).then_some(Shipment { place: RecordPlace { position, term }, members })
    }

    fn save_vote(&mut self, vote: Vote) -> Result<(), ProcessDied> {
        self.burn()?;
        let before = self.disk.vote;
        let changes_vote = vote.term == before.term && before.node.is_some() && vote.node != before.node;
        if vote.term < before.term || changes_vote {
            self.violate(format!("node {} votes {vote:?} after {before:?}", self.id));
        }
        self.disk.vote = vote;
        Ok(())
    }

    fn take(&mut self, after: RecordPlace, records: &[RecordPlace]) -> Result<(), ProcessDied> {
        self.burn()?;
        if after.position < self.published.position {
            self.violate(format!("node {} truncates after {after}, below its published position", self.id));
        }
        let kept = usize::try_from(after.position.get() - self.disk.start.position.get()).expect("few");
        self.disk.records.truncate(kept);
        self.disk.synced = self.disk.synced.min(kept);
        self.burn()?;
        for place in records {
            let Some(record) = self.received.iter().find(|record| record.place == *place) else {
                self.violate(format!("node {} has no bytes of {place}", self.id));
                return Ok(());
            };
            self.disk.records.push(record.clone());
        }
        Ok(())
    }

    fn begin_term(&mut self, place: RecordPlace) -> Result<(), ProcessDied> {
        self.burn()?;
        if place.position.get() != self.disk.last().position.get() + 1 {
            self.violate(format!("node {} begins a term with {place} after {}", self.id, self.disk.last()));
        }
        self.append(place, 0, None);
        Ok(())
    }

    fn install(&mut self, shipment: &Shipment) -> Result<(), ProcessDied> {
        self.burn()?;
        let Some(start_chain) = self.received_files else {
            self.violate(format!("node {} has no files of {shipment:?}", self.id));
            return Ok(());
        };
        let vote = self.disk.vote;
        let members = shipment.members.clone();
        self.disk = NodeDisk { vote, start: shipment.place, start_chain, members, records: Vec::new(), synced: 0 };
        self.published = self.published.max(shipment.place);
        self.members_at = BTreeMap::from([(shipment.place.position, shipment.members.clone())]);
        Ok(())
    }

    fn publish(&mut self, place: RecordPlace) -> Result<(), ProcessDied> {
        if place.position <= self.published.position || place.position > self.disk.last().position {
            self.violate(format!("node {} publishes {place} after {}", self.id, self.published));
        }
        self.published = place;
        Ok(())
    }

    fn set_members(&mut self, since: Position, members: &MemberSet) {
        self.members = members.clone();
        self.members_at.insert(since, members.clone());
    }

    fn set_state(&mut self, state: NodeState) {
        self.state = Some(state);
    }

    fn send(&mut self, message: PeerMessage) {
        if let Some(vote) = message.vote()
            && self.disk.vote != vote
            && self.disk.vote.term <= vote.term
        {
            self.violate(format!("node {} sends {vote:?} and has saved {:?}", self.id, self.disk.vote));
        }
        if let Some(acknowledged) = message.acknowledged() {
            let synced = self.disk.synced_position();
            if acknowledged > synced {
                self.violate(format!("node {} acknowledges {acknowledged} and has synced {synced}", self.id));
            }
            // It speaks of the records of the leader of its term.
            if self.term(acknowledged).is_some_and(|term| term > message.term()) {
                let term = message.term();
                self.violate(format!(
                    "node {} acknowledges {acknowledged} in term {term}, and has a later one",
                    self.id
                ));
            }
        }
        let bytes = |(_, places): (RecordPlace, Vec<RecordPlace>)| {
            let records = places.iter().map(|place| self.disk.record(place.position).cloned());
            records.collect::<Option<Vec<_>>>()
        };
        let records = message.records().map_or(Some(Vec::new()), bytes);
        let Some(records) = records else {
            // Compacted meanwhile: the message can't be sent, as if it were lost.
            return;
        };
        let files_chain = message.shipment().and_then(|shipment| self.disk.chain_at(shipment.place.position));
        self.outbox.push(Packet { message, records, files_chain });
    }
}

/// Whether the node is the leader of its term.
pub(super) fn leads(node: &SimulatedNode) -> bool {
    node.state.is_some_and(|state| state.role == NodeRole::Leader)
}
