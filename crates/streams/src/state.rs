//! The state of streams: the catalogue of topics and groups, how far each group has read, and what
//! idempotent producers sent last.
//!
//! The state holds a bounded sketch of a partition's records ([`Samples`]), and the offset before
//! which they are deleted.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use quire_model::Sequence;

use crate::catalogue::Catalogue;
use crate::offsets::CommittedOffsets;
use crate::producers::Producers;
use crate::removed::RemovedMaps;
use crate::roster::Roster;
use crate::samples::Samples;
use crate::tag::{PartitionTag, partition_tag};
use crate::{Generation, GroupId, KeptSettings, MemberId, TopicId, TopicSettings};

/// The streams of a shard.
#[derive(Debug, Default)]
pub struct Streams {
    /// By [`TopicId`].
    pub(crate) topics: Catalogue<Topic>,
    /// By [`GroupId`].
    pub(crate) groups: Catalogue<Group>,
    pub(crate) producers: Producers,
    /// The number of topics whose embedded producers compress.
    pub(crate) compressing: usize,
    /// The number of topics that compact.
    pub(crate) compacting: usize,
    /// The id that the next member by lease gets.
    pub(crate) next_member: MemberId,
    /// The partitions of all topics.
    pub(crate) partitions: u64,
    /// The memory of all committed offsets, as [`StoredOffset::bytes`] counts it.
    pub(crate) offset_bytes: u64,
    /// Each topic with each group that has an offset, a protection or a roster of it. So a change
    /// of a topic looks at the groups of the topic only.
    pub(crate) readers: BTreeSet<(TopicId, GroupId)>,
    pub(crate) removed: RemovedMaps,
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) partitions: u32,
    pub(crate) settings: TopicSettings,
    pub(crate) kept: KeptSettings,
    /// Whether the topic compacts, or did: there may be offsets without a record.
    pub(crate) has_holes: bool,
    /// The partitions that anything was written to, or deleted from.
    pub(crate) written: BTreeMap<u32, PartitionState>,
}

/// Facts about a partition, except its records.
#[derive(Debug, Default)]
pub(crate) struct PartitionState {
    /// Records before this offset were deleted. Their bytes may still be in the log.
    pub(crate) start: Sequence,
    pub(crate) samples: Samples,
}

impl Topic {
    pub(crate) fn new(partitions: u32, settings: TopicSettings, kept: KeptSettings) -> Self {
        let has_holes = settings.cleanup.compacts();
        Topic { partitions, settings, kept, has_holes, written: BTreeMap::new() }
    }

    /// Changes the topic's settings; returns the changed settings with their earlier values.
    pub(crate) fn change(&mut self, settings: TopicSettings, kept: KeptSettings) -> TopicSettings {
        self.kept = kept;
        self.has_holes |= settings.cleanup.compacts();
        core::mem::replace(&mut self.settings, settings)
    }

    /// Returns the lowest first offset that this partition can have.
    pub(crate) fn start(&self, partition: u32) -> Sequence {
        self.written.get(&partition).map_or(Sequence::new(0), |written| written.start)
    }
}

impl PartitionState {
    pub(crate) fn begin_at(&mut self, start: Sequence) {
        self.start = self.start.max(start);
        self.samples.drop_before(self.start);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The last committed offset for each partition.
    pub(crate) offsets: CommittedOffsets,
    pub(crate) generation: Generation,
    pub(crate) protocol_type: Box<str>,
    pub(crate) protocol: Box<str>,
    /// The ids of the static members, by their instances' names.
    pub(crate) members: BTreeMap<Box<str>, Box<str>>,
    /// The topics that keep records that this group has not read.
    pub(crate) protected: BTreeSet<TopicId>,
    /// The members by lease that share each topic's partitions.
    pub(crate) rosters: BTreeMap<TopicId, Roster>,
}

impl Group {
    /// The topics that it has an offset, a protection or a roster of; some of them several times.
    pub(crate) fn topics(&self) -> impl Iterator<Item = TopicId> {
        self.offsets.topics().chain(self.protected.iter().copied()).chain(self.rosters.keys().copied())
    }

    /// Whether it has an offset, a protection or a roster of a topic.
    fn reads(&self, topic: TopicId) -> bool {
        self.offsets.has_topic(topic) || self.protected.contains(&topic) || self.rosters.contains_key(&topic)
    }
}

impl Streams {
    /// The groups that have an offset, a protection or a roster of a topic, in the order of their
    /// ids.
    pub(crate) fn readers_of(&self, topic: TopicId) -> impl Iterator<Item = (GroupId, &Group)> {
        let of_topic = (topic, GroupId::new(0))..=(topic, GroupId::new(u32::MAX));
        self.readers.range(of_topic).map(|(_, id)| {
            let (_, group) = self.groups.get(id.get()).expect("a reader of a topic exists");
            (*id, group)
        })
    }

    /// Updates whether a group is among the readers of a topic.
    pub(crate) fn note_reader(&mut self, topic: TopicId, id: GroupId) {
        let reads = self.groups.get(id.get()).is_some_and(|(_, group)| group.reads(topic));
        match reads {
            true => self.readers.insert((topic, id)),
            false => self.readers.remove(&(topic, id)),
        };
    }

    /// The partitions of all topics.
    pub fn partition_count(&self) -> u64 {
        self.partitions
    }

    /// The number of topics.
    pub fn topic_count(&self) -> u64 {
        self.topics.len() as u64
    }

    /// The number of consumer groups.
    pub fn group_count(&self) -> u64 {
        self.groups.len() as u64
    }

    /// The bytes of all committed offsets: 96 each, and those of the note.
    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// The tag of each partition, and the lowest offset that its next record may get: after every
    /// sampled batch and every batch of a known producer. So a salvage that lost the last batches
    /// of a partition gives none of their offsets again.
    pub fn numbers_reached(&self) -> impl Iterator<Item = (PartitionTag, Sequence)> {
        let mut reached = BTreeMap::new();
        for (topic, _, of) in self.topics.iter() {
            for (partition, written) in &of.written {
                let last = written.samples.last_offset().map_or(0, |last| last.get() + 1);
                reached.insert((TopicId::new(topic), *partition), last.max(written.start.get()));
            }
        }
        for (partition, next) in self.producers.offsets_reached() {
            let known = reached.entry(partition).or_default();
            *known = next.get().max(*known);
        }
        reached.into_iter().map(|((topic, partition), next)| (partition_tag(topic, partition), Sequence::new(next)))
    }

    /// A topic's name and its state.
    pub(crate) fn topic_at(&self, topic: TopicId) -> Option<(&str, &Topic)> {
        self.topics.get(topic.get())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use quire_model::codec::{Decoder, Encoder};
    use quire_model::{Model, Timestamp};

    use super::*;
    use crate::offsets::StoredOffset;

    /// Groups `0..groups`, each with an offset in each of the topics `0..topics`.
    fn streams(groups: u32, topics: u32) -> Streams {
        let mut streams = Streams::default();
        for id in 0..topics {
            let topic = Topic::new(1, TopicSettings::default(), KeptSettings::default());
            streams.topics.add(id, &format!("t{id}"), topic);
        }
        for id in 0..groups {
            let mut offsets = CommittedOffsets::default();
            for topic in 0..topics {
                let (offset, time, metadata) = (Sequence::new(1), Timestamp::ZERO, Box::default());
                offsets.insert(TopicId::new(topic), 0, StoredOffset { offset, leader_epoch: None, time, metadata });
            }
            streams.groups.add(id, &format!("g{id}"), Group { offsets, ..Group::default() });
        }
        let mut saved = Encoder::new();
        streams.save(&mut saved);
        Streams::load(&mut Decoder::new(saved.as_slice())).expect("it was saved")
    }

    #[test]
    fn the_groups_of_a_topic_are_those_that_read_it_after_every_change_and_a_restart() {
        let (mut streams, topic) = (streams(3, 4), TopicId::new(2));
        let readers = |streams: &Streams| streams.readers_of(topic).map(|(id, _)| id.get()).collect::<Vec<_>>();
        assert_eq!(readers(&streams), [0, 1, 2]);
        let group = streams.groups.get_mut(1).expect("it was added");
        group.offsets.remove(topic, 0);
        group.protected.insert(topic);
        streams.note_reader(topic, GroupId::new(1));
        assert_eq!(readers(&streams), [0, 1, 2], "it protects the topic");
        streams.groups.get_mut(1).expect("it was added").protected.remove(&topic);
        streams.note_reader(topic, GroupId::new(1));
        assert_eq!(readers(&streams), [0, 2]);
    }

    #[test]
    fn a_deletion_of_a_topic_looks_at_what_the_topic_has_whatever_else_there_is() {
        let mut streams = streams(2, 1_000);
        for topic in 0..1_000 {
            let topic = TopicId::new(topic);
            assert_eq!(streams.readers_of(topic).count(), 2);
            let group = streams.groups.get_mut(0).expect("it was added");
            assert_eq!(group.offsets.remove_topic(topic).map(|(offsets, bytes)| (offsets.len(), bytes)), Some((1, 96)));
        }
        assert!(streams.groups.get(0).is_some_and(|(_, group)| group.offsets.len() == 0));
    }
}
