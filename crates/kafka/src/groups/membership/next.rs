//! The transition between generations. Every member rejoins, and those that do in time form the
//! next generation. They learn about it when it is in the log.

use std::collections::{BTreeMap, HashSet};

use kafka_protocol::ResponseError;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};

use super::{GroupPhase, JoinAnswer, Membership};
use crate::groups::ask::{JoinRefusal, JoinReply};
use crate::groups::member::{MemberAssignment, MemberState};

/// The next generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::groups) struct NextGeneration {
    pub(in crate::groups) protocol_type: String,
    pub(in crate::groups) protocol: String,
    /// Instance id and member id of each static member.
    pub(in crate::groups) statics: Vec<(String, String)>,
}

impl Membership {
    /// Starts a rebalance: every member must rejoin.
    pub(super) fn rebalance(&mut self, now: Instant) {
        let until = match self.phase {
            GroupPhase::Joining { .. } => return,
            // Members that start together should join the same generation.
            GroupPhase::Empty if !self.members.is_empty() => now + Duration::from_millis(self.limits.initial_delay_ms),
            _ => now + self.rebalance_timeout(),
        };
        for member in self.members.values_mut() {
            if let Some(syncing) = member.syncing.take() {
                let _ = syncing.send(Err(ResponseError::RebalanceInProgress));
            }
        }
        self.phase = GroupPhase::Joining { until };
    }

    fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.join.rebalance_timeout).max().unwrap_or_default()
    }

    /// Whether the next generation may begin: all members have rejoined, or the deadline has
    /// passed.
    pub(in crate::groups) fn is_complete(&self, now: Instant) -> bool {
        let GroupPhase::Joining { until } = self.phase else { return false };
        let all = self.members.values().all(|member| member.joining.is_some()) && self.promised.is_empty();
        // A new group waits for other members that start at the same time.
        let begins = self.protocol.is_empty() && !self.members.is_empty();
        now >= until || (all && !begins)
    }

    /// Removes members that did not rejoin, and returns the next generation. Static members keep
    /// their place.
    pub(in crate::groups) fn next(&mut self) -> NextGeneration {
        let gone = |member: &MemberState| {
            member.join.instance.is_none() && member.joining.as_ref().is_none_or(oneshot::Sender::is_closed)
        };
        let gone: Vec<String> = self.members.iter().filter(|(_, m)| gone(m)).map(|(id, _)| id.clone()).collect();
        for id in gone {
            self.members.remove(&id).expect("just found").end(ResponseError::UnknownMemberId);
        }
        self.promised.clear();
        let present: HashSet<&String> = self.members.keys().collect();
        self.statics.retain(|_, member| present.contains(member));
        let statics = self.statics.iter().map(|(instance, member)| (instance.clone(), member.clone()));
        NextGeneration { protocol_type: self.protocol_type.clone(), protocol: self.vote(), statics: statics.collect() }
    }

    /// Selects the protocol that all members support and most prefer.
    fn vote(&self) -> String {
        let all_have =
            |name: &str| self.members.values().all(|member| member.join.protocols.iter().any(|(of, _)| of == name));
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            if let Some((name, _)) = member.join.protocols.iter().find(|(name, _)| all_have(name)) {
                *votes.entry(name).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, votes)| *votes).map_or_else(String::new, |(name, _)| name.to_owned())
    }

    /// The generation is in the log: replies to its members.
    pub(in crate::groups) fn begin(&mut self, generation: i32, next: NextGeneration, now: Instant) {
        self.generation = generation;
        self.protocol = next.protocol;
        if self.members.is_empty() {
            self.phase = GroupPhase::Empty;
            self.leader.clear();
            return;
        }
        if self.members.get(&self.leader).is_none_or(|leader| leader.joining.is_none()) {
            let present = self.members.iter().find(|(_, member)| member.joining.is_some());
            self.leader = present.map_or_else(String::new, |(id, _)| id.clone());
        }
        self.phase = GroupPhase::Syncing { until: now + self.rebalance_timeout() };
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let member = self.members.get_mut(&id).expect("a member");
            (member.assignment, member.has_synced) = (MemberAssignment::default(), false);
            // A static member that is away keeps its place without a reply, until its session
            // expires.
            if let Some(answer) = member.joining.take() {
                member.hear(now);
                if answer.is_closed() && !member.has_ever_synced {
                    // Its client has disconnected: it leaves.
                    member.deadline = now;
                }
                self.tell(&id, answer);
            }
        }
    }

    /// This broker can't lead the group: it has no members here.
    pub(in crate::groups) fn refuse(&mut self, code: ResponseError) {
        for (_, member) in std::mem::take(&mut self.members) {
            member.end(code);
        }
        self.phase = GroupPhase::Empty;
        self.leader.clear();
    }

    /// The generation can't begin: every member must find the coordinator, and rejoin.
    pub(in crate::groups) fn fail(&mut self, generation: i32, code: ResponseError, now: Instant) {
        self.generation = generation;
        self.phase = GroupPhase::Joining { until: now + self.rebalance_timeout() };
        for (id, member) in &mut self.members {
            if let Some(answer) = member.joining.take() {
                member.hear(now);
                let _ = answer.send(Err(JoinRefusal { code, member: id.clone() }));
            }
        }
    }

    pub(super) fn tell(&self, id: &str, answer: JoinAnswer) {
        self.tell_as_led_by(&self.leader, id, answer, false);
    }

    /// Replies to a member. The leader also gets the list of members.
    pub(super) fn tell_as_led_by(&self, leader: &str, id: &str, answer: JoinAnswer, skip_assignment: bool) {
        let everyone = || {
            let members = self.members.iter();
            members.map(|(id, member)| (id.clone(), member.join.instance.clone(), member.metadata(&self.protocol)))
        };
        let _ = answer.send(Ok(JoinReply {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: leader.to_owned(),
            member: id.to_owned(),
            members: if leader == id { everyone().collect() } else { Vec::new() },
            skip_assignment,
        }));
    }
}
