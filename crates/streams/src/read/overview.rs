//! The reads: the catalogue and the groups' offsets from the state, everything about records from
//! the log.
//!
//! Reads that need only the log are in `partition.rs`. These methods are for callers that have the
//! state at hand.

use core::ops::ControlFlow;

use quire_model::{History, Sequence, Timestamp};

use super::error::StreamReadError;
use super::partition::{FetchSummary, Partition, PartitionOffsets, StoredBatch, TimeOffset};
use crate::offsets::StoredOffset;
use crate::roster::Roster;
use crate::state::PartitionState;
use crate::{
    ActiveProducer, Generation, GroupId, KeptSettings, MemberId, OwnedPartition, StaticMember, Streams, TopicId,
    TopicRef, TopicSettings,
};

/// A topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicInfo<'a> {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: &'a str,
    /// The number of partitions, which are counted from 0.
    pub partitions: u32,
    /// The settings.
    pub settings: TopicSettings,
    /// The settings without effect.
    pub kept: &'a KeptSettings,
}

/// A consumer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupInfo<'a> {
    /// Its id.
    pub id: GroupId,
    /// Its name.
    pub name: &'a str,
    /// The number of partitions for which it has committed an offset.
    pub partitions: usize,
    /// Its current generation; 0 before the first.
    pub generation: Generation,
    /// The kind of the members: `consumer` for consumers, empty before the first generation.
    pub protocol_type: &'a str,
    /// The assignment strategy of the members; empty without members.
    pub protocol: &'a str,
}

/// A member of a group by lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberInfo<'a> {
    /// Its id.
    pub id: MemberId,
    /// The name of its place; empty for none.
    pub name: &'a str,
    /// The length of the lease, in milliseconds.
    pub lease_ms: u32,
    /// When its lease runs out.
    pub until: Timestamp,
    /// The number of partitions that the member reads.
    pub partitions: usize,
}

/// The committed offset of a group in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedOffset<'a> {
    /// The offset of the next record to read; `None` when the client committed a negative number.
    pub offset: Option<Sequence>,
    /// The offset as the client committed it. Clients of Kafka commit negative numbers that mean
    /// something to themselves, such as the start or the end of the partition.
    pub number: i64,
    /// The leader epoch of the last record that was read, when the consumer knew it.
    pub leader_epoch: Option<u32>,
    /// The consumer's note.
    pub metadata: &'a str,
    /// When it was committed.
    pub time: Timestamp,
}

impl Streams {
    /// The topic of this name.
    pub fn topic_named(&self, name: &str) -> Option<TopicInfo<'_>> {
        self.topic(TopicId::new(self.topics.id(name)?))
    }

    /// The topic with this id.
    pub fn topic(&self, id: TopicId) -> Option<TopicInfo<'_>> {
        self.topic_at(id).map(|(name, topic)| {
            let (partitions, settings, kept) = (topic.partitions, topic.settings, &topic.kept);
            TopicInfo { id, name, partitions, settings, kept }
        })
    }

    /// Whether a topic has embedded producers compress.
    pub fn compresses(&self) -> bool {
        self.compressing > 0
    }

    /// The settings of a topic, if it exists.
    pub fn settings_of(&self, topic: TopicRef<'_>) -> Option<TopicSettings> {
        let id = match topic {
            TopicRef::Id(id) => id,
            TopicRef::Name(name) => TopicId::new(self.topics.id(name)?),
            TopicRef::Outside(_) => return None,
        };
        self.topic_at(id).map(|(_, topic)| topic.settings)
    }

    /// Whether any topic compacts.
    pub fn compacts(&self) -> bool {
        self.compacting > 0
    }

    /// Every topic, in the order of the names.
    pub fn topics(&self) -> impl Iterator<Item = TopicInfo<'_>> {
        self.topics.ids_by_name().filter_map(|id| self.topic(TopicId::new(id)))
    }

    /// The topics from `name` on, which need not exist. Callers that list many topics ask for a few
    /// at a time.
    pub fn topics_from(&self, name: &str) -> impl Iterator<Item = TopicInfo<'_>> {
        self.topics.ids_from(name).filter_map(|id| self.topic(TopicId::new(id)))
    }

    /// Every consumer group that committed an offset or had a member, in the order of the names.
    pub fn groups(&self) -> impl Iterator<Item = GroupInfo<'_>> {
        self.groups.ids_by_name().filter_map(|id| self.group(id))
    }

    /// The groups from `name` on, which need not exist. Callers that list many groups ask for a few
    /// at a time.
    pub fn groups_from(&self, name: &str) -> impl Iterator<Item = GroupInfo<'_>> {
        self.groups.ids_from(name).filter_map(|id| self.group(id))
    }

    /// The consumer group of this name.
    pub fn group_named(&self, name: &str) -> Option<GroupInfo<'_>> {
        self.group(self.groups.id(name)?)
    }

    /// The consumer group with this id.
    pub fn group_numbered(&self, id: GroupId) -> Option<GroupInfo<'_>> {
        self.group(id.get())
    }

    fn group(&self, id: u32) -> Option<GroupInfo<'_>> {
        let (name, group) = self.groups.get(id)?;
        Some(GroupInfo {
            id: GroupId::new(id),
            name,
            partitions: group.offsets.len(),
            generation: group.generation,
            protocol_type: &group.protocol_type,
            protocol: &group.protocol,
        })
    }

    /// The static members of a group, as its current generation began with them.
    pub fn static_members(&self, group: &str) -> impl Iterator<Item = StaticMember<'_>> {
        let group = self.groups.id(group).and_then(|id| self.groups.get(id));
        let members = group.into_iter().flat_map(|(_, group)| &group.members);
        members.map(|(instance, member)| StaticMember { instance, member })
    }

    /// The members that share a topic in a group by leases, in the order of their joins. A lease
    /// may have expired without a command having noticed.
    pub fn members(&self, group: &str, topic: TopicId) -> impl Iterator<Item = MemberInfo<'_>> {
        let roster = self.roster(group, topic);
        roster.into_iter().flat_map(|roster| {
            roster.members.iter().map(|(id, member)| MemberInfo {
                id: *id,
                name: &member.name,
                lease_ms: member.lease_ms,
                until: member.until,
                partitions: roster.share(*id).count(),
            })
        })
    }

    /// Returns the number of times that a topic was divided among a group's members by lease. Their
    /// shares change only together with this number.
    pub fn shared_out(&self, group: &str, topic: TopicId) -> u64 {
        self.roster(group, topic).map_or(0, |roster| roster.version)
    }

    /// The partitions of a topic that a group's member by lease reads; `None` when it is no member.
    pub fn share(&self, group: &str, topic: TopicId, member: MemberId) -> Option<impl Iterator<Item = OwnedPartition>> {
        let roster = self.roster(group, topic)?;
        roster.members.contains_key(&member).then(|| roster.share(member))
    }

    /// The topics whose partitions a group's members share by leases.
    pub fn shared_topics(&self, group: &str) -> impl Iterator<Item = TopicId> {
        let group = self.groups.id(group).and_then(|id| self.groups.get(id));
        let rosters = group.into_iter().flat_map(|(_, group)| &group.rosters);
        rosters.filter(|(_, roster)| !roster.members.is_empty()).map(|(topic, _)| *topic)
    }

    /// The topics that keep records that a group has not read.
    pub fn protected_by(&self, group: &str) -> impl Iterator<Item = TopicId> {
        let group = self.groups.id(group).and_then(|id| self.groups.get(id));
        group.into_iter().flat_map(|(_, group)| &group.protected).copied()
    }

    fn roster(&self, group: &str, topic: TopicId) -> Option<&Roster> {
        let (_, group) = self.groups.get(self.groups.id(group)?)?;
        group.rosters.get(&topic)
    }

    /// The groups whose unread records a topic keeps, in the order of their creation.
    pub fn protecting(&self, topic: TopicId) -> impl Iterator<Item = &str> {
        self.groups.iter().filter(move |(_, _, group)| group.protected.contains(&topic)).map(|(_, name, _)| name)
    }

    /// The idempotent producers that are remembered of a partition, in the order of their ids.
    pub fn producers_of(&self, topic: TopicId, partition: u32) -> impl Iterator<Item = ActiveProducer> {
        self.producers.of((topic, partition))
    }

    /// The bytes of a partition's batches from its start on. The result is at most 1/32 too large.
    ///
    /// # Errors
    /// When the partition is not there.
    pub fn partition_bytes(&self, topic: TopicId, partition: u32) -> Result<u64, StreamReadError> {
        let found = self.partition(topic, partition)?;
        Ok(self.written(topic, partition).map_or(0, |written| written.samples.bytes_from(found.start())))
    }

    pub(crate) fn written(&self, topic: TopicId, partition: u32) -> Option<&PartitionState> {
        self.topic_at(topic)?.1.written.get(&partition)
    }

    /// Returns the group's committed offset in a partition; `None` when it never committed.
    pub fn committed(&self, group: &str, topic: TopicId, partition: u32) -> Option<CommittedOffset<'_>> {
        let (_, group) = self.groups.get(self.groups.id(group)?)?;
        group.offsets.get(topic, partition).map(committed)
    }

    /// Everything that this group committed, by topic and partition; nothing of a group that is not
    /// there.
    pub fn committed_by(&self, group: &str) -> impl Iterator<Item = (TopicId, u32, CommittedOffset<'_>)> {
        self.committed_by_behind(group, None)
    }

    /// The offsets after one topic and partition: for callers that read many, a part at a time.
    pub fn committed_by_behind(
        &self,
        group: &str,
        behind: Option<(TopicId, u32)>,
    ) -> impl Iterator<Item = (TopicId, u32, CommittedOffset<'_>)> {
        let group = self.groups.id(group).and_then(|id| self.groups.get(id));
        group
            .into_iter()
            .flat_map(move |(_, group)| group.offsets.after(behind))
            .map(|((topic, partition), offset)| (topic, partition, committed(offset)))
    }

    /// Returns the first and the next offset of the partition.
    ///
    /// # Errors
    /// When the partition does not exist, or the log can't be read.
    pub fn offsets(
        &self,
        history: &dyn History,
        topic: TopicId,
        partition: u32,
    ) -> Result<PartitionOffsets, StreamReadError> {
        Ok(self.partition(topic, partition)?.offsets(history)?)
    }

    /// Visits the stored batches, beginning with the one that contains offset `from`. See
    /// [`Partition::fetch`].
    ///
    /// # Errors
    /// See [`Partition::fetch`]. A missing partition is an error, too.
    pub fn fetch(
        &self,
        history: &dyn History,
        topic: TopicId,
        partition: u32,
        from: Sequence,
        bytes_max: usize,
        visit: &mut dyn FnMut(StoredBatch<'_>) -> ControlFlow<()>,
    ) -> Result<FetchSummary, StreamReadError> {
        self.partition(topic, partition)?.fetch(history, from, bytes_max, visit)
    }

    /// The first record that is not earlier than `timestamp_ms`, without opening compressed
    /// batches. See [`Partition::offset_at_time`].
    ///
    /// # Errors
    /// When the partition does not exist, or the log can't be read.
    pub fn offset_at_time(
        &self,
        history: &dyn History,
        topic: TopicId,
        partition: u32,
        timestamp_ms: i64,
    ) -> Result<Option<TimeOffset>, StreamReadError> {
        let partition = self.partition_from_time(topic, partition, timestamp_ms)?;
        Ok(partition.offset_at_time(history, timestamp_ms, &mut |_, _| None)?)
    }

    /// The partition, to be read with nothing but the log.
    ///
    /// # Errors
    /// When it is not there.
    pub fn partition(&self, topic: TopicId, partition: u32) -> Result<Partition, StreamReadError> {
        let (_, found) = self.topic_at(topic).ok_or(StreamReadError::UnknownTopic { topic })?;
        let partitions = found.partitions;
        if partition >= partitions {
            return Err(StreamReadError::UnknownPartition { topic, partition, partitions });
        }
        Ok(Partition::new(topic, partition, found.start(partition), found.has_holes))
    }

    /// The part of the partition that [`Partition::offset_at_time`] has to search: without batches
    /// known to be earlier than the time. In a long partition it is small.
    ///
    /// # Errors
    /// When it is not there.
    pub fn partition_from_time(
        &self,
        topic: TopicId,
        partition: u32,
        timestamp_ms: i64,
    ) -> Result<Partition, StreamReadError> {
        let found = self.partition(topic, partition)?;
        let written = self.written(topic, partition);
        let from = written.and_then(|written| written.samples.offset_before_time(timestamp_ms));
        Ok(found.from(from.unwrap_or_default()))
    }

    /// Returns the first offset of the batch that holds the record with the latest time, unless the
    /// batch is deleted.
    pub fn latest_batch(&self, topic: TopicId, partition: u32) -> Option<Sequence> {
        // Compaction may have removed the record with the latest time, because its key has a newer
        // one.
        let (_, found) = self.topic_at(topic).filter(|(_, found)| !found.has_holes)?;
        let written = found.written.get(&partition)?;
        written.samples.latest.map(|latest| latest.base_offset).filter(|offset| *offset >= written.start)
    }
}

fn committed(committed: &StoredOffset) -> CommittedOffset<'_> {
    CommittedOffset {
        offset: committed.next(),
        number: committed.offset.get().cast_signed(),
        leader_epoch: committed.leader_epoch,
        metadata: &committed.metadata,
        time: committed.time,
    }
}
