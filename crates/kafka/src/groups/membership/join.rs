//! Who joins: with an id or without, by a place of its own or not. A member that is known and wants the same is told again what it
//! missed; anyone else has everybody join again.

use kafka_protocol::ResponseError;
use tokio::time::Instant;

use super::{JoinAnswer, Membership, Phase};
use crate::groups::ask::{Join, NotJoined};
use crate::groups::member::Member;

impl Membership {
    /// The static member whose place this one takes within the current generation.
    pub(in crate::groups) fn replaces(&self, join: &Join) -> Option<&str> {
        let instance = join.instance.as_ref().filter(|_| join.member.is_empty())?;
        let current = matches!(self.phase, Phase::Syncing { .. } | Phase::Stable);
        self.statics.get(instance).map(String::as_str).filter(|member| current && self.members.contains_key(*member))
    }

    /// Someone joins. `new_id` is the id that they get when they have none.
    pub(in crate::groups) fn join(&mut self, mut join: Join, new_id: String, now: Instant, answer: JoinAnswer) {
        if let Err(code) = self.check_protocols(&join) {
            let _ = answer.send(Err(NotJoined { code, member: join.member }));
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
            let _ = answer.send(Err(NotJoined { code, member: join.member }));
            return;
        }
        if self.members.len() == 1 {
            self.protocol_type.clone_from(&join.protocol_type);
        }
        let member = self.members.get_mut(&join.member).expect("looked up above");
        let (same, leads) = (member.wants_the_same(&join), self.leader == join.member);
        let id = std::mem::take(&mut join.member);
        member.join = Join { member: id.clone(), ..join };
        member.hear(now);
        match self.phase {
            // What it missed is told again.
            Phase::Syncing { .. } if same => self.tell(&id, answer),
            Phase::Stable if same && !leads => self.tell(&id, answer),
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
            let _ = answer.send(Err(NotJoined { code: ResponseError::GroupMaxSizeReached, member: String::new() }));
            return;
        }
        if join.instance.is_none() && join.id_first {
            self.promised.insert(new_id.clone(), now + join.session_timeout);
            let _ = answer.send(Err(NotJoined { code: ResponseError::MemberIdRequired, member: new_id }));
            return;
        }
        join.member = new_id;
        self.add(join, now, answer);
    }

    /// A static member is back under a new id. When it wants the same as before, nobody else has to notice.
    fn replace(&mut self, mut before: Member, join: Join, now: Instant, answer: JoinAnswer) {
        let id = join.member.clone();
        let instance = join.instance.clone().expect("only static members are replaced");
        let (same, assignment) = (before.wants_the_same(&join), std::mem::take(&mut before.assignment));
        let leader_before = self.leader.clone();
        let led = leader_before == before.join.member;
        if led {
            self.leader.clone_from(&id);
        }
        before.end(ResponseError::FencedInstanceId);
        self.statics.insert(instance, id.clone());
        let mut member = Member::new(join, now);
        member.assignment = assignment;
        let can_skip = member.join.can_skip;
        if self.phase == Phase::Stable && same {
            member.has_synced = true;
            self.members.insert(id.clone(), member);
            match (led, can_skip) {
                (true, true) => self.tell_as_led_by(&id, &id, answer, true),
                // A leader that can't be told to share nothing out would do it, and nobody would hear of it: so it is told that who
                // had its place still leads, and asks what it is to read as any other (KIP-345).
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
        let mut member = Member::new(join, now);
        member.wait_to_join(answer);
        self.members.insert(id, member);
        self.rebalance(now);
    }
}
