//! The disk after the death of a process, or after a power loss.

use std::collections::BTreeMap;
use std::io;

use super::file::SectorSurvival;
use super::{DiskState, Process, SimDisk};

/// The content of every file at one moment.
#[derive(Debug)]
pub(crate) struct DiskImage {
    files: Vec<Vec<u8>>,
}

impl SimDisk {
    /// Kills a process, between two operations. Its stores and writes stay.
    pub(crate) fn kill(&self, process: &Process) -> io::Result<()> {
        self.lock().kill(process.number)
    }

    /// Removes a process that died or ended: stores after its death are undone.
    pub(crate) fn bury(&self, process: &Process) -> io::Result<()> {
        let mut state = self.lock();
        state.end_process(process.number);
        let Some(image) = state.at_death.take() else { return Ok(()) };
        state.inodes.iter().zip(&image.files).try_for_each(|(inode, bytes)| inode.overwrite(bytes))
    }

    /// Cuts the power, between two operations.
    pub(crate) fn cut_power(&self) -> io::Result<()> {
        self.lock().cut_power()
    }

    /// The kernel writes some unsynced data to the device, as it does all the time.
    pub(crate) fn write_back(&self) -> io::Result<()> {
        let mut state = self.lock();
        let state = &mut *state;
        let survival = SectorSurvival(state.random.u16(0..=256));
        state.inodes.iter_mut().try_for_each(|inode| inode.write_back(survival, &mut state.random))
    }

    pub(crate) fn image(&self) -> io::Result<DiskImage> {
        let files: io::Result<_> = self.lock().inodes.iter().map(|inode| inode.cached()).collect();
        Ok(DiskImage { files: files? })
    }

    /// Kills the only process during the stores since `before`: the last of these stores are
    /// undone. Stores to one file are assumed to be in ascending order. Only the first 48 bytes
    /// that changed, a record's header, come last.
    pub(crate) fn kill_within(&self, before: &DiskImage) -> io::Result<()> {
        const HEADER_BYTES: usize = 48;
        let mut state = self.lock();
        let state = &mut *state;
        for (number, inode) in state.inodes.iter_mut().enumerate() {
            let now = inode.cached()?;
            let then = before.files.get(number).map_or(&[][..], Vec::as_slice);
            let changed: Vec<usize> = (0..now.len()).filter(|at| then.get(*at) != Some(&now[*at])).collect();
            let Some(first) = changed.first().copied() else { continue };
            let (header, body): (Vec<usize>, Vec<usize>) =
                changed.into_iter().partition(|at| *at < first + HEADER_BYTES);
            let order: Vec<usize> = body.into_iter().chain(header).collect();
            let done = state.random.usize(0..=order.len());
            let mut torn = now;
            for at in &order[done..] {
                torn[*at] = then.get(*at).copied().unwrap_or_default();
            }
            inode.replace(&torn)?;
        }
        state.end_processes();
        Ok(())
    }
}

impl DiskState {
    pub(super) fn kill(&mut self, number: u64) -> io::Result<()> {
        self.end_process(number);
        if self.living.is_empty() {
            return self.inodes.iter_mut().try_for_each(super::file::Inode::detach);
        }
        // Other processes have the same files mapped.
        let files: io::Result<_> = self.inodes.iter().map(|inode| inode.cached()).collect();
        self.at_death = Some(DiskImage { files: files? });
        Ok(())
    }

    pub(super) fn cut_power(&mut self) -> io::Result<()> {
        self.end_processes();
        // In half of the cases, names are restored up to some change, as a journal does; otherwise
        // any subset of the changes.
        let changes = std::mem::take(&mut self.changes);
        let in_order = self.random.bool();
        let kept = self.random.usize(0..=changes.len());
        for (number, change) in changes.iter().enumerate() {
            if if in_order { number < kept } else { self.random.bool() } {
                self.keep(change);
            }
        }
        self.names = self.durable.clone();
        let survival = SectorSurvival(*self.random.choice(&[0, 64, 128, 192, 256]).expect("the list is not empty"));
        for inode in &mut self.inodes {
            inode.lose_power(survival, &mut self.random)?;
        }
        // If one of a rename and a removal was lost, a file can have two names; each then gets a
        // file of its own.
        self.separate()?;
        self.forget_unnamed()
    }

    pub(super) fn separate(&mut self) -> io::Result<()> {
        let mut seen = BTreeMap::new();
        for (path, node) in &mut self.names {
            let super::DirectoryNode::File(number) = node else { continue };
            if seen.insert(*number, path.clone()).is_some() {
                let copy = super::file::Inode::of_bytes(&self.inodes[*number].cached()?)?;
                self.inodes.push(copy);
                *number = self.inodes.len() - 1;
            }
        }
        self.durable = self.names.clone();
        Ok(())
    }
}
