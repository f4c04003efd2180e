//! Decides on groups: how far they have read, and the generations of those that a coordinator
//! leads.

use alloc::string::String;

use quire_model::{NewEntry, ResourceClaim, Sequence, Tag};

use super::check::{check_members, check_partition, is_member_name};
use super::{Draft, Stop};
use crate::codec::{GENERATION_BEGUN, GROUP_CREATED, GenerationBody, GroupBody, OFFSET_COMMITTED, OffsetBody};
use crate::name::check_group;
use crate::offsets::{StoredOffset, next_of, offset_bytes};
use crate::tag::group_tag;
use crate::{Generation, GroupId, Refusal, Reply, StaticMember, TopicId, TopicRef};

impl<'c> Draft<'_, 'c> {
    /// Checks that a group may commit offsets in a partition, and returns its topic.
    pub(super) fn committed_in(&mut self, topic: TopicRef<'c>, partition: u32) -> Result<TopicId, Refusal> {
        let (topic, partitions) = match topic {
            TopicRef::Outside(number) => (TopicId::outside(number), 1),
            topic => self.terms_or_create(topic, None).map(|(topic, terms)| (topic, terms.partitions))?,
        };
        check_partition(topic, partition, partitions)?;
        Ok(topic)
    }

    /// Returns an existing group.
    pub(super) fn group(&self, name: &str) -> Result<GroupId, Refusal> {
        let id = self.added().groups.id(name, &self.state.groups);
        id.map(GroupId::new).ok_or_else(|| Refusal::UnknownGroup { name: String::from(name) })
    }

    pub(super) fn group_or_create(&mut self, name: &'c str) -> Result<GroupId, Refusal> {
        if let Some(id) = self.added().groups.id(name, &self.state.groups) {
            return Ok(GroupId::new(id));
        }
        check_group(name).map_err(Refusal::InvalidGroupName)?;
        self.effects.claim(ResourceClaim::Group)?;
        let state = self.state;
        let group = GroupId::new(self.add().groups.add(name, (), &state.groups));
        self.effects.push(NewEntry {
            kind: GROUP_CREATED,
            tags: &[Tag::new(&group_tag(group))],
            sequenced: None,
            body: &[&GroupBody { group, name }.fixed(), name.as_bytes()],
        });
        Ok(group)
    }

    /// The group's current generation; 0 before the first.
    pub(super) fn generation(&self, name: &str) -> Generation {
        let Some(id) = self.added().groups.id(name, &self.state.groups) else { return Generation::default() };
        let known = || self.state.groups.get(id).map(|(_, group)| group.generation);
        self.added().generations.get(&GroupId::new(id)).copied().or_else(known).unwrap_or_default()
    }

    pub(super) fn check_generation(&self, group: &str, generation: Generation) -> Result<(), Refusal> {
        let current = self.generation(group);
        if generation == current { Ok(()) } else { Err(Refusal::StaleGeneration { generation, current }) }
    }

    pub(super) fn begin_generation(
        &mut self,
        name: &'c str,
        generation: Generation,
        protocol_type: &'c str,
        protocol: &'c str,
        members: &'c [StaticMember<'c>],
    ) -> Result<Reply, Stop> {
        check_members(members)?;
        if !is_member_name(protocol_type) || !is_member_name(protocol) {
            return Err(Refusal::InvalidMembers.into());
        }
        let current = self.generation(name);
        if generation.get().checked_sub(1) != Some(current.get()) {
            return Err(Refusal::StaleGeneration { generation, current }.into());
        }
        let group = self.group_or_create(name)?;
        self.check_no_leases(group)?;
        self.push_generation(group, generation, protocol_type, protocol, members);
        Ok(Reply::GenerationBegun(group))
    }

    /// Whether the members that a coordinator began the group's generation with may be there.
    pub(super) fn has_generation(&self, group: GroupId) -> bool {
        if let Some(has_members) = self.added().generation_has_members.get(&group) {
            return *has_members;
        }
        self.state.groups.get(group.get()).is_some_and(|(_, group)| !group.protocol.is_empty())
    }

    /// Ends the generation that a coordinator began for its members.
    pub(super) fn end_generation(&mut self, name: &str, group: GroupId) {
        if self.has_generation(group) {
            let next = self.generation(name).get() + 1;
            self.push_generation(group, Generation::new(next), "", "", &[]);
        }
    }

    pub(super) fn push_generation(
        &mut self,
        group: GroupId,
        generation: Generation,
        protocol_type: &str,
        protocol: &str,
        members: &[StaticMember<'_>],
    ) {
        self.add().generations.insert(group, generation);
        self.add().generation_has_members.insert(group, !protocol.is_empty());
        let body = GenerationBody { group, generation, protocol_type, protocol, members: members.to_vec() }.encode();
        self.push_alone(GENERATION_BEGUN, &group_tag(group), body.as_slice());
    }

    /// Notes how far a group has read, when a later command may ask for it.
    pub(super) fn note_offset(&mut self, group: GroupId, topic: TopicId, partition: u32, offset: Option<Sequence>) {
        if self.asks_for_ends {
            self.add().offsets.insert((group, topic, partition), offset);
        }
    }

    pub(super) fn commit_offset(&mut self, body: &OffsetBody<'_>) -> Result<(), Refusal> {
        let known = self.state.groups.get(body.group.get());
        let known = known.and_then(|(_, group)| group.offsets.get(body.topic, body.partition));
        let before = known.map_or(0, StoredOffset::bytes);
        let after = offset_bytes(body.metadata);
        if after > before {
            self.effects.claim(ResourceClaim::OffsetBytes(after - before))?;
        }
        self.note_offset(body.group, body.topic, body.partition, next_of(body.offset));
        self.effects.push(NewEntry {
            kind: OFFSET_COMMITTED,
            tags: &[Tag::new(&group_tag(body.group))],
            sequenced: None,
            body: &[&body.fixed(), body.metadata.as_bytes()],
        });
        Ok(())
    }
}
