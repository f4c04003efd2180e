//! The end of a run: the world heals, and all nodes must become level.

use quire::Position;
use quire_cluster::{Agreement, NodeId};

use super::ClusterWorld;

/// How many rounds of ticks the healed cluster gets until all nodes are level.
const HEALED_ROUNDS: usize = 400;

impl ClusterWorld {
    /// Starts all nodes and mends the network. Then one leader is elected, a commit is
    /// acknowledged, and all nodes are level. They are so after a restart, too.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        self.note(|| "the world heals".to_owned());
        self.cut.clear();
        self.compares_all = true;
        for id in self.ids() {
            self.node(id).disk.disarm();
            // A node that failed must be opened again.
            if self.nodes[&id].is_faulty() {
                self.end(id, "stops")?;
            }
            self.start(id)?;
        }
        self.level()?;
        for id in self.ids() {
            self.end(id, "stops")?;
            self.start(id)?;
        }
        self.level()
    }

    fn level(&mut self) -> Result<(), String> {
        let mut goal: Option<(Position, u32)> = None;
        for _ in 0..HEALED_ROUNDS {
            self.round()?;
            self.ids().into_iter().try_for_each(|id| self.call(id, Agreement::appended))?;
            let Some(leader) = self.leader() else { continue };
            // Another leader may have truncated the record.
            let kept = goal.filter(|(position, chain)| self.nodes[&leader].chain_at(*position) == Some(*chain));
            match kept {
                Some((position, _)) if self.is_level(position, leader) => return Ok(()),
                Some(_) => {}
                None => {
                    let node = &self.nodes[&leader];
                    let serves = node
                        .running
                        .as_ref()
                        .is_some_and(|running| running.agreement.node().shard().check_serves().is_ok());
                    if serves {
                        self.commit_on(leader)?;
                        self.call(leader, Agreement::appended)?;
                        let node = &self.nodes[&leader];
                        let last = Position::new(node.chains.len() as u64);
                        goal = node.chain_at(last).map(|chain| (last, chain));
                    }
                }
            }
        }
        let ends: Vec<String> =
            self.nodes.values().map(|node| format!("{} to {}", node.id, node.chains.len())).collect();
        Err(format!("the healed cluster is not level: published {}, {}", self.checks.published(), ends.join(", ")))
    }

    /// Whether each member, as the leader knows them, has published this position.
    fn is_level(&self, goal: Position, leader: NodeId) -> bool {
        let members = &self.nodes[&leader].members;
        self.nodes.values().filter(|node| members.contains(node.id)).all(|node| {
            let Some(running) = &node.running else { return false };
            running.database.published() >= goal && running.clients.is_empty()
        })
    }
}
