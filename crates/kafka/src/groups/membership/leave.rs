//! Leaving: by request, or by an expired session.

use kafka_protocol::ResponseError;
use tokio::time::Instant;

use super::{GroupPhase, Membership};
use crate::groups::ask::MemberIdentity;
use crate::groups::member::MemberState;

impl Membership {
    /// Removes a member. One without a member id is found by its instance id.
    pub(in crate::groups) fn leave(&mut self, identity: &MemberIdentity, now: Instant) -> Result<(), ResponseError> {
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

    /// Removes a member whose connection has ended, unless it has ever requested an assignment or
    /// waits on another connection.
    pub(in crate::groups) fn abandon(&mut self, id: &str, now: Instant) {
        if self.members.get(id).is_some_and(|member| !member.has_ever_synced && !member.is_waiting()) {
            self.remove(id, now);
        }
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

    /// Removes members whose session has expired.
    pub(in crate::groups) fn expire(&mut self, now: Instant) {
        self.promised.retain(|_, until| *until > now);
        let no_sync = matches!(self.phase, GroupPhase::Syncing { until } if until <= now);
        let is_over =
            |member: &MemberState| (member.deadline <= now && !member.is_waiting()) || (no_sync && !member.has_synced);
        let over: Vec<String> = self.members.iter().filter(|(_, m)| is_over(m)).map(|(id, _)| id.clone()).collect();
        for id in over {
            self.remove(&id, now);
        }
        if no_sync {
            self.rebalance(now);
        }
    }

    /// When the next deadline is, unless a request arrives earlier.
    pub(in crate::groups) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let phase = match self.phase {
            GroupPhase::Joining { until } | GroupPhase::Syncing { until } => Some(until),
            GroupPhase::Empty | GroupPhase::Stable => None,
        };
        // A waiting member is checked again after another session timeout: it may have
        // disconnected.
        let members = self.members.values().map(|member| match member.is_waiting() {
            true => member.deadline.max(now + member.join.session_timeout),
            false => member.deadline,
        });
        members.chain(self.promised.values().copied()).chain(phase).min()
    }
}
