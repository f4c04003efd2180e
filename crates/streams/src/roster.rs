//! The members of a group that share a topic by leases: consumers that have no coordinator but the
//! log.
//!
//! A member belongs to the roster from its join until it leaves, or until a command notices that
//! its lease has expired. The owner of each partition follows from the members, by
//! [`Roster::share_out`]. The division is computed wherever the members change. It is part of the
//! meaning of the log, so it cannot change without a new kind of entry.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use quire_model::Timestamp;
use quire_model::codec::{CodecError, Decoder, Encoder};

use crate::{MemberId, OwnedPartition, OwnerEpoch};

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    /// The number of divisions up to now. While it is unchanged, the shares are unchanged.
    pub(crate) version: u64,
    pub(crate) members: BTreeMap<MemberId, Member>,
    /// By partition; empty without members.
    owners: Vec<Owner>,
}

/// The owner of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) member: MemberId,
    /// The version in which it was given the partition.
    pub(crate) epoch: OwnerEpoch,
}

/// A member with its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The slot that it takes from an earlier member; empty for a member without a slot.
    pub(crate) name: Box<str>,
    pub(crate) lease_ms: u32,
    /// When its lease runs out.
    pub(crate) until: Timestamp,
}

impl Member {
    pub(crate) fn new(name: &str, lease_ms: u32, now: Timestamp) -> Self {
        Member { name: Box::from(name), lease_ms, until: now.plus_micros(u64::from(lease_ms) * 1000) }
    }

    pub(crate) fn renew(&mut self, now: Timestamp) {
        self.until = self.until.max(now.plus_micros(u64::from(self.lease_ms) * 1000));
    }

    /// Whether so large a part of the lease has passed that a renewal is worth an entry.
    pub(crate) fn is_worth_renewing(&self, now: Timestamp) -> bool {
        let left = self.until.as_micros().saturating_sub(now.as_micros());
        left <= u64::from(self.lease_ms) * 1000 * 2 / 3
    }
}

impl Roster {
    /// Returns the members whose leases have expired, and the member that holds the slot `name`, if
    /// `name` is not empty.
    pub(crate) fn gone_with(&self, name: &str, now: Timestamp) -> Vec<MemberId> {
        let is_gone = |member: &Member| member.until <= now || (!name.is_empty() && *member.name == *name);
        self.members.iter().filter(|(_, member)| is_gone(member)).map(|(id, _)| *id).collect()
    }

    /// Returns the number of members with a lease.
    pub(crate) fn count(&self, now: Timestamp) -> usize {
        self.members.values().filter(|member| member.until > now).count()
    }

    /// Returns the number of divided partitions; 0 without members.
    pub(crate) fn partitions(&self) -> u32 {
        self.owners.len() as u32
    }

    /// The owner of this partition.
    pub(crate) fn owner(&self, partition: u32) -> Option<Owner> {
        self.owners.get(partition as usize).copied()
    }

    /// The partitions that a member reads.
    pub(crate) fn share(&self, member: MemberId) -> impl Iterator<Item = OwnedPartition> {
        let owned = (0..).zip(&self.owners).filter(move |(_, owner)| owner.member == member);
        owned.map(|(partition, owner)| OwnedPartition { partition, epoch: owner.epoch })
    }

    /// Removes members, adds one, and divides `partitions` partitions again.
    pub(crate) fn change(&mut self, gone: &[MemberId], joined: Option<(MemberId, Member)>, partitions: u32) {
        self.members.retain(|id, _| !gone.contains(id));
        self.members.extend(joined);
        self.share_out(partitions);
    }

    /// Divides `partitions` partitions again. Shares differ by at most one, and each member keeps
    /// as much of its share as possible: members with the largest shares first, then the members
    /// that joined first.
    pub(crate) fn share_out(&mut self, partitions: u32) {
        self.version += 1;
        if self.members.is_empty() {
            self.owners.clear();
            return;
        }
        let mut had: BTreeMap<MemberId, u32> = self.members.keys().map(|id| (*id, 0)).collect();
        for owner in &self.owners {
            if let Some(count) = had.get_mut(&owner.member) {
                *count += 1;
            }
        }
        let mut by_count: Vec<(MemberId, u32)> = had.into_iter().collect();
        by_count.sort_by_key(|(id, count)| (core::cmp::Reverse(*count), *id));
        let members = by_count.len() as u32;
        let (least, with_one_more) = (partitions / members, partitions % members);
        let room = (0..members).map(|rank| least + u32::from(rank < with_one_more));
        let mut room: BTreeMap<MemberId, u32> = by_count.iter().map(|(id, _)| *id).zip(room).collect();
        let mut take = |id: MemberId| match room.get_mut(&id) {
            Some(room) if *room > 0 => {
                *room -= 1;
                true
            }
            _ => false,
        };
        let kept = |at| self.owners.get(at).copied().filter(|owner: &Owner| take(owner.member));
        let kept: Vec<Option<Owner>> = (0..partitions as usize).map(kept).collect();
        let epoch = OwnerEpoch::new(self.version);
        let mut free = room.into_iter().flat_map(|(id, room)| core::iter::repeat_n(id, room as usize));
        let mut given = || free.next().map(|member| Owner { member, epoch });
        let owner = |kept: Option<Owner>| kept.or_else(&mut given).expect("a member has space for each partition");
        self.owners = kept.into_iter().map(owner).collect();
    }

    pub(crate) fn save(&self, out: &mut Encoder) {
        out.varint(self.version).varint(self.members.len() as u64);
        for (id, member) in &self.members {
            out.varint(id.get()).str(&member.name).varint(member.lease_ms.into()).varint(member.until.as_micros());
        }
        out.varint(self.owners.len() as u64);
        for owner in &self.owners {
            out.varint(owner.member.get()).varint(owner.epoch.get());
        }
    }

    pub(crate) fn load(from: &mut Decoder<'_>) -> Result<Self, CodecError> {
        let mut roster = Roster { version: from.varint()?, ..Roster::default() };
        for _ in 0..from.varint()? {
            let id = MemberId::new(from.varint()?);
            let (name, lease_ms) = (Box::from(from.str()?), from.varint_u32()?);
            roster.members.insert(id, Member { name, lease_ms, until: Timestamp::from_micros(from.varint()?) });
        }
        for _ in 0..from.varint()? {
            let (member, epoch) = (MemberId::new(from.varint()?), OwnerEpoch::new(from.varint()?));
            roster.owners.push(Owner { member, epoch });
        }
        Ok(roster)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn roster(ids: &[u64]) -> Roster {
        let members = ids.iter().map(|id| (MemberId::new(*id), Member::new("", 1000, Timestamp::ZERO)));
        Roster { members: members.collect(), ..Roster::default() }
    }

    fn owners(roster: &Roster) -> Vec<u64> {
        roster.owners.iter().map(|owner| owner.member.get()).collect()
    }

    #[test]
    fn each_member_has_its_share_and_no_partition_moves_without_need() {
        for partitions in 0..20_u32 {
            let mut roster = roster(&[1]);
            roster.share_out(partitions);
            for (step, members) in
                [&[1, 2][..], &[1, 2, 3], &[2, 3], &[2, 3, 4, 5, 6], &[6], &[6, 7]].iter().enumerate()
            {
                let before = owners(&roster);
                roster.members = self::roster(members).members;
                roster.share_out(partitions);
                let after = owners(&roster);
                let count = |of: u64| after.iter().filter(|owner| **owner == of).count() as u32;
                let (least, most) = (partitions / members.len() as u32, partitions.div_ceil(members.len() as u32));
                assert!(
                    members.iter().all(|id| (least..=most).contains(&count(*id))),
                    "{partitions} {step}: {after:?}"
                );
                // A member that gains partitions loses none.
                for id in *members {
                    let (gains, gives) = before.iter().zip(&after).fold((0, 0), |(gains, gives), (was, is)| {
                        (gains + u32::from(was != id && is == id), gives + u32::from(was == id && is != id))
                    });
                    assert!(gains == 0 || gives == 0, "{partitions} {step}: {before:?} to {after:?}");
                }
            }
        }
    }

    #[test]
    fn a_partition_that_comes_back_is_another_reading_of_it_and_one_that_stays_is_not() {
        let mut roster = roster(&[1]);
        roster.share_out(2);
        let share = |roster: &Roster| roster.share(MemberId::new(1)).collect::<Vec<_>>();
        let before = share(&roster);
        roster.change(&[], Some((MemberId::new(2), Member::new("", 1000, Timestamp::ZERO))), 2);
        assert_eq!(share(&roster), before[..1]);
        roster.change(&[MemberId::new(2)], None, 2);
        let after = share(&roster);
        assert_eq!(after[0], before[0]);
        assert!(after[1].partition == before[1].partition && after[1].epoch > before[1].epoch);
    }

    #[test]
    fn it_is_saved_and_loaded_and_refused_when_cut() {
        let mut roster = roster(&[3, 4]);
        roster.share_out(5);
        let mut out = Encoder::new();
        roster.save(&mut out);
        let bytes = out.as_slice();
        assert_eq!(Roster::load(&mut Decoder::new(bytes)), Ok(roster));
        for cut in 0..bytes.len() {
            assert!(Roster::load(&mut Decoder::new(&bytes[..cut])).is_err(), "{}", format!("cut at {cut}"));
        }
    }
}
