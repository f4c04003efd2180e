//! Explicit scenarios: kept regressions of random runs.

use fastrand::Rng;
use quire::{Durability, Duty};

use crate::disk::{ArmedFault, DiskOperation, Effect};
use crate::plan::{self, Action, Plan, PlanStep};
use crate::trace::Trace;
use crate::world;

/// Runs these actions, with 100 different draws of the random choices.
fn check(durability: Durability, actions: &[Action]) {
    check_with(100, durability, actions);
}

/// Runs these actions, with `draws` different draws.
fn check_with(draws: u64, durability: Durability, actions: &[Action]) {
    for seed in 0..draws {
        let step = |(number, action): (usize, &Action)| PlanStep {
            number,
            action: action.clone(),
            seed: seed * 1000 + number as u64,
        };
        let steps = actions.iter().enumerate().map(step).collect();
        let plan = Plan {
            seed,
            durability,
            segment_bytes: 4096,
            checkpoint_bytes: 4096,
            history_ms: 0,
            packs: false,
            pace: plan::pace(&mut Rng::with_seed(seed)),
            steps,
        };
        let trace = Trace::new(true);
        let outcome = world::run(&plan, &trace);
        assert_eq!(outcome, Ok(()), "seed {seed}:\n{}", trace.lines().join("\n"));
    }
}

fn fails(operation: &'static [DiskOperation]) -> Action {
    Action::Arm(ArmedFault { after: 0, operations: operation, effect: Effect::Error })
}

#[test]
fn unsynced_data_of_a_failed_sync_is_written_again_when_the_log_is_opened() {
    for durability in [Durability::Sync, Durability::Os] {
        let failed = [Action::Commit, Action::Sync, Action::Commit, Action::Commit, fails(&[DiskOperation::Sync])];
        let then = [Action::Sync, Action::PowerCut, Action::Check];
        check(durability, &[failed.as_slice(), &then].concat());
    }
}

#[test]
fn a_segment_that_was_begun_before_a_failed_sync_is_there_after_the_power_went() {
    let mut actions = vec![Action::Commit, Action::Sync];
    actions.extend(vec![Action::Commit; 30]);
    actions.extend([fails(&[DiskOperation::Sync]), Action::Sync, Action::Commit, Action::Sync, Action::PowerCut]);
    check(Durability::Os, &actions);
}

#[test]
fn an_opening_next_to_others_reads_the_files_of_an_interrupted_compaction() {
    let mut actions = vec![Action::Commit; 60];
    actions.extend([Action::Sync, Action::Duty(Duty::Seal), Action::Duty(Duty::Seal), Action::Checkpoint]);
    // The operations on the index file of the segment, and on files to be deleted.
    for (operation, after) in [(DiskOperation::Write, 2), (DiskOperation::Remove, 0), (DiskOperation::Remove, 1)] {
        let operations =
            if operation == DiskOperation::Write { &[DiskOperation::Write] } else { &[DiskOperation::Remove] };
        let fails = Action::Arm(ArmedFault { after, operations, effect: Effect::Error });
        let then = [fails, Action::Compact, Action::Join, Action::Check, Action::Commit, Action::Reopen];
        check(Durability::Os, &[actions.as_slice(), &then].concat());
    }
}

#[test]
fn a_full_disk_refuses_writes_and_continues_when_there_is_space() {
    let mut actions = vec![Action::Full];
    actions.extend(vec![Action::Commit; 30]);
    actions.push(Action::Free);
    actions.extend(vec![Action::Commit; 30]);
    actions.extend([Action::Duty(Duty::Prepare), Action::Check, Action::Reopen]);
    check(Durability::Os, &actions);
    check(Durability::Sync, &actions);
}

#[test]
fn a_sealed_segment_that_changes_under_an_open_database_is_right_or_refused_and_all_else_is_right() {
    let mut actions = vec![Action::Commit; 60];
    actions.extend([Action::Duty(Duty::Seal), Action::Duty(Duty::Seal), Action::Rot, Action::Commit, Action::Rot]);
    actions.extend([Action::Kill, Action::Rot, Action::PowerCut, Action::Check]);
    check(Durability::Os, &actions);
    check(Durability::Sync, &actions);
}

#[test]
fn a_disk_that_fills_up_within_a_duty_costs_nothing_and_the_duty_is_done_when_there_is_space() {
    let mut filled = vec![Action::Commit; 60];
    filled.push(Action::Sync);
    let duties = [
        &[Action::Duty(Duty::Seal), Action::Duty(Duty::Seal)][..],
        &[Action::Checkpoint],
        &[Action::Compact],
        &[Action::Duty(Duty::Prepare), Action::Commit, Action::Commit, Action::Commit],
        &[Action::Join],
        &[Action::Kill],
    ];
    for duty in duties {
        for after in 0..6 {
            let operations = &[DiskOperation::Write, DiskOperation::Create];
            let full = Action::Arm(ArmedFault { after, operations, effect: Effect::Full });
            let meanwhile = [Action::Check, Action::Commit, Action::Wait, Action::Free];
            let then = [Action::Commit, Action::Check, Action::PowerCut, Action::Check];
            check_with(8, Durability::Os, &[&filled, &[full][..], duty, &meanwhile, duty, &then].concat());
        }
    }
}
