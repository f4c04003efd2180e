//! What must hold after each step.

use std::collections::BTreeMap;

use quire::Position;
use quire_cluster::{AgreementSettings, MemberSet, NodeId, NodeRole};
use quire_log::Term;

use super::node::ClusterNode;

/// What the nodes have done so far.
#[derive(Debug, Default)]
pub(super) struct ClusterChecks {
    leaders: BTreeMap<Term, NodeId>,
    /// The chain of each record that any node ever had, by position and term.
    chains: BTreeMap<(Position, Term), u32>,
    /// The chain of each published position.
    published: BTreeMap<Position, u32>,
    /// The state of the models after each record, as a hash.
    states: BTreeMap<(Position, u32), u64>,
}

impl ClusterChecks {
    /// The last published position.
    pub(super) fn published(&self) -> Position {
        self.published.last_key_value().map_or(Position::ZERO, |(position, _)| *position)
    }

    /// The number of terms with a leader.
    pub(super) fn terms(&self) -> usize {
        self.leaders.len()
    }

    /// Checks a node after a step.
    pub(super) fn check(
        &mut self,
        id: NodeId,
        nodes: &BTreeMap<NodeId, ClusterNode>,
        before: &MemberSet,
        compares_state: bool,
    ) -> Result<(), String> {
        let node = &nodes[&id];
        self.check_leader(node)?;
        self.check_chains(node)?;
        self.check_published(node, nodes, before)?;
        if compares_state { self.check_state(node) } else { Ok(()) }
    }

    /// A term has one leader. A node that is held back begins to lead only where no other one does
    /// for long.
    fn check_leader(&mut self, node: &ClusterNode) -> Result<(), String> {
        let Some(running) = &node.running else { return Ok(()) };
        let state = running.agreement.state();
        if state.role != NodeRole::Leader {
            return Ok(());
        }
        let patience = AgreementSettings::default().held_back_ticks();
        let is_new = !self.leaders.contains_key(&state.term);
        if is_new && running.agreement.is_held_back() && node.leaderless_ticks < patience {
            return Err(format!("node {} leads in term {}, although it is held back", node.id, state.term));
        }
        let leader = *self.leaders.entry(state.term).or_insert(node.id);
        if leader == node.id {
            Ok(())
        } else {
            Err(format!("term {} has the leaders {leader} and {}", state.term, node.id))
        }
    }

    /// Two logs that have a record of the same position and term have the same records up to there.
    fn check_chains(&mut self, node: &ClusterNode) -> Result<(), String> {
        let Some(running) = &node.running else { return Ok(()) };
        let log = running.agreement.node().shard().log();
        let last = log.appended().get();
        for position in (last.saturating_sub(4) + 1..=last).map(Position::new) {
            let mark = log.mark_at(position).map_err(|error| error.to_string())?;
            let Some(mark) = mark else {
                if position < log.compacted_end() {
                    continue;
                }
                return Err(format!("node {} lacks record {position}", node.id));
            };
            let chain = *self.chains.entry((position, mark.term)).or_insert(mark.chain);
            if chain != mark.chain {
                return Err(format!("node {} has another {mark} than another node", node.id));
            }
        }
        Ok(())
    }

    /// What is published stays published, and was on the disks of a majority when it became so: of
    /// the members before the step, or of those that it brought into force.
    fn check_published(
        &mut self,
        node: &ClusterNode,
        nodes: &BTreeMap<NodeId, ClusterNode>,
        before: &MemberSet,
    ) -> Result<(), String> {
        let Some(running) = &node.running else { return Ok(()) };
        let position = running.database.published();
        for number in self.published().get() + 1..=position.get() {
            let at = Position::new(number);
            let chain = node.chain_at(at).ok_or_else(|| format!("node {} publishes {at} and lacks it", node.id))?;
            let has = |id: NodeId| nodes[&id].durable >= at && nodes[&id].chain_at(at) == Some(chain);
            if !before.is_majority(has) && !node.members.is_majority(has) {
                return Err(format!("node {} publishes {at}, which no majority has on disk", node.id));
            }
            self.published.insert(at, chain);
        }
        match node.chain_at(position) {
            Some(chain) if chain != self.published[&position] => {
                Err(format!("node {} publishes another record at {position} than before", node.id))
            }
            _ => Ok(()),
        }
    }

    /// The models of all nodes are equal after the same record.
    fn check_state(&mut self, node: &ClusterNode) -> Result<(), String> {
        let Some(running) = &node.running else { return Ok(()) };
        let saved = running.agreement.node().shard().saved_state();
        let (mark, bytes) = saved.map_err(|error| error.to_string())?;
        let hash = xxhash_rust::xxh3::xxh3_64(&bytes);
        let known = *self.states.entry((mark.position, mark.chain)).or_insert(hash);
        if known == hash { Ok(()) } else { Err(format!("node {} has another state after {mark}", node.id)) }
    }

    /// Whether a record that a client was told of is published.
    pub(super) fn check_told(&self, position: Position, chain: u32) -> Result<(), String> {
        match self.published.get(&position) {
            _ if position == Position::ZERO => Ok(()),
            Some(known) if *known == chain => Ok(()),
            Some(_) => Err(format!("a client was told of record {position}, and another one is published there")),
            None => Err(format!("a client was told of record {position}, which is not published")),
        }
    }
}
