//! The world of a cluster: databases that die and start again, and a network that loses, delays,
//! repeats and reorders.

mod healing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use quire::system::{ClusterMember, MemberAddresses, MemberRole};
use quire::{Duty, ErrorKind, ManualClock, Position, Result, Timestamp};
use quire_cluster::{Agreement, MemberSet, NodeId, NodeRole, PeerPacket, ShardNode};

use super::check::ClusterChecks;
use super::commits::draw_commit;
use super::node::{ClusterNode, WaitingClient};
use super::{ClusterReport, STEPS};
use crate::disk::{ArmedFault, DiskOperation, Effect, SimDisk};
use crate::plan::pace;
use crate::trace::Trace;

/// The most packets that are on their way.
const PACKETS_MAX: usize = 200;

/// The most nodes that there ever are.
const NODES_MAX: usize = 8;

/// The rounds that a node is left behind for, and the commits of each.
const LEFT_ROUNDS: usize = 6;
const LEFT_COMMITS: usize = 4;

/// How long a tick is.
const TICK_MICROS: u64 = 50_000;

/// A packet on its way, as bytes.
struct SentPacket {
    from: NodeId,
    to: NodeId,
    bytes: Vec<u8>,
}

pub(super) struct ClusterWorld {
    random: Rng,
    /// The members before the first change.
    founders: MemberSet,
    nodes: BTreeMap<NodeId, ClusterNode>,
    network: Vec<SentPacket>,
    /// The directions in which nothing arrives.
    cut: BTreeSet<(NodeId, NodeId)>,
    checks: ClusterChecks,
    report: ClusterReport,
    /// The last value that a commit carried.
    value: u64,
    /// The bytes of a commit's text. With long ones the logs have many segments, and are compacted.
    text_bytes_max: usize,
    /// Whether the state of the models is compared after each step, or after some.
    compares_all: bool,
    is_shown: bool,
}

impl ClusterWorld {
    pub(super) fn new(seed: u64, is_shown: bool) -> Self {
        let mut random = Rng::with_seed(seed);
        let count = if random.u32(0..4) > 0 { 3 } else { 5 };
        let ids: Vec<NodeId> = (1..=count).map(|number| NodeId::new(number).expect("from 1 on")).collect();
        let mut nodes = BTreeMap::new();
        for id in &ids {
            nodes.insert(*id, new_node(*id, MemberSet::of_voters(ids.clone()), &mut random));
        }
        ClusterWorld {
            founders: MemberSet::of_voters(ids),
            nodes,
            network: Vec::new(),
            cut: BTreeSet::new(),
            checks: ClusterChecks::default(),
            report: ClusterReport::default(),
            value: 0,
            text_bytes_max: if random.bool() { 400 } else { 1_400 },
            compares_all: random.u32(0..4) == 0,
            random,
            is_shown,
        }
    }

    /// Runs the steps, heals the cluster, and checks that it continues.
    pub(super) fn run(mut self) -> ClusterReport {
        let ids = self.ids();
        let started = ids.iter().try_for_each(|id| self.start(*id));
        let outcome = started.and_then(|()| (0..STEPS).try_for_each(|_| self.step())).and_then(|()| self.heal());
        let compacted = self.nodes.values().filter(|node| node.has_compacted()).count();
        let ClusterReport { acknowledged, unsettled, truncations, changes, shipments, reads, held_back, lines, .. } =
            self.report;
        ClusterReport {
            published: self.checks.published().get(),
            terms: self.checks.terms(),
            acknowledged,
            unsettled,
            truncations,
            changes,
            shipments,
            compacted,
            reads,
            held_back,
            failure: outcome.err(),
            lines,
        }
    }

    fn ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.is_shown {
            self.report.lines.push(line());
        }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.u32(0..201) {
            0..85 => self.deliver(),
            85..100 => self.tick_one(),
            100..106 => self.tick_all(),
            106..110 => self.round(),
            110..142 => self.commit(),
            142..145 => self.read(),
            145..172 => self.sync(),
            172..180 => self.duty(),
            180..184 => self.lose_or_repeat(),
            184..187 => self.cut_or_mend(),
            187..189 => self.kill(),
            189..196 => self.restart(),
            196 => self.cut_power(),
            197 => self.arm_or_lose_leader(),
            198 => self.change_members(),
            199 => self.leave_behind(),
            _ if self.random.bool() => self.damage_or_repair(),
            _ => self.stop_in_order(),
        }
    }

    fn pick(&mut self, of: impl Fn(&ClusterNode) -> bool) -> Option<NodeId> {
        let found: Vec<_> = self.nodes.iter().filter(|(_, node)| of(node)).map(|(id, _)| *id).collect();
        self.random.choice(found)
    }

    fn running(&mut self) -> Option<NodeId> {
        self.pick(|node| node.running.is_some())
    }

    fn leader(&mut self) -> Option<NodeId> {
        self.pick(|node| {
            node.running.as_ref().is_some_and(|running| running.agreement.state().role == NodeRole::Leader)
        })
    }

    fn node(&mut self, id: NodeId) -> &mut ClusterNode {
        self.nodes.get_mut(&id).expect("a node of the cluster")
    }

    /// Calls the agreement of a node, moves what it sends to the network, and checks the cluster.
    fn call(&mut self, id: NodeId, call: impl FnOnce(&mut Agreement<ShardNode>) -> Result<()>) -> Result<(), String> {
        let node = self.node(id);
        let Some(running) = &mut node.running else { return Ok(()) };
        let called = call(&mut running.agreement);
        let (mut called, mut packets) = (called, Vec::new());
        loop {
            let sent = running.agreement.node_mut().take_outbox();
            if sent.is_empty() {
                break;
            }
            for packet in sent {
                let (from, to) = (packet.message.from(), packet.message.to());
                let mut bytes = Vec::new();
                packet.encode(&mut bytes);
                packets.push(SentPacket { from, to, bytes });
                if packet.message.shipment().is_some() {
                    called = called.and_then(|()| running.agreement.shipped(to, true));
                }
            }
        }
        self.network.extend(packets);
        while self.network.len() > PACKETS_MAX {
            let lost = self.random.usize(..self.network.len());
            self.network.swap_remove(lost);
        }
        self.settle(id, called)
    }

    /// Checks a node after something was done on it, and answers its clients.
    fn settle(&mut self, id: NodeId, done: Result<()>) -> Result<(), String> {
        let node = self.node(id);
        let before = node.chains.len();
        let members = node.members.clone();
        let observed = if node.has_died() { Ok(()) } else { done.and_then(|()| node.observe()) };
        if node.has_died() {
            return self.end(id, "died");
        }
        if let Err(error) = observed {
            let is_faulty = node.is_faulty();
            return if is_faulty {
                self.end(id, "failed")
            } else {
                Err(format!("node {id} failed without a fault: {error}"))
            };
        }
        if self.nodes[&id].chains.len() < before {
            self.report.truncations += 1;
        }
        if self.is_shown
            && let Some(running) = &self.nodes[&id].running
        {
            let log = running.agreement.node().shard().log();
            let (state, appended, durable) = (running.agreement.state(), log.appended(), log.durable());
            let line =
                format!("node {id}: {state:?}, appended {appended}, durable {durable}, published {}", log.published());
            self.report.lines.push(line);
        }
        let compares_state = self.compares_all || self.random.u32(0..8) == 0;
        let checked = self.checks.check(id, &self.nodes, &members, compares_state);
        if self.nodes[&id].has_died() {
            // A look at its log met a fault.
            return self.end(id, "died");
        }
        checked?;
        self.answer_clients(id)
    }

    /// A client reads on a node that takes itself for the leader.
    fn read(&mut self) -> Result<(), String> {
        let Some(id) = self.leader() else { return Ok(()) };
        let published = self.checks.published();
        let mut begun = None;
        self.call(id, |agreement| {
            begun = agreement.begin_read_round()?;
            Ok(())
        })?;
        if let (Some(round), Some(running)) = (begun, &mut self.node(id).running) {
            running.reads.push((round, published));
        }
        self.answer_reads(id)
    }

    /// A read whose round is done sees all that was published before it began.
    fn answer_reads(&mut self, id: NodeId) -> Result<(), String> {
        let Some(running) = &mut self.node(id).running else { return Ok(()) };
        let (done, published) = (running.agreement.read_round_done(), running.database.published());
        let answered = running.reads.iter().filter(|(round, _)| *round <= done).count() as u64;
        let stale = running.reads.iter().find(|(round, before)| *round <= done && *before > published).copied();
        running.reads.retain(|(round, _)| *round > done);
        self.report.reads += answered;
        match stale {
            Some((_, before)) => {
                Err(format!("node {id} answers a read up to record {published}, and {before} was published before"))
            }
            None => Ok(()),
        }
    }

    fn answer_clients(&mut self, id: NodeId) -> Result<(), String> {
        self.answer_reads(id)?;
        let Some(running) = &mut self.node(id).running else { return Ok(()) };
        let mut answers = Vec::new();
        running.clients.retain_mut(|client| {
            let answer = client.poll();
            let is_waiting = answer.is_none();
            answers.extend(answer.map(|answer| (client.rests_on, client.is_own, answer)));
            is_waiting
        });
        for ((position, chain), is_own, answer) in answers {
            match answer {
                Ok(_) => {
                    self.checks.check_told(position, chain)?;
                    self.report.acknowledged += u64::from(is_own);
                }
                Err(error) if error.kind() == ErrorKind::Unsettled => self.report.unsettled += 1,
                Err(error) => return Err(format!("a client of node {id} got {:?}: {error}", error.kind())),
            }
        }
        Ok(())
    }

    /// The process of a node has ended, or is to end.
    fn end(&mut self, id: NodeId, how: &str) -> Result<(), String> {
        self.note(|| format!("node {id} {how}"));
        self.node(id).stop().map_err(|error| error.to_string())
    }

    fn start(&mut self, id: NodeId) -> Result<(), String> {
        if self.nodes[&id].running.is_some() {
            return Ok(());
        }
        let seed = self.random.u64(..);
        // What was published and on its disk stays there. Other records may have been truncated in
        // the middle of the step in which the process died.
        let had = self.checks.published().min(self.nodes[&id].durable);
        let chain = self.nodes[&id].chain_at(had).filter(|chain| self.checks.check_told(had, *chain).is_ok());
        let started = self.node(id).start(seed).map_err(|error| format!("node {id} does not start: {error}"))?;
        self.note(|| format!("node {id} starts: {started}"));
        if !started {
            return Ok(());
        }
        let is_held_back = self.nodes[&id].is_held_back;
        self.call(id, |agreement| agreement.hold_back(is_held_back))?;
        match chain {
            Some(chain) if self.nodes[&id].chain_at(had) != Some(chain) => {
                Err(format!("node {id} lost record {had}, which was published and on its disk"))
            }
            _ => Ok(()),
        }
    }

    fn deliver(&mut self) -> Result<(), String> {
        if self.network.is_empty() {
            return self.tick_one();
        }
        let index = self.random.usize(..self.network.len());
        self.deliver_at(index)
    }

    fn deliver_at(&mut self, index: usize) -> Result<(), String> {
        let SentPacket { from, to, bytes } = self.network.swap_remove(index);
        if self.cut.contains(&(from, to)) || self.nodes[&to].running.is_none() {
            return Ok(());
        }
        let packet = PeerPacket::decode(&bytes).map_err(|error| format!("node {from} sent garbage: {error}"))?;
        let running = self.nodes[&to].running.as_ref().expect("it runs");
        if running.agreement.needs_files(&packet.message) {
            return self.fetch(to);
        }
        self.call(to, |agreement| {
            agreement.node_mut().receives(packet.records);
            agreement.receive(packet.message)
        })
    }

    /// A node that needs files stops, gets those of a leader if there is one, and starts again.
    fn fetch(&mut self, id: NodeId) -> Result<(), String> {
        self.end(id, "needs files")?;
        let leader = self.leader();
        if let Some(mut node) = leader.and_then(|_| self.nodes.remove(&id)) {
            node.take_files(&self.nodes[&leader.expect("some")]);
            self.nodes.insert(id, node);
            self.report.shipments += 1;
        }
        self.start(id)
    }

    fn lose_or_repeat(&mut self) -> Result<(), String> {
        if self.network.is_empty() {
            return Ok(());
        }
        let index = self.random.usize(..self.network.len());
        if self.random.bool() {
            let SentPacket { from, to, bytes } = &self.network[index];
            let again = SentPacket { from: *from, to: *to, bytes: bytes.clone() };
            self.network.push(again);
        } else {
            self.network.swap_remove(index);
        }
        Ok(())
    }

    /// Everything works for a moment.
    fn round(&mut self) -> Result<(), String> {
        self.tick_all()?;
        while !self.network.is_empty() {
            self.deliver_at(0)?;
        }
        self.ids().into_iter().try_for_each(|id| self.sync_on(id))?;
        for duty in [Duty::Prepare, Duty::Seal, Duty::Seal, Duty::Seal, Duty::Checkpoint, Duty::Compact] {
            self.ids().into_iter().try_for_each(|id| self.carry_out(id, duty))?;
        }
        Ok(())
    }

    fn tick_one(&mut self) -> Result<(), String> {
        self.running().map_or(Ok(()), |id| self.tick(id))
    }

    fn tick_all(&mut self) -> Result<(), String> {
        self.ids().into_iter().try_for_each(|id| self.tick(id))
    }

    fn tick(&mut self, id: NodeId) -> Result<(), String> {
        self.node(id).pass(TICK_MICROS);
        self.node(id).note_tick();
        let hands_over = self.random.u32(0..32) == 0;
        let ids = self.ids();
        let to = self.random.choice(ids).expect("there are nodes");
        self.call(id, |agreement| {
            agreement.tick()?;
            agreement.resume_office()?;
            if hands_over && agreement.is_held_back() {
                // The node may be no leader, and the other no voter.
                let _ = agreement.hand_over_to(to)?;
            }
            let needed = agreement.compactable();
            agreement.node_mut().note_compaction(needed);
            Ok(())
        })
    }

    /// A client commits on a leader, or on a node that takes itself for one.
    fn commit(&mut self) -> Result<(), String> {
        let anywhere = self.random.u32(0..8) == 0;
        let Some(id) = (if anywhere { self.running() } else { self.leader() }) else { return Ok(()) };
        for _ in 0..self.random.u32(1..4) {
            self.commit_on(id)?;
        }
        // Mostly the agreement learns of it at once.
        if self.random.u32(0..4) > 0 { self.call(id, Agreement::appended) } else { Ok(()) }
    }

    fn commit_on(&mut self, id: NodeId) -> Result<(), String> {
        self.value += 1;
        let (value, text_bytes_max, mut random) = (self.value, self.text_bytes_max, self.random.fork());
        let Some(running) = &mut self.node(id).running else { return Ok(()) };
        let log = running.agreement.node().shard().log().clone();
        let before = log.appended();
        let leads = running.agreement.state().role == NodeRole::Leader;
        let text = format!("{value} {}", "x".repeat(random.usize(..text_bytes_max)));
        let submitted = running.database.submit(&draw_commit(&mut random, value, &text));
        let done = match submitted {
            Ok(_) if !leads => return Err(format!("node {id} does not lead, and decided a commit")),
            Ok(ticket) => {
                let position = log.appended();
                let chain = if position == Position::ZERO { Ok(None) } else { log.mark_at(position) };
                chain.map_err(quire::Error::from).map(|mark| {
                    let rests_on = (position, mark.map_or(0, |mark| mark.chain));
                    running.clients.push(WaitingClient::new(ticket, rests_on, position > before));
                })
            }
            // A leader that has just been elected may not have begun its term.
            Err(error) if error.kind() == ErrorKind::NotLeader => Ok(()),
            Err(error) => Err(error),
        };
        self.settle(id, done)
    }

    /// A sync of a node, or a report of what its earlier syncs cover, and mostly both.
    fn sync(&mut self) -> Result<(), String> {
        let Some(id) = self.running() else { return Ok(()) };
        match self.random.u32(0..6) {
            0 => self.sync_log(id),
            1 => self.report_sync(id),
            _ => self.sync_on(id),
        }
    }

    fn sync_on(&mut self, id: NodeId) -> Result<(), String> {
        self.sync_log(id)?;
        self.report_sync(id)
    }

    fn sync_log(&mut self, id: NodeId) -> Result<(), String> {
        if let Some(running) = &self.nodes[&id].running {
            running.agreement.node().shard().log().request_sync();
        }
        let done = self.nodes[&id].carry_out(Duty::Sync);
        self.settle(id, done)
    }

    fn report_sync(&mut self, id: NodeId) -> Result<(), String> {
        self.call(id, |agreement| {
            let durable = agreement.node().durable();
            agreement.synced(durable)
        })
    }

    fn duty(&mut self) -> Result<(), String> {
        let Some(id) = self.running() else { return Ok(()) };
        let duties = [
            Duty::Prepare,
            Duty::Seal,
            Duty::Seal,
            Duty::Checkpoint,
            Duty::Checkpoint,
            Duty::Tick,
            Duty::Retain,
            Duty::Deliver,
            Duty::Compact,
            Duty::Compact,
        ];
        let duty = self.random.choice(duties).expect("some");
        self.carry_out(id, duty)
    }

    fn carry_out(&mut self, id: NodeId, duty: Duty) -> Result<(), String> {
        let done = self.nodes[&id].carry_out(duty).or_else(|error| match error.kind() {
            ErrorKind::NotLeader => Ok(()),
            _ => Err(error),
        });
        self.settle(id, done)
    }

    fn cut_or_mend(&mut self) -> Result<(), String> {
        if self.random.bool() {
            self.cut.clear();
            self.note(|| "the network is whole".to_owned());
            return Ok(());
        }
        let ids = self.ids();
        let one = self.random.choice(&ids).copied().expect("there are nodes");
        // One node is cut off, or one direction to it.
        let directions = self.random.u32(1..4);
        for other in ids.into_iter().filter(|other| *other != one) {
            if directions & 1 != 0 {
                self.cut.insert((one, other));
            }
            if directions & 2 != 0 {
                self.cut.insert((other, one));
            }
        }
        self.note(|| format!("node {one} is cut off: {directions}"));
        Ok(())
    }

    /// A node is cut off while the others append. They compact what it lacks, so it needs files.
    fn leave_behind(&mut self) -> Result<(), String> {
        let Some(one) = self.running() else { return Ok(()) };
        let before = self.cut.clone();
        for other in self.ids().into_iter().filter(|other| *other != one) {
            self.cut.extend([(one, other), (other, one)]);
        }
        self.note(|| format!("node {one} is left behind"));
        for _ in 0..LEFT_ROUNDS {
            (0..LEFT_COMMITS).try_for_each(|_| self.commit())?;
            self.round()?;
        }
        self.cut = before;
        Ok(())
    }

    /// The leader adds a node, makes a learner a voter, removes a member, or hands its office over.
    fn change_members(&mut self) -> Result<(), String> {
        let Some(leader) = self.leader() else { return Ok(()) };
        let members = self.nodes[&leader].members.clone();
        let pick = |random: &mut Rng, nodes: &BTreeSet<NodeId>| random.choice(nodes.iter().copied());
        let (node, role) = match self.random.u32(0..5) {
            0 | 1 if self.nodes.len() < NODES_MAX => (self.add_node()?, MemberRole::Learner),
            0..3 => match pick(&mut self.random, &members.learners) {
                Some(learner) => (learner, MemberRole::Voter),
                None => return Ok(()),
            },
            3 if members.voters.len() > 2 => {
                let removed = pick(&mut self.random, &members.voters).expect("there are voters");
                (removed, MemberRole::Removed)
            }
            _ => {
                let to = pick(&mut self.random, &members.voters).expect("there are voters");
                self.note(|| format!("node {leader} hands its office over to {to}"));
                return self.call(leader, |agreement| agreement.hand_over_to(to).map(drop));
            }
        };
        self.note(|| format!("node {leader} sets {node} to {}", role.name()));
        let addresses = MemberAddresses { cluster: format!("10.0.0.{node}:7072"), ..MemberAddresses::default() };
        let member = ClusterMember { role, incarnation: node.get().into(), addresses };
        self.report.changes += 1;
        self.call(leader, |agreement| agreement.set_member(node, &member).map(drop))
    }

    /// Starts a node that no other node knows yet.
    fn add_node(&mut self) -> Result<NodeId, String> {
        let id = NodeId::new(self.nodes.len() as u64 + 1).expect("from 1 on");
        let node = new_node(id, self.founders.clone(), &mut self.random);
        self.nodes.insert(id, node);
        self.start(id)?;
        Ok(id)
    }

    /// A node finds damage in its log, or has none any more.
    fn damage_or_repair(&mut self) -> Result<(), String> {
        let Some(id) = self.running() else { return Ok(()) };
        let node = self.node(id);
        (node.is_held_back, node.leaderless_ticks) = (!node.is_held_back, 0);
        let is_held_back = node.is_held_back;
        self.note(|| format!("node {id} is held back: {is_held_back}"));
        self.report.held_back += u64::from(is_held_back);
        self.call(id, |agreement| agreement.hold_back(is_held_back))
    }

    fn kill(&mut self) -> Result<(), String> {
        let Some(id) = self.running() else { return Ok(()) };
        self.node(id).kill();
        self.end(id, "is killed")
    }

    /// Power is lost on one node, or on all of them.
    fn cut_power(&mut self) -> Result<(), String> {
        let ids = self.ids();
        let one = self.random.choice(&ids).copied();
        let is_everywhere = self.random.u32(0..4) == 0;
        for id in ids.into_iter().filter(|id| is_everywhere || Some(*id) == one) {
            self.node(id).cut_power();
            self.end(id, "loses power")?;
        }
        Ok(())
    }

    fn stop_in_order(&mut self) -> Result<(), String> {
        let Some(id) = self.running() else { return Ok(()) };
        self.end(id, "stops")
    }

    /// A fault of the disk occurs soon, or a node takes the leader for dead and asks for votes.
    fn arm_or_lose_leader(&mut self) -> Result<(), String> {
        match self.running().filter(|_| self.random.bool()) {
            Some(id) => self.call(id, |agreement| {
                agreement.lose_leader()?;
                agreement.campaign()
            }),
            None => self.arm(),
        }
    }

    /// A fault of the disk occurs soon.
    fn arm(&mut self) -> Result<(), String> {
        let Some(id) = self.running() else { return Ok(()) };
        let after = self.random.u64(0..30);
        let (effect, operations): (_, &'static [DiskOperation]) = match self.random.u32(0..8) {
            0..4 => (Effect::Kill { after: self.random.bool() }, &[]),
            4..6 => (Effect::PowerCut { after: self.random.bool() }, &[]),
            6 => (Effect::Error, &[DiskOperation::Sync, DiskOperation::Write, DiskOperation::Rename]),
            _ => (Effect::Full, &[]),
        };
        self.note(|| format!("node {id} will meet {} after {after} operations", effect.name()));
        self.node(id).disk.arm(ArmedFault { after, operations, effect });
        Ok(())
    }

    fn restart(&mut self) -> Result<(), String> {
        let dead = self.pick(|node| node.running.is_none());
        dead.map_or(Ok(()), |id| self.start(id))
    }
}

/// A node with an empty disk. The clocks of nodes differ by up to 3 seconds.
fn new_node(id: NodeId, initial: MemberSet, random: &mut Rng) -> ClusterNode {
    let begun = Timestamp::from_millis(1_790_000_000_000 + random.u64(0..3_000));
    let clock = Arc::new(ManualClock::new(begun));
    let disk = SimDisk::new(random.u64(..), pace(random), Arc::clone(&clock), Trace::silent());
    ClusterNode::new(id, disk, clock, initial, random)
}
