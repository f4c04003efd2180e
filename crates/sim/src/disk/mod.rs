//! A disk in memory that loses, tears and breaks what it is told to, and the processes that use it.
//!
//! * A file has two contents: what every process sees (the *cache*, in memory that can be mapped as a file's can), and what
//!   is on the *device*. A sync copies the one to the other. What differs is what a loss of power may take.
//! * A directory likewise: names that were made, renamed and removed since it was last synced may be taken back, in any
//!   subset.
//! * A [`Process`] is what a database is given as its storage, and there may be several. When one is killed, in the middle of any
//!   operation, every later call of it fails and changes nothing, and the files live on as they were at that moment: what its
//!   destructors still store to its mappings is undone before anybody else goes on.
//!
//! What it does not do: reorder two syncs, or lie about one. Such a disk can't keep any promise.

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
pub(crate) use crash::Image;
pub(crate) use fault::{Armed, Effect, Operation, Pace};
use file::Inode;
#[cfg(test)]
pub(crate) use file::SECTOR_BYTES;
#[cfg(test)]
pub(crate) use losses::Loss;
pub(crate) use process::Process;

/// See the module. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    state: Arc<Mutex<State>>,
    clock: Arc<ManualClock>,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(usize),
    Directory,
}

/// What was done to a directory and is not known to be on the device.
#[derive(Debug, Clone)]
struct Change {
    directory: PathBuf,
    /// Each name and what it stands for from then on; one change is on the device whole or not at all.
    names: Vec<(PathBuf, Option<Node>)>,
}

#[derive(Debug)]
struct State {
    random: Rng,
    pace: Pace,
    trace: Trace,
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, Node>,
    /// The names on the device.
    durable: BTreeMap<PathBuf, Node>,
    changes: Vec<Change>,
    /// How many processes there have been; they are numbered from 1.
    processes: u64,
    /// Those that live, by number.
    living: BTreeSet<u64>,
    /// What processes see of every file, as it was when one of several died: it may store still, and it is not to count.
    at_death: Option<Image>,
    /// How the process that died last was ended within an operation, until that was looked at.
    killed: Option<Effect>,
    locks: BTreeMap<PathBuf, Locked>,
    handles: u64,
    armed: Vec<Armed>,
    /// Faults other than kills that were met since a process was alone.
    broken: u64,
    /// Whether nothing can be made or made longer.
    full: bool,
    /// Operations since the beginning, and those of them that were syncs.
    operations: u64,
    syncs: u64,
    #[cfg(test)]
    watch: Option<losses::Watch>,
}

/// Who has a file locked, by the numbers of their handles.
#[derive(Debug, Default)]
struct Locked {
    alone: Option<u64>,
    shared: BTreeSet<u64>,
}

impl Disk {
    pub(crate) fn new(seed: u64, pace: Pace, clock: Arc<ManualClock>, trace: Trace) -> Self {
        let root = PathBuf::from("/");
        let names = BTreeMap::from([(root, Node::Directory)]);
        let state = State {
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
        Disk { state: Arc::new(Mutex::new(state)), clock }
    }

    /// A new process, which is the only one that lives.
    pub(crate) fn process(&self) -> Process {
        let mut state = self.lock();
        state.end_processes();
        state.broken = 0;
        drop(state);
        self.another()
    }

    /// A new process, beside those that live.
    pub(crate) fn another(&self) -> Process {
        let mut state = self.lock();
        state.processes += 1;
        let number = state.processes;
        state.living.insert(number);
        Process { disk: self.clone(), number }
    }

    /// Takes the faults away that were armed.
    pub(crate) fn put_aside_faults(&self) -> Vec<Armed> {
        std::mem::take(&mut self.lock().armed)
    }

    /// Has a fault happen to an operation to come.
    pub(crate) fn arm(&self, armed: Armed) {
        self.lock().armed.push(armed);
    }

    /// No fault happens from now on that was not armed later.
    pub(crate) fn disarm(&self) {
        let mut state = self.lock();
        state.armed.clear();
        state.full = false;
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.lock().full = full;
    }

    /// How many syncs there were.
    pub(crate) fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lock().full
    }

    /// How the process that lived last was ended within an operation; said once.
    pub(crate) fn take_killed(&self) -> Option<Effect> {
        self.lock().killed.take()
    }

    /// Whether the living process has met a fault that is reason enough for an I/O error.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock().broken > 0
    }

    /// The files of a directory, by name, with what every process sees in them.
    pub(crate) fn files(&self, directory: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
        let state = self.lock();
        let mut files = BTreeMap::new();
        for (path, node) in state.names.iter().filter(|(path, _)| path.parent() == Some(directory)) {
            if let Node::File(number) = node {
                files.insert(path.clone(), state.inodes[*number].cached()?);
            }
        }
        Ok(files)
    }

    /// Adds to the trace what every process sees in every file that has a name, and with `device` what is on the device as well.
    pub(crate) fn trace_contents(&self, device: bool) -> io::Result<()> {
        let state = self.lock();
        let mut seen = Vec::new();
        for (path, node) in &state.names {
            let Node::File(number) = node else { continue };
            state.inodes[*number].cached_into(&mut seen)?;
            state.trace.bytes(path.as_os_str().as_encoded_bytes());
            state.trace.bytes(&seen);
            if device {
                state.trace.bytes(state.inodes[*number].device());
            }
        }
        Ok(())
    }

    /// A disk of its own with the same files, all of them safe on its device.
    pub(crate) fn fork(&self) -> io::Result<Disk> {
        let state = self.lock();
        let fork = Disk::new(0, state.pace, Arc::new(ManualClock::new(self.now())), Trace::silent());
        let mut forked = fork.lock();
        forked.names.clone_from(&state.names);
        forked.durable.clone_from(&state.names);
        for inode in &state.inodes {
            forked.inodes.push(Inode::of_bytes(&inode.cached()?)?);
        }
        drop(forked);
        Ok(fork)
    }

    /// Changes what a file holds, as the medium may: processes that have it mapped see it, and so does who comes after a loss of power.
    /// Nothing is done, and that is said, when it does not hold what it is taken to.
    pub(crate) fn rot(&self, path: &Path, holds: &[u8], then: &[u8]) -> io::Result<bool> {
        let mut state = self.lock();
        let Some(Node::File(number)) = state.names.get(path).copied() else { return Ok(false) };
        let inode = &mut state.inodes[number];
        Ok(inode.cached()? == holds && inode.rot(then).map(|()| true)?)
    }

    /// Changes the bytes of a file behind everyone's back, or makes it; `None` removes it.
    pub(crate) fn tamper(&self, path: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
        let mut state = self.lock();
        let Some(bytes) = bytes else {
            state.names.remove(path);
            state.durable.remove(path);
            return Ok(());
        };
        let inode = Inode::of_bytes(bytes)?;
        if let Some(Node::File(number)) = state.names.get(path).copied() {
            state.inodes[number] = inode;
        } else {
            let node = Node::File(state.inodes.len());
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end_processes(&mut self) {
        self.living.clear();
        self.locks.clear();
        self.at_death = None;
    }

    /// A process lives no more: what it had locked is free.
    fn end_process(&mut self, number: u64) {
        self.living.remove(&number);
        for locked in self.locks.values_mut() {
            locked.alone.take_if(|holder| process_of(*holder) == number);
            locked.shared.retain(|holder| process_of(*holder) != number);
        }
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.names.get(path) {
            Some(Node::File(number)) => Ok(*number),
            Some(Node::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(not_found()),
        }
    }

    /// Changes names, all of one directory.
    fn change(&mut self, names: Vec<(PathBuf, Option<Node>)>) {
        for (path, node) in &names {
            apply(&mut self.names, path, *node);
        }
        let directory = names[0].0.parent().unwrap_or(Path::new("/")).to_owned();
        self.changes.push(Change { directory, names });
    }

    /// Puts what was done to a directory on the device.
    fn sync_directory(&mut self, directory: &Path) {
        let (synced, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.changes).into_iter().partition(|change| change.directory == directory);
        self.changes = rest;
        for change in synced {
            self.keep(&change);
        }
    }

    fn keep(&mut self, change: &Change) {
        for (path, node) in &change.names {
            apply(&mut self.durable, path, *node);
        }
    }

    /// The files that nothing names and nobody can reach any more are emptied.
    fn forget_unnamed(&mut self) -> io::Result<()> {
        let named: BTreeSet<usize> = self
            .names
            .values()
            .filter_map(|node| match node {
                Node::File(number) => Some(*number),
                Node::Directory => None,
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

fn apply(names: &mut BTreeMap<PathBuf, Node>, path: &Path, node: Option<Node>) {
    match node {
        Some(node) => names.insert(path.to_owned(), node),
        None => names.remove(path),
    };
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}
