//! A run before it is run: what happens in it, in order, all drawn from its seed. The fault budget stands here.
//!
//! Every step has a seed of its own, so that a run from which steps were left out is a run as well: that is how a failing one
//! is shrunk.

use fastrand::Rng;
use quire::{Durability, Duty};

use crate::disk::{Armed, Effect, Operation, Pace};

// The fault budget.

/// How many steps a run has.
const STEPS: std::ops::RangeInclusive<usize> = 20..=160;
/// Of how many steps, at least one of which is a fault. The less often, the longer what is built up before it.
const STEPS_PER_FAULT: std::ops::RangeInclusive<u32> = 6..=40;
/// Of how many steps in a hundred, where several processes have the database open, one is about them.
const COMPANY_PERCENT: u32 = 15;
/// Of how many steps in a hundred, in runs that are about it, one is a compaction.
const COMPACT_PERCENT: u32 = 8;
/// How many operations at most pass before a fault that was armed.
const FAULT_DELAY: u64 = 12;
/// How far the clock jumps, in microseconds, forwards or backwards; and how much time passes at once.
const CLOCK_JUMP_MICROS: u64 = 20_000_000;

/// Of how many runs one has a slow disk.
const RUNS_PER_SLOW_DISK: u32 = 8;
/// Of how many operations on the disk one is slow, on most disks and on a slow one.
const OPERATIONS_PER_SLOW: u32 = 1000;
const OPERATIONS_PER_SLOW_ON_A_SLOW_DISK: u32 = 30;
/// How long a slow one takes, and at most one that is not, in microseconds.
const SLOW_MICROS: std::ops::RangeInclusive<u64> = 500_000..=3_000_000;
const QUICK_MICROS_MAX: u64 = 200;

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    pub(crate) checkpoint_bytes: u64,
    /// How long finished jobs are kept.
    pub(crate) history_ms: u64,
    /// Whether what is compacted is packed.
    pub(crate) packs: bool,
    /// How fast the disk is.
    pub(crate) pace: Pace,
    pub(crate) steps: Vec<Step>,
}

/// One step of a run.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Its place in the whole plan: what it is called when others are left out.
    pub(crate) number: usize,
    pub(crate) action: Action,
    pub(crate) seed: u64,
}

/// What is done. Each has its line in `docs/simulation.md`.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// A client commits parts of several models.
    Commit,
    /// A client waits for a commit that was submitted.
    Wait,
    /// All is made durable.
    Sync,
    /// A duty is carried out, if there is one.
    Duty(Duty),
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
    /// The kernel writes some of what was not synced.
    WriteBack,
    /// The database is closed and opened again.
    Reopen,
    /// Another process opens the database, beside those that have it open, and goes on.
    Join,
    /// Another process that has the database open goes on, and the one that did stands still.
    Switch,
    /// The process closes the database, and another that has it open goes on.
    Leave,
    /// What no longer counts is removed.
    Compact,
    /// A copy without what can be derived is opened and compared.
    Rebuild,
    /// A backup is taken, and restored elsewhere.
    BackUp,
    /// A copy in which a file was damaged is opened: it must say so or be right.
    Tamper,
    /// Sectors of a sealed file change under a database that has it open: it must say so or be right. Then they are put back.
    Rot,
    /// A fault waits for an operation to come.
    Arm(Armed),
    /// The disk is full from now on.
    Full,
    /// There is space again.
    Free,
    /// The process dies.
    Kill,
    /// The process dies among the stores of a commit.
    KillWithin,
    /// The power goes.
    PowerCut,
}

impl Plan {
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let durability = if random.bool() { Durability::Sync } else { Durability::Os };
        let compacts = random.u8(0..4) == 0;
        // What is to be compacted has to fill some segments.
        let segments: &[u64] = if compacts { &[4096] } else { &[4096, 8192, 16384, 65536] };
        let segment_bytes = *random.choice(segments).expect("there are some");
        let checkpoint_bytes = *random.choice(&[4096, 16384, 1 << 20]).expect("there are some");
        let history_ms = *random.choice(&[0, 0, 10_000]).expect("there are some");
        let company = random.u8(0..3) == 0;
        let steps_per_fault = random.u32(STEPS_PER_FAULT);
        let count = random.usize(STEPS);
        let steps = (0..count).map(|number| {
            let faulty = random.u32(0..steps_per_fault) == 0;
            let action = match () {
                () if faulty => fault(&mut random),
                () if compacts && random.u32(0..100) < COMPACT_PERCENT => Action::Compact,
                () if company && random.u32(0..100) < COMPANY_PERCENT => with_company(&mut random),
                () => work(&mut random),
            };
            Step { number, action, seed: random.u64(..) }
        });
        let steps = steps.collect();
        let packs = random.bool();
        let pace = pace(&mut random);
        Plan { seed, durability, segment_bytes, checkpoint_bytes, history_ms, packs, pace, steps }
    }

    /// The same with these of its steps only.
    pub(crate) fn with_steps(&self, kept: &[usize]) -> Self {
        let mut plan = self.clone();
        plan.steps.retain(|step| kept.contains(&step.number));
        plan
    }
}

/// How fast the disk of a run is.
pub(crate) fn pace(random: &mut Rng) -> Pace {
    let is_slow = random.u32(0..RUNS_PER_SLOW_DISK) == 0;
    Pace {
        quick_micros_max: QUICK_MICROS_MAX,
        slow_micros: random.u64(SLOW_MICROS),
        operations_per_slow: if is_slow { OPERATIONS_PER_SLOW_ON_A_SLOW_DISK } else { OPERATIONS_PER_SLOW },
    }
}

/// A step of one process among several.
fn with_company(random: &mut Rng) -> Action {
    match random.u32(0..10) {
        0..2 => Action::Join,
        2 => Action::Leave,
        _ => Action::Switch,
    }
}

/// A step that goes well.
fn work(random: &mut Rng) -> Action {
    match random.u32(0..100) {
        0..51 => Action::Commit,
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

/// A step that does not.
fn fault(random: &mut Rng) -> Action {
    const WRITES: &[Operation] = &[Operation::Write];
    const SYNCS: &[Operation] = &[Operation::Sync];
    const RENAMES: &[Operation] = &[Operation::Rename, Operation::Remove, Operation::SyncDirectory, Operation::Create];
    match random.u32(0..100) {
        0..15 => Action::Kill,
        15..35 => Action::PowerCut,
        35..45 => Action::KillWithin,
        45..49 => Action::Full,
        49..56 => Action::Free,
        56..63 => {
            // What makes something, or makes it longer.
            const GROWS: &[Operation] = &[Operation::Write, Operation::Create];
            let operations = *random.choice(&[&[], GROWS]).expect("there are some");
            Action::Arm(Armed { after: random.u64(0..FAULT_DELAY), operations, effect: Effect::Full })
        }
        63..67 => Action::Rot,
        67..83 => {
            let after = random.bool();
            let effect = if random.bool() { Effect::Kill { after } } else { Effect::PowerCut { after } };
            Action::Arm(Armed { after: random.u64(0..FAULT_DELAY), operations: &[], effect })
        }
        _ => {
            let operations = *random.choice(&[&[], WRITES, SYNCS, RENAMES]).expect("there are some");
            // Of some operations there are few.
            let delay = if operations.is_empty() { FAULT_DELAY } else { 3 };
            Action::Arm(Armed { after: random.u64(0..delay), operations, effect: Effect::Error })
        }
    }
}
