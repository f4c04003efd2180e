//! Reads: the catalogue and the offsets of groups from memory, records from the log.

mod error;
mod overview;
mod partition;
mod retention;
mod topic_entry;

pub use error::StreamReadError;
pub use overview::{CommittedOffset, GroupInfo, MemberInfo, TopicInfo};
pub use partition::{
    FetchSummary, LOOKED_THROUGH_BYTES_MAX, Open, OpenUpTo, Partition, PartitionOffsets, PartitionReach, StoredBatch,
    TimeOffset,
};
pub use retention::RetainedPartition;
pub use topic_entry::TopicEntry;
