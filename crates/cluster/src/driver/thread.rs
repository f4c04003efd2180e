//! The thread of the driver.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quire_model::Position;
use quire_shard::Result;
use quire_system::{ClusterMember, MemberAddresses, MemberRole};
use tokio::sync::oneshot;

use super::events::{ChangeOutcome, DriverEvent, DriverMailbox, LeaderAddress, NodeCommand};
use super::status::{MemberStatus, NodeNotice, NodeObserver, NodeStatus};
use crate::agreement::{Agreement, NodeId, NodeRole, NodeState};
use crate::net::{FrameKind, MemberTable, PeerIdentity, PeerLinks, frame};
use crate::shard::{ChangeRefusal, ShardNode};

/// How long the records after fetched files stay, so that the node can continue from them.
const FILES_GRACE: Duration = Duration::from_secs(60);

/// The pause after a node with damage tried to hand its office over. It doubles up to the second.
/// The node decides no commits during an attempt.
const HAND_OVER_PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A learner that lacks at most this many records becomes a voter.
const LEARNER_LAG_MAX: u64 = 4_096;

/// See the module.
pub(super) struct Driver {
    pub(super) agreement: Agreement<ShardNode>,
    pub(super) mailbox: Arc<DriverMailbox>,
    pub(super) table: Arc<MemberTable>,
    pub(super) links: Arc<PeerLinks>,
    pub(super) observer: Arc<dyn NodeObserver>,
    pub(super) own: PeerIdentity,
    pub(super) addresses: MemberAddresses,
    pub(super) tick: Duration,
    pub(super) status: Arc<Mutex<NodeStatus>>,
    pub(super) progress: DriverProgress,
}

/// The progress of the driver.
#[derive(Debug, Default)]
pub(super) struct DriverProgress {
    /// The last record that the agreement knows.
    reported: Position,
    state: Option<NodeState>,
    elections_won: u64,
    /// The changes of members that the table has.
    changes_seen: Option<u64>,
    /// The last removal of a member that is not published.
    leaving_until: Option<Position>,
    /// The number of ticks until this node asks for votes, because the leader has gone.
    campaign_in: Option<u32>,
    /// The changes that wait until they are published.
    waiting: Vec<WaitingChange>,
    /// The reads of the round that runs, with its number, and those of the next one.
    read_round: Option<(u64, Vec<oneshot::Sender<ChangeOutcome>>)>,
    reads: Vec<oneshot::Sender<ChangeOutcome>>,
    needs_files: bool,
    /// The first record that compaction leaves.
    needed: Position,
    /// The node that has fetched files and lacks the records since then, and how long they stay.
    fetched: Option<(NodeId, Instant)>,
    /// The number of damaged places in the log that was reported.
    damaged: u64,
    /// The attempts to hand the office over because of damage, while this node leads.
    hand_overs: HandOvers,
}

/// The attempts of a node with damage to hand its office over.
#[derive(Debug, Default)]
struct HandOvers {
    /// When the next one may begin, and the pause before it.
    next: Option<(Instant, Duration)>,
    /// The voters that did not take the office over.
    tried: BTreeSet<NodeId>,
}

#[derive(Debug)]
struct WaitingChange {
    position: Position,
    term: quire_log::Term,
    reply: oneshot::Sender<ChangeOutcome>,
}

#[expect(clippy::disallowed_methods, reason = "ticks follow a clock that never stands still; no state depends on it")]
fn now() -> Instant {
    Instant::now()
}

impl Driver {
    /// Drives the agreement until it is stopped or fails.
    pub(super) fn run(mut self) {
        self.mailbox.begin();
        let ended = catch_unwind(AssertUnwindSafe(|| self.drive()));
        let notice = match ended {
            Ok(Ok(())) => self.progress.needs_files.then_some(NodeNotice::NeedsFiles),
            Ok(Err(error)) => Some(NodeNotice::Failed { reason: error.to_string() }),
            Err(_) => Some(NodeNotice::Failed { reason: "the agreement panicked".to_owned() }),
        };
        self.links.close_all();
        if let Some(notice) = notice {
            let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
            status.needs_files = notice == NodeNotice::NeedsFiles;
            status.failure = Some(match &notice {
                NodeNotice::Failed { reason } => reason.clone(),
                other => other.to_string(),
            });
            drop(status);
            // A shard that failed decides nothing either.
            let _ = catch_unwind(AssertUnwindSafe(|| self.agreement.node().shard().stand_down(None)));
            self.observer.note(&notice);
        }
        // Reads and changes that wait get an answer, and later ones too.
        self.mailbox.close();
    }

    fn drive(&mut self) -> Result<()> {
        let mut next_tick = now() + self.tick;
        self.tend_damage(now())?;
        self.settle()?;
        while !self.mailbox.is_stopping() && !self.progress.needs_files {
            for event in self.mailbox.take() {
                self.handle(event)?;
            }
            if self.mailbox.take_moved() {
                self.note_moves()?;
            }
            let time = now();
            if time >= next_tick {
                self.agreement.tick()?;
                match self.progress.campaign_in.take() {
                    Some(0 | 1) => self.agreement.campaign()?,
                    left => self.progress.campaign_in = left.map(|ticks| ticks - 1),
                }
                self.agreement.resume_office()?;
                self.tend_damage(time)?;
                // A process that was paused does not catch up with the ticks that it missed.
                next_tick = (next_tick + self.tick).max(time);
                self.tend_members()?;
                self.note_compaction(time);
                self.report_status()?;
            }
            self.settle()?;
            std::thread::park_timeout(next_tick.saturating_duration_since(now()));
        }
        Ok(())
    }

    fn handle(&mut self, event: DriverEvent) -> Result<()> {
        match event {
            DriverEvent::Packet { link, packet, _space } => {
                let from = packet.message.from();
                if self.agreement.needs_files(&packet.message) {
                    self.progress.needs_files = true;
                    return Ok(());
                }
                if let Err(reason) = self.agreement.check_message(&packet.message) {
                    self.links.close(from, link);
                    self.observer.note(&NodeNotice::Contradiction { node: from, reason });
                    return Ok(());
                }
                self.agreement.node_mut().receives(packet.records);
                self.agreement.receive(packet.message)
            }
            DriverEvent::Unreachable(node) => {
                self.agreement.unreachable(node);
                let is_leader = self.agreement.state().leader == Some(node);
                if is_leader && !self.links.is_connected(node) && self.agreement.lose_leader()? {
                    // The others note it too. Seldom do two ask in the same tick.
                    self.progress.campaign_in = Some(fastrand::u32(1..4));
                }
                Ok(())
            }
            DriverEvent::Read(reply) => {
                self.progress.reads.push(reply);
                Ok(())
            }
            DriverEvent::Command(command, reply) => self.command(command, reply),
        }
    }

    fn command(&mut self, command: NodeCommand, reply: oneshot::Sender<ChangeOutcome>) -> Result<()> {
        let changed = match command {
            NodeCommand::Join(identity, addresses) => self.join(identity, addresses)?,
            NodeCommand::Remove(node) => self.remove(node)?,
            NodeCommand::HandOver(to) => match to.or_else(|| self.closest_voter(&BTreeSet::new())) {
                Some(to) => self.agreement.hand_over_to(to)?.map(|()| None),
                None => Err(ChangeRefusal::Invalid("no other voter follows this node".to_owned())),
            },
        };
        match changed {
            Ok(Some(position)) => {
                let term = self.agreement.state().term;
                self.progress.waiting.push(WaitingChange { position, term, reply });
            }
            // The client may have left.
            Ok(None) => _ = reply.send(Ok(())),
            Err(refusal) => _ = reply.send(Err(refusal)),
        }
        Ok(())
    }

    /// Makes a node a learner, or notes the addresses of a member. `None` when it is a member with
    /// these addresses.
    fn join(
        &mut self,
        identity: PeerIdentity,
        addresses: MemberAddresses,
    ) -> Result<Result<Option<Position>, ChangeRefusal>> {
        if self.agreement.may_append().is_none() {
            return Ok(Err(ChangeRefusal::NotLeader));
        }
        if self.table.member(self.own.node).is_none() || !self.agreement.node().earlier_members()?.is_empty() {
            // The first change must make a voter: a node that joins begins without any, and counts
            // those of an earlier cluster until they are removed.
            return Ok(Err(ChangeRefusal::Busy));
        }
        let known = self.table.member(identity.node);
        let role = match &known {
            Some(known) if known.role == MemberRole::Voter => MemberRole::Voter,
            _ => MemberRole::Learner,
        };
        let wanted = ClusterMember { role, incarnation: identity.incarnation, addresses };
        if known.as_ref() == Some(&wanted) {
            return Ok(Ok(None));
        }
        Ok(self.agreement.set_member(identity.node, &wanted)?.map(Some))
    }

    fn remove(&mut self, node: NodeId) -> Result<Result<Option<Position>, ChangeRefusal>> {
        if self.agreement.may_append().is_none() {
            return Ok(Err(ChangeRefusal::NotLeader));
        }
        let Some(known) = self.table.member(node).filter(|known| known.role != MemberRole::Removed) else {
            return Ok(Err(ChangeRefusal::Invalid(format!("node {node} is not a member"))));
        };
        if node == self.own.node {
            let reason = format!("node {node} leads the cluster; hand its office over first");
            return Ok(Err(ChangeRefusal::Invalid(reason)));
        }
        let removed = ClusterMember { role: MemberRole::Removed, ..known };
        Ok(self.agreement.set_member(node, &removed)?.map(Some))
    }

    /// The connected voter, outside of `except`, that has the most records.
    fn closest_voter(&self, except: &BTreeSet<NodeId>) -> Option<NodeId> {
        let members = self.agreement.members();
        let others = self.agreement.progress().into_iter().filter(|(node, _)| {
            *node != self.own.node
                && members.voters.contains(node)
                && self.links.is_connected(*node)
                && !except.contains(node)
        });
        others.max_by_key(|(_, acknowledged)| *acknowledged).map(|(node, _)| node)
    }

    /// Reports appended and synced records, and requests the next sync.
    fn note_moves(&mut self) -> Result<()> {
        let log = self.agreement.node().shard().log().clone();
        if self.agreement.state().role == NodeRole::Leader && log.appended() > self.progress.reported {
            self.agreement.appended()?;
            self.progress.reported = log.appended();
        }
        let durable = self.agreement.node().durable();
        self.agreement.synced(durable)?;
        if log.durable() < log.appended() {
            log.request_sync();
        }
        Ok(())
    }

    /// Answers reads for which a majority has confirmed that this node leads, and begins the round
    /// of those that came meanwhile.
    fn confirm_reads(&mut self) -> Result<()> {
        let answer = |reads: Vec<oneshot::Sender<ChangeOutcome>>, outcome: &ChangeOutcome| {
            // A client may have left.
            reads.into_iter().for_each(|reply| _ = reply.send(outcome.clone()));
        };
        let state = self.agreement.state();
        let is_lost = self.progress.state.is_some_and(|known| known != state);
        if let Some((round, reads)) = self.progress.read_round.take() {
            if is_lost {
                answer(reads, &Err(ChangeRefusal::NotLeader));
            } else if self.agreement.read_round_done() >= round {
                answer(reads, &Ok(()));
            } else {
                self.progress.read_round = Some((round, reads));
                return Ok(());
            }
        }
        if self.progress.reads.is_empty() {
            return Ok(());
        }
        let reads = std::mem::take(&mut self.progress.reads);
        match self.agreement.begin_read_round()? {
            None => answer(reads, &Err(ChangeRefusal::NotLeader)),
            // The only voter needs no other answer.
            Some(round) if self.agreement.read_round_done() >= round => answer(reads, &Ok(())),
            Some(round) => self.progress.read_round = Some((round, reads)),
        }
        Ok(())
    }

    /// Sends, notes a new office, and answers reads and changes that are complete.
    fn settle(&mut self) -> Result<()> {
        self.confirm_reads()?;
        for packet in self.agreement.node_mut().take_outbox() {
            let (to, has_records) = (packet.message.to(), !packet.records.is_empty());
            let is_shipment = packet.message.shipment().is_some();
            let sent = self.links.send(to, has_records, || frame(FrameKind::Packet, |out| packet.encode(out)));
            if is_shipment {
                // The node fetches the files by itself. Until it has them, it needs this message.
                self.agreement.shipped(to, sent)?;
            } else if !sent && has_records {
                self.agreement.unreachable(to);
            }
        }
        let state = self.agreement.state();
        if self.progress.state != Some(state) {
            let was_leader = self.progress.state.is_some_and(|state| state.role == NodeRole::Leader);
            if state.role == NodeRole::Leader && !was_leader {
                self.progress.elections_won += 1;
            }
            self.progress.state = Some(state);
            // Records of another term may have been truncated since.
            self.progress.reported = Position::ZERO;
            let NodeState { role, term, leader } = state;
            self.observer.note(&NodeNotice::Office { role, term, leader });
            self.note_members()?;
            self.report_status()?;
            self.note_moves()?;
        }
        let changes = self.agreement.node().change_count();
        let has_left = self.progress.leaving_until.is_some_and(|last| self.agreement.published() >= last);
        if self.progress.changes_seen != Some(changes) || has_left {
            self.progress.changes_seen = Some(changes);
            self.note_members()?;
            // Who asked for the change sees it in the status once it is answered.
            self.report_status()?;
        }
        self.answer_changes();
        Ok(())
    }

    fn answer_changes(&mut self) {
        let (published, term) = (self.agreement.published(), self.agreement.may_append());
        let mut open = Vec::new();
        for waiting in self.progress.waiting.drain(..) {
            let outcome = match term {
                Some(term) if term == waiting.term && published >= waiting.position => Ok(()),
                Some(term) if term == waiting.term => {
                    open.push(waiting);
                    continue;
                }
                _ => Err(ChangeRefusal::Unsettled),
            };
            // The client may have left.
            let _ = waiting.reply.send(outcome);
        }
        self.progress.waiting = open;
    }

    /// Passes the members of the state on to the connections, and the leader to clients. A node
    /// whose removal is not published stays connected: the removal may need its agreement, as that
    /// of one of two nodes does.
    fn note_members(&mut self) -> Result<()> {
        let mut members = self.agreement.node().members()?;
        let mut leaving = self.agreement.node().leaving(self.agreement.published())?;
        // Members of an earlier cluster are removed by records, too, and agree on none.
        let in_force = self.agreement.members();
        leaving.retain(|node, _| in_force.contains(*node));
        for (node, member) in members.iter_mut().filter(|(node, _)| leaving.contains_key(node)) {
            let known = self.table.member(*node).filter(|known| known.role != MemberRole::Removed);
            member.role = known.map_or(MemberRole::Voter, |known| known.role);
        }
        self.progress.leaving_until = leaving.into_values().max();
        let admits = self.agreement.node().earlier_members()?.is_empty();
        self.mailbox.set_leader(match self.agreement.state().leader {
            // A node that joins would count the members of an earlier cluster.
            Some(leader) if leader == self.own.node && !admits => LeaderAddress::Unknown,
            Some(leader) if leader == self.own.node => LeaderAddress::This,
            Some(leader) => members
                .get(&leader)
                .map_or(LeaderAddress::Unknown, |member| LeaderAddress::Other(member.addresses.cluster.clone())),
            None => LeaderAddress::Unknown,
        });
        self.agreement.node().note_leader()?;
        self.table.replace(members);
        Ok(())
    }

    /// The leader notes itself as a member, and makes learners that are level voters.
    fn tend_members(&mut self) -> Result<()> {
        if !self.agreement.may_change_members() {
            return Ok(());
        }
        let own = ClusterMember {
            role: MemberRole::Voter,
            incarnation: self.own.incarnation,
            addresses: self.addresses.clone(),
        };
        if self.table.member(self.own.node).as_ref() != Some(&own) {
            // It is tried again at the next tick.
            let _ = self.agreement.set_member(self.own.node, &own)?;
            return Ok(());
        }
        if let Some((node, member)) = self.agreement.node().earlier_members()?.into_iter().next() {
            let removed = ClusterMember { role: MemberRole::Removed, ..member };
            let _ = self.agreement.set_member(node, &removed)?;
            return Ok(());
        }
        let last = self.agreement.node().shard().log().appended().get();
        let learners = self.agreement.members().learners;
        let level = self.agreement.progress().into_iter().find(|(node, acknowledged)| {
            learners.contains(node)
                && self.links.is_connected(*node)
                && *acknowledged > Position::ZERO
                && acknowledged.get() + LEARNER_LAG_MAX >= last
        });
        let known = level.and_then(|(node, _)| Some((node, self.table.member(node)?)));
        if let Some((node, member)) = known.filter(|(_, member)| member.role == MemberRole::Learner) {
            let voter = ClusterMember { role: MemberRole::Voter, ..member };
            let _ = self.agreement.set_member(node, &voter)?;
        }
        Ok(())
    }

    /// Makes a node with damage in its log leave the office to others: it can't read each record,
    /// nor send it to a follower that lacks it.
    fn tend_damage(&mut self, time: Instant) -> Result<()> {
        let damaged = self.agreement.node().shard().log().damage().len() as u64;
        if damaged > self.progress.damaged {
            self.observer.note(&NodeNotice::Damaged { places: damaged });
        }
        self.progress.damaged = damaged;
        self.agreement.hold_back(damaged > 0)?;
        if !self.agreement.is_held_back() || self.agreement.state().role != NodeRole::Leader {
            self.progress.hand_overs = HandOvers::default();
            return Ok(());
        }
        let (next, pause) = self.progress.hand_overs.next.unwrap_or((time, HAND_OVER_PAUSE.0));
        if self.agreement.may_append().is_none() || time < next {
            return Ok(());
        }
        match self.closest_voter(&self.progress.hand_overs.tried) {
            Some(to) => {
                self.progress.hand_overs.next = Some((time + pause, (pause * 2).min(HAND_OVER_PAUSE.1)));
                self.progress.hand_overs.tried.insert(to);
                // A voter that is held back too does not take it.
                let _ = self.agreement.hand_over_to(to)?;
            }
            // Those that did not take it may take it now.
            None => self.progress.hand_overs.tried.clear(),
        }
        Ok(())
    }

    /// Says which records compaction must leave: those that a connected follower lacks, and those
    /// after the files that a node fetches.
    fn note_compaction(&mut self, time: Instant) {
        let (is_open, ended) = self.mailbox.take_files();
        if let Some(node) = ended {
            self.progress.fetched = Some((node, time + FILES_GRACE));
        }
        let follows = |node| {
            let mut all = self.agreement.progress().into_iter();
            all.any(|(other, acknowledged)| other == node && acknowledged >= self.progress.needed)
        };
        let fetched = self.progress.fetched;
        self.progress.fetched = fetched.filter(|(node, until)| time < *until && !follows(*node));
        if !is_open && self.progress.fetched.is_none() {
            let mut needed = self.agreement.compactable();
            if self.agreement.state().role == NodeRole::Leader {
                let progress = self.agreement.progress().into_iter();
                let followers = progress.filter(|(node, _)| *node != self.own.node && self.links.is_connected(*node));
                needed = followers.map(|(_, acknowledged)| acknowledged).fold(needed, Position::min);
            }
            self.progress.needed = needed;
        }
        self.agreement.node_mut().note_compaction(self.progress.needed);
    }

    fn report_status(&mut self) -> Result<()> {
        let NodeState { role, term, leader } = self.agreement.state();
        let log = self.agreement.node().shard().log();
        let progress: BTreeMap<_, _> = match role {
            NodeRole::Leader => self.agreement.progress().into_iter().collect(),
            _ => BTreeMap::new(),
        };
        let durable = log.durable();
        let members = self.table.members().into_iter().filter(|(_, member)| member.role != MemberRole::Removed);
        let members = members.map(|(node, member)| {
            let is_own = node == self.own.node;
            let acknowledged = match role {
                NodeRole::Leader if is_own => Some(durable),
                _ => progress.get(&node).copied(),
            };
            MemberStatus { node, member, is_connected: is_own || self.links.is_connected(node), acknowledged }
        });
        let status = NodeStatus {
            node: self.own.node,
            role,
            term,
            leader,
            appended: log.appended(),
            durable,
            published: self.agreement.published(),
            elections_won: self.progress.elections_won,
            damaged: self.progress.damaged,
            is_held_back: self.agreement.is_held_back(),
            members: members.collect(),
            failure: None,
            needs_files: false,
        };
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
        Ok(())
    }
}
