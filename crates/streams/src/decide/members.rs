//! Decides on members by lease: joins, renewals, and the fencing of commits.
//!
//! An expired lease has no effect until another member acts: a join or a renewal removes expired
//! members in the same commit. Until then, the expired member may commit, because no other member
//! reads its partitions.

use alloc::vec;
use alloc::vec::Vec;

use super::check::is_member_name;
use super::{Draft, Stop};
use crate::codec::{
    JoinedBody, MEMBER_JOINED, MEMBER_RENEWED, MEMBERS_GONE, RemovedMembersBody, RenewedBody, UNREAD_PROTECTED,
    encode_protected,
};
use crate::offsets::StoredOffset;
use crate::roster::{Member, Owner, Roster};
use crate::tag::group_tag;
use crate::{
    GroupId, LEASE_MS_MAX, MemberId, MemberJoined, OwnerEpoch, Refusal, Reply, STATIC_MEMBERS_MAX, TopicId, TopicRef,
};

impl<'c> Draft<'_, 'c> {
    pub(super) fn join_group(
        &mut self,
        group_name: &'c str,
        topic: TopicRef<'c>,
        name: &'c str,
        lease_ms: u32,
    ) -> Result<Reply, Stop> {
        if !is_member_name(name) {
            return Err(Refusal::InvalidMembers.into());
        }
        if !(1..=LEASE_MS_MAX).contains(&lease_ms) {
            return Err(Refusal::InvalidLease { lease_ms }.into());
        }
        let (topic, shape) = self.topic_or_create(topic, None)?;
        let group = self.group_or_create(group_name)?;
        let now = self.effects.at().time;
        let gone = self.roster(group, topic).map_or_else(Vec::new, |roster| roster.gone_with(name, now));
        let staying = self.roster(group, topic).map_or(0, |roster| roster.members.len() - gone.len());
        if staying >= STATIC_MEMBERS_MAX {
            return Err(Refusal::InvalidMembers.into());
        }
        self.end_generation(group_name, group);
        let member = MemberId::new(self.state.next_member.get() + self.added().members_given);
        self.add().members_given += 1;
        let joined = (member, Member::new(name, lease_ms, now));
        self.roster_mut(group, topic).change(&gone, Some(joined), shape.partitions);
        let body = JoinedBody { gone: RemovedMembersBody { group, topic, members: gone }, member, lease_ms, name };
        self.push_alone(MEMBER_JOINED, &group_tag(group), body.encode().as_slice());
        Ok(Reply::MemberJoined(MemberJoined { group, topic, member }))
    }

    pub(super) fn renew_member(&mut self, group: &str, topic: TopicRef<'c>, member: MemberId) -> Result<Reply, Stop> {
        let (topic, shape) = self.topic_or_create(topic, None)?;
        let group = self.group(group)?;
        let now = self.effects.at().time;
        let roster = self.roster(group, topic);
        let roster = roster.filter(|roster| roster.members.contains_key(&member));
        let roster = roster.ok_or(Refusal::UnknownMember { member })?;
        let gone: Vec<MemberId> = roster.gone_with("", now).into_iter().filter(|id| *id != member).collect();
        self.renew(group, topic, member);
        if !gone.is_empty() {
            self.take_out(group, topic, gone, shape.partitions);
        }
        Ok(Reply::MemberRenewed(group))
    }

    pub(super) fn leave_group(&mut self, group: &str, topic: TopicRef<'c>, member: MemberId) -> Result<Reply, Stop> {
        let (topic, shape) = self.topic_or_create(topic, None)?;
        let group = self.group(group)?;
        if self.roster(group, topic).is_some_and(|roster| roster.members.contains_key(&member)) {
            self.take_out(group, topic, vec![member], shape.partitions);
        }
        Ok(Reply::MemberLeft(group))
    }

    /// Checks that a member may commit in a partition. Renews its lease when the renewal is worth
    /// an entry.
    pub(super) fn check_owner(
        &mut self,
        group: &str,
        topic: TopicId,
        partition: u32,
        member: MemberId,
        epoch: OwnerEpoch,
    ) -> Result<(), Stop> {
        let group = self.group(group)?;
        let roster = self.roster(group, topic);
        let known = roster.and_then(|roster| Some((roster, roster.members.get(&member)?)));
        let (roster, known) = known.ok_or(Refusal::UnknownMember { member })?;
        if roster.owner(partition) != Some(Owner { member, epoch }) {
            return Err(Refusal::NotOwner { partition, member }.into());
        }
        if known.is_worth_renewing(self.effects.at().time) {
            self.renew(group, topic, member);
        }
        Ok(())
    }

    /// Checks that a group has no members by lease.
    pub(super) fn check_no_leases(&self, group: GroupId) -> Result<(), Refusal> {
        let now = self.effects.at().time;
        let changed = self.added().rosters.range((group, TopicId::new(0))..=(group, TopicId::new(u32::MAX)));
        let changed = changed.map(|(_, roster)| roster.count(now));
        let known = self.state.groups.get(group.get()).into_iter().flat_map(|(_, group)| &group.rosters);
        let known = known.filter(|(topic, _)| !self.added().rosters.contains_key(&(group, **topic)));
        let leases = changed.chain(known.map(|(_, roster)| roster.count(now))).sum();
        if leases == 0 { Ok(()) } else { Err(Refusal::GroupHasMembers { leases, generation: None }) }
    }

    pub(super) fn protect_unread(
        &mut self,
        group: &'c str,
        topic: TopicRef<'c>,
        protects: bool,
    ) -> Result<Reply, Stop> {
        let (topic, _) = self.topic_or_create(topic, None)?;
        let group = self.group_or_create(group)?;
        self.add().protections.insert((group, topic), protects);
        self.push_alone(UNREAD_PROTECTED, &group_tag(group), encode_protected(group, topic, protects).as_slice());
        Ok(Reply::UnreadProtected(group))
    }

    /// The first record of a partition that a group has not read for which it is kept; `None` when
    /// none is.
    pub(super) fn unread_from(&self, topic: TopicId, partition: u32) -> Option<quire_model::Sequence> {
        let added = self.added();
        let known = self.state.readers_of(topic).map(|(id, group)| (id, group.protected.contains(&topic)));
        let known = known.filter(|(id, _)| !added.protections.contains_key(&(*id, topic)));
        let changed = added.protections.iter().filter(|((_, of), _)| *of == topic);
        let changed = changed.map(|((id, _), protects)| (*id, *protects));
        let protecting =
            known.chain(changed).filter(|(id, protects)| *protects && !added.groups.gone.contains(&id.get()));
        let read = |group: GroupId| match added.offsets.get(&(group, topic, partition)) {
            Some(changed) => *changed,
            None => {
                let (_, group) = self.state.groups.get(group.get())?;
                group.offsets.get(topic, partition).and_then(StoredOffset::next)
            }
        };
        protecting.map(|(group, _)| read(group).unwrap_or_default()).min()
    }

    /// The topic has another number of partitions.
    pub(super) fn share_out_anew(&mut self, topic: TopicId, partitions: u32) {
        let known = self.state.readers_of(topic).filter(|(_, group)| group.rosters.contains_key(&topic));
        let known = known.map(|(id, _)| id);
        let added = self.added().rosters.keys().filter(|(_, of)| *of == topic).map(|(group, _)| *group);
        let groups: Vec<GroupId> = known.chain(added).collect();
        for group in groups {
            let roster = self.roster_mut(group, topic);
            if roster.partitions() != partitions {
                roster.share_out(partitions);
            }
        }
    }

    fn roster(&self, group: GroupId, topic: TopicId) -> Option<&Roster> {
        let known = || self.state.groups.get(group.get())?.1.rosters.get(&topic);
        self.added().rosters.get(&(group, topic)).or_else(known)
    }

    fn roster_mut(&mut self, group: GroupId, topic: TopicId) -> &mut Roster {
        let state = self.state;
        let known = || state.groups.get(group.get())?.1.rosters.get(&topic).cloned();
        self.add().rosters.entry((group, topic)).or_insert_with(|| known().unwrap_or_default())
    }

    fn take_out(&mut self, group: GroupId, topic: TopicId, members: Vec<MemberId>, partitions: u32) {
        self.roster_mut(group, topic).change(&members, None, partitions);
        let body = RemovedMembersBody { group, topic, members }.encode();
        self.push_alone(MEMBERS_GONE, &group_tag(group), body.as_slice());
    }

    fn renew(&mut self, group: GroupId, topic: TopicId, member: MemberId) {
        let now = self.effects.at().time;
        let body = RenewedBody { group, topic, member };
        self.push_alone(MEMBER_RENEWED, &group_tag(group), body.encode().as_slice());
        let roster = self.roster_mut(group, topic);
        roster.members.get_mut(&member).expect("looked up before it is renewed").renew(now);
    }
}
