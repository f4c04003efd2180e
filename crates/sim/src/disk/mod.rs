//! A disk in memory with configurable losses, torn writes and errors, and the processes that use
//! it.
//!
//! * A file has two contents: the content for every process (the *cache*, in memory that can be
//!   mapped), and the content on the *device*. A sync copies the cache to the device. A power loss
//!   may lose any difference.
//! * A directory works likewise: names created, renamed or removed since its last sync may be
//!   undone, in any subset.
//! * A [`Process`] is the storage of a database, and there may be several. After a process is
//!   killed, in the middle of any operation, every later call of it fails without effect. The files
//!   stay as they were at that moment. Stores of its destructors through its mappings are undone
//!   before another process acts.
//!
//! Not simulated: a sync that is reordered or that lies. Such a disk can't keep any promise.

mod crash;
mod fault;
mod file;
#[cfg(test)]
mod losses;
mod process;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use quire::{ManualClock, Timestamp};

use crate::trace::Trace;
pub(crate) use crash::DiskImage;
pub(crate) use fault::{ArmedFault, DiskOperation, Effect, Pace};
use file::Inode;
#[cfg(test)]
pub(crate) use file::SECTOR_BYTES;
#[cfg(test)]
pub(crate) use losses::Loss;
pub(crate) use process::Process;

/// The disk; see the module. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SimDisk {
    state: Arc<Mutex<DiskState>>,
    clock: Arc<ManualClock>,
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectoryNode {
    File(usize),
    Directory,
}

/// A change of a directory that may not be on the device.
#[derive(Debug, Clone)]
struct NameChange {
    directory: PathBuf,
    /// Each name and its new meaning; one change is on the device whole or not at all.
    names: Vec<(PathBuf, Option<DirectoryNode>)>,
}

#[derive(Debug)]
struct DiskState {
    random: Rng,
    pace: Pace,
    trace: Trace,
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, DirectoryNode>,
    /// The names on the device.
    durable: BTreeMap<PathBuf, DirectoryNode>,
    changes: Vec<NameChange>,
    /// The number of processes ever started. They are numbered from 1.
    processes: u64,
    /// The living processes, by number.
    living: BTreeSet<u64>,
    /// The content of every file when one of several processes died: later stores of the dead
    /// process are undone.
    at_death: Option<DiskImage>,
    /// How the last dead process was ended within an operation, until that is read.
    killed: Option<Effect>,
    locks: BTreeMap<PathBuf, FileLock>,
    handles: u64,
    armed: Vec<ArmedFault>,
    /// Faults other than kills since a process was alone.
    broken: u64,
    /// Whether no file can be created or extended.
    full: bool,
    /// The number of operations, and of syncs among them.
    operations: u64,
    syncs: u64,
    #[cfg(test)]
    watch: Option<losses::Watch>,
}

/// The handle that holds each file's lock.
#[derive(Debug, Default)]
struct FileLock {
    alone: Option<u64>,
    shared: BTreeSet<u64>,
}

impl SimDisk {
    pub(crate) fn new(seed: u64, pace: Pace, clock: Arc<ManualClock>, trace: Trace) -> Self {
        let root = PathBuf::from("/");
        let names = BTreeMap::from([(root, DirectoryNode::Directory)]);
        let state = DiskState {
            random: Rng::with_seed(seed),
            pace,
            trace,
            inodes: Vec::new(),
            durable: names.clone(),
            names,
            changes: Vec::new(),
            processes: 0,
            living: BTreeSet::new(),
            at_death: None,
            killed: None,
            locks: BTreeMap::new(),
            handles: 0,
            armed: Vec::new(),
            broken: 0,
            full: false,
            operations: 0,
            syncs: 0,
            #[cfg(test)]
            watch: None,
        };
        SimDisk { state: Arc::new(Mutex::new(state)), clock }
    }

    /// Starts a process, which is the only living one.
    pub(crate) fn process(&self) -> Process {
        let mut state = self.lock();
        state.end_processes();
        state.broken = 0;
        drop(state);
        self.another()
    }

    /// Starts a process, next to the living ones.
    pub(crate) fn another(&self) -> Process {
        let mut state = self.lock();
        state.processes += 1;
        let number = state.processes;
        state.living.insert(number);
        Process { disk: self.clone(), number }
    }

    /// Removes the armed faults.
    pub(crate) fn put_aside_faults(&self) -> Vec<ArmedFault> {
        std::mem::take(&mut self.lock().armed)
    }

    /// Arms a fault for a later operation.
    pub(crate) fn arm(&self, armed: ArmedFault) {
        self.lock().armed.push(armed);
    }

    /// Disarms all faults; only those armed later occur.
    pub(crate) fn disarm(&self) {
        let mut state = self.lock();
        state.armed.clear();
        state.full = false;
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// The number of syncs.
    pub(crate) fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lock().full
    }

    /// How the last process was ended within an operation; returned once.
    pub(crate) fn take_killed(&self) -> Option<Effect> {
        self.lock().killed.take()
    }

    /// Whether a fault of the living process explains an I/O error.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock().broken > 0
    }

    /// The files of a directory, by name, with the content for processes.
    pub(crate) fn files(&self, directory: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
        let state = self.lock();
        let mut files = BTreeMap::new();
        for (path, node) in state.names.iter().filter(|(path, _)| path.parent() == Some(directory)) {
            if let DirectoryNode::File(number) = node {
                files.insert(path.clone(), state.inodes[*number].cached()?);
            }
        }
        Ok(files)
    }

    /// Adds the content of every named file to the trace, and with `device` also the content on the
    /// device.
    pub(crate) fn trace_contents(&self, device: bool) -> io::Result<()> {
        let state = self.lock();
        let mut seen = Vec::new();
        for (path, node) in &state.names {
            let DirectoryNode::File(number) = node else { continue };
            state.inodes[*number].cached_into(&mut seen)?;
            state.trace.bytes(path.as_os_str().as_encoded_bytes());
            state.trace.bytes(&seen);
            if device {
                state.trace.bytes(state.inodes[*number].device());
            }
        }
        Ok(())
    }

    /// Copies the disk, with the same files, all of them safe on the device.
    pub(crate) fn fork(&self) -> io::Result<SimDisk> {
        let state = self.lock();
        let fork = SimDisk::new(0, state.pace, Arc::new(ManualClock::new(self.now())), Trace::silent());
        let mut forked = fork.lock();
        forked.names.clone_from(&state.names);
        forked.durable.clone_from(&state.names);
        for inode in &state.inodes {
            forked.inodes.push(Inode::of_bytes(&inode.cached()?)?);
        }
        drop(forked);
        Ok(fork)
    }

    /// Changes the content of a file, as a failing medium would: mapping processes and later ones
    /// see it. Returns false and changes nothing when the file does not have the expected content.
    pub(crate) fn rot(&self, path: &Path, holds: &[u8], then: &[u8]) -> io::Result<bool> {
        let mut state = self.lock();
        let Some(DirectoryNode::File(number)) = state.names.get(path).copied() else { return Ok(false) };
        let inode = &mut state.inodes[number];
        Ok(inode.cached()? == holds && inode.rot(then).map(|()| true)?)
    }

    /// Changes the bytes of a file without the processes' knowledge, or creates it; `None` removes
    /// it.
    pub(crate) fn tamper(&self, path: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
        let mut state = self.lock();
        let Some(bytes) = bytes else {
            state.names.remove(path);
            state.durable.remove(path);
            return Ok(());
        };
        let inode = Inode::of_bytes(bytes)?;
        if let Some(DirectoryNode::File(number)) = state.names.get(path).copied() {
            state.inodes[number] = inode;
        } else {
            let node = DirectoryNode::File(state.inodes.len());
            state.inodes.push(inode);
            state.names.insert(path.to_owned(), node);
            state.durable.insert(path.to_owned(), node);
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        use quire::Clock;
        self.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskState {
    fn end_processes(&mut self) {
        self.living.clear();
        self.locks.clear();
        self.at_death = None;
    }

    /// Ends a process: its locks are released.
    fn end_process(&mut self, number: u64) {
        self.living.remove(&number);
        for locked in self.locks.values_mut() {
            locked.alone.take_if(|holder| process_of(*holder) == number);
            locked.shared.retain(|holder| process_of(*holder) != number);
        }
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.names.get(path) {
            Some(DirectoryNode::File(number)) => Ok(*number),
            Some(DirectoryNode::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(not_found()),
        }
    }

    /// Changes names, all of one directory.
    fn change(&mut self, names: Vec<(PathBuf, Option<DirectoryNode>)>) {
        for (path, node) in &names {
            apply(&mut self.names, path, *node);
        }
        let directory = names[0].0.parent().unwrap_or(Path::new("/")).to_owned();
        self.changes.push(NameChange { directory, names });
    }

    /// Writes a directory's changes to the device.
    fn sync_directory(&mut self, directory: &Path) {
        let (synced, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.changes).into_iter().partition(|change| change.directory == directory);
        self.changes = rest;
        for change in synced {
            self.keep(&change);
        }
    }

    fn keep(&mut self, change: &NameChange) {
        for (path, node) in &change.names {
            apply(&mut self.durable, path, *node);
        }
    }

    /// Frees the content of files that have no name and no handle.
    fn forget_unnamed(&mut self) -> io::Result<()> {
        let named: BTreeSet<usize> = self
            .names
            .values()
            .filter_map(|node| match node {
                DirectoryNode::File(number) => Some(*number),
                DirectoryNode::Directory => None,
            })
            .collect();
        for (number, inode) in self.inodes.iter_mut().enumerate() {
            if !named.contains(&number) {
                *inode = Inode::of_bytes(&[])?;
            }
        }
        Ok(())
    }
}

/// Handles are numbered by the process that opened them.
fn process_of(handle: u64) -> u64 {
    handle >> 32
}

fn apply(names: &mut BTreeMap<PathBuf, DirectoryNode>, path: &Path, node: Option<DirectoryNode>) {
    match node {
        Some(node) => names.insert(path.to_owned(), node),
        None => names.remove(path),
    };
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}
