//! Streams: topics, partitions, Kafka record batches and the offsets of consumer groups, as a
//! model.
//!
//! ```text
//! bytes ──Batch::parse──▶ Command ──decide──▶ entries ──the log──▶ apply ──▶ Streams (catalogue, group offsets)
//!        (once, outside                          │
//!         any lock)                              └── along a partition's tag ──▶ fetch, offsets, offset_at_time
//! ```
//!
//! * [`wire`]: the Kafka record batch, format v2. A batch is stored with the bytes that the
//!   producer sent.
//! * [`Command`], [`Reply`], [`Refusal`]: the requests and the responses.
//! * [`Streams`]: the model. One produced batch is one entry under its partition's tag, and takes
//!   as many numbers of that tag as it has records: **a Kafka offset is the tag's sequence**. The
//!   end of a partition is read from the log and stored nowhere else. The state has its start,
//!   after records were deleted, and a sparse index.
//! * [`NewestRecords`]: what compaction by key takes.
//! * [`partition_for_key`]: the partition that Kafka's producers choose for a key.
//!
//! Topics and groups get small dense ids on their first use. The last batches of each idempotent
//! producer are remembered, so that a batch that is sent again is stored once. A group's generation
//! is part of the state, and fences. The coordinator in the front end knows the members of a
//! generation. Not here: compression (a compressed batch stays compressed) and waiting for new
//! records, which is the duty of the database and its front ends.
//!
//! # Example
//! ```
//! use core::ops::ControlFlow;
//! use quire_model::{Sequence, Timestamp, memory::World};
//! use quire_streams::{Command, Reply, Streams, TopicRef, wire::BatchBuilder};
//!
//! let mut builder = BatchBuilder::new();
//! builder.add(Some(b"JFK"), Some(b"departed"), &[], 1_700_000_000_000)?;
//! let batch = builder.finish().expect("one record was added");
//!
//! let mut world = World::<Streams>::new();
//! let produce = Command::Produce { topic: TopicRef::Name("departures"), partition: 0, batch, create_partitions: Some(1) };
//! let replies = world.commit(Timestamp::from_millis(1_700_000_000_000), &[produce]).unwrap();
//! let Reply::Produced(produced) = &replies[0] else { unreachable!() };
//! assert_eq!(produced.base_offset, Sequence::new(0));
//!
//! world.model.fetch(&world.log, produced.topic, 0, Sequence::new(0), 1_000_000, &mut |stored| {
//!     let record = stored.batch.records().unwrap().next().unwrap().unwrap();
//!     assert_eq!(record.value, Some(&b"departed"[..]));
//!     ControlFlow::Continue(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![no_std]

extern crate alloc;

// The vocabulary.
mod ids;
mod kept;
mod name;
mod partitioner;
mod setting_set;
mod settings;
pub mod wire;

mod command;
mod refusal;
mod reply;

// Entries as bytes, and the state.
mod codec;
mod reply_codec;
mod tag;

mod catalogue;
mod offsets;
mod producers;
mod removed;
mod roster;
mod samples;
mod state;

// In the order of a write, then of a read.
mod touches;

mod decide;

mod applicable;
mod apply;
mod checkpoint;
mod survival;

mod read;
mod unread;

mod compaction;
mod newest;

mod model;

pub use command::{Command, Committer, Despite, OwnedPartition, StaticMember, TopicRef};
pub use compaction::{CompactedPartition, CompactionScope, Look};
pub use ids::{Generation, GroupId, MemberId, OwnerEpoch, ProducerId, TopicId};
pub use kept::{KEPT_BYTES_MAX, KeptChange, KeptSetting, KeptSettings};
pub use name::{GROUP_NAME_BYTES_MAX, TOPIC_NAME_BYTES_MAX, TopicNameProblem, check_group};
pub use newest::{BatchRemainder, KeyHash, NewestRecords, Remains, Terms};
pub use partitioner::partition_for_key;
pub use producers::ActiveProducer;
pub use read::{
    CommittedOffset, FetchSummary, GroupInfo, LOOKED_THROUGH_BYTES_MAX, MemberInfo, Open, OpenUpTo, Partition,
    PartitionOffsets, PartitionReach, RetainedPartition, StoredBatch, StreamReadError, TimeOffset, TopicEntry,
    TopicInfo,
};
pub use refusal::{
    LEASE_MS_MAX, MEMBER_NAME_BYTES_MAX, OFFSET_METADATA_BYTES_MAX, PARTITIONS_MAX, Refusal, STATIC_MEMBERS_MAX,
};
pub use reply::{MemberJoined, OffsetCommitted, ProduceResult, RecordsDeleted, Reply, TopicAltered, TopicCreated};
pub use setting_set::{Setting, SettingSet};
pub use settings::{Cleanup, TimestampType, TopicChanges, TopicSettings};
pub use state::Streams;
pub use tag::{PartitionTag, TopicTag, partition_tag};
pub use unread::UnreadRecords;
