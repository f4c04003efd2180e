//! Requests of members of the current generation: their assignment, heartbeats, and permission to
//! commit.

use bytes::Bytes;
use kafka_protocol::ResponseError;
use quire_access::budget::ByteClaim;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{GroupPhase, Membership};
use crate::groups::ask::{ClaimedMember, Sync, SyncReply};
use crate::groups::member::{MemberAssignment, MemberState};

impl Membership {
    /// Finds a member of the current generation, and extends its session.
    fn current(&mut self, who: &ClaimedMember, now: Instant) -> Result<&mut MemberState, ResponseError> {
        if let Some(instance) = &who.instance {
            match self.statics.get(instance) {
                None => return Err(ResponseError::UnknownMemberId),
                Some(member) if *member != who.member => return Err(ResponseError::FencedInstanceId),
                Some(_) => {}
            }
        }
        let member = self.members.get_mut(&who.member).ok_or(ResponseError::UnknownMemberId)?;
        if who.generation != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        member.hear(now);
        Ok(member)
    }

    pub(in crate::groups) fn heartbeat(&mut self, who: &ClaimedMember, now: Instant) -> Result<(), ResponseError> {
        self.current(who, now)?;
        match self.phase {
            GroupPhase::Joining { .. } => Err(ResponseError::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    pub(in crate::groups) fn may_commit(
        &mut self,
        who: Option<&ClaimedMember>,
        now: Instant,
    ) -> Result<(), ResponseError> {
        match who {
            None if self.members.is_empty() => Ok(()),
            None => Err(ResponseError::UnknownMemberId),
            Some(who) => {
                self.current(who, now)?;
                let is_syncing = matches!(self.phase, GroupPhase::Syncing { .. });
                if is_syncing { Err(ResponseError::RebalanceInProgress) } else { Ok(()) }
            }
        }
    }

    pub(in crate::groups) fn sync(
        &mut self,
        sync: Sync,
        now: Instant,
        answer: oneshot::Sender<Result<SyncReply, ResponseError>>,
    ) {
        let other = |said: &Option<String>, is: &String| said.as_ref().is_some_and(|said| said != is);
        let differs = other(&sync.protocol_type, &self.protocol_type) || other(&sync.protocol, &self.protocol);
        let phase = self.phase;
        let member = match self.current(&sync.who, now) {
            Ok(_) if differs => return drop(answer.send(Err(ResponseError::InconsistentGroupProtocol))),
            Ok(member) => member,
            Err(code) => return drop(answer.send(Err(code))),
        };
        match phase {
            GroupPhase::Empty | GroupPhase::Joining { .. } => {
                drop(answer.send(Err(ResponseError::RebalanceInProgress)))
            }
            GroupPhase::Stable => {
                (member.has_synced, member.has_ever_synced) = (true, true);
                self.give(&sync.who.member, answer);
            }
            GroupPhase::Syncing { .. } => {
                (member.has_synced, member.has_ever_synced) = (true, true);
                member.syncing = Some(answer);
                if self.leader == sync.who.member {
                    self.share_out(sync.assignments, sync.claim, now);
                }
            }
        }
    }

    fn share_out(&mut self, assignments: Vec<(String, Bytes)>, mut claim: ByteClaim, now: Instant) {
        for (id, bytes) in assignments {
            if let Some(member) = self.members.get_mut(&id) {
                let claim = claim.split(bytes.len());
                member.assignment = MemberAssignment::new(bytes, claim);
            }
        }
        self.phase = GroupPhase::Stable;
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let member = self.members.get_mut(&id).expect("a member");
            if let Some(answer) = member.syncing.take() {
                member.hear(now);
                self.give(&id, answer);
            }
        }
    }

    fn give(&self, id: &str, answer: oneshot::Sender<Result<SyncReply, ResponseError>>) {
        let _ = answer.send(Ok(SyncReply {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self.members[id].assignment.bytes.clone(),
        }));
    }
}
