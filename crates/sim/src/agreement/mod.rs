//! The agreement of the nodes of a cluster, in random schedules: crashes, lost and reordered
//! messages, cut networks, slow syncs, changes of members. One seed is one schedule.
//!
//! The nodes run the real [`quire_cluster::Agreement`]. Their logs and disks are simulated, so that
//! a million schedules take minutes. `docs/agreement.md` lists what is checked.

mod check;
mod node;
mod world;

use quire::Position;

use crate::panics;
use world::AgreementWorld;

/// The steps of a schedule, before the world heals.
const STEPS: usize = 600;

/// What a schedule did.
#[derive(Debug)]
pub struct AgreementReport {
    /// The last published position.
    pub published: Position,
    /// The number of terms that had a leader.
    pub terms: usize,
    /// What was violated.
    pub failure: Option<String>,
    /// The steps, if they were asked for.
    pub lines: Vec<String>,
}

/// Runs the schedule of a seed. A panic is a failure.
pub fn agree(seed: u64, is_shown: bool) -> AgreementReport {
    panics::caught(seed, || AgreementWorld::new(seed, is_shown).run()).unwrap_or_else(|panic| AgreementReport {
        published: Position::ZERO,
        terms: 0,
        failure: Some(format!("it panicked: {}", panics::message(&*panic))),
        lines: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::agree;

    #[test]
    fn nodes_agree_in_random_schedules() {
        let (mut published, mut terms) = (0, 0);
        for seed in 0..2_000 {
            let report = agree(seed, false);
            assert_eq!(report.failure, None, "seed {seed}");
            published += report.published.get();
            terms += report.terms;
        }
        // The schedules elect leaders, and publish records.
        assert!(terms > 2_000 && published > 20_000, "{terms} terms, {published} records");
    }

    #[test]
    fn a_schedule_is_a_function_of_its_seed() {
        let lines = || agree(17, true).lines;
        assert_eq!(lines(), lines());
    }
}
