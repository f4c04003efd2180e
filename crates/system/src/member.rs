//! The members of a cluster: which nodes have the log, and how to reach them.
//!
//! The leader appends a record for each change of one member. The nodes agree on the records, and a
//! change is in force on a node when its record is published there. Removed members stay known, so
//! that no other node ever gets the number of one.

use alloc::string::String;

use quire_model::codec::{CodecError, Decoder, Encoder};
use quire_model::{EntryKind, Position};

use crate::System;
use crate::codec::{MEMBER_SET, unlike};

/// Most bytes of one address of a member.
pub const MEMBER_ADDRESS_BYTES_MAX: usize = 256;

/// The part of a node in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberRole {
    /// It votes, and records need a majority of the voters.
    Voter,
    /// It gets the records, and does not vote.
    Learner,
    /// It is no longer a member.
    Removed,
}

/// The addresses of a member, as `HOST:PORT`. An address is empty where the node has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberAddresses {
    /// For other nodes.
    pub cluster: String,
    /// For clients over HTTP.
    pub http: String,
    /// For clients over gRPC.
    pub grpc: String,
    /// For clients over the Kafka protocol.
    pub kafka: String,
}

/// A member of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMember {
    /// Its role.
    pub role: MemberRole,
    /// The random number of its directory. A node with another directory is another node.
    pub incarnation: u128,
    /// Its addresses.
    pub addresses: MemberAddresses,
}

/// The entry that sets one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRecord {
    /// The number of the member.
    pub node: u64,
    /// The member from then on.
    pub member: ClusterMember,
}

/// The kind of the entry that sets one member.
pub const fn member_record_kind() -> EntryKind {
    MEMBER_SET
}

impl MemberRole {
    const ALL: [MemberRole; 3] = [MemberRole::Voter, MemberRole::Learner, MemberRole::Removed];

    /// Its name: `voter`, `learner` or `removed`.
    pub const fn name(self) -> &'static str {
        match self {
            MemberRole::Voter => "voter",
            MemberRole::Learner => "learner",
            MemberRole::Removed => "removed",
        }
    }

    pub(crate) const fn number(self) -> u8 {
        match self {
            MemberRole::Voter => 1,
            MemberRole::Learner => 2,
            MemberRole::Removed => 3,
        }
    }

    pub(crate) fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let number = from.u8()?;
        let role = MemberRole::ALL.into_iter().find(|role| role.number() == number);
        role.ok_or_else(|| unlike("the role of a member", from))
    }
}

impl MemberAddresses {
    fn all(&self) -> [&String; 4] {
        [&self.cluster, &self.http, &self.grpc, &self.kafka]
    }

    /// Whether each address has at most [`MEMBER_ADDRESS_BYTES_MAX`] bytes.
    pub fn is_short(&self) -> bool {
        self.all().into_iter().all(|address| address.len() <= MEMBER_ADDRESS_BYTES_MAX)
    }

    /// Writes the addresses, each with its length.
    pub fn encode(&self, out: &mut Encoder) {
        for address in self.all() {
            out.str(address);
        }
    }

    /// Reads the addresses.
    ///
    /// # Errors
    /// When they are not such addresses.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let [cluster, http, grpc, kafka] = [from.string()?, from.string()?, from.string()?, from.string()?];
        let addresses = MemberAddresses { cluster, http, grpc, kafka };
        if addresses.is_short() { Ok(addresses) } else { Err(unlike("addresses of at most 256 bytes", from)) }
    }
}

impl MemberRecord {
    /// Writes the body of its entry.
    pub fn encode(&self, out: &mut Encoder) {
        out.u64(self.node).u8(self.member.role.number()).raw(&self.member.incarnation.to_le_bytes());
        self.member.addresses.encode(out);
    }

    /// Reads the body of its entry.
    ///
    /// # Errors
    /// When the body is not that of such an entry.
    pub fn decode(body: &[u8]) -> Result<Self, CodecError> {
        let mut from = Decoder::new(body);
        let record = MemberRecord::read(&mut from)?;
        from.end()?;
        Ok(record)
    }

    pub(crate) fn read(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let node = from.u64()?;
        if node == 0 {
            return Err(unlike("the number of a node", from));
        }
        let role = MemberRole::read(from)?;
        let incarnation = from.raw(16)?.try_into().map(u128::from_le_bytes);
        let incarnation = incarnation.map_err(|_| unlike("an incarnation", from))?;
        Ok(MemberRecord {
            node,
            member: ClusterMember { role, incarnation, addresses: MemberAddresses::decode(from)? },
        })
    }
}

impl System {
    /// The members of the cluster by their numbers, with those that were removed. Empty for a
    /// database alone.
    pub fn members(&self) -> impl Iterator<Item = (u64, &ClusterMember)> {
        self.members.iter().map(|(node, member)| (*node, member))
    }

    /// A member of the cluster, removed or not.
    pub fn member(&self, node: u64) -> Option<&ClusterMember> {
        self.members.get(&node)
    }

    /// The records that changed members, in order, each with the number and the new role of its
    /// member.
    pub fn member_changes(&self) -> impl Iterator<Item = (Position, u64, MemberRole)> {
        self.member_changes.iter().map(|(position, (node, role))| (*position, *node, *role))
    }

    pub(crate) fn set_member(&mut self, record: MemberRecord, position: Position) {
        self.member_changes.insert_mut(position, (record.node, record.member.role));
        self.members.insert_mut(record.node, record.member);
    }
}

#[cfg(test)]
mod tests {
    use quire_model::{Entry, Model, Place, Tags, Timestamp};

    use super::*;

    fn record(node: u64, role: MemberRole) -> MemberRecord {
        let addresses = MemberAddresses { cluster: "10.0.0.1:7072".into(), ..MemberAddresses::default() };
        MemberRecord { node, member: ClusterMember { role, incarnation: 77 << 90, addresses } }
    }

    fn apply(system: &mut System, record: &MemberRecord, position: u64) {
        let mut body = Encoder::new();
        record.encode(&mut body);
        let entry = Entry {
            place: Place::new(Position::new(position), 0),
            time: Timestamp::from_millis(1),
            kind: member_record_kind(),
            tags: Tags::from_encoded(&[]),
            sequence: None,
            count: 0,
            body: body.as_slice(),
        };
        assert_eq!(system.check_applicable(&entry), Ok(()));
        system.apply(&entry);
        assert!(system.survives(&entry, Timestamp::from_millis(9)));
    }

    #[test]
    fn members_and_their_changes_survive_a_checkpoint() {
        let mut system = System::default();
        let records = [(3, record(1, MemberRole::Voter)), (5, record(2, MemberRole::Learner))];
        records.iter().for_each(|(position, record)| apply(&mut system, record, *position));
        apply(&mut system, &record(2, MemberRole::Removed), 9);
        assert_eq!(system.member(1), Some(&records[0].1.member));
        let changes: alloc::vec::Vec<_> =
            system.member_changes().map(|(at, node, role)| (at.get(), node, role)).collect();
        assert_eq!(changes, [(3, 1, MemberRole::Voter), (5, 2, MemberRole::Learner), (9, 2, MemberRole::Removed)]);
        assert!(!system.is_unused());
        let mut saved = Encoder::new();
        system.save(&mut saved);
        assert_eq!(System::load(&mut Decoder::new(saved.as_slice())), Ok(system));
    }

    #[test]
    fn a_database_alone_saves_no_members() {
        let mut saved = Encoder::new();
        System::default().save(&mut saved);
        assert_eq!(saved.as_slice()[0], 3, "the version without members");
    }

    #[test]
    fn other_bodies_are_refused() {
        let mut body = Encoder::new();
        record(1, MemberRole::Voter).encode(&mut body);
        let bytes = body.into_bytes();
        assert_eq!(MemberRecord::decode(&bytes), Ok(record(1, MemberRole::Voter)));
        for length in 0..bytes.len() {
            assert!(MemberRecord::decode(&bytes[..length]).is_err());
        }
        let with = |at: usize, byte: u8| {
            let mut changed = bytes.clone();
            changed[at] = byte;
            MemberRecord::decode(&changed)
        };
        assert!(with(0, 0).is_err() && with(8, 4).is_err());
        let long = MemberAddresses { http: "a".repeat(257), ..MemberAddresses::default() };
        let mut out = Encoder::new();
        long.encode(&mut out);
        assert!(MemberAddresses::decode(&mut Decoder::new(out.as_slice())).is_err());
    }
}
