//! Joining: with an id or without, as a static member or not. A known member that rejoins unchanged
//! gets the reply that it missed. Any other join starts a rebalance.

use kafka_protocol::ResponseError;
use tokio::time::Instant;

use super::{GROUP_BYTES_MAX, GroupPhase, JoinAnswer, Membership};
use crate::groups::ask::{Join, JoinRefusal};
use crate::groups::member::MemberState;

impl Membership {
    /// The static member that this one replaces within the current generation.
    pub(in crate::groups) fn replaces(&self, join: &Join) -> Option<&str> {
        let instance = join.instance.as_ref().filter(|_| join.member.is_empty())?;
        let current = matches!(self.phase, GroupPhase::Syncing { .. } | GroupPhase::Stable);
        self.statics.get(instance).map(String::as_str).filter(|member| current && self.members.contains_key(*member))
    }

    /// Handles a join. `new_id` is the id for a member without one.
    pub(in crate::groups) fn join(&mut self, mut join: Join, new_id: String, now: Instant, answer: JoinAnswer) {
        if let Err(code) = self.check_protocols(&join) {
            let _ = answer.send(Err(JoinRefusal { code, member: join.member }));
            return;
        }
        let others = self.members.values().filter(|member| member.join.member != join.member);
        let bytes: usize = others.map(|member| member.join.claim.bytes()).sum();
        if bytes + join.claim.bytes() > GROUP_BYTES_MAX {
            let _ = answer.send(Err(JoinRefusal { code: ResponseError::GroupMaxSizeReached, member: join.member }));
            return;
        }
        if join.member.is_empty() {
            return self.join_without_id(join, new_id, now, answer);
        }
        let refusal = match &join.instance {
            Some(instance) => match self.statics.get(instance) {
                Some(member) if *member != join.member => Some(ResponseError::FencedInstanceId),
                Some(_) if self.members.contains_key(&join.member) => None,
                _ => Some(ResponseError::UnknownMemberId),
            },
            None if self.promised.remove(&join.member).is_some() => {
                return self.add(join, now, answer);
            }
            None if self.members.contains_key(&join.member) => None,
            None => Some(ResponseError::UnknownMemberId),
        };
        if let Some(code) = refusal {
            let _ = answer.send(Err(JoinRefusal { code, member: join.member }));
            return;
        }
        if self.members.len() == 1 {
            self.protocol_type.clone_from(&join.protocol_type);
        }
        let member = self.members.get_mut(&join.member).expect("the member was looked up above");
        let (same, leads) = (member.wants_the_same(&join), self.leader == join.member);
        let id = std::mem::take(&mut join.member);
        member.join = Join { member: id.clone(), ..join };
        member.hear(now);
        match self.phase {
            // It gets the reply that it missed.
            GroupPhase::Syncing { .. } if same => self.tell(&id, answer),
            GroupPhase::Stable if same && !leads => self.tell(&id, answer),
            _ => {
                member.wait_to_join(answer);
                self.rebalance(now);
            }
        }
    }

    fn check_protocols(&self, join: &Join) -> Result<(), ResponseError> {
        let others = || self.members.values().filter(|member| member.join.member != join.member);
        let is_common = |name: &str| others().all(|member| member.join.protocols.iter().any(|(of, _)| of == name));
        let fits = !join.protocol_type.is_empty()
            && (others().next().is_none() || self.protocol_type == join.protocol_type)
            && join.protocols.iter().any(|(name, _)| is_common(name));
        if fits { Ok(()) } else { Err(ResponseError::InconsistentGroupProtocol) }
    }

    fn join_without_id(&mut self, mut join: Join, new_id: String, now: Instant, answer: JoinAnswer) {
        let before = join.instance.as_ref().and_then(|instance| self.statics.get(instance).cloned());
        let replaced = before.and_then(|before| self.members.remove(&before));
        if let Some(replaced) = replaced {
            return self.replace(replaced, Join { member: new_id, ..join }, now, answer);
        }
        if self.members.len() + self.promised.len() >= self.limits.members_max {
            let _ = answer.send(Err(JoinRefusal { code: ResponseError::GroupMaxSizeReached, member: String::new() }));
            return;
        }
        if join.instance.is_none() && join.id_first {
            self.promised.insert(new_id.clone(), now + join.session_timeout);
            let _ = answer.send(Err(JoinRefusal { code: ResponseError::MemberIdRequired, member: new_id }));
            return;
        }
        join.member = new_id;
        self.add(join, now, answer);
    }

    /// A static member is back under a new id. If its protocols are unchanged, no rebalance is
    /// needed.
    fn replace(&mut self, mut before: MemberState, join: Join, now: Instant, answer: JoinAnswer) {
        let id = join.member.clone();
        let instance = join.instance.clone().expect("only static members are replaced");
        let (same, assignment) = (before.wants_the_same(&join), std::mem::take(&mut before.assignment));
        let leader_before = self.leader.clone();
        let led = leader_before == before.join.member;
        let has_ever_synced = before.has_ever_synced;
        if led {
            self.leader.clone_from(&id);
        }
        before.end(ResponseError::FencedInstanceId);
        self.statics.insert(instance, id.clone());
        let mut member = MemberState::new(join, now);
        member.assignment = assignment;
        let can_skip = member.join.can_skip;
        if self.phase == GroupPhase::Stable && same {
            (member.has_synced, member.has_ever_synced) = (true, has_ever_synced);
            self.members.insert(id.clone(), member);
            match (led, can_skip) {
                (true, true) => self.tell_as_led_by(&id, &id, answer, true),
                // A leader that can't be asked to skip the assignment would compute one that no
                // member receives. So the reply names the replaced member as the leader, and this
                // one requests its assignment like any other (KIP-345).
                (true, false) => self.tell_as_led_by(&leader_before, &id, answer, false),
                (false, _) => self.tell(&id, answer),
            }
        } else {
            member.wait_to_join(answer);
            self.members.insert(id, member);
            self.rebalance(now);
        }
    }

    fn add(&mut self, join: Join, now: Instant, answer: JoinAnswer) {
        if let Some(instance) = &join.instance {
            self.statics.insert(instance.clone(), join.member.clone());
        }
        if self.members.is_empty() {
            self.protocol_type.clone_from(&join.protocol_type);
        }
        let id = join.member.clone();
        let mut member = MemberState::new(join, now);
        member.wait_to_join(answer);
        self.members.insert(id, member);
        self.rebalance(now);
    }
}
