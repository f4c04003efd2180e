//! The members of a group, and what they wait for. Nothing here waits itself, and time comes in as an argument.
//!
//! ```text
//! Empty ──a member joins──▶ Joining ──all are back, or their time is up──▶ (generation committed) ──▶ Syncing
//!   ▲                          ▲                                                                        │
//!   └── nobody is left ────────┤◀──── a member joins, leaves, is silent, or wants something else ───────┤
//!                              └──────────────────────────────── Stable ◀──── the leader has shared out ┘
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use kafka_protocol::ResponseError;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};

use super::Limits;
use super::ask::{Described, DescribedMember, Identity, Join, Joined, NotJoined, Sync, Synced, Who};
use super::member::Member;

type JoinAnswer = oneshot::Sender<Result<Joined, NotJoined>>;

/// Where a group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Empty,
    /// Waits for its members to join again, at most until then.
    Joining {
        until: Instant,
    },
    /// Waits for the leader to share out, and for everyone to ask, at most until then.
    Syncing {
        until: Instant,
    },
    Stable,
}

/// A generation that is to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) protocol_type: String,
    pub(super) protocol: String,
    /// Instance and member id of each static member.
    pub(super) statics: Vec<(String, String)>,
}

/// The members of a group.
#[derive(Debug)]
pub(super) struct Membership {
    limits: Limits,
    phase: Phase,
    generation: i32,
    protocol_type: String,
    protocol: String,
    leader: String,
    members: BTreeMap<String, Member>,
    /// The ids of the static members. Of a generation before a restart, too: they are known to have been given.
    statics: HashMap<String, String>,
    /// Ids that were given out to join with, and until when.
    promised: HashMap<String, Instant>,
}

impl Membership {
    /// A group without members, whose current generation and static members are these.
    pub(super) fn new(limits: Limits, generation: i32, statics: HashMap<String, String>) -> Self {
        Membership {
            limits,
            phase: Phase::Empty,
            generation,
            protocol_type: String::new(),
            protocol: String::new(),
            leader: String::new(),
            members: BTreeMap::new(),
            statics,
            promised: HashMap::new(),
        }
    }

    pub(super) fn generation(&self) -> i32 {
        self.generation
    }

    /// Whether there is nothing to keep.
    pub(super) fn is_idle(&self) -> bool {
        self.phase == Phase::Empty && self.members.is_empty() && self.promised.is_empty()
    }

    /// The static member whose place this one takes within the current generation.
    pub(super) fn replaces(&self, join: &Join) -> Option<&str> {
        let instance = join.instance.as_ref().filter(|_| join.member.is_empty())?;
        let current = matches!(self.phase, Phase::Syncing { .. } | Phase::Stable);
        self.statics.get(instance).map(String::as_str).filter(|member| current && self.members.contains_key(*member))
    }

    /// Someone joins. `new_id` is the id that they get when they have none.
    pub(super) fn join(&mut self, mut join: Join, new_id: String, now: Instant, answer: JoinAnswer) {
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
            Phase::Syncing { .. } if same => self.tell(&id, answer, false),
            Phase::Stable if same && !leads => self.tell(&id, answer, false),
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
        let led = self.leader == before.join.member;
        if led {
            self.leader.clone_from(&id);
        }
        before.end(ResponseError::FencedInstanceId);
        self.statics.insert(instance, id.clone());
        let mut member = Member::new(join, now);
        member.assignment = assignment;
        let can_skip = member.join.can_skip;
        // A leader that can't be told to share nothing out would do it on its own view of things.
        let quiet = self.phase == Phase::Stable && same && (!led || can_skip);
        if quiet {
            member.has_synced = true;
            self.members.insert(id.clone(), member);
            self.tell(&id, answer, led);
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

    /// Has everyone join again.
    fn rebalance(&mut self, now: Instant) {
        let until = match self.phase {
            Phase::Joining { .. } => return,
            // Those that start together are not to join one after the other.
            Phase::Empty if !self.members.is_empty() => now + Duration::from_millis(self.limits.initial_delay_ms),
            _ => now + self.rebalance_timeout(),
        };
        for member in self.members.values_mut() {
            if let Some(syncing) = member.syncing.take() {
                let _ = syncing.send(Err(ResponseError::RebalanceInProgress));
            }
        }
        self.phase = Phase::Joining { until };
    }

    fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.join.rebalance_timeout).max().unwrap_or_default()
    }

    /// Whether the next generation is to begin: all are back, or the time for it is up.
    pub(super) fn is_complete(&self, now: Instant) -> bool {
        let Phase::Joining { until } = self.phase else { return false };
        let all = self.members.values().all(|member| member.joining.is_some()) && self.promised.is_empty();
        // A group that begins waits for others that start at the same time.
        let begins = self.protocol.is_empty() && !self.members.is_empty();
        now >= until || (all && !begins)
    }

    /// Takes out who did not come back, and says what the next generation is like. Static members keep their places.
    pub(super) fn next(&mut self) -> Next {
        let gone = |member: &Member| {
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
        Next { protocol_type: self.protocol_type.clone(), protocol: self.vote(), statics: statics.collect() }
    }

    /// The protocol that all have and most like best.
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

    /// The generation stands in the log: its members are told.
    pub(super) fn begin(&mut self, generation: i32, next: Next, now: Instant) {
        self.generation = generation;
        self.protocol = next.protocol;
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            self.leader.clear();
            return;
        }
        if self.members.get(&self.leader).is_none_or(|leader| leader.joining.is_none()) {
            let present = self.members.iter().find(|(_, member)| member.joining.is_some());
            self.leader = present.map_or_else(String::new, |(id, _)| id.clone());
        }
        self.phase = Phase::Syncing { until: now + self.rebalance_timeout() };
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let member = self.members.get_mut(&id).expect("a member");
            (member.assignment, member.has_synced) = (Bytes::new(), false);
            // A static member that is away keeps its place without an answer, and its time runs on.
            if let Some(answer) = member.joining.take() {
                member.hear(now);
                self.tell(&id, answer, false);
            }
        }
    }

    /// The group is not the coordinator's to lead: nobody is a member.
    pub(super) fn refuse(&mut self, code: ResponseError) {
        for (_, member) in std::mem::take(&mut self.members) {
            member.end(code);
        }
        self.phase = Phase::Empty;
        self.leader.clear();
    }

    /// The generation can't begin: everyone is to find the coordinator, and to join again.
    pub(super) fn fail(&mut self, generation: i32, code: ResponseError, now: Instant) {
        self.generation = generation;
        self.phase = Phase::Joining { until: now + self.rebalance_timeout() };
        for (id, member) in &mut self.members {
            if let Some(answer) = member.joining.take() {
                member.hear(now);
                let _ = answer.send(Err(NotJoined { code, member: id.clone() }));
            }
        }
    }

    fn tell(&self, id: &str, answer: JoinAnswer, skip_assignment: bool) {
        let everyone = || {
            let members = self.members.iter();
            members.map(|(id, member)| (id.clone(), member.join.instance.clone(), member.metadata(&self.protocol)))
        };
        let _ = answer.send(Ok(Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            member: id.to_owned(),
            members: if self.leader == id { everyone().collect() } else { Vec::new() },
            skip_assignment,
        }));
    }

    /// A member of the current generation, heard of now.
    fn current(&mut self, who: &Who, now: Instant) -> Result<&mut Member, ResponseError> {
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

    pub(super) fn heartbeat(&mut self, who: &Who, now: Instant) -> Result<(), ResponseError> {
        self.current(who, now)?;
        match self.phase {
            Phase::Joining { .. } => Err(ResponseError::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    pub(super) fn may_commit(&mut self, who: Option<&Who>, now: Instant) -> Result<(), ResponseError> {
        match who {
            None if self.members.is_empty() => Ok(()),
            None => Err(ResponseError::UnknownMemberId),
            Some(who) => {
                self.current(who, now)?;
                let is_syncing = matches!(self.phase, Phase::Syncing { .. });
                if is_syncing { Err(ResponseError::RebalanceInProgress) } else { Ok(()) }
            }
        }
    }

    pub(super) fn sync(&mut self, sync: Sync, now: Instant, answer: oneshot::Sender<Result<Synced, ResponseError>>) {
        let other = |said: &Option<String>, is: &String| said.as_ref().is_some_and(|said| said != is);
        let differs = other(&sync.protocol_type, &self.protocol_type) || other(&sync.protocol, &self.protocol);
        let phase = self.phase;
        let member = match self.current(&sync.who, now) {
            Ok(_) if differs => return drop(answer.send(Err(ResponseError::InconsistentGroupProtocol))),
            Ok(member) => member,
            Err(code) => return drop(answer.send(Err(code))),
        };
        match phase {
            Phase::Empty | Phase::Joining { .. } => drop(answer.send(Err(ResponseError::RebalanceInProgress))),
            Phase::Stable => {
                member.has_synced = true;
                self.give(&sync.who.member, answer);
            }
            Phase::Syncing { .. } => {
                member.has_synced = true;
                member.syncing = Some(answer);
                if self.leader == sync.who.member {
                    self.share_out(sync.assignments, now);
                }
            }
        }
    }

    fn share_out(&mut self, assignments: Vec<(String, Bytes)>, now: Instant) {
        for (id, assignment) in assignments {
            if let Some(member) = self.members.get_mut(&id) {
                member.assignment = assignment;
            }
        }
        self.phase = Phase::Stable;
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let member = self.members.get_mut(&id).expect("a member");
            if let Some(answer) = member.syncing.take() {
                member.hear(now);
                self.give(&id, answer);
            }
        }
    }

    fn give(&self, id: &str, answer: oneshot::Sender<Result<Synced, ResponseError>>) {
        let _ = answer.send(Ok(Synced {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self.members[id].assignment.clone(),
        }));
    }

    /// A member goes. One without an id is known by its instance.
    pub(super) fn leave(&mut self, identity: &Identity, now: Instant) -> Result<(), ResponseError> {
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
    pub(super) fn expire(&mut self, now: Instant) {
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
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
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

    pub(super) fn describe(&self) -> Described {
        let members = self.members.values().map(|member| DescribedMember {
            member: member.join.member.clone(),
            instance: member.join.instance.clone(),
            client: member.join.client.clone(),
            host: member.join.host.clone(),
            metadata: member.metadata(&self.protocol),
            assignment: member.assignment.clone(),
        });
        let state = match self.phase {
            Phase::Empty => "Empty",
            Phase::Joining { .. } => "PreparingRebalance",
            Phase::Syncing { .. } => "CompletingRebalance",
            Phase::Stable => "Stable",
        };
        Described {
            state,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            members: members.collect(),
        }
    }
}
