//! The tools among faults of the disk: each of them, with each operation on the disk failing, with the disk full from it on, and with the
//! process or the power gone within it. They answer with an error or did what they say; what they leave opens and is right, or opens not.

use std::path::Path;
use std::sync::Arc;

use quire::tools::{On, RepairPlan, RepairStep, Severity};
use quire::{Durability, Duty, ErrorKind};

use super::copies::damage;
use super::{DIRECTORY, Failure, World};
use crate::check;
use crate::disk::{Armed, Disk, Effect};
use crate::plan::{self, Action, Plan, Step};
use crate::trace::Trace;

const BACKUP: &str = "/backup";
const RESTORED: &str = "/restored";
/// How many different runs there are whose outcome is looked after.
const DRAWS: u64 = 4;

const EFFECTS: [Effect; 6] = [
    Effect::Error,
    Effect::Full,
    Effect::Kill { after: false },
    Effect::Kill { after: true },
    Effect::PowerCut { after: false },
    Effect::PowerCut { after: true },
];

/// Has each operation of `tool` fail once for each effect, on copies of what a run has come to and `prepare` made of it, and holds what
/// is left against `expect`, which is told whether the tool said that all is done.
fn check(
    prepare: impl Fn(&World<'_>, &Disk) -> Result<(), Failure>,
    tool: impl Fn(&On) -> quire::Result<bool>,
    expect: impl Fn(&World<'_>, &Disk, bool) -> Result<(), Failure>,
) {
    let (mut done, mut refused) = (0_u64, 0_u64);
    for seed in 0..DRAWS {
        let plan = plan(seed);
        let trace = Trace::new(true);
        let mut world = World::new(&plan, trace.clone());
        let mut each = || -> Result<(), Failure> {
            world.run()?;
            let ready = world.disk.fork().map_err(|error| error.to_string())?;
            prepare(&world, &ready)?;
            for effect in EFFECTS {
                for after in 0.. {
                    let disk = ready.fork().map_err(|error| error.to_string())?;
                    disk.arm(Armed { after, operations: &[], effect });
                    let answer = tool(&On(Arc::new(disk.process())));
                    if !disk.put_aside_faults().is_empty() {
                        // It is over before that operation. What it did lasts.
                        if !matches!(answer, Ok(true)) {
                            return Err(format!("without a fault it answers {answer:?}"));
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
    let step = |(number, action)| Step { number, action, seed: seed * 1000 + number as u64 };
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

impl World<'_> {
    /// The database in a folder opens, with all that no crash may take back at least, and is what this one was when it had so much.
    fn is_whole(&self, disk: &Disk, path: &str) -> Result<(), Failure> {
        let opened = self.builder_in(path, disk.process()).create(false).open_and_report();
        let opening = opened.map_err(|error| format!("{path} does not open: {:?}: {error}", error.kind()))?;
        let records = usize::try_from(opening.recovery.records).expect("small");
        if records < self.safe || records > self.tail() {
            return Err(format!("{path} has {records} records, {} were promised of {}", self.safe, self.tail()));
        }
        check::everything(&opening.database, &self.timeline[records])
            .map_err(|found| format!("{path} with {records} records differs: {found}"))
    }

    /// The same, or it is no database.
    fn is_whole_or_none(&self, disk: &Disk, path: &str) -> Result<(), Failure> {
        match self.builder_in(path, disk.process()).create(false).open() {
            Ok(database) => drop(database),
            Err(error) if error.kind() == ErrorKind::NotADatabase => return Ok(()),
            Err(error) => return Err(format!("{path} does not open: {:?}: {error}", error.kind())),
        }
        self.is_whole(disk, path)
    }
}

fn nothing(_: &World<'_>, _: &Disk) -> Result<(), Failure> {
    Ok(())
}

/// A backup of the database, taken without faults.
fn backed_up(_: &World<'_>, disk: &Disk) -> Result<(), Failure> {
    let taken = On(Arc::new(disk.process())).backup(Path::new(DIRECTORY), Path::new(BACKUP), None);
    taken.map(drop).map_err(|error| format!("it can't be backed up: {error}"))
}

#[test]
fn a_backup_among_faults_of_the_disk_is_whole_or_none() {
    let tool = |on: &On| on.backup(Path::new(DIRECTORY), Path::new(BACKUP), None).map(|_| true);
    check(nothing, tool, |world, disk, is_done| {
        world.is_whole(disk, DIRECTORY)?;
        match On(Arc::new(disk.process())).restore(Path::new(BACKUP), Path::new(RESTORED)) {
            Ok(_) => world.is_whole(disk, RESTORED),
            Err(error) if is_done => Err(format!("it can't be restored: {:?}: {error}", error.kind())),
            Err(_) => world.is_whole_or_none(disk, RESTORED),
        }
    });
}

#[test]
fn what_is_restored_among_faults_of_the_disk_is_whole_or_no_database() {
    let tool = |on: &On| on.restore(Path::new(BACKUP), Path::new(RESTORED)).map(|found| found.worst().is_none());
    check(backed_up, tool, |world, disk, is_done| {
        if is_done { world.is_whole(disk, RESTORED) } else { world.is_whole_or_none(disk, RESTORED) }?;
        let again = On(Arc::new(disk.process())).restore(Path::new(BACKUP), Path::new("/again"));
        again.map_err(|error| format!("the backup can't be restored any more: {:?}: {error}", error.kind()))?;
        world.is_whole(disk, "/again")
    });
}

#[test]
fn what_is_verified_among_faults_of_the_disk_stays_as_it_is() {
    let tool = |on: &On| on.verify(Path::new(DIRECTORY)).map(|found| found.worst() < Some(Severity::Derivable));
    check(nothing, tool, |world, disk, _| world.is_whole(disk, DIRECTORY));
}

#[test]
fn what_is_repaired_among_faults_of_the_disk_can_be_repaired_again() {
    // What follows from the log: a checkpoint, an index, and quire.meta are damaged.
    let damaged = |world: &World<'_>, disk: &Disk| {
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
        // Opening it is left to who looks at it.
        plan.steps.retain(|step| *step != RepairStep::Reopen);
        on.repair(Path::new(DIRECTORY), &plan)?;
        Ok(plan.stays.is_empty())
    };
    check(damaged, repair, |world, disk, _| {
        let again = repair(&On(Arc::new(disk.process())));
        again.map_err(|error| format!("it can't be repaired again: {:?}: {error}", error.kind()))?;
        world.is_whole(disk, DIRECTORY)
    });
}
