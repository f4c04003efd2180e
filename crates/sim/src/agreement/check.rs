//! What must hold after each step.

use std::collections::BTreeMap;
use std::fmt::Write;

use quire::Position;
use quire_cluster::{MemberSet, NodeId, RecordPlace};
use quire_log::Term;

use super::node::{NodeDisk, SimulatedNode, leads};

/// What the nodes have done so far.
pub(super) struct Checks {
    leaders: BTreeMap<Term, NodeId>,
    /// The chain of each record that any node ever had.
    chains: BTreeMap<RecordPlace, u64>,
    /// The chain of each published position.
    published: BTreeMap<Position, u64>,
}

impl Checks {
    pub(super) fn new(start: RecordPlace, start_chain: u64) -> Self {
        Checks {
            leaders: BTreeMap::new(),
            chains: BTreeMap::from([(start, start_chain)]),
            published: BTreeMap::from([(Position::ZERO, 0), (start.position, start_chain)]),
        }
    }

    /// The last published position.
    pub(super) fn published(&self) -> Position {
        *self.published.last_key_value().expect("the start is published").0
    }

    /// The number of terms with a leader.
    pub(super) fn terms(&self) -> usize {
        self.leaders.len()
    }

    /// Checks the node that made a step. `before` are the members that were in force before it.
    pub(super) fn check(
        &mut self,
        node: &SimulatedNode,
        before: &MemberSet,
        disks: &BTreeMap<NodeId, &NodeDisk>,
    ) -> Result<(), String> {
        self.check_leader(node)?;
        self.check_chain(node)?;
        self.check_published(node, before, disks)
    }

    /// A term has one leader.
    fn check_leader(&mut self, node: &SimulatedNode) -> Result<(), String> {
        let Some(state) = node.state.filter(|_| leads(node)) else { return Ok(()) };
        let leader = *self.leaders.entry(state.term).or_insert(node.id);
        if leader == node.id {
            Ok(())
        } else {
            Err(format!("term {} has the leaders {leader} and {}", state.term, node.id))
        }
    }

    /// Two logs that have a record of the same place have the same records up to there.
    fn check_chain(&mut self, node: &SimulatedNode) -> Result<(), String> {
        for record in node.disk.records.iter().rev().take(8) {
            let chain = *self.chains.entry(record.place).or_insert(record.chain);
            if chain != record.chain {
                return Err(format!("node {} has other records up to {} than another node", node.id, record.place));
            }
        }
        Ok(())
    }

    /// What is published stays published, and was on the disks of a majority when it became so.
    fn check_published(
        &mut self,
        node: &SimulatedNode,
        before: &MemberSet,
        disks: &BTreeMap<NodeId, &NodeDisk>,
    ) -> Result<(), String> {
        let position = node.published.position;
        let known = self.published();
        if position > known {
            for number in known.get() + 1..=position.get() {
                let chain = node.disk.chain_at(Position::new(number));
                let chain = chain.ok_or_else(|| format!("node {} publishes {number} and lacks it", node.id))?;
                self.published.insert(Position::new(number), chain);
            }
            let chain = self.published[&position];
            let has = |id: NodeId| {
                disks.get(&id).is_some_and(|disk| {
                    disk.start.position >= position
                        || disk.synced_position() >= position && disk.chain_at(position) == Some(chain)
                })
            };
            if !before.is_majority(has) && !node.members.is_majority(has) {
                return Err(format!("node {} publishes {position}, which no majority has on disk", node.id));
            }
        }
        match node.disk.chain_at(position) {
            Some(chain) if chain != self.published[&position] => {
                Err(format!("node {} publishes another record at {position} than before", node.id))
            }
            _ => Ok(()),
        }
    }

    /// The ends of the logs, for a failure.
    pub(super) fn describe<'d>(&self, disks: impl Iterator<Item = &'d NodeDisk>) -> String {
        let mut text = format!("published {}", self.published());
        for disk in disks {
            let _ = write!(text, "; from {} to {}, vote {:?}", disk.start, disk.last(), disk.vote);
        }
        text
    }
}
