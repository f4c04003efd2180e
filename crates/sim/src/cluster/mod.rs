//! A cluster of databases, each on its own simulated disk: crashes, power cuts, errors of disks,
//! lost and reordered messages, cut networks. One seed is one run.
//!
//! The nodes run the real database, the real log and the real agreement. `docs/agreement.md` lists
//! what is checked.

mod check;
mod commits;
mod node;
mod world;

use crate::panics;
use world::ClusterWorld;

/// The steps of a run, before the world heals.
const STEPS: usize = 1_200;

/// What a run of a cluster did.
#[derive(Debug, Default)]
pub struct ClusterReport {
    /// The last published position.
    pub published: u64,
    /// The number of terms that had a leader.
    pub terms: usize,
    /// The number of commits whose clients were told that they are kept.
    pub acknowledged: u64,
    /// The number of commits whose clients were told that they may or may not survive.
    pub unsettled: u64,
    /// The number of truncations.
    pub truncations: u64,
    /// The number of attempts to change the members.
    pub changes: u64,
    /// How often a node got the files of another one.
    pub shipments: u64,
    /// The number of reads that a majority confirmed.
    pub reads: u64,
    /// How often a node left the office to others, because of damage.
    pub held_back: u64,
    /// The number of nodes that had compacted their log at the end.
    pub compacted: usize,
    /// What was violated.
    pub failure: Option<String>,
    /// The steps, if they were asked for.
    pub lines: Vec<String>,
}

/// Runs a cluster. A panic is a failure.
pub fn run_cluster(seed: u64, is_shown: bool) -> ClusterReport {
    panics::caught(seed, || ClusterWorld::new(seed, is_shown).run()).unwrap_or_else(|panic| ClusterReport {
        failure: Some(format!("it panicked: {}", panics::message(&*panic))),
        ..ClusterReport::default()
    })
}

#[cfg(test)]
mod tests {
    use super::run_cluster;

    #[test]
    fn databases_of_a_cluster_agree_whatever_fails() {
        let (mut acknowledged, mut unsettled, mut truncations, mut terms, mut changes) = (0, 0, 0, 0, 0);
        let (mut shipments, mut compacted, mut reads, mut held_back) = (0, 0, 0, 0);
        for seed in 0..60 {
            let report = run_cluster(seed, false);
            assert_eq!(report.failure, None, "seed {seed}");
            acknowledged += report.acknowledged;
            unsettled += report.unsettled;
            truncations += report.truncations;
            terms += report.terms;
            changes += report.changes;
            shipments += report.shipments;
            compacted += report.compacted;
            reads += report.reads;
            held_back += report.held_back;
        }
        assert!(acknowledged > 1_500 && unsettled > 100, "{acknowledged} acknowledged, {unsettled} unsettled");
        assert!(truncations > 60 && terms > 200, "{truncations} truncations, {terms} terms");
        assert!(changes > 60, "{changes} changes of the members");
        assert!(shipments > 2 && compacted > 60, "{shipments} shipments, {compacted} nodes compacted");
        assert!(reads > 100 && held_back > 60, "{reads} reads, {held_back} times held back");
    }

    #[test]
    fn a_run_of_a_cluster_is_a_function_of_its_seed() {
        let lines = || run_cluster(11, true).lines;
        assert_eq!(lines(), lines());
    }
}
