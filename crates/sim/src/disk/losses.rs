//! The possible effects of a power loss, one by one: each sector, length and name that is not on
//! the device, at each moment at which it can matter.
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
use super::{DirectoryNode, DiskOperation, DiskState, SimDisk};
use crate::trace::Trace;

/// A change that may not be on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingChange {
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

/// How much of it is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptPart {
    Nothing,
    FirstHalf,
    SecondHalf,
    All,
}

/// A disk after a power loss, with the changes that it has.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) disk: SimDisk,
    pub(crate) what: String,
}

/// The recording, while it runs.
#[derive(Debug, Default)]
pub(super) struct Watch {
    losses: Vec<Loss>,
    /// The disks recorded already, by content.
    seen: BTreeSet<u64>,
}

impl SimDisk {
    /// Starts to record the possible disks after a power loss.
    pub(crate) fn watch(&self) {
        self.lock().watch = Some(Watch::default());
    }

    /// Returns the disks that a power loss could have left since the last call, with one change
    /// lost or one change kept.
    pub(crate) fn take_losses(&self) -> io::Result<Vec<Loss>> {
        let mut state = self.lock();
        state.note_losses(&"the end of the step")?;
        Ok(state.watch.as_mut().map(|watch| std::mem::take(&mut watch.losses)).unwrap_or_default())
    }

    /// The recorded disks may occur again.
    pub(crate) fn forget_seen_losses(&self) {
        if let Some(watch) = &mut self.lock().watch {
            watch.seen.clear();
        }
    }

    /// The device's content of each named file.
    pub(crate) fn devices(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.lock();
        let device = |node: &DirectoryNode| match node {
            DirectoryNode::File(inode) => Some(state.inodes[*inode].device().to_vec()),
            DirectoryNode::Directory => None,
        };
        state.names.iter().filter_map(|(path, node)| Some((path.clone(), device(node)?))).collect()
    }
}

impl DiskState {
    /// Records pending changes before an operation that makes some of them durable, or that starts
    /// a dependent change.
    pub(super) fn watch(&mut self, operation: DiskOperation) -> io::Result<()> {
        match operation {
            DiskOperation::Sync | DiskOperation::SyncDirectory | DiskOperation::Rename | DiskOperation::Remove => {
                self.note_losses(&operation.name())
            }
            _ => Ok(()),
        }
    }

    fn note_losses(&mut self, before: &dyn Display) -> io::Result<()> {
        let Some(mut watch) = self.watch.take() else { return Ok(()) };
        let pending = self.pending()?;
        for one in &pending {
            let halves =
                matches!(one, PendingChange::Sector { .. }).then_some([KeptPart::FirstHalf, KeptPart::SecondHalf]);
            let others = halves.into_iter().flatten().map(|half| (half, KeptPart::All));
            for (kept, rest) in
                [(KeptPart::Nothing, KeptPart::All), (KeptPart::All, KeptPart::Nothing)].into_iter().chain(others)
            {
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

    fn pending(&self) -> io::Result<Vec<PendingChange>> {
        let mut pending: Vec<_> = (0..self.changes.len()).map(PendingChange::Names).collect();
        for (inode, of) in self.inodes.iter().enumerate() {
            let cached = of.cached()?;
            pending.extend(of.dirty(&cached).into_iter().map(|sector| PendingChange::Sector { inode, sector }));
            if cached.len() != of.device().len() {
                pending.push(PendingChange::Length { inode });
            }
        }
        Ok(pending)
    }

    /// The disk after a power loss that kept `kept` of the pending changes.
    fn left(&self, pending: &[PendingChange], kept: impl Fn(&PendingChange) -> KeptPart) -> io::Result<SimDisk> {
        let disk = SimDisk::new(0, self.pace, Arc::new(ManualClock::new(Timestamp::ZERO)), Trace::silent());
        let mut left = disk.lock();
        left.durable.clone_from(&self.durable);
        let mut devices: Vec<_> = self.inodes.iter().map(|inode| inode.device().to_vec()).collect();
        for one in pending {
            match *one {
                PendingChange::Names(change) if kept(one) == KeptPart::All => left.keep(&self.changes[change]),
                PendingChange::Names(_) => {}
                PendingChange::Length { inode } if kept(one) == KeptPart::All => {
                    devices[inode].resize(self.inodes[inode].cached()?.len(), 0);
                }
                PendingChange::Length { .. } => {}
                PendingChange::Sector { inode, sector } => {
                    let cached = self.inodes[inode].cached()?;
                    let begin = sector * SECTOR_BYTES;
                    let end = (begin + SECTOR_BYTES).min(cached.len());
                    let middle = (begin + SECTOR_BYTES / 2).min(end);
                    let range = match kept(one) {
                        KeptPart::Nothing => continue,
                        KeptPart::FirstHalf => begin..middle,
                        KeptPart::SecondHalf => middle..end,
                        KeptPart::All => begin..end,
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
            if let DirectoryNode::File(inode) = node {
                let device = self.inodes[*inode].device();
                hash.update(&(device.len() as u64).to_le_bytes());
                hash.update(device);
            }
        }
        hash.digest()
    }
}
