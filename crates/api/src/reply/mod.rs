//! The JSON of responses: one type for each answer. The server writes it, and clients read it.
//!
//! A client asks for `as=base64`, so that each value has one key and its exact bytes.
//! [`ShownBytes`] reads only this form.
#![expect(
    missing_docs,
    reason = "a comment on a field would be in the description of the API; docs/http.md explains the fields"
)]

pub mod access;
mod cluster;
mod commit;
mod events;
mod graph;
mod indexes;
mod jobs;
mod log;
mod problem;
mod sql;
mod statistics;
mod streams;
mod value;
mod walks;

pub use access::{
    AccessChangeReply, AccessCheckReply, AccessSelfReply, ApiKeyReply, NewKeyReply, RoleReply, RuleReply, UserReply,
};
pub use cluster::{ClusterChangeReply, ClusterMemberReply, ClusterReply};
pub use commit::{CommitReply, DraftedEntryReply, DryRunReply, EachReply, FetchedReply, PartReply};
pub use events::{
    AppendReply, DeliveredJob, DeliveredReply, EventReply, EventsRead, ItemReply, ProjectReply, ProjectionReply,
    QueryReply, SourceReply, SourcesRead, StatsReply, StoreReply, SubscriptionReply,
};
pub use graph::{
    BlockCount, BlockReply, BlocksAnswer, BlocksReply, ChangeKind, ChangeReply, ChangesRead, Degree, EdgeReply,
    GraphRead, GraphReply, ImportProgress, ImportReply, MemoryReply, MissingBlock, NeighbourCount, NeighbourReply,
    OneGraph, VersionReply,
};
pub use indexes::TextIndexReply;
pub use jobs::{BulkReply, FetchReply, JobEventReply, JobReply, JobWithHistory, QueueReply, StepReply};
pub use log::{
    CommitEntryReply, CommitsRead, LoggedCommitReply, LoggedEdgeReply, LoggedEventReply, RefusedCommitReply,
    TouchedResourceReply,
};
pub use problem::{CodeName, ProblemReply};
pub use sql::{SqlEnd, SqlReply};
pub use statistics::{
    CompactionReply, FailingStats, GroupStats, Health, HistoryReply, HistorySample, LimitStats, Stats, StoreStats,
    TopicStats,
};
pub use streams::{
    GroupEventReply, GroupReply, GroupSourceReply, GroupWithOffsets, HeaderReply, MemberReply, OffsetReply,
    PartitionReply, PositionReply, RecordReply, RecordsPosition, SettingsReply, SkippedRecord, TopicGroupReply,
    TopicOffsetReply, TopicReply, TopicWithPartitions,
};
pub use value::{ShownBytes, TagReply, ValueForm, ValueNames, names};
pub use walks::{
    ComponentsReply, NamedBlock, OrderReply, PathsReply, VisitReply, WalkCount, WalkReply, WalkedEdgeReply,
};
