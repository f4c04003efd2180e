//! The world of an agreement: nodes that die and start again, and a network that loses, delays,
//! repeats and reorders.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use quire::Position;
use quire_cluster::{Agreement, AgreementSettings, MemberChange, MemberSet, NodeId, RecordPlace};

use super::check::Checks;
use super::node::{NodeDisk, Packet, ProcessDied, SimulatedNode, chain, leads};
use super::{AgreementReport, STEPS};

/// The most packets that are on their way.
const PACKETS_MAX: usize = 200;

/// How many rounds of ticks the healed cluster gets until all nodes are level.
const HEALED_ROUNDS: usize = 400;

/// The highest number of a node.
const NODES_MAX: u64 = 7;

enum NodeProcess {
    Runs(Box<Agreement<SimulatedNode>>),
    Died(NodeDisk),
}

pub(super) struct AgreementWorld {
    random: Rng,
    nodes: BTreeMap<NodeId, NodeProcess>,
    network: Vec<Packet>,
    /// The directions in which nothing arrives.
    cut: BTreeSet<(NodeId, NodeId)>,
    /// A sync that runs on a node: the last record when it began.
    syncs: BTreeMap<NodeId, RecordPlace>,
    payload: u64,
    checks: Checks,
    lines: Option<Vec<String>>,
}

fn id(number: u64) -> NodeId {
    NodeId::new(number).expect("from 1 on")
}

impl AgreementWorld {
    pub(super) fn new(seed: u64, is_shown: bool) -> Self {
        let mut random = Rng::with_seed(seed);
        let count = if random.bool() { 3 } else { 5 };
        let members = MemberSet::of_voters((1..=count).map(id));
        let start = RecordPlace { position: Position::new(1), term: quire_log::Term::new(1) };
        let start_chain = chain(0, start, 0);
        let mut world = AgreementWorld {
            random,
            nodes: BTreeMap::new(),
            network: Vec::new(),
            cut: BTreeSet::new(),
            syncs: BTreeMap::new(),
            payload: 0,
            checks: Checks::new(start, start_chain),
            lines: is_shown.then(Vec::new),
        };
        for number in 1..=count {
            let disk = NodeDisk { start, start_chain, members: members.clone(), ..NodeDisk::default() };
            world.nodes.insert(id(number), NodeProcess::Died(disk));
            world.start(id(number));
        }
        world
    }

    /// Runs the steps, heals the cluster, and checks that it goes on.
    pub(super) fn run(mut self) -> AgreementReport {
        let outcome = (0..STEPS).try_for_each(|_| self.step()).and_then(|()| self.heal());
        let published = self.checks.published();
        AgreementReport {
            published,
            terms: self.checks.terms(),
            failure: outcome.err(),
            lines: self.lines.unwrap_or_default(),
        }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(line());
        }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.u32(0..100) {
            0..45 => self.deliver(),
            45..58 => self.tick_one(),
            58..61 => self.tick_all(),
            61..72 => self.append(),
            72..75 => self.report_later(),
            75..90 => self.sync(),
            90..92 => self.lose_or_repeat(),
            92..94 => self.cut_or_mend(),
            94..96 => self.kill(),
            96..98 => self.restart(),
            98 => self.change_members(),
            _ => match self.random.u32(0..3) {
                0 => self.transfer(),
                1 => self.compact(),
                _ => self.arm(),
            },
        }
    }

    fn pick(&mut self, of: impl Fn(&NodeProcess) -> bool) -> Option<NodeId> {
        let found: Vec<_> = self.nodes.iter().filter(|(_, process)| of(process)).map(|(id, _)| *id).collect();
        self.random.choice(found)
    }

    fn running(&mut self) -> Option<NodeId> {
        self.pick(|process| matches!(process, NodeProcess::Runs(_)))
    }

    fn leader(&mut self) -> Option<NodeId> {
        self.pick(|process| matches!(process, NodeProcess::Runs(agreement) if agreement.may_append().is_some()))
    }

    /// Calls the agreement of a node, moves what it sends to the network, and checks the cluster.
    fn call(
        &mut self,
        id: NodeId,
        call: impl FnOnce(&mut Agreement<SimulatedNode>) -> Result<(), ProcessDied>,
    ) -> Result<(), String> {
        let Some(NodeProcess::Runs(agreement)) = self.nodes.get_mut(&id) else { return Ok(()) };
        let before = agreement.node().members.clone();
        let called = call(agreement);
        let node = agreement.node_mut();
        let sent = std::mem::take(&mut node.outbox);
        let violation = node.violation.take();
        let (state, published, last) = (node.state, node.published, node.disk.last());
        self.note(|| format!("node {id}: {state:?}, last {last}, published {published}, sends {}", sent.len()));
        self.network.extend(sent);
        while self.network.len() > PACKETS_MAX {
            let lost = self.random.usize(..self.network.len());
            self.lose(lost)?;
        }
        if called.is_err() {
            self.note(|| format!("node {id} dies in the middle of it"));
            self.die(id);
        }
        if let Some(violation) = violation {
            return Err(violation);
        }
        let disks: BTreeMap<NodeId, &NodeDisk> = self.nodes.iter().map(|(id, process)| (*id, process.disk())).collect();
        let node = match &self.nodes[&id] {
            NodeProcess::Runs(agreement) => agreement.node(),
            NodeProcess::Died(_) => return Ok(()),
        };
        self.checks.check(node, &before, &disks)
    }

    fn die(&mut self, id: NodeId) {
        if let Some(NodeProcess::Runs(agreement)) = self.nodes.get(&id) {
            let mut disk = agreement.node().disk.clone();
            // The system may have written some of what was not synced.
            let kept = self.random.usize(disk.synced..=disk.records.len());
            disk.records.truncate(kept);
            self.nodes.insert(id, NodeProcess::Died(disk));
            self.syncs.remove(&id);
        }
    }

    fn start(&mut self, id: NodeId) {
        if let Some(NodeProcess::Died(disk)) = self.nodes.get(&id) {
            let node = SimulatedNode::new(id, disk.clone());
            let seed = self.random.u64(..);
            let agreement = Agreement::new(id, node, AgreementSettings::default(), seed);
            self.nodes.insert(id, NodeProcess::Runs(Box::new(agreement)));
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
        let (from, to) = (self.network[index].message.from(), self.network[index].message.to());
        let arrives = !self.cut.contains(&(from, to)) && matches!(self.nodes.get(&to), Some(NodeProcess::Runs(_)));
        if !arrives {
            return self.lose(index);
        }
        let Packet { message, records, files_chain } = self.network.swap_remove(index);
        let is_shipment = files_chain.is_some();
        self.call(to, |agreement| {
            let node = agreement.node_mut();
            (node.received, node.received_files) = (records, files_chain);
            agreement.receive(message)
        })?;
        if is_shipment {
            self.call(from, |agreement| agreement.shipped(to, true))?;
        }
        Ok(())
    }

    fn lose(&mut self, index: usize) -> Result<(), String> {
        let packet = self.network.swap_remove(index);
        let (from, to) = (packet.message.from(), packet.message.to());
        if packet.files_chain.is_some() {
            return self.call(from, |agreement| agreement.shipped(to, false));
        }
        Ok(())
    }

    fn lose_or_repeat(&mut self) -> Result<(), String> {
        if self.network.is_empty() {
            return Ok(());
        }
        let index = self.random.usize(..self.network.len());
        if self.random.bool() && self.network[index].files_chain.is_none() {
            let again = self.network[index].clone();
            self.network.push(again);
            return Ok(());
        }
        self.lose(index)
    }

    fn tick_one(&mut self) -> Result<(), String> {
        let Some(id) = self.running() else { return Ok(()) };
        self.call(id, Agreement::tick)
    }

    fn tick_all(&mut self) -> Result<(), String> {
        let ids: Vec<_> = self.nodes.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.call(id, Agreement::tick))
    }

    /// A leader appends, and mostly reports it at once.
    fn append(&mut self) -> Result<(), String> {
        let Some(id) = self.leader() else { return Ok(()) };
        let count = self.random.u32(1..4);
        let reports = self.random.u32(0..4) > 0;
        self.append_on(id, count, reports)
    }

    fn append_on(&mut self, id: NodeId, count: u32, reports: bool) -> Result<(), String> {
        let first = self.payload + 1;
        self.payload += u64::from(count);
        self.call(id, |agreement| {
            let Some(term) = agreement.may_append() else { return Ok(()) };
            for payload in first..first + u64::from(count) {
                let position = Position::new(agreement.node().disk.last().position.get() + 1);
                agreement.node_mut().append(RecordPlace { position, term }, payload, None);
            }
            if reports { agreement.appended() } else { Ok(()) }
        })
    }

    fn report_later(&mut self) -> Result<(), String> {
        let Some(id) = self.leader() else { return Ok(()) };
        self.call(id, Agreement::appended)
    }

    /// A sync begins, or ends.
    fn sync(&mut self) -> Result<(), String> {
        let Some(id) = self.running() else { return Ok(()) };
        self.sync_on(id)
    }

    fn sync_on(&mut self, id: NodeId) -> Result<(), String> {
        let Some(place) = self.syncs.remove(&id) else {
            if let Some(NodeProcess::Runs(agreement)) = self.nodes.get(&id) {
                self.syncs.insert(id, agreement.node().disk.last());
            }
            return Ok(());
        };
        self.call(id, |agreement| {
            let disk = &mut agreement.node_mut().disk;
            // A truncation may have replaced what was being synced.
            if let Some(index) = place.position.get().checked_sub(disk.start.position.get())
                && disk.record(place.position).is_some_and(|record| record.place == place)
            {
                disk.synced = disk.synced.max(usize::try_from(index).expect("few"));
            }
            agreement.synced(place)
        })
    }

    fn cut_or_mend(&mut self) -> Result<(), String> {
        if self.random.bool() {
            self.cut.clear();
            self.note(|| "the network is whole".to_owned());
            return Ok(());
        }
        let ids: Vec<_> = self.nodes.keys().copied().collect();
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

    fn kill(&mut self) -> Result<(), String> {
        if let Some(id) = self.running() {
            self.note(|| format!("node {id} is killed"));
            self.die(id);
        }
        Ok(())
    }

    /// The process will die within some changes of its disk.
    fn arm(&mut self) -> Result<(), String> {
        let fuse = self.random.u32(0..4);
        if let Some(id) = self.running()
            && let Some(NodeProcess::Runs(agreement)) = self.nodes.get_mut(&id)
        {
            agreement.node_mut().fuse = Some(fuse);
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<(), String> {
        if let Some(id) = self.pick(|process| matches!(process, NodeProcess::Died(_))) {
            self.note(|| format!("node {id} starts"));
            self.start(id);
        }
        Ok(())
    }

    fn change_members(&mut self) -> Result<(), String> {
        let may =
            |process: &NodeProcess| matches!(process, NodeProcess::Runs(agreement) if agreement.may_change_members());
        let Some(id) = self.pick(may) else { return Ok(()) };
        let Some(NodeProcess::Runs(agreement)) = self.nodes.get(&id) else { return Ok(()) };
        let members = agreement.members();
        let is_joint = members.is_joint();
        let mut change = MemberChange::default();
        if !is_joint {
            for _ in 0..self.random.u32(1..3) {
                let node = self::id(self.random.u64(1..=NODES_MAX));
                change = match (members.voters.contains(&node), members.learners.contains(&node)) {
                    (true, _) if members.voters.len() > 2 => change.removed(node),
                    (false, true) => change.voter(node),
                    (false, false) => change.learner(node),
                    _ => change,
                };
            }
            if change == MemberChange::leave() {
                return Ok(());
            }
        }
        let Some(NodeProcess::Runs(agreement)) = self.nodes.get(&id) else { return Ok(()) };
        if agreement.check_change(&change).is_err() {
            return Ok(());
        }
        self.note(|| format!("node {id} changes the members by {change:?}"));
        for node in (1..=NODES_MAX).map(self::id) {
            if let Entry::Vacant(new) = self.nodes.entry(node) {
                new.insert(NodeProcess::Died(NodeDisk::default()));
                self.start(node);
            }
        }
        self.call(id, |agreement| {
            let term = agreement.may_append().expect("it is the leader");
            let position = Position::new(agreement.node().disk.last().position.get() + 1);
            agreement.node_mut().append(RecordPlace { position, term }, 0, Some(change));
            agreement.appended()
        })
    }

    fn transfer(&mut self) -> Result<(), String> {
        let (Some(from), Some(to)) = (self.leader(), self.running()) else { return Ok(()) };
        self.call(from, |agreement| agreement.transfer(to))
    }

    fn compact(&mut self) -> Result<(), String> {
        let Some(id) = self.running() else { return Ok(()) };
        if let Some(NodeProcess::Runs(agreement)) = self.nodes.get_mut(&id) {
            let compactable = agreement.compactable().get();
            let node = agreement.node_mut();
            let start = node.disk.start.position.get();
            if compactable > start {
                let up_to = self.random.u64(start + 1..=compactable);
                node.compact(Position::new(up_to));
            }
        }
        Ok(())
    }

    /// Starts all nodes and mends the network. Then one leader is elected, a record is published,
    /// and all members are level.
    fn heal(&mut self) -> Result<(), String> {
        self.note(|| "the world heals".to_owned());
        self.cut.clear();
        for process in self.nodes.values_mut() {
            if let NodeProcess::Runs(agreement) = process {
                agreement.node_mut().fuse = None;
            }
        }
        let ids: Vec<_> = self.nodes.keys().copied().collect();
        ids.iter().for_each(|id| self.start(*id));
        let mut goal = None;
        for _ in 0..HEALED_ROUNDS {
            self.tick_all()?;
            while !self.network.is_empty() {
                self.deliver_at(0)?;
            }
            for id in &ids {
                self.sync_on(*id)?;
                self.sync_on(*id)?;
            }
            let Some(leader) = self.leader() else { continue };
            // Another leader may have truncated the record.
            let kept = goal.filter(|goal| self.nodes[&leader].disk().has(*goal));
            goal = match kept {
                Some(goal) if self.is_level(leader, goal.position) => return Ok(()),
                Some(goal) => Some(goal),
                None => {
                    // A change of several members that was cut off half way is completed first.
                    self.complete_change(leader)?;
                    self.append_on(leader, 1, true)?;
                    Some(self.nodes[&leader].disk().last())
                }
            };
        }
        Err(format!(
            "the healed cluster is not level: {}",
            self.checks.describe(self.nodes.values().map(NodeProcess::disk))
        ))
    }

    fn complete_change(&mut self, id: NodeId) -> Result<(), String> {
        let Some(NodeProcess::Runs(agreement)) = self.nodes.get(&id) else { return Ok(()) };
        if !agreement.members().is_joint() || !agreement.may_change_members() {
            return Ok(());
        }
        self.call(id, |agreement| {
            let term = agreement.may_append().expect("it is the leader");
            let position = Position::new(agreement.node().disk.last().position.get() + 1);
            agreement.node_mut().append(RecordPlace { position, term }, 0, Some(MemberChange::leave()));
            agreement.appended()
        })
    }

    fn is_level(&self, leader: NodeId, goal: Position) -> bool {
        let NodeProcess::Runs(leading) = &self.nodes[&leader] else { return false };
        let members = leading.members();
        self.nodes.iter().filter(|(id, _)| members.contains(**id)).all(|(_, process)| match process {
            NodeProcess::Runs(agreement) => agreement.published() >= goal,
            NodeProcess::Died(_) => false,
        }) && leads(leading.node())
    }
}

impl NodeProcess {
    fn disk(&self) -> &NodeDisk {
        match self {
            NodeProcess::Runs(agreement) => &agreement.node().disk,
            NodeProcess::Died(disk) => disk,
        }
    }
}
