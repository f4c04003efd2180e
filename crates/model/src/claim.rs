//! The objects that a commit claims and that a database has a limited number of, such as names.
//!
//! A model sees its own names only. The owner of the log sees the names of every model. So a
//! decision that takes a name, or more of a limited resource, first calls
//! [`Effects::claim`](crate::Effects::claim). Applying an entry claims nothing: the entry was
//! decided already.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use crate::codec::{CodecError, Decoder, Encoder};

/// A thing that a commit is about to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceClaim<'a> {
    /// A new topic.
    Topic {
        /// Its name.
        name: &'a str,
        /// Its number of partitions.
        partitions: u32,
    },
    /// Further partitions of a topic.
    Partitions(u32),
    /// A new consumer group.
    Group,
    /// Further bytes of committed offsets.
    OffsetBytes(u64),
    /// A new event store of this name.
    Store(&'a str),
    /// A new queue of this name.
    Queue(&'a str),
    /// The name of the queue that a new subscription delivers to. The queue may exist.
    Delivery(&'a str),
    /// A new graph.
    Graph,
    /// Further bytes of jobs and their names.
    JobBytes(u64),
    /// Further bytes of what clients name in event stores.
    StoreBytes(u64),
}

/// A thing that a commit gives back: later commands of the commit may take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release<'a> {
    /// A topic.
    Topic {
        /// Its name.
        name: &'a str,
        /// Its number of partitions.
        partitions: u32,
    },
    /// A consumer group.
    Group,
    /// A queue of this name.
    Queue(&'a str),
    /// Bytes of jobs.
    JobBytes(u64),
    /// Bytes of names in event stores.
    StoreBytes(u64),
}

/// The kind of an object that Kafka clients see as a topic. Its number is part of stored replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameKind {
    /// A topic.
    Topic = 0,
    /// An event store.
    Store = 1,
    /// A queue.
    Queue = 2,
}

impl NameKind {
    /// Every kind.
    pub const ALL: [NameKind; 3] = [NameKind::Topic, NameKind::Store, NameKind::Queue];
}

impl fmt::Display for NameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameKind::Topic => "topic",
            NameKind::Store => "event store",
            NameKind::Queue => "queue",
        })
    }
}

/// A limit on all objects of a database together. Its number is part of stored replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClaimLimit {
    /// Partitions of all topics.
    Partitions = 0,
    /// Consumer groups.
    Groups = 1,
    /// Bytes of committed offsets.
    OffsetBytes = 2,
    /// Event stores.
    Stores = 3,
    /// Queues.
    Queues = 4,
    /// Graphs.
    Graphs = 5,
    /// Bytes of jobs.
    JobBytes = 6,
    /// Bytes of names in event stores.
    StoreBytes = 7,
}

impl ClaimLimit {
    /// Every limit.
    pub const ALL: [ClaimLimit; 8] = [
        ClaimLimit::Partitions,
        ClaimLimit::Groups,
        ClaimLimit::OffsetBytes,
        ClaimLimit::Stores,
        ClaimLimit::Queues,
        ClaimLimit::Graphs,
        ClaimLimit::JobBytes,
        ClaimLimit::StoreBytes,
    ];

    /// The setting of the limit.
    pub const fn setting(self) -> &'static str {
        match self {
            ClaimLimit::Partitions => "partitions_max",
            ClaimLimit::Groups => "groups_max",
            ClaimLimit::OffsetBytes => "offset_bytes_max",
            ClaimLimit::Stores => "stores_max",
            ClaimLimit::Queues => "queues_max",
            ClaimLimit::Graphs => "graphs_max",
            ClaimLimit::JobBytes => "job_bytes_max",
            ClaimLimit::StoreBytes => "store_bytes_max",
        }
    }

    /// The word for the counted objects, as in "the database has 3 queues".
    pub const fn counted(self) -> &'static str {
        match self {
            ClaimLimit::Partitions => "partitions of topics",
            ClaimLimit::Groups => "consumer groups",
            ClaimLimit::OffsetBytes => "bytes of committed offsets",
            ClaimLimit::Stores => "event stores",
            ClaimLimit::Queues => "queues",
            ClaimLimit::Graphs => "graphs",
            ClaimLimit::JobBytes => "bytes of jobs",
            ClaimLimit::StoreBytes => "bytes of names in event stores",
        }
    }
}

/// Why a commit cannot have the name or the resource that it claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimRefusal {
    /// Kafka clients would see two objects under one topic name.
    NameTaken {
        /// The topic name.
        topic: Box<str>,
        /// The kind of the object that has it.
        kind: NameKind,
        /// The name of that object.
        name: Box<str>,
    },
    /// The commit would exceed a limit of the database.
    OverLimit {
        /// The limit.
        limit: ClaimLimit,
        /// The current number.
        count: u64,
        /// The number that the command needs in addition.
        more: u64,
        /// The largest allowed number.
        count_max: u64,
    },
}

impl ClaimRefusal {
    /// The refusal of a topic name that another object has.
    pub fn taken(topic: &str, kind: NameKind, name: &str) -> Self {
        ClaimRefusal::NameTaken { topic: Box::from(topic), kind, name: Box::from(name) }
    }

    /// Writes the refusal.
    pub fn encode(&self, out: &mut Encoder) {
        match self {
            ClaimRefusal::NameTaken { topic, kind, name } => _ = out.u8(1).str(topic).u8(*kind as u8).str(name),
            ClaimRefusal::OverLimit { limit, count, more, count_max } => {
                out.u8(2).u8(*limit as u8).varint(*count).varint(*more).varint(*count_max);
            }
        }
    }

    /// Reads a refusal that [`ClaimRefusal::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are not such a refusal.
    pub fn decode(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        const fn expected(expected: &'static str) -> CodecError {
            CodecError { expected, bytes_left: 0 }
        }
        match from.u8()? {
            1 => {
                let (topic, kind) = (from.str()?, NameKind::ALL.get(usize::from(from.u8()?)));
                Ok(ClaimRefusal::taken(topic, *kind.ok_or(expected("a kind of object"))?, from.str()?))
            }
            2 => {
                let limit = *ClaimLimit::ALL.get(usize::from(from.u8()?)).ok_or(expected("a limit"))?;
                let (count, more, count_max) = (from.varint()?, from.varint()?, from.varint()?);
                Ok(ClaimRefusal::OverLimit { limit, count, more, count_max })
            }
            _ => Err(expected("a refusal of a claim")),
        }
    }
}

impl fmt::Display for ClaimRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimRefusal::NameTaken { topic, kind, name } => write!(
                f,
                "the topic name {topic:?} already exists: Kafka clients see {kind} {name:?} under it; choose another name"
            ),
            ClaimRefusal::OverLimit { limit, count, more, count_max } => write!(
                f,
                "{} of {count_max} is exceeded: the database has {count} {}, and the commit adds {more}; raise the \
                 setting, or delete what is no longer needed",
                limit.setting(),
                limit.counted()
            ),
        }
    }
}

impl core::error::Error for ClaimRefusal {}

/// The form of a name in which Kafka clients see it: `air.flights` for `air/flights`.
pub fn dotted(name: &str) -> String {
    name.replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_numbers_are_those_of_the_lists() {
        assert!(NameKind::ALL.into_iter().enumerate().all(|(number, kind)| kind as usize == number));
        assert!(ClaimLimit::ALL.into_iter().enumerate().all(|(number, limit)| limit as usize == number));
    }
}
