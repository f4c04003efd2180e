//! What can be made to happen to an operation of a process, and how long it takes.

use fastrand::Rng;

/// What a process asks of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    List,
    Open,
    Create,
    Read,
    Write,
    Sync,
    SyncDirectory,
    Rename,
    Remove,
    Map,
    Lock,
}

impl Operation {
    /// How it is written in a trace; see `docs/simulation.md`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::List => "list",
            Operation::Open => "open",
            Operation::Create => "create",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Sync => "sync",
            Operation::SyncDirectory => "syncdir",
            Operation::Rename => "rename",
            Operation::Remove => "remove",
            Operation::Map => "map",
            Operation::Lock => "lock",
        }
    }
}

/// What is to happen to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It fails with an I/O error; a write may have written a part, a sync may have put a part on the device, and what it did
    /// not is never put there by a later one.
    Error,
    /// The disk is full from this operation on, which goes on as far as there is room for it.
    Full,
    /// The process dies, before the operation or after it; what it stored and wrote stays in the cache.
    Kill { after: bool },
    /// The power goes, before the operation or after it.
    PowerCut { after: bool },
}

impl Effect {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Effect::Error => "EIO",
            Effect::Full => "FULL",
            Effect::Kill { .. } => "KILL",
            Effect::PowerCut { .. } => "POWER",
        }
    }
}

/// How long operations take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// At most, when it is not a slow one.
    pub(crate) quick_micros_max: u64,
    /// A slow one.
    pub(crate) slow_micros: u64,
    /// Of how many operations one is slow.
    pub(crate) operations_per_slow: u32,
}

impl Pace {
    /// How long the next operation takes, in microseconds.
    pub(super) fn draw(self, random: &mut Rng) -> u64 {
        if random.u32(0..self.operations_per_slow) == 0 {
            self.slow_micros
        } else {
            random.u64(1..=self.quick_micros_max)
        }
    }
}

/// A fault that waits for its operation.
#[derive(Debug, Clone)]
pub(crate) struct Armed {
    /// How many operations of these kinds pass before it.
    pub(crate) after: u64,
    /// Which operations are counted; all of them when empty.
    pub(crate) operations: &'static [Operation],
    pub(crate) effect: Effect,
}

impl Armed {
    /// Counts an operation; gives the effect when it is the one.
    pub(crate) fn meets(&mut self, operation: Operation) -> bool {
        if !self.operations.is_empty() && !self.operations.contains(&operation) {
            return false;
        }
        if self.after == 0 {
            return true;
        }
        self.after -= 1;
        false
    }
}
