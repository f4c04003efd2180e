//! A message between nodes with the records that travel beside it, as bytes.
//!
//! ```text
//! type u8 │ reject u8 │ from, to, term, log term, index, commit, commit term, reject hint,
//! request, priority u64 │ context u32 + bytes │ entries u32, each: term u64, kind u8 │ records
//! ```
//! Numbers are little-endian. The positions of entries follow the index. The fields are those of
//! `raft`, written by hand: no parser of `raft` sees bytes from outside. The frame around it has a
//! checksum.
//!
//! A message about files has their last record as log term and index. The files travel by
//! themselves.

use std::fmt;

use quire_log::{Mark, RecordCopy};
use raft::eraftpb::{Entry, EntryType, Message, MessageType};

use super::changes::member_of;
use crate::agreement::{PeerMessage, RecordPlace};

/// The numbers after the first two bytes.
const NUMBERS: usize = 10;
/// The bytes of a context, which only ever holds a short mark of `raft`.
const CONTEXT_BYTES_MAX: usize = 64;
/// The entries of a message. An agreement sends 1,024 at most.
const ENTRIES_MAX: usize = 4_096;

/// The messages that travel, by their numbers.
const TYPES: [(u8, MessageType); 11] = [
    (1, MessageType::MsgAppend),
    (2, MessageType::MsgAppendResponse),
    (3, MessageType::MsgRequestVote),
    (4, MessageType::MsgRequestVoteResponse),
    (5, MessageType::MsgHeartbeat),
    (6, MessageType::MsgHeartbeatResponse),
    (7, MessageType::MsgTransferLeader),
    (8, MessageType::MsgTimeoutNow),
    (9, MessageType::MsgRequestPreVote),
    (10, MessageType::MsgRequestPreVoteResponse),
    (11, MessageType::MsgSnapshot),
];

/// A message of a node, and the bytes of its records.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerPacket {
    /// The message.
    pub message: PeerMessage,
    /// The records that it names, one after the other.
    pub records: Vec<u8>,
}

/// Why bytes are not a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPacket(String);

impl fmt::Display for InvalidPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidPacket {}

fn invalid(message: impl Into<String>) -> InvalidPacket {
    InvalidPacket(message.into())
}

impl PeerPacket {
    /// Writes the packet.
    ///
    /// # Panics
    /// When the message never travels. An agreement sends no such message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let message = &self.message.0;
        let kind = TYPES.iter().find(|(_, kind)| *kind == message.get_msg_type()).expect("the message travels").0;
        out.extend([kind, u8::from(message.reject)]);
        let (log_term, index) = match message.get_msg_type() {
            MessageType::MsgSnapshot => {
                let metadata = message.get_snapshot().get_metadata();
                (metadata.term, metadata.index)
            }
            _ => (message.log_term, message.index),
        };
        let numbers: [u64; NUMBERS] = [
            message.from,
            message.to,
            message.term,
            log_term,
            index,
            message.commit,
            message.commit_term,
            message.reject_hint,
            message.request_snapshot,
            message.priority.cast_unsigned(),
        ];
        numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
        put_count(message.context.len(), out);
        out.extend_from_slice(&message.context);
        put_count(message.get_entries().len(), out);
        for entry in message.get_entries() {
            out.extend(entry.term.to_le_bytes());
            out.push(u8::from(entry.get_entry_type() == EntryType::EntryConfChangeV2));
        }
        out.extend_from_slice(&self.records);
    }

    /// Reads a packet, and verifies its records: each has the place that the message names, and
    /// follows the one before.
    ///
    /// # Errors
    /// The first defect.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidPacket> {
        let mut from = PacketReader(bytes);
        let [kind, reject] = from.array()?;
        let kind = TYPES.iter().find(|(number, _)| *number == kind);
        let (_, kind) = kind.ok_or_else(|| invalid(format!("unknown message type {}", bytes[0])))?;
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            *number = u64::from_le_bytes(from.array()?);
        }
        let [sender, receiver, term, log_term, index, commit, commit_term, reject_hint, request, priority] = numbers;
        if sender == 0 || receiver == 0 || reject > 1 {
            return Err(invalid("a message without a sender or a receiver"));
        }
        if [term, log_term, commit_term].into_iter().any(|term| term > u64::from(u32::MAX)) {
            return Err(invalid(format!("term {} is out of range", term.max(log_term).max(commit_term))));
        }
        let mut message = Message::default();
        message.set_msg_type(*kind);
        (message.from, message.to, message.reject) = (sender, receiver, reject == 1);
        message.term = term;
        if *kind == MessageType::MsgSnapshot {
            let metadata = message.mut_snapshot().mut_metadata();
            (metadata.term, metadata.index) = (log_term, index);
        } else {
            (message.log_term, message.index) = (log_term, index);
        }
        (message.commit, message.commit_term, message.reject_hint) = (commit, commit_term, reject_hint);
        (message.request_snapshot, message.priority) = (request, priority.cast_signed());
        let context = from.count(CONTEXT_BYTES_MAX)?;
        message.context = from.take(context)?.to_vec().into();
        let mut entries = Vec::new();
        let mut before = log_term;
        for number in 0..from.count(ENTRIES_MAX)? as u64 {
            let index = index.checked_add(number + 1).ok_or_else(|| invalid("an entry is out of range"))?;
            let mut entry = Entry { index, term: u64::from_le_bytes(from.array()?), ..Entry::default() };
            if entry.term < before || entry.term > term {
                return Err(invalid(format!("entry {index} has term {} in a message of term {term}", entry.term)));
            }
            before = entry.term;
            if from.array::<1>()? == [1] {
                entry.set_entry_type(EntryType::EntryConfChangeV2);
            }
            entries.push(entry);
        }
        message.set_entries(entries.into());
        let packet = PeerPacket { message: PeerMessage(message), records: from.0.to_vec() };
        packet.check_records()?;
        Ok(packet)
    }

    fn check_records(&self) -> Result<(), InvalidPacket> {
        let places = self.message.records().map_or_else(Vec::new, |(_, places)| places);
        let is_change =
            self.message.0.get_entries().iter().map(|entry| entry.get_entry_type() != EntryType::EntryNormal);
        let mut bytes = &self.records[..];
        let mut before: Option<Mark> = None;
        for (place, is_change) in places.iter().zip(is_change) {
            let record = RecordCopy::verify(bytes).map_err(|error| invalid(error.to_string()))?;
            let mark = record.mark();
            if (RecordPlace { position: mark.position, term: mark.term }) != *place {
                return Err(invalid(format!("the message names {place}, and {mark} travels with it")));
            }
            if member_of(&record).is_some() != is_change {
                return Err(invalid(format!("{place} is said to change the members, or not to, and does the other")));
            }
            if let Some(before) = before {
                record.check_follows(before).map_err(|error| invalid(error.to_string()))?;
            }
            before = Some(mark);
            bytes = &bytes[record.bytes().len()..];
        }
        if bytes.is_empty() { Ok(()) } else { Err(invalid(format!("{} bytes follow the last record", bytes.len()))) }
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    out.extend(u32::try_from(count).expect("a packet is shorter than 4 GiB").to_le_bytes());
}

struct PacketReader<'b>(&'b [u8]);

impl<'b> PacketReader<'b> {
    fn take(&mut self, bytes: usize) -> Result<&'b [u8], InvalidPacket> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(|| invalid("a message ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], InvalidPacket> {
        Ok(self.take(N)?.try_into().expect("N bytes were taken"))
    }

    fn count(&mut self, most: usize) -> Result<usize, InvalidPacket> {
        let count = u32::from_le_bytes(self.array()?) as usize;
        if count > most { Err(invalid(format!("a count of {count} exceeds {most}"))) } else { Ok(count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: MessageType) -> Message {
        let mut message = Message::default();
        message.set_msg_type(kind);
        (message.from, message.to, message.term, message.log_term) = (1, 2, 7, 6);
        (message.index, message.commit, message.commit_term, message.reject) = (40, 39, 6, true);
        (message.reject_hint, message.request_snapshot, message.priority) = (3, 4, -5);
        message.context = b"mark".to_vec().into();
        message
    }

    #[test]
    fn a_message_of_each_type_reads_back() {
        for (_, kind) in TYPES {
            let mut message = message(kind);
            if kind == MessageType::MsgSnapshot {
                let (term, index) = (std::mem::take(&mut message.log_term), std::mem::take(&mut message.index));
                let metadata = message.mut_snapshot().mut_metadata();
                (metadata.term, metadata.index) = (term, index);
            }
            let packet = PeerPacket { message: PeerMessage(message), records: Vec::new() };
            let mut bytes = Vec::new();
            packet.encode(&mut bytes);
            assert_eq!(PeerPacket::decode(&bytes), Ok(packet));
            for length in 0..bytes.len() {
                assert!(PeerPacket::decode(&bytes[..length]).is_err(), "{length} bytes of {kind:?}");
            }
            bytes.push(0);
            assert!(PeerPacket::decode(&bytes).is_err(), "bytes without a record follow {kind:?}");
        }
    }

    #[test]
    fn a_message_that_contradicts_itself_is_refused() {
        let encoded = |change: fn(&mut Message)| {
            let mut message = message(MessageType::MsgAppend);
            change(&mut message);
            let mut bytes = Vec::new();
            PeerPacket { message: PeerMessage(message), records: Vec::new() }.encode(&mut bytes);
            PeerPacket::decode(&bytes).expect_err("refused").to_string()
        };
        let entry = |term| vec![Entry { index: 41, term, ..Entry::default() }];
        assert!(encoded(|message| message.from = 0).contains("without a sender"));
        assert!(encoded(|message| message.term = 1 << 32).contains("out of range"));
        assert!(encoded(|message| message.context = vec![0; 65].into()).contains("exceeds 64"));
        let with_entry = |term: u64| {
            let mut message = message(MessageType::MsgAppend);
            message.set_entries(entry(term).into());
            let mut bytes = Vec::new();
            PeerPacket { message: PeerMessage(message), records: Vec::new() }.encode(&mut bytes);
            PeerPacket::decode(&bytes).expect_err("refused").to_string()
        };
        assert!(with_entry(8).contains("entry 41 has term 8"));
        assert!(with_entry(5).contains("entry 41 has term 5"));
        assert!(with_entry(7).contains("invalid record"), "its record is not there");
    }

    #[test]
    fn random_bytes_are_refused() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
            if let [kind, reject, ..] = &mut bytes[..] {
                (*kind, *reject) = (random.u8(..12), random.u8(..2));
            }
            // Without a defect it is a message, and none of these is one of another node.
            let _ = PeerPacket::decode(&bytes);
        }
    }
}
