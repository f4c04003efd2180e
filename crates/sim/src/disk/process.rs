//! The storage of one process: its operations on the disk.
//!
//! Every call is an operation: it is counted and traced, it takes time, and a fault may occur in
//! it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire::{Access, Lock, Storage, StoredFile};
use quire_mapped::{Appender, SharedWords, View};

use super::file::Inode;
use super::{DirectoryNode, DiskOperation, DiskState, Effect, SimDisk, not_found};

/// A process; see the module.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(super) disk: SimDisk,
    pub(super) number: u64,
}

/// An open file of a process.
#[derive(Debug)]
struct Handle {
    process: Process,
    number: u64,
    path: PathBuf,
    node: DirectoryNode,
}

impl Process {
    /// Whether it is alive.
    pub(crate) fn lives(&self) -> bool {
        self.disk.lock().living.contains(&self.number)
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Runs an operation, or its fault. `whole` does all of it, `part` the part that a failing one
    /// may do.
    fn operate<T>(
        &self,
        operation: DiskOperation,
        path: &Path,
        detail: u64,
        part: impl FnOnce(&mut DiskState) -> io::Result<()>,
        whole: impl FnOnce(&mut DiskState) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut locked = self.disk.lock();
        let state = &mut *locked;
        if !state.living.contains(&self.number) {
            return Err(io::Error::other("the process was killed"));
        }
        #[cfg(test)]
        state.watch(operation)?;
        state.operations += 1;
        state.syncs += u64::from(matches!(operation, DiskOperation::Sync | DiskOperation::SyncDirectory));
        let latency_micros = state.pace.draw(&mut state.random);
        self.disk.clock.set(self.disk.now().plus_micros(latency_micros));
        let met = state.armed.iter_mut().position(|armed| armed.meets(operation));
        let effect = met.map(|index| state.armed.swap_remove(index).effect);
        // The dead process's result. It is dropped after the lock, because a handle's drop takes
        // it.
        let mut unseen = None;
        let outcome = match effect {
            None => whole(state),
            Some(Effect::Error) => {
                state.broken += 1;
                part(state).and(Err(io::Error::from_raw_os_error(5)))
            }
            Some(Effect::Full) => {
                state.full = true;
                whole(state)
            }
            Some(effect @ (Effect::Kill { after } | Effect::PowerCut { after })) => {
                if after {
                    unseen = Some(whole(state));
                }
                state.killed = Some(effect);
                if matches!(effect, Effect::Kill { .. }) { state.kill(self.number) } else { state.cut_power() }
                    .and(Err(io::Error::other("the process was killed")))
            }
        };
        let result = match (&effect, &outcome) {
            (Some(Effect::Full), Err(error)) if error.kind() == io::ErrorKind::StorageFull => "FULL ENOSPC",
            (Some(effect), _) => effect.name(),
            (None, Ok(_)) => "ok",
            (None, Err(error)) if error.kind() == io::ErrorKind::StorageFull => "ENOSPC",
            (None, Err(_)) => "no",
        };
        state.trace.operation(operation.name(), path, detail, result);
        drop(locked);
        drop(unseen);
        outcome
    }

    fn handle(&self, path: &Path, node: DirectoryNode, state: &mut DiskState) -> Arc<dyn StoredFile> {
        state.handles += 1;
        let number = self.number << 32 | state.handles;
        Arc::new(Handle { process: self.clone(), number, path: path.to_owned(), node })
    }
}

fn nothing(_: &mut DiskState) -> io::Result<()> {
    Ok(())
}

impl Storage for Process {
    /// A number of the simulation: that of the real process differs between runs.
    fn process_id(&self) -> u32 {
        u32::try_from(self.number).expect("small")
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.operate(DiskOperation::List, directory, 0, nothing, |state| {
            match state.names.get(directory) {
                None => return Err(not_found()),
                Some(DirectoryNode::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
                Some(DirectoryNode::Directory) => {}
            }
            let inside = state.names.keys().filter(|path| path.parent() == Some(directory));
            let mut names: Vec<_> = inside.filter_map(|path| path.file_name().map(OsString::from)).collect();
            // A directory has no order.
            state.random.shuffle(&mut names);
            Ok(names)
        })
    }

    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.operate(DiskOperation::Create, path, 0, nothing, |state| {
            let missing: Vec<_> =
                path.ancestors().take_while(|path| !state.names.contains_key(*path)).map(Path::to_owned).collect();
            if state.full && !missing.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            for path in missing.into_iter().rev() {
                state.change(vec![(path, Some(DirectoryNode::Directory))]);
            }
            Ok(path.ancestors().skip(1).map(Path::to_owned).collect())
        })
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.operate(DiskOperation::Remove, path, 0, nothing, |state| {
            if state.names.get(path) != Some(&DirectoryNode::Directory) {
                return Err(not_found());
            }
            if state.names.keys().any(|inside| inside.parent() == Some(path)) {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
            state.change(vec![(path.to_owned(), None)]);
            Ok(())
        })
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        let creates = !matches!(access, Access::Read | Access::Write);
        let operation = if creates { DiskOperation::Create } else { DiskOperation::Open };
        self.operate(operation, path, 0, nothing, |state| {
            let node = match state.names.get(path).copied() {
                Some(_) if access == Access::CreateNew => return Err(io::ErrorKind::AlreadyExists.into()),
                Some(DirectoryNode::Directory) if access != Access::Read => {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                Some(DirectoryNode::File(number)) if access == Access::CreateEmpty => {
                    state.inodes[number].cache.set_len(0)?;
                    DirectoryNode::File(number)
                }
                Some(node) => node,
                None if creates => {
                    if state.full {
                        return Err(io::ErrorKind::StorageFull.into());
                    }
                    if path.parent().is_none_or(|above| state.names.get(above) != Some(&DirectoryNode::Directory)) {
                        return Err(not_found());
                    }
                    let node = DirectoryNode::File(state.inodes.len());
                    state.inodes.push(Inode::of_bytes(&[])?);
                    state.change(vec![(path.to_owned(), Some(node))]);
                    node
                }
                None => return Err(not_found()),
            };
            Ok(self.handle(path, node, state))
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.operate(DiskOperation::Rename, from, 0, nothing, |state| {
            let node = DirectoryNode::File(state.file(from)?);
            state.change(vec![(to.to_owned(), Some(node)), (from.to_owned(), None)]);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.operate(DiskOperation::Remove, path, 0, nothing, |state| {
            state.file(path)?;
            state.change(vec![(path.to_owned(), None)]);
            Ok(())
        })
    }
}

impl Handle {
    fn inode(&self) -> io::Result<usize> {
        match self.node {
            DirectoryNode::File(number) => Ok(number),
            DirectoryNode::Directory => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn cache(&self, state: &DiskState) -> io::Result<Arc<File>> {
        Ok(Arc::clone(&state.inodes[self.inode()?].cache))
    }

    fn operate<T>(
        &self,
        operation: DiskOperation,
        detail: u64,
        part: impl FnOnce(&mut DiskState) -> io::Result<()>,
        whole: impl FnOnce(&mut DiskState) -> io::Result<T>,
    ) -> io::Result<T> {
        self.process.operate(operation, &self.path, detail, part, whole)
    }

    /// Writes the first of these bytes, as far as there is space.
    fn write(&self, state: &mut DiskState, bytes: &[u8], offset: u64) -> io::Result<()> {
        let cache = self.cache(state)?;
        let length = cache.metadata()?.len();
        let room = if state.full { length.saturating_sub(offset) } else { u64::MAX };
        let written = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        cache.write_all_at(&bytes[..written], offset)?;
        state.trace.bytes(&offset.to_le_bytes());
        state.trace.bytes(&bytes[..written]);
        state.inodes[self.inode()?].note_write(usize::try_from(offset).expect("small"), written);
        if written < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        let operation =
            if self.node == DirectoryNode::Directory { DiskOperation::SyncDirectory } else { DiskOperation::Sync };
        let fail = |state: &mut DiskState| match self.node {
            // A power loss draws which of its changes are on the device.
            DirectoryNode::Directory => Ok(()),
            DirectoryNode::File(number) => {
                let DiskState { inodes, random, .. } = state;
                inodes[number].fail_sync(random)
            }
        };
        self.operate(operation, 0, fail, |state| match self.node {
            DirectoryNode::Directory => {
                state.sync_directory(&self.path);
                Ok(())
            }
            DirectoryNode::File(number) => state.inodes[number].sync(),
        })
    }
}

impl StoredFile for Handle {
    fn bytes(&self) -> io::Result<u64> {
        self.operate(DiskOperation::Read, 0, nothing, |state| match self.node {
            DirectoryNode::File(_) => Ok(self.cache(state)?.metadata()?.len()),
            DirectoryNode::Directory => Ok(0),
        })
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.operate(DiskOperation::Read, into.len() as u64, nothing, |state| {
            StoredFile::read_at(&*self.cache(state)?, into, offset)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let part = |state: &mut DiskState| {
            let short = state.random.usize(0..=bytes.len());
            // The fault of the whole operation is reported, not the error of this part.
            let _ = self.write(state, &bytes[..short], offset);
            Ok(())
        };
        self.operate(DiskOperation::Write, bytes.len() as u64, part, |state| self.write(state, bytes, offset))
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.operate(DiskOperation::Write, bytes, nothing, |state| {
            let cache = self.cache(state)?;
            if state.full && bytes > cache.metadata()?.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            cache.set_len(bytes)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn lock(&self, lock: Lock) -> io::Result<bool> {
        self.operate(DiskOperation::Lock, 0, nothing, |state| {
            let locked = state.locks.entry(self.path.clone()).or_default();
            let free = match lock {
                Lock::Shared => locked.alone.is_none_or(|holder| holder == self.number),
                // One process acts at a time, and none pauses with such a lock, so no lock is ever
                // waited for.
                Lock::Alone | Lock::InTurn => {
                    locked.alone.iter().chain(&locked.shared).all(|holder| *holder == self.number)
                }
            };
            if free {
                locked.shared.remove(&self.number);
                locked.alone = None;
                match lock {
                    Lock::Shared => _ = locked.shared.insert(self.number),
                    Lock::Alone | Lock::InTurn => locked.alone = Some(self.number),
                }
            }
            Ok(free)
        })
    }

    fn unlock(&self) {
        let mut state = self.process.disk.lock();
        if let Some(locked) = state.locks.get_mut(&self.path) {
            locked.shared.remove(&self.number);
            locked.alone.take_if(|holder| *holder == self.number);
        }
    }

    fn map(&self, bytes: usize, settled: usize) -> io::Result<Appender> {
        self.operate(DiskOperation::Map, bytes as u64, nothing, |state| {
            Appender::of_file(&*self.cache(state)?, bytes, settled)
        })
    }

    fn map_settled(&self, bytes: usize) -> io::Result<View> {
        self.operate(DiskOperation::Map, bytes as u64, nothing, |state| View::of_file(&*self.cache(state)?, bytes))
    }

    fn words(&self, count: usize) -> io::Result<SharedWords> {
        self.operate(DiskOperation::Map, count as u64, nothing, |state| {
            SharedWords::of_file(&*self.cache(state)?, count)
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.unlock();
    }
}
