//! What a loss of power may take, one by one: each sector, length and name that is not on the device, at each moment that it can make a
//! difference.
//!
//! ```text
//! operation about to be done ─▶ what is pending ─▶ for each: a disk with all but it, with half of it, and with nothing else
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use quire::{ManualClock, Timestamp};
use xxhash_rust::xxh3::Xxh3;

use super::file::{Inode, SECTOR_BYTES};
use super::{Disk, Node, Operation, State};
use crate::trace::Trace;

/// Something that was done and is not known to be on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    Sector {
        inode: usize,
        sector: usize,
    },
    Length {
        inode: usize,
    },
    /// A change of names, by its number among those that are not on the device.
    Names(usize),
}

/// How much of it the device has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    FirstHalf,
    SecondHalf,
    All,
}

/// A disk after a loss of power, and what is on it or not.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) disk: Disk,
    pub(crate) what: String,
}

/// What is watched for, while it is.
#[derive(Debug, Default)]
pub(super) struct Watch {
    losses: Vec<Loss>,
    /// Those that were there already, by their contents.
    seen: BTreeSet<u64>,
}

impl Disk {
    /// From now on it is noted what a loss of power could leave.
    pub(crate) fn watch(&self) {
        self.lock().watch = Some(Watch::default());
    }

    /// What a loss of power could have left since this was last asked, and now, with one thing lost or one thing kept.
    pub(crate) fn take_losses(&self) -> io::Result<Vec<Loss>> {
        let mut state = self.lock();
        state.note_losses(&"the end of the step")?;
        Ok(state.watch.as_mut().map(|watch| std::mem::take(&mut watch.losses)).unwrap_or_default())
    }

    /// Those that were noted may come about anew.
    pub(crate) fn forget_seen_losses(&self) {
        if let Some(watch) = &mut self.lock().watch {
            watch.seen.clear();
        }
    }

    /// What is on the device of each file that has a name.
    pub(crate) fn devices(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let device = |node: &Node| match node {
            Node::File(inode) => Some(state.inodes[*inode].device().to_vec()),
            Node::Directory => None,
        };
        state.names.iter().filter_map(|(path, node)| Some((path.clone(), device(node)?))).collect()
    }
}

impl State {
    /// Notes what is pending before an operation that ends that for some of it, or begins something that rests on it.
    pub(super) fn watch(&mut self, operation: Operation) -> io::Result<()> {
        match operation {
            Operation::Sync | Operation::SyncDirectory | Operation::Rename | Operation::Remove => {
                self.note_losses(&operation.name())
            }
            _ => Ok(()),
        }
    }

    fn note_losses(&mut self, before: &dyn Display) -> io::Result<()> {
        let Some(mut watch) = self.watch.take() else { return Ok(()) };
        let pending = self.pending()?;
        for one in &pending {
            let halves = matches!(one, Pending::Sector { .. }).then_some([Kept::FirstHalf, Kept::SecondHalf]);
            let others = halves.into_iter().flatten().map(|half| (half, Kept::All));
            for (kept, rest) in [(Kept::Nothing, Kept::All), (Kept::All, Kept::Nothing)].into_iter().chain(others) {
                let disk = self.left(&pending, |of| if of == one { kept } else { rest })?;
                if watch.seen.insert(disk.lock().hash()) {
                    let what =
                        format!("before {before}, of {} {one:?} {kept:?} and of the others {rest:?}", pending.len());
                    watch.losses.push(Loss { disk, what });
                }
            }
        }
        self.watch = Some(watch);
        Ok(())
    }

    fn pending(&self) -> io::Result<Vec<Pending>> {
        let mut pending: Vec<_> = (0..self.changes.len()).map(Pending::Names).collect();
        for (inode, of) in self.inodes.iter().enumerate() {
            let cached = of.cached()?;
            pending.extend(of.dirty(&cached).into_iter().map(|sector| Pending::Sector { inode, sector }));
            if cached.len() != of.device().len() {
                pending.push(Pending::Length { inode });
            }
        }
        Ok(pending)
    }

    /// What there is when the power went and so much of what is pending was kept.
    fn left(&self, pending: &[Pending], kept: impl Fn(&Pending) -> Kept) -> io::Result<Disk> {
        let disk = Disk::new(0, self.pace, Arc::new(ManualClock::new(Timestamp::ZERO)), Trace::silent());
        let mut left = disk.lock();
        left.durable.clone_from(&self.durable);
        let mut devices: Vec<_> = self.inodes.iter().map(|inode| inode.device().to_vec()).collect();
        for one in pending {
            match *one {
                Pending::Names(change) if kept(one) == Kept::All => left.keep(&self.changes[change]),
                Pending::Names(_) => {}
                Pending::Length { inode } if kept(one) == Kept::All => {
                    devices[inode].resize(self.inodes[inode].cached()?.len(), 0);
                }
                Pending::Length { .. } => {}
                Pending::Sector { inode, sector } => {
                    let cached = self.inodes[inode].cached()?;
                    let begin = sector * SECTOR_BYTES;
                    let end = (begin + SECTOR_BYTES).min(cached.len());
                    let middle = (begin + SECTOR_BYTES / 2).min(end);
                    let range = match kept(one) {
                        Kept::Nothing => continue,
                        Kept::FirstHalf => begin..middle,
                        Kept::SecondHalf => middle..end,
                        Kept::All => begin..end,
                    };
                    let device = &mut devices[inode];
                    device.resize(device.len().max(end), 0);
                    device[range.clone()].copy_from_slice(&cached[range]);
                }
            }
        }
        left.inodes = devices.iter().map(|device| Inode::of_bytes(device)).collect::<io::Result<_>>()?;
        left.names = left.durable.clone();
        left.separate()?;
        left.forget_unnamed()?;
        drop(left);
        Ok(disk)
    }

    fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        for (path, node) in &self.names {
            hash.update(path.as_os_str().as_encoded_bytes());
            if let Node::File(inode) = node {
                let device = self.inodes[*inode].device();
                hash.update(&(device.len() as u64).to_le_bytes());
                hash.update(device);
            }
        }
        hash.digest()
    }
}
