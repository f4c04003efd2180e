//! `quire cluster recover`: makes a stopped node a cluster alone, when the majority of its cluster
//! is lost for good. Without the numbers of the lost members, it only prints what the node has.

use std::collections::BTreeSet;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::Args;
use quire::Database;
use quire::tools::{StoppedNode, StoppedNodeReport};

use crate::failure::{CommandError, Result};
use crate::graph_memory::GraphMemoryArgs;
use crate::text::grouped;

/// Arguments of `quire cluster recover`.
#[derive(Debug, Args)]
pub(crate) struct RecoverNode {
    /// Directory of a node whose server is stopped
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Numbers of all other members: commits that only they have are lost; without this flag, the
    /// command only prints what the node has
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    accept_loss_of: Vec<NonZeroU64>,
    #[command(flatten)]
    graph_memory: GraphMemoryArgs,
}

impl RecoverNode {
    /// Prints what the node has, and recovers it if the flag names all other members.
    ///
    /// # Errors
    /// When the node can't be opened, or the flag does not name exactly the other members: nothing
    /// has changed then.
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let node = StoppedNode::open(self.graph_memory.of_server(Database::builder(&self.data)))?;
        let report = node.report()?;
        describe(out, &report, &self.data)?;
        out.flush()?;
        let accepted = self.accept_loss_of.iter().map(|node| node.get()).collect();
        check_accepted(&report, &accepted, &self.data)?;
        node.recover()?;
        let StoppedNodeReport { node, last, unused, .. } = report;
        writeln!(out, "node {node} is a cluster alone, with its records up to {}", grouped(last.get()))?;
        writeln!(
            out,
            "next: start it as before, without --cluster-join; then start new nodes with empty directories,"
        )?;
        writeln!(out, "      --cluster-join and numbers that no node has had, such as {unused}")?;
        Ok(())
    }
}

fn describe(out: &mut dyn Write, report: &StoppedNodeReport, data: &Path) -> Result {
    let StoppedNodeReport { node, last, term, others, damage, .. } = report;
    writeln!(out, "node {node} in {}: last record {} of term {term}", data.display(), grouped(last.get()))?;
    for (other, member) in others {
        let (role, address) = (member.role.name(), &member.addresses.cluster);
        writeln!(out, "other member: node {other}, {role}, {address}")?;
    }
    damage.iter().try_for_each(|damage| writeln!(out, "damage: {damage}"))?;
    Ok(())
}

/// Checks that the flag names exactly the other members.
fn check_accepted(report: &StoppedNodeReport, accepted: &BTreeSet<u64>, data: &Path) -> Result {
    let others: BTreeSet<u64> = report.others.iter().map(|(node, _)| *node).collect();
    if others.is_empty() {
        return Err(CommandError::new(format!(
            "node {} knows no other member, so it needs no recovery: start it with `quire serve`",
            report.node
        )));
    }
    if *accepted == others {
        return Ok(());
    }
    let all = list(&others);
    if accepted.is_empty() {
        return Err(CommandError::new(format!(
            "nothing was changed. Commits after record {} that only the other members have would be lost. Of several \
             survivors, take the one with the highest term, and of those with the same term the one with the last \
             record. To make this node a cluster alone, repeat the command with --data {} --accept-loss-of {all}",
            grouped(report.last.get()),
            data.display()
        )));
    }
    Err(CommandError::new(format!(
        "nothing was changed: --accept-loss-of must name all other members, {all}, got {}",
        list(accepted)
    )))
}

fn list(nodes: &BTreeSet<u64>) -> String {
    nodes.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}
