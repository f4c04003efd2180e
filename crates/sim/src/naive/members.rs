//! Members of groups by lease, and the reading member of each topic. A topic has one partition
//! here.

use std::collections::BTreeMap;

use super::{Draft, NaiveReply, Topic};

/// The members of a group that share a topic.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    /// How often its partitions were assigned.
    pub(crate) version: u64,
    pub(crate) members: BTreeMap<u64, Member>,
    /// The reading member, and the version of its assignment.
    pub(crate) reader: Option<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: Option<usize>,
    pub(crate) lease_ms: u32,
    /// When its lease expires, in microseconds.
    pub(crate) until: u64,
}

impl Roster {
    fn expired(&self, now: u64) -> Vec<u64> {
        self.members.iter().filter(|(_, member)| member.until <= now).map(|(id, _)| *id).collect()
    }

    /// The reading member keeps the topic while it is a member; otherwise the first member gets it.
    fn change(&mut self, gone: &[u64], joined: Option<(u64, Member)>) {
        self.members.retain(|id, _| !gone.contains(id));
        self.members.extend(joined);
        self.version += 1;
        let stays = self.reader.filter(|(reader, _)| self.members.contains_key(reader));
        let version = self.version;
        self.reader = stays.or_else(|| self.members.keys().next().map(|first| (*first, version)));
    }
}

impl Draft {
    /// The settings of a topic changed. If all members have left, this counts as another empty
    /// assignment.
    pub(super) fn alter(&mut self, topic: usize) -> Option<&mut Topic> {
        let altered = self.after.topics.get_mut(&topic)?;
        self.effects = true;
        let rosters =
            self.after.rosters.iter_mut().filter(|((_, of), roster)| *of == topic && roster.members.is_empty());
        rosters.for_each(|(_, roster)| roster.version += 1);
        Some(altered)
    }

    pub(super) fn join(&mut self, of: (usize, usize), name: Option<usize>, lease_ms: u32) -> Option<NaiveReply> {
        self.after.topics.get(&of.1)?;
        self.effects = true;
        self.after.groups.insert(of.0);
        let (id, now) = (self.after.members, self.now);
        self.after.members += 1;
        let roster = self.after.rosters.entry(of).or_default();
        let mut gone = roster.expired(now);
        gone.extend(
            roster.members.iter().filter(|(_, member)| name.is_some() && member.name == name).map(|(id, _)| *id),
        );
        let joined = Member { name, lease_ms, until: now + u64::from(lease_ms) * 1000 };
        roster.change(&gone, Some((id, joined)));
        Some(NaiveReply::Joined(id))
    }

    pub(super) fn renew(&mut self, of: (usize, usize), member: u64) -> Option<NaiveReply> {
        self.after.topics.get(&of.1)?;
        self.renew_lease(of, member)?;
        let roster = self.after.rosters.get_mut(&of)?;
        let mut gone = roster.expired(self.now);
        gone.retain(|id| *id != member);
        if !gone.is_empty() {
            roster.change(&gone, None);
        }
        Some(NaiveReply::Done)
    }

    fn renew_lease(&mut self, of: (usize, usize), member: u64) -> Option<()> {
        let member = self.after.rosters.get_mut(&of)?.members.get_mut(&member)?;
        self.effects = true;
        member.until = member.until.max(self.now + u64::from(member.lease_ms) * 1000);
        Some(())
    }

    pub(super) fn leave(&mut self, of: (usize, usize), member: u64) -> Option<NaiveReply> {
        self.after.topics.get(&of.1)?;
        self.after.groups.get(&of.0)?;
        if let Some(roster) = self.after.rosters.get_mut(&of)
            && roster.members.contains_key(&member)
        {
            self.effects = true;
            roster.change(&[member], None);
        }
        Some(NaiveReply::Done)
    }

    /// Whether a member may commit; this renews its lease when a third of it has passed.
    pub(super) fn reads(&mut self, of: (usize, usize), member: u64, since: u64) -> Option<()> {
        let roster = self.after.rosters.get(&of)?;
        let known = roster.members.get(&member)?;
        (roster.reader == Some((member, since))).then_some(())?;
        if known.until.saturating_sub(self.now) <= u64::from(known.lease_ms) * 1000 * 2 / 3 {
            self.renew_lease(of, member)?;
        }
        Some(())
    }
}
