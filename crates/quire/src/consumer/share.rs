//! The partitions that a consumer reads, and its start in each. The share follows from the member's
//! number, or from the leases of the group's members.

use quire_model::{Operation, Resource, ResourceKind, Sequence};

use super::{Consumer, Lease, PartitionSharing, Share};
use crate::commit::Commit;
use crate::streams::{Committer, OwnedPartition, OwnerEpoch};
use crate::{Error, ErrorKind, Outcome, Reason, Result};

/// The result of reading a member's share.
enum ShareResult {
    Share(Vec<(OwnedPartition, Option<Sequence>)>),
    /// The consumer is no longer a member.
    Gone,
    /// Another member has taken over the place.
    Replaced,
}

impl Consumer {
    /// Adds the partitions created since the last call, each at the group's offset. Returns whether
    /// there were any. Only for a share by number.
    pub(super) fn look_for_partitions(&mut self, from_start: bool) -> Result<bool> {
        let PartitionSharing::Fixed { member, members } = self.settings.sharing else { return Ok(false) };
        let (group, topic) = (&*self.group, &*self.topic);
        let known = |partition: u32| self.partitions.iter().any(|share| share.partition == partition);
        let found = self.database.read_for(self.resource(), Operation::Read, |view| {
            let Some(topic) = view.streams.topic_named(topic) else { return Vec::new() };
            let new = (0..topic.partitions).filter(|partition| partition % members == member && !known(*partition));
            let committed =
                |partition| view.streams.committed(group, topic.id, partition).and_then(|found| found.offset);
            new.map(|partition| (partition, committed(partition))).collect()
        })?;
        let before = self.partitions.len();
        for (partition, committed) in found.wait()? {
            let next = match committed {
                Some(committed) => committed,
                None => self.begin(partition, from_start)?,
            };
            self.partitions.push(Share { partition, epoch: OwnerEpoch::default(), next, lost: 0, is_paused: false });
        }
        Ok(self.partitions.len() > before)
    }

    /// Returns the start in a partition without a committed offset.
    pub(super) fn begin(&self, partition: u32, from_start: bool) -> Result<Sequence> {
        let topic = self.database.topic(&self.topic);
        // A start at the first record does not read the end, so an unreadable end fails later.
        Ok(if from_start { topic.reach(partition)?.offsets.start } else { topic.offsets(partition)?.next })
    }

    /// Applies the current shares of the group. The consumer drops partitions of other members, and
    /// starts new partitions at the group's offset.
    pub(super) fn look_at_share(&mut self) -> Result<()> {
        loop {
            let Some(member) = &mut self.member else { return Ok(()) };
            let (id, seen, group, topic) = (member.id(), member.seen, &*self.group, &*self.topic);
            let PartitionSharing::Lease(Lease { name, .. }) = &self.settings.sharing else { return Ok(()) };
            // Shares that are not yet durable may be used: every commit that follows from them
            // comes later in the log.
            let resource = Resource::new(ResourceKind::Topic, topic);
            let found = self.database.read_published_for(resource, Operation::Read, |view| {
                let topic = view.streams.topic_named(topic)?.id;
                let now = view.streams.shared_out(group, topic);
                if seen == Some(now) {
                    return Some((now, None));
                }
                let committed =
                    |partition| view.streams.committed(group, topic, partition).and_then(|found| found.offset);
                let taken =
                    view.streams.members(group, topic).any(|other| !other.name.is_empty() && other.name == *name);
                let share = match view.streams.share(group, topic, id) {
                    Some(share) => {
                        ShareResult::Share(share.map(|owned| (owned, committed(owned.partition))).collect::<Vec<_>>())
                    }
                    None if taken => ShareResult::Replaced,
                    None => ShareResult::Gone,
                };
                Some((now, Some(share)))
            })?;
            let (now, found) = found.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format!("unknown topic {:?}: it was deleted", self.topic))
            })?;
            match found {
                None => return Ok(()),
                Some(ShareResult::Replaced) => {
                    self.partitions.clear();
                    let message = format!("another member of the group {group} took the place {name:?} over");
                    return Err(Error::new(ErrorKind::Refused, message));
                }
                Some(ShareResult::Gone) => {
                    self.partitions.clear();
                    member.join_anew()?;
                }
                Some(ShareResult::Share(share)) => {
                    member.seen = Some(now);
                    if self.take_share(&share)? {
                        return Ok(());
                    }
                    self.member.iter_mut().for_each(|member| member.seen = None);
                }
            }
        }
    }

    /// Returns whether the consumer took the share. Otherwise another commit came first, and the
    /// consumer must read the share again.
    fn take_share(&mut self, share: &[(OwnedPartition, Option<Sequence>)]) -> Result<bool> {
        // A partition that left and returned meanwhile starts at the offset of its reader in
        // between.
        self.partitions.retain(|known| share.iter().any(|(owned, _)| *owned == known.owned()));
        for (owned, committed) in share {
            let OwnedPartition { partition, epoch } = *owned;
            if self.partitions.iter().any(|known| known.partition == partition) {
                continue;
            }
            let next = match committed {
                Some(committed) => *committed,
                None => {
                    let begin = self.begin(partition, self.settings.from_start)?;
                    // Committed at once, so that the next reader of the partition continues here.
                    // Otherwise that reader would skip records that arrived meanwhile.
                    if !self.settings.from_start {
                        let noted = Commit::new().part(self.note(partition, begin, self.committer(epoch)));
                        match self.database.commit(&noted)? {
                            Outcome::Refused(refusal) if is_lost_share(&refusal.reason) => return Ok(false),
                            outcome => drop(outcome.committed()?),
                        }
                    }
                    begin
                }
            };
            self.partitions.push(Share { partition, epoch, next, lost: 0, is_paused: false });
        }
        Ok(true)
    }

    pub(super) fn committer(&self, epoch: OwnerEpoch) -> Committer {
        self.member.as_ref().map_or(Committer::Anyone, |member| Committer::Member { member: member.id(), epoch })
    }
}

/// Whether a commit was refused because another commit changed the share.
fn is_lost_share(reason: &Reason) -> bool {
    matches!(reason, Reason::Streams(refusal) if refusal.is_lost_share())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{MemberId, Refusal};

    #[test]
    fn only_a_lost_share_is_read_again() {
        let member = MemberId::new(1);
        assert!(is_lost_share(&Reason::Streams(Refusal::NotOwner { partition: 0, member })));
        assert!(is_lost_share(&Reason::Streams(Refusal::UnknownMember { member })));
        assert!(is_lost_share(&Reason::Streams(Refusal::UnknownGroup { name: "g".into() })));
        assert!(!is_lost_share(&Reason::Streams(Refusal::InvalidLease { lease_ms: 0 })));
        assert!(!is_lost_share(&Reason::Streams(Refusal::InvalidMembers)));
    }
}
