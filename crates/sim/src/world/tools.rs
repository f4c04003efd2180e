//! The tools under faults of the disk: each operation fails in turn, the disk is full from it on,
//! or the process or the power ends within it. A tool returns an error or has done its work. The
//! result opens and is right, or does not open.

use std::path::Path;
use std::sync::Arc;

use quire::tools::{On, RepairPlan, RepairStep, Severity};
use quire::{Durability, Duty, ErrorKind};

use super::copies::damage;
use super::{DIRECTORY, SimWorld, Violation};
use crate::check;
use crate::disk::{ArmedFault, Effect, SimDisk};
use crate::plan::{self, Action, Plan, PlanStep};
use crate::trace::Trace;

const BACKUP: &str = "/backup";
const RESTORED: &str = "/restored";
/// How many different runs are checked.
const DRAWS: u64 = 4;

const EFFECTS: [Effect; 6] = [
    Effect::Error,
    Effect::Full,
    Effect::Kill { after: false },
    Effect::Kill { after: true },
    Effect::PowerCut { after: false },
    Effect::PowerCut { after: true },
];

/// Runs `tool` with a fault in each of its operations, for each effect. Each run uses a copy of the
/// disk that `prepare` has changed. `expect` checks the result, and knows whether the tool reported
/// success.
fn check(
    prepare: impl Fn(&SimWorld<'_>, &SimDisk) -> Result<(), Violation>,
    tool: impl Fn(&On) -> quire::Result<bool>,
    expect: impl Fn(&SimWorld<'_>, &SimDisk, bool) -> Result<(), Violation>,
) {
    let (mut done, mut refused) = (0_u64, 0_u64);
    for seed in 0..DRAWS {
        let plan = plan(seed);
        let trace = Trace::new(true);
        let mut world = SimWorld::new(&plan, trace.clone());
        let mut each = || -> Result<(), Violation> {
            world.run()?;
            let ready = world.disk.fork().map_err(|error| error.to_string())?;
            prepare(&world, &ready)?;
            for effect in EFFECTS {
                for after in 0.. {
                    let disk = ready.fork().map_err(|error| error.to_string())?;
                    disk.arm(ArmedFault { after, operations: &[], effect });
                    let answer = tool(&On(Arc::new(disk.process())));
                    if !disk.put_aside_faults().is_empty() {
                        // The tool ended before that operation. Its results must last.
                        if !matches!(answer, Ok(true)) {
                            return Err(format!("without a fault the tool returned {answer:?}"));
                        }
                        disk.cut_power().map_err(|error| error.to_string())?;
                        expect(&world, &disk, true).map_err(|found| format!("after a loss of power {found}"))?;
                        break;
                    }
                    disk.disarm();
                    let is_done = matches!(answer, Ok(true));
                    *(if is_done { &mut done } else { &mut refused }) += 1;
                    expect(&world, &disk, is_done)
                        .map_err(|found| format!("{effect:?} after {after}, answered {answer:?}: {found}"))?;
                }
            }
            Ok(())
        };
        let outcome = each();
        assert_eq!(outcome, Ok(()), "seed {seed}:\n{}", trace.lines().join("\n"));
    }
    println!("{done} done, {refused} refused");
    assert!(refused > 100, "{done} done, {refused} refused");
}

/// A run with sealed segments, checkpoints and a compaction.
fn plan(seed: u64) -> Plan {
    let commits = |count: usize| vec![Action::Commit; count];
    let upkeep = [Action::Wait, Action::Sync, Action::Duty(Duty::Seal), Action::Duty(Duty::Seal)];
    let actions = [
        commits(20),
        upkeep.to_vec(),
        vec![Action::Checkpoint],
        commits(12),
        upkeep.to_vec(),
        if seed.is_multiple_of(2) { vec![Action::Compact] } else { Vec::new() },
        commits(6),
        vec![Action::Wait, Action::Reopen],
    ];
    let step = |(number, action)| PlanStep { number, action, seed: seed * 1000 + number as u64 };
    Plan {
        seed,
        durability: if seed < DRAWS / 2 { Durability::Sync } else { Durability::Os },
        segment_bytes: 4096,
        checkpoint_bytes: 4096,
        history_ms: 0,
        packs: seed.is_multiple_of(2),
        pace: plan::pace(&mut fastrand::Rng::with_seed(seed)),
        steps: actions.concat().into_iter().enumerate().map(step).collect(),
    }
}

impl SimWorld<'_> {
    /// Checks that the database in a directory opens, has at least the safe records, and equals
    /// this one at that position.
    fn is_whole(&self, disk: &SimDisk, path: &str) -> Result<(), Violation> {
        let opened = self.builder_in(path, disk.process()).create(false).open_and_report();
        let opening = opened.map_err(|error| format!("{path} does not open: {:?}: {error}", error.kind()))?;
        let records = usize::try_from(opening.recovery.records).expect("small");
        if records < self.safe || records > self.tail() {
            return Err(format!("{path} has {records} records, {} were promised of {}", self.safe, self.tail()));
        }
        check::everything(&opening.database, &self.timeline[records])
            .map_err(|found| format!("{path} with {records} records differs: {found}"))
    }

    /// The same check; a directory that is not a database passes, too.
    fn is_whole_or_none(&self, disk: &SimDisk, path: &str) -> Result<(), Violation> {
        match self.builder_in(path, disk.process()).create(false).open() {
            Ok(database) => drop(database),
            Err(error) if error.kind() == ErrorKind::NotADatabase => return Ok(()),
            Err(error) => return Err(format!("{path} does not open: {:?}: {error}", error.kind())),
        }
        self.is_whole(disk, path)
    }
}

fn nothing(_: &SimWorld<'_>, _: &SimDisk) -> Result<(), Violation> {
    Ok(())
}

/// Takes a backup of the database, without faults.
fn backed_up(_: &SimWorld<'_>, disk: &SimDisk) -> Result<(), Violation> {
    let taken = On(Arc::new(disk.process())).backup(Path::new(DIRECTORY), Path::new(BACKUP), None);
    taken.map(drop).map_err(|error| format!("the database can't be backed up: {error}"))
}

#[test]
fn a_backup_among_faults_of_the_disk_is_whole_or_none() {
    let tool = |on: &On| on.backup(Path::new(DIRECTORY), Path::new(BACKUP), None).map(|_| true);
    check(nothing, tool, |world, disk, is_done| {
        world.is_whole(disk, DIRECTORY)?;
        match On(Arc::new(disk.process())).restore(Path::new(BACKUP), Path::new(RESTORED)) {
            Ok(_) => world.is_whole(disk, RESTORED),
            Err(error) if is_done => Err(format!("the backup can't be restored: {:?}: {error}", error.kind())),
            Err(_) => world.is_whole_or_none(disk, RESTORED),
        }
    });
}

#[test]
fn a_restore_among_faults_of_the_disk_is_whole_or_not_a_database() {
    let tool = |on: &On| on.restore(Path::new(BACKUP), Path::new(RESTORED)).map(|found| found.worst().is_none());
    check(backed_up, tool, |world, disk, is_done| {
        if is_done { world.is_whole(disk, RESTORED) } else { world.is_whole_or_none(disk, RESTORED) }?;
        let again = On(Arc::new(disk.process())).restore(Path::new(BACKUP), Path::new("/again"));
        again.map_err(|error| format!("the backup can no longer be restored: {:?}: {error}", error.kind()))?;
        world.is_whole(disk, "/again")
    });
}

#[test]
fn a_verification_among_faults_of_the_disk_changes_nothing() {
    let tool = |on: &On| on.verify(Path::new(DIRECTORY)).map(|found| found.worst() < Some(Severity::Derivable));
    check(nothing, tool, |world, disk, _| world.is_whole(disk, DIRECTORY));
}

#[test]
fn a_repair_among_faults_of_the_disk_can_be_repeated() {
    // The derived files: a checkpoint, an index, and quire.meta are damaged.
    let damaged = |world: &SimWorld<'_>, disk: &SimDisk| {
        let mut random = fastrand::Rng::with_seed(world.plan.seed);
        let mut files = world.shard_files(disk)?;
        files.extend(disk.files(Path::new(DIRECTORY)).map_err(|error| error.to_string())?);
        for wanted in ["checkpoint", "idx", "meta"] {
            // The newest one.
            let found = files.iter().rev().find(|(path, _)| path.extension().is_some_and(|kind| kind == wanted));
            let Some((path, bytes)) = found else { continue };
            disk.tamper(path, damage(bytes, &mut random).1.as_deref()).map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    let repair = |on: &On| -> quire::Result<bool> {
        let found = on.verify(Path::new(DIRECTORY))?;
        let mut plan = RepairPlan::of(&found);
        // The caller opens it.
        plan.steps.retain(|step| *step != RepairStep::Reopen);
        on.repair(Path::new(DIRECTORY), &plan)?;
        Ok(plan.stays.is_empty())
    };
    check(damaged, repair, |world, disk, _| {
        let again = repair(&On(Arc::new(disk.process())));
        again.map_err(|error| format!("the database can't be repaired again: {:?}: {error}", error.kind()))?;
        world.is_whole(disk, DIRECTORY)
    });
}
