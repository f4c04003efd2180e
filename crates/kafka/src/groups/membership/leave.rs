//! Who goes: by saying so, or by saying nothing for too long.

use kafka_protocol::ResponseError;
use tokio::time::Instant;

use super::{Membership, Phase};
use crate::groups::ask::Identity;
use crate::groups::member::Member;

impl Membership {
    /// A member goes. One without an id is known by its instance.
    pub(in crate::groups) fn leave(&mut self, identity: &Identity, now: Instant) -> Result<(), ResponseError> {
        let id = match &identity.instance {
            None => &identity.member,
            Some(instance) => match self.statics.get(instance) {
                None => return Err(ResponseError::UnknownMemberId),
                Some(member) if !identity.member.is_empty() && *member != identity.member => {
                    return Err(ResponseError::FencedInstanceId);
                }
                Some(member) => member,
            },
        };
        if self.promised.remove(id).is_some() {
            return Ok(());
        }
        let id = id.clone();
        if self.remove(&id, now) { Ok(()) } else { Err(ResponseError::UnknownMemberId) }
    }

    fn remove(&mut self, id: &str, now: Instant) -> bool {
        let Some(member) = self.members.remove(id) else { return false };
        if let Some(instance) = &member.join.instance {
            self.statics.remove(instance);
        }
        member.end(ResponseError::UnknownMemberId);
        self.rebalance(now);
        true
    }

    /// Takes out whose time is up.
    pub(in crate::groups) fn expire(&mut self, now: Instant) {
        self.promised.retain(|_, until| *until > now);
        let no_sync = matches!(self.phase, Phase::Syncing { until } if until <= now);
        let is_over =
            |member: &Member| (member.deadline <= now && !member.is_waiting()) || (no_sync && !member.has_synced);
        let over: Vec<String> = self.members.iter().filter(|(_, m)| is_over(m)).map(|(id, _)| id.clone()).collect();
        for id in over {
            self.remove(&id, now);
        }
        if no_sync {
            self.rebalance(now);
        }
    }

    /// When something is to be done, if nothing is heard before.
    pub(in crate::groups) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let phase = match self.phase {
            Phase::Joining { until } | Phase::Syncing { until } => Some(until),
            Phase::Empty | Phase::Stable => None,
        };
        // One that waits is looked at again after another session: it may have gone.
        let members = self.members.values().map(|member| match member.is_waiting() {
            true => member.deadline.max(now + member.join.session_timeout),
            false => member.deadline,
        });
        members.chain(self.promised.values().copied()).chain(phase).min()
    }
}
