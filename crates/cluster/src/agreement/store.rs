//! The node's log as `raft` reads it: entries without data, made from the terms of the records.

use raft::eraftpb::{Entry, EntryType, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use super::{MemberNode, Position, raft_term};

/// The number of entries that one message has at most.
const ENTRIES_MAX: u64 = 1_024;

/// The bytes of records that one message has at most, unless it has one record.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// A node, read as a storage of `raft`.
#[derive(Debug)]
pub(super) struct NodeStorage<N> {
    pub(super) node: N,
    /// The last record that `raft` knows. The log of a leader may have later ones, which it has not
    /// reported.
    pub(super) known: Position,
}

impl<N: MemberNode> NodeStorage<N> {
    /// The position up to which the records are known to be published when the node starts. A
    /// leader changes the members only after the change before is published. So the last change in
    /// the log shows that the one before it was published, and is in force.
    ///
    /// A node that is one change behind asks a majority that overlaps each majority of the others.
    /// A node that is two changes behind may not.
    fn known_published(&self, start: Position) -> Position {
        let end = Position::new(self.node.last().position.get() + 1);
        let last = self.node.change_before(end);
        last.and_then(|last| self.node.change_before(last)).unwrap_or(start)
    }

    /// The entry of a record.
    pub(super) fn entry(&self, index: u64) -> Option<Entry> {
        let position = Position::new(index);
        let term = raft_term(self.node.term(position)?);
        let mut entry = Entry { index, term, ..Entry::default() };
        if self.node.change(position).is_some() {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
        }
        Some(entry)
    }
}

impl<N: MemberNode> Storage for NodeStorage<N> {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let (vote, start, members) = (self.node.vote(), self.node.start(), self.node.published_members());
        let mut state = RaftState { conf_state: members.to_raft(), ..RaftState::default() };
        state.hard_state.term = raft_term(vote.term);
        state.hard_state.vote = vote.node.map_or(0, |node| node.get());
        let published = self.known_published(start.position).max(self.node.published());
        state.hard_state.commit = published.get();
        Ok(state)
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        _max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.node.start().position.get() {
            return Err(StorageError::Compacted.into());
        }
        let high = high.min(low + ENTRIES_MAX);
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for index in low..high {
            bytes += self.node.record_bytes(Position::new(index));
            if bytes > RECORD_BYTES_MAX && !entries.is_empty() {
                break;
            }
            entries.push(self.entry(index).ok_or(StorageError::Unavailable)?);
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index < self.node.start().position.get() {
            return Err(StorageError::Compacted.into());
        }
        let term = self.node.term(Position::new(index)).ok_or(StorageError::Unavailable)?;
        Ok(raft_term(term))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.node.start().position.get() + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.known.get())
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        let shipment = self.node.shipment().filter(|shipment| shipment.place.position.get() >= request_index);
        let shipment = shipment.ok_or(StorageError::SnapshotTemporarilyUnavailable)?;
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        metadata.index = shipment.place.position.get();
        metadata.term = raft_term(shipment.place.term);
        metadata.set_conf_state(shipment.members.to_raft());
        Ok(snapshot)
    }
}
