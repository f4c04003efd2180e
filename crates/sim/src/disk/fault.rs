//! The faults of an operation, and how long operations take.

use fastrand::Rng;

/// The operations of a process on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskOperation {
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

impl DiskOperation {
    /// Its name in a trace; see `docs/simulation.md`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DiskOperation::List => "list",
            DiskOperation::Open => "open",
            DiskOperation::Create => "create",
            DiskOperation::Read => "read",
            DiskOperation::Write => "write",
            DiskOperation::Sync => "sync",
            DiskOperation::SyncDirectory => "syncdir",
            DiskOperation::Rename => "rename",
            DiskOperation::Remove => "remove",
            DiskOperation::Map => "map",
            DiskOperation::Lock => "lock",
        }
    }
}

/// The effect of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The operation fails with an I/O error. A write may be partial, and a sync may put a part on
    /// the device. A later sync never writes the rest.
    Error,
    /// The disk is full from this operation on, which still uses the free space.
    Full,
    /// The process dies, before the operation or after it; its stores and writes stay in the cache.
    Kill { after: bool },
    /// Power is lost, before the operation or after it.
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
    /// Maximum duration of a normal operation.
    pub(crate) quick_micros_max: u64,
    /// A slow one.
    pub(crate) slow_micros: u64,
    /// One of this many operations is slow.
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

/// An armed fault.
#[derive(Debug, Clone)]
pub(crate) struct ArmedFault {
    /// How many matching operations precede it.
    pub(crate) after: u64,
    /// The matching operations; all when empty.
    pub(crate) operations: &'static [DiskOperation],
    pub(crate) effect: Effect,
}

impl ArmedFault {
    /// Counts an operation; returns the effect when it is the faulty one.
    pub(crate) fn meets(&mut self, operation: DiskOperation) -> bool {
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
