//! Each single write of a short run that the disk lost, one by one; and all unsynced writes except
//! one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quire::{Durability, Duty};

use super::{SimWorld, Violation};
use crate::check;
use crate::disk::{Loss, SECTOR_BYTES, SimDisk};
use crate::plan::{self, Action, Plan, PlanStep};
use crate::trace::Trace;

/// The seeds of the runs. In the last one, the compaction rewrites a segment.
const DRAWS: [u64; 6] = [0, 1, 2, 3, 4, 18];

/// How many different disks were checked.
#[derive(Debug, Default, Clone, Copy)]
struct LossCounts {
    losses: u64,
    /// Of those, with fewer records than written.
    shortened: u64,
    /// Sectors that were reset to their content before the last sync, whole and in halves.
    stale: u64,
    /// Of those, reported, or without records that were not promised.
    told: u64,
    /// Segments that a compaction put in the place of others.
    rewritten: u64,
}

/// Runs the actions, with several draws of the commits, and compares each possible loss with the
/// promises at that moment.
fn check(durability: Durability) {
    let mut counts = LossCounts::default();
    DRAWS.into_iter().for_each(|seed| check_with(seed, durability, &mut counts));
    println!("{durability}: {counts:?}");
    assert!(counts.shortened > 0 && counts.losses > counts.shortened, "{counts:?}");
    assert!(counts.told > 0 && counts.stale > counts.told, "{counts:?}");
    assert!(counts.rewritten > 0, "{counts:?}");
}

fn check_with(seed: u64, durability: Durability, counts: &mut LossCounts) {
    let actions = run();
    let step = |(number, action): (usize, &Action)| PlanStep {
        number,
        action: action.clone(),
        seed: seed * 1000 + number as u64,
    };
    let plan = Plan {
        seed,
        durability,
        segment_bytes: 4096,
        checkpoint_bytes: 4096,
        history_ms: 0,
        packs: seed.is_multiple_of(2),
        pace: plan::pace(&mut fastrand::Rng::with_seed(seed)),
        steps: actions.iter().enumerate().map(step).collect(),
    };
    let trace = Trace::new(true);
    let outcome = SimWorld::new(&plan, trace.clone()).lose_each(counts);
    assert_eq!(outcome, Ok(()), "seed {seed}:\n{}", trace.lines().join("\n"));
    let is_segment = |line: &&String| line.contains("rename") && line.contains(".log.new");
    counts.rewritten += trace.lines().iter().filter(is_segment).count() as u64;
}

impl SimWorld<'_> {
    fn lose_each(&mut self, counts: &mut LossCounts) -> Result<(), Violation> {
        self.start()?;
        self.disk.watch();
        let mut devices = self.disk.devices();
        for step in &self.plan.steps {
            self.step = step.number;
            let safe = self.safe;
            self.take(step)?;
            let losses = self.disk.take_losses().map_err(|error| error.to_string())?;
            for Loss { disk, what } in losses {
                counts.losses += 1;
                counts.shortened +=
                    self.hold(&disk, safe).map_err(|found| format!("{}: {what}: {found}", step.number))?;
            }
            if self.safe > safe {
                self.disk.forget_seen_losses();
            }
            let before = std::mem::replace(&mut devices, self.disk.devices());
            self.lose_synced(&before, counts).map_err(|found| format!("{}: {found}", step.number))?;
        }
        Ok(())
    }

    /// The remaining disk opens, with at least the safe records and at most all, and all of them
    /// are right. Returns whether records are missing.
    fn hold(&self, disk: &SimDisk, safe: usize) -> Result<u64, Violation> {
        let opening = self.builder(disk.process()).open_and_report();
        let opening = opening.map_err(|error| format!("the disk does not open: {:?}: {error}", error.kind()))?;
        let records = usize::try_from(opening.recovery.records).expect("small");
        if records < safe || records > self.tail() {
            return Err(format!("it came back with {records} records, {safe} were promised of {}", self.tail()));
        }
        check::everything(&opening.database, &self.timeline[records])
            .map_err(|found| format!("it came back with {records} records, but {found}"))?;
        Ok(u64::from(records < self.tail()))
    }

    /// Resets each sector written since: a write that the disk lost although it was synced. The
    /// loss must be reported, or harmless.
    fn lose_synced(&self, before: &BTreeMap<PathBuf, Vec<u8>>, counts: &mut LossCounts) -> Result<(), Violation> {
        for (path, now) in self.disk.devices() {
            let then = before.get(&path).map_or(&[][..], Vec::as_slice);
            for begin in (0..now.len()).step_by(SECTOR_BYTES) {
                let end = (begin + SECTOR_BYTES).min(now.len());
                let mut old = then.get(begin..end.min(then.len())).unwrap_or_default().to_vec();
                old.resize(end - begin, 0);
                if old == now[begin..end] {
                    continue;
                }
                let middle = begin + (end - begin) / 2;
                for range in [begin..end, begin..middle, middle..end] {
                    let fork = self.disk.fork().map_err(|error| error.to_string())?;
                    let mut stale = fork
                        .files(path.parent().expect("the file is in a directory"))
                        .map_err(|error| error.to_string())?;
                    let bytes = stale.get_mut(&path).ok_or("the file is missing")?;
                    bytes[range.clone()].copy_from_slice(&old[range.start - begin..range.end - begin]);
                    fork.tamper(&path, Some(bytes)).map_err(|error| error.to_string())?;
                    counts.stale += 1;
                    let told = self.is_told(&fork);
                    counts.told +=
                        u64::from(told.map_err(|found| format!("{} at {range:?}: {found}", path.display()))?);
                }
            }
        }
        Ok(())
    }
}

/// A run that has segments begin and end, syncs, checkpoints, a compaction and two restarts.
fn run() -> Vec<Action> {
    let commits = |count: usize| vec![Action::Commit; count];
    let some = |actions: &[Action]| actions.to_vec();
    [
        commits(3),
        some(&[Action::Wait, Action::Sync]),
        commits(6),
        some(&[Action::Wait, Action::Duty(Duty::Prepare)]),
        commits(8),
        some(&[Action::Wait, Action::Sync, Action::Duty(Duty::Seal), Action::Checkpoint]),
        commits(5),
        some(&[Action::Wait, Action::Reopen]),
        commits(8),
        some(&[Action::Wait, Action::Sync, Action::Duty(Duty::Seal), Action::Compact]),
        commits(2),
        some(&[Action::Wait, Action::Reopen]),
    ]
    .concat()
}

#[test]
fn whichever_single_write_an_os_database_loses_what_was_synced_is_kept_and_all_else_is_right() {
    check(Durability::Os);
}

#[test]
fn whichever_single_write_a_sync_database_loses_what_was_acknowledged_is_kept_and_all_else_is_right() {
    check(Durability::Sync);
}
