//! The plan of a run: its actions, in order, all drawn from its seed. It defines the fault budget.
//!
//! Every step has a seed of its own, so that a run without some of its steps is also a run: a
//! failing run is minimized by leaving out steps.

use fastrand::Rng;
use quire::{Durability, Duty};

use crate::disk::{ArmedFault, DiskOperation, Effect, Pace};

// The fault budget.

/// How many steps a run has.
const STEPS: std::ops::RangeInclusive<usize> = 20..=160;
/// One of this many steps, at least, is a fault. The rarer faults are, the more state builds up
/// between them.
const STEPS_PER_FAULT: std::ops::RangeInclusive<u32> = 6..=40;
/// With several processes: how many of a hundred steps switch between them.
const OTHER_PROCESS_PERCENT: u32 = 15;
/// In runs about compaction: how many of a hundred steps compact.
const COMPACT_PERCENT: u32 = 8;
/// Maximum number of operations before an armed fault occurs.
const FAULT_DELAY: u64 = 12;
/// The range of clock jumps, in microseconds, forwards or backwards; and of the time that passes at
/// once.
const CLOCK_JUMP_MICROS: u64 = 20_000_000;

/// One of this many runs has a slow disk.
const RUNS_PER_SLOW_DISK: u32 = 8;
/// One of this many operations is slow, on most disks and on a slow one.
const OPERATIONS_PER_SLOW: u32 = 1000;
const OPERATIONS_PER_SLOW_ON_A_SLOW_DISK: u32 = 30;
/// The duration of a slow operation, and the maximum of any other, in microseconds.
const SLOW_MICROS: std::ops::RangeInclusive<u64> = 500_000..=3_000_000;
const QUICK_MICROS_MAX: u64 = 200;

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    pub(crate) checkpoint_bytes: u64,
    /// The retention of finished jobs.
    pub(crate) history_ms: u64,
    /// Whether compacted segments are packed.
    pub(crate) packs: bool,
    /// The speed of the disk.
    pub(crate) pace: Pace,
    pub(crate) steps: Vec<PlanStep>,
}

/// One step of a run.
#[derive(Debug, Clone)]
pub(crate) struct PlanStep {
    /// Its number in the whole plan, which it keeps when others are left out.
    pub(crate) number: usize,
    pub(crate) action: Action,
    pub(crate) seed: u64,
}

/// The actions. `docs/simulation.md` has a line for each.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// A client commits parts of several models.
    Commit,
    /// A client waits for a commit that was submitted.
    Wait,
    /// Everything is made durable.
    Sync,
    /// A duty is run, if one is due.
    Duty(Duty),
    /// The log is truncated after a published record, as after a change of leader.
    Truncate,
    /// A checkpoint is saved.
    Checkpoint,
    /// Time passes.
    Pass { micros: u64 },
    /// The clock jumps, and no time passes.
    Clock { micros: i64 },
    /// Everything published is read and compared.
    Peek,
    /// Everything is read and compared.
    Check,
    /// The kernel writes some unsynced data.
    WriteBack,
    /// The database is closed and opened again.
    Reopen,
    /// Another process opens the database, next to those that have it open, and acts.
    Join,
    /// Another process that has the database open acts, and the current one pauses.
    Switch,
    /// The process closes the database, and another that has it open acts.
    Leave,
    /// Obsolete records are compacted.
    Compact,
    /// A copy without derived files is opened and compared.
    Rebuild,
    /// A backup is taken, and restored elsewhere.
    BackUp,
    /// A copy with a damaged file is opened: it must report the damage or be right.
    Tamper,
    /// Sectors of a sealed file change under a database that has it open: reads must report it or
    /// be right. Then the sectors are restored.
    Rot,
    /// A fault is armed for a later operation.
    Arm(ArmedFault),
    /// The disk is full from now on.
    Full,
    /// There is space again.
    Free,
    /// The process dies.
    Kill,
    /// The process dies among the stores of a commit.
    KillWithin,
    /// Power is lost.
    PowerCut,
}

impl Plan {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let durability = if random.bool() { Durability::Sync } else { Durability::Os };
        let compacts = random.u8(0..4) == 0;
        // A compaction needs some full segments.
        let segments: &[u64] = if compacts { &[4096] } else { &[4096, 8192, 16384, 65536] };
        let segment_bytes = *random.choice(segments).expect("the list is not empty");
        let checkpoint_bytes = *random.choice(&[4096, 16384, 1 << 20]).expect("the list is not empty");
        let history_ms = *random.choice(&[0, 0, 10_000]).expect("the list is not empty");
        let several = random.u8(0..3) == 0;
        let steps_per_fault = random.u32(STEPS_PER_FAULT);
        let count = random.usize(STEPS);
        let steps = (0..count).map(|number| {
            let faulty = random.u32(0..steps_per_fault) == 0;
            let action = match () {
                () if faulty => fault(&mut random),
                () if compacts && random.u32(0..100) < COMPACT_PERCENT => Action::Compact,
                () if several && random.u32(0..100) < OTHER_PROCESS_PERCENT => by_other_processes(&mut random),
                () => work(&mut random),
            };
            PlanStep { number, action, seed: random.u64(..) }
        });
        let steps = steps.collect();
        let packs = random.bool();
        let pace = pace(&mut random);
        Plan { seed, durability, segment_bytes, checkpoint_bytes, history_ms, packs, pace, steps }
    }

    /// The same plan with only these of its steps.
    pub(crate) fn with_steps(&self, kept: &[usize]) -> Self {
        let mut plan = self.clone();
        plan.steps.retain(|step| kept.contains(&step.number));
        plan
    }
}

/// The speed of a run's disk.
pub(crate) fn pace(random: &mut Rng) -> Pace {
    let is_slow = random.u32(0..RUNS_PER_SLOW_DISK) == 0;
    Pace {
        quick_micros_max: QUICK_MICROS_MAX,
        slow_micros: random.u64(SLOW_MICROS),
        operations_per_slow: if is_slow { OPERATIONS_PER_SLOW_ON_A_SLOW_DISK } else { OPERATIONS_PER_SLOW },
    }
}

/// A step that switches between processes.
fn by_other_processes(random: &mut Rng) -> Action {
    match random.u32(0..10) {
        0..2 => Action::Join,
        2 => Action::Leave,
        _ => Action::Switch,
    }
}

/// A step without a fault.
fn work(random: &mut Rng) -> Action {
    match random.u32(0..100) {
        0..50 => Action::Commit,
        50 => Action::Truncate,
        51 => Action::BackUp,
        52..62 => Action::Wait,
        62..64 => Action::Sync,
        64..74 => Action::Duty(
            *random
                .choice(&[
                    Duty::Sync,
                    Duty::Prepare,
                    Duty::Seal,
                    Duty::Tick,
                    Duty::Checkpoint,
                    Duty::Compact,
                    Duty::Retain,
                    Duty::Deliver,
                    Duty::Gauge,
                ])
                .expect("some"),
        ),
        74..76 => Action::Checkpoint,
        76 => Action::Compact,
        77..79 => Action::Pass { micros: random.u64(0..CLOCK_JUMP_MICROS) },
        79..82 => {
            let micros = random.u64(0..CLOCK_JUMP_MICROS).cast_signed();
            Action::Clock { micros: if random.bool() { -micros } else { micros } }
        }
        82..88 => Action::Peek,
        88..90 => Action::Check,
        90..94 => Action::WriteBack,
        94..96 => Action::Reopen,
        96..98 => Action::Rebuild,
        _ => Action::Tamper,
    }
}

/// A step with a fault.
fn fault(random: &mut Rng) -> Action {
    const WRITES: &[DiskOperation] = &[DiskOperation::Write];
    const SYNCS: &[DiskOperation] = &[DiskOperation::Sync];
    const RENAMES: &[DiskOperation] =
        &[DiskOperation::Rename, DiskOperation::Remove, DiskOperation::SyncDirectory, DiskOperation::Create];
    match random.u32(0..100) {
        0..15 => Action::Kill,
        15..35 => Action::PowerCut,
        35..45 => Action::KillWithin,
        45..49 => Action::Full,
        49..56 => Action::Free,
        56..63 => {
            // An operation that creates or extends a file.
            const GROWS: &[DiskOperation] = &[DiskOperation::Write, DiskOperation::Create];
            let operations = *random.choice(&[&[], GROWS]).expect("the list is not empty");
            Action::Arm(ArmedFault { after: random.u64(0..FAULT_DELAY), operations, effect: Effect::Full })
        }
        63..67 => Action::Rot,
        67..83 => {
            let after = random.bool();
            let effect = if random.bool() { Effect::Kill { after } } else { Effect::PowerCut { after } };
            Action::Arm(ArmedFault { after: random.u64(0..FAULT_DELAY), operations: &[], effect })
        }
        _ => {
            let operations = *random.choice(&[&[], WRITES, SYNCS, RENAMES]).expect("the list is not empty");
            // Some operations are rare.
            let delay = if operations.is_empty() { FAULT_DELAY } else { 3 };
            Action::Arm(ArmedFault { after: random.u64(0..delay), operations, effect: Effect::Error })
        }
    }
}
