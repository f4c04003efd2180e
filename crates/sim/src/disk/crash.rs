//! What is left when a process dies or the power goes.

use std::collections::BTreeMap;
use std::io;

use super::file::Survival;
use super::{Disk, Process, State};

/// The bytes of every file at one moment.
#[derive(Debug)]
pub(crate) struct Image {
    files: Vec<Vec<u8>>,
}

impl Disk {
    /// A process dies, between two operations. What it stored and wrote stays.
    pub(crate) fn kill(&self, process: &Process) -> io::Result<()> {
        self.lock().kill(process.number)
    }

    /// A process that died or ended is gone for good: what it stored after its death is undone.
    pub(crate) fn bury(&self, process: &Process) -> io::Result<()> {
        let mut state = self.lock();
        state.end_process(process.number);
        let Some(image) = state.at_death.take() else { return Ok(()) };
        state.inodes.iter().zip(&image.files).try_for_each(|(inode, bytes)| inode.overwrite(bytes))
    }

    /// The power goes, between two operations.
    pub(crate) fn cut_power(&self) -> io::Result<()> {
        self.lock().cut_power()
    }

    /// The kernel writes something of what was not synced to the device, as it does all the time.
    pub(crate) fn write_back(&self) -> io::Result<()> {
        let mut state = self.lock();
        let state = &mut *state;
        let survival = Survival(state.random.u16(0..=256));
        state.inodes.iter_mut().try_for_each(|inode| inode.write_back(survival, &mut state.random))
    }

    pub(crate) fn image(&self) -> io::Result<Image> {
        let files: io::Result<_> = self.lock().inodes.iter().map(|inode| inode.cached()).collect();
        Ok(Image { files: files? })
    }

    /// The one process that there is dies among the stores that led from `before` to now: of the last ones, none was done. Stores to one file
    /// are taken to go upwards but for the first 48 bytes that changed, a record's header, which come last.
    pub(crate) fn kill_within(&self, before: &Image) -> io::Result<()> {
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

impl State {
    pub(super) fn kill(&mut self, number: u64) -> io::Result<()> {
        self.end_process(number);
        if self.living.is_empty() {
            return self.inodes.iter_mut().try_for_each(super::file::Inode::detach);
        }
        // Others have the same files mapped.
        let files: io::Result<_> = self.inodes.iter().map(|inode| inode.cached()).collect();
        self.at_death = Some(Image { files: files? });
        Ok(())
    }

    pub(super) fn cut_power(&mut self) -> io::Result<()> {
        self.end_processes();
        // Half of the time names come back as a journal keeps them, up to some change; otherwise in any subset.
        let changes = std::mem::take(&mut self.changes);
        let in_order = self.random.bool();
        let kept = self.random.usize(0..=changes.len());
        for (number, change) in changes.iter().enumerate() {
            if if in_order { number < kept } else { self.random.bool() } {
                self.keep(change);
            }
        }
        self.names = self.durable.clone();
        let survival = Survival(*self.random.choice(&[0, 64, 128, 192, 256]).expect("there are some"));
        for inode in &mut self.inodes {
            inode.lose_power(survival, &mut self.random)?;
        }
        // A rename and a removal of which one was lost can leave two names to one file; each is then a file of its own.
        self.separate()?;
        self.forget_unnamed()
    }

    pub(super) fn separate(&mut self) -> io::Result<()> {
        let mut seen = BTreeMap::new();
        for (path, node) in &mut self.names {
            let super::Node::File(number) = node else { continue };
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
