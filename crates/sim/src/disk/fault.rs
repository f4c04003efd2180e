//! What can be made to happen to an operation of a process.

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
