//! A snapshot of a file system: writes stay in memory, and the underlying files never change.
//!
//! A log can open on a snapshot while other processes have the files open, and without write
//! permission. The opening takes no lock on the underlying files and truncates a torn tail in
//! memory. Closing discards all changes.
//!
//! * The names in a directory are fixed when the directory is first listed, so no later file shows
//!   later records. The snapshot keeps the files that a compaction or a checkpoint removes or
//!   replaces.
//! * Immutable files are mapped in place. For all other files, a mapping or a write uses a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use quire_mapped::{Appender, SharedWords, View};
use rustix::fs::MemfdFlags;

use super::kept::KeptFile;
use super::{Access, Lock, Storage, StoredFile};

/// The extensions of files that other processes may remove.
const SEGMENT: &str = "log";
const INDEX: &str = "idx";
const CHECKPOINT: &str = "checkpoint";

/// The maximum number of kept files, two for a sealed segment. Each uses a mapping, of which a
/// process has about 65,000.
const KEPT_MAX: usize = 16_384;

/// How often a directory is listed again because other processes removed files meanwhile. Each
/// attempt takes some microseconds per file.
const LOOKS_MAX: u32 = 100;

/// The size of a copied piece. A piece of zeros takes no memory.
const COPIED_BYTES: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct Snapshot {
    below: Arc<dyn Storage>,
    changes: Arc<Changes>,
}

/// The differences from the underlying file system.
#[derive(Debug, Default)]
struct Changes {
    /// The changed files by path. All other files are unchanged.
    nodes: Mutex<BTreeMap<PathBuf, SnapshotNode>>,
    /// The names in each listed directory of the underlying file system.
    listed: Mutex<BTreeMap<PathBuf, Vec<OsString>>>,
}

#[derive(Debug, Clone)]
enum SnapshotNode {
    /// A file in memory.
    Own(Arc<File>),
    /// The underlying file with this path.
    Below(PathBuf),
    /// The underlying file that had this path when the directory was listed.
    Kept(FileContent),
    Removed,
}

/// The content of a file when it was opened or listed.
#[derive(Debug, Clone)]
enum FileContent {
    File(Arc<dyn StoredFile>),
    Kept(Arc<KeptFile>),
}

/// An open file of a snapshot. It needs no lock and no sync, because its changes are private and
/// temporary.
#[derive(Debug)]
struct SnapshotFile {
    path: PathBuf,
    /// The content when the file was opened.
    shown: FileContent,
    /// The copy in memory, after the first write.
    own: OnceLock<Arc<File>>,
    changes: Arc<Changes>,
}

impl Snapshot {
    /// Takes a snapshot of the file system `below`.
    pub fn of(below: Arc<dyn Storage>) -> Self {
        Snapshot { below, changes: Arc::default() }
    }

    /// Returns the file that a path names. The file may be missing in the underlying file system.
    fn node(&self, path: &Path) -> SnapshotNode {
        self.changes.nodes().get(path).cloned().unwrap_or_else(|| SnapshotNode::Below(path.to_owned()))
    }

    /// Lists a directory and keeps all removable files in it, all of them as of one moment.
    fn look(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut looks = 1;
        loop {
            let names = self.below.list(directory)?;
            match self.keep(directory, &names) {
                // Another process removed the file after the listing, and new files replace it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && looks < LOOKS_MAX => looks += 1,
                kept => {
                    for (path, node) in kept? {
                        // A file written before the listing keeps its new content.
                        self.changes.nodes().entry(path).or_insert(node);
                    }
                    return Ok(names);
                }
            }
        }
    }

    /// Keeps the removable files among `names`. A file that cannot be read is skipped; its reader
    /// reports the error.
    fn keep(&self, directory: &Path, names: &[OsString]) -> io::Result<Vec<(PathBuf, SnapshotNode)>> {
        let mut paths: Vec<_> = names.iter().map(|name| directory.join(name)).filter(|path| may_go(path)).collect();
        // Checkpoints first: they are removed soonest.
        paths.sort_unstable_by_key(|path| (!has_extension(path, CHECKPOINT), path.clone()));
        // The last segment is still appended to and therefore not mapped in place.
        let last = paths.iter().rfind(|path| has_extension(path, SEGMENT)).cloned();
        let mut kept = Vec::with_capacity(paths.len());
        for path in paths.into_iter().take(KEPT_MAX) {
            let file = match self.below.open(&path, Access::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                Err(_) => continue,
                Ok(file) => file,
            };
            if last.as_ref() == Some(&path) {
                kept.push((path, SnapshotNode::Kept(FileContent::File(file))));
            } else if let Ok(file) = KeptFile::of(&self.below, path.clone(), &*file) {
                kept.push((path, SnapshotNode::Kept(FileContent::Kept(Arc::new(file)))));
            }
        }
        debug_assert!(kept.len() <= KEPT_MAX, "{} files are kept", kept.len());
        Ok(kept)
    }

    fn make(&self, path: &Path) -> io::Result<Arc<dyn StoredFile>> {
        let own = Arc::new(in_memory()?);
        self.changes.put(path, SnapshotNode::Own(Arc::clone(&own)));
        Ok(self.handle(path, FileContent::File(Arc::clone(&own) as _), own.into()))
    }

    fn handle(&self, path: &Path, shown: FileContent, own: OnceLock<Arc<File>>) -> Arc<dyn StoredFile> {
        Arc::new(SnapshotFile { path: path.to_owned(), shown, own, changes: Arc::clone(&self.changes) })
    }
}

/// Whether other processes may remove or replace the file while they have the log open.
fn may_go(path: &Path) -> bool {
    [SEGMENT, INDEX, CHECKPOINT].iter().any(|extension| has_extension(path, extension))
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn in_memory() -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("quire-snapshot", MemfdFlags::CLOEXEC)?))
}

impl Changes {
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<PathBuf, SnapshotNode>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, path: &Path, node: SnapshotNode) {
        self.nodes().insert(path.to_owned(), node);
    }
}

impl Storage for Snapshot {
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut listed = self.changes.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let below = match listed.get(directory) {
            Some(names) => names,
            None => listed.entry(directory.to_owned()).or_insert(self.look(directory)?),
        };
        let mut names: BTreeSet<OsString> = below.iter().cloned().collect();
        for (path, node) in self.changes.nodes().iter() {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if parent == directory {
                match node {
                    SnapshotNode::Own(_) | SnapshotNode::Below(_) | SnapshotNode::Kept(_) => {
                        _ = names.insert(name.to_owned())
                    }
                    SnapshotNode::Removed => _ = names.remove(name),
                }
            }
        }
        Ok(names.into_iter().collect())
    }

    fn free_bytes(&self, directory: &Path) -> io::Result<u64> {
        self.below.free_bytes(directory)
    }

    fn create_directories(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove_directory(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        let found = match self.node(path) {
            SnapshotNode::Own(own) => Ok(self.handle(path, FileContent::File(Arc::clone(&own) as _), own.into())),
            SnapshotNode::Kept(shown) => Ok(self.handle(path, shown, OnceLock::new())),
            SnapshotNode::Removed => Err(io::ErrorKind::NotFound.into()),
            SnapshotNode::Below(from) => {
                let file = self.below.open(&from, Access::Read);
                file.map(|file| self.handle(path, FileContent::File(file), OnceLock::new()))
            }
        };
        let is_missing = found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        match access {
            Access::Create if is_missing => self.make(path),
            Access::Read | Access::Write | Access::Create => found,
            Access::CreateNew if found.is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
            Access::CreateNew | Access::CreateEmpty => self.make(path),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        drop(self.open(from, Access::Read)?);
        let node = self.node(from);
        self.changes.put(to, node);
        self.changes.put(from, SnapshotNode::Removed);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        drop(self.open(path, Access::Read)?);
        self.changes.put(path, SnapshotNode::Removed);
        Ok(())
    }
}

impl FileContent {
    fn bytes(&self) -> io::Result<u64> {
        match self {
            FileContent::File(file) => file.bytes(),
            FileContent::Kept(kept) => Ok(kept.len() as u64),
        }
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            FileContent::File(file) => file.read_at(into, offset),
            FileContent::Kept(kept) => kept.read_at(into, offset),
        }
    }

    fn map_settled(&self, bytes: usize) -> io::Result<View> {
        match self {
            FileContent::File(file) => file.map_settled(bytes),
            FileContent::Kept(kept) => kept.map_settled(bytes),
        }
    }
}

impl SnapshotFile {
    /// Returns the current content.
    fn now(&self) -> FileContent {
        self.own.get().map_or_else(|| self.shown.clone(), |own| FileContent::File(Arc::clone(own) as _))
    }

    /// Returns the copy to write to. From now on, every opening of this path uses the copy.
    fn own(&self) -> io::Result<&File> {
        if self.own.get().is_none() {
            let own = in_memory()?;
            let mut piece = vec![0; COPIED_BYTES];
            let mut at = 0;
            loop {
                match self.shown.read_at(&mut piece, at)? {
                    0 => break,
                    read if piece[..read].iter().all(|byte| *byte == 0) => {}
                    read => StoredFile::write_at(&own, &piece[..read], at)?,
                }
                at += COPIED_BYTES as u64;
            }
            own.set_bytes(self.shown.bytes()?)?;
            let own = self.own.get_or_init(|| Arc::new(own));
            self.changes.put(&self.path, SnapshotNode::Own(Arc::clone(own)));
        }
        Ok(self.own.get().expect("the copy was just set"))
    }
}

impl StoredFile for SnapshotFile {
    fn bytes(&self) -> io::Result<u64> {
        self.now().bytes()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.now().read_at(into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        StoredFile::write_at(self.own()?, bytes, offset)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.own()?.set_bytes(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_data_to(&self, _: &View, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: Lock) -> io::Result<bool> {
        Ok(true)
    }

    fn unlock(&self) {}

    fn map(&self, bytes: usize, settled: usize) -> io::Result<Appender> {
        self.own()?.map(bytes, settled)
    }

    fn map_settled(&self, bytes: usize) -> io::Result<View> {
        self.now().map_settled(bytes)
    }

    fn words(&self, count: usize) -> io::Result<SharedWords> {
        StoredFile::words(self.own()?, count)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::storage::Disk;

    #[test]
    fn removed_and_replaced_files_keep_their_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let long = vec![7; 300];
        for name in ["1.log", "1.idx", "2.log", "3.checkpoint", "4.log", "other"] {
            fs::write(path(name), &long).unwrap();
        }
        let snapshot = Snapshot::of(Arc::new(Disk));
        let names = snapshot.list(folder.path()).unwrap();
        fs::write(path("new"), vec![8; 300]).unwrap();
        fs::rename(path("new"), path("1.log")).unwrap();
        for name in ["1.idx", "2.log", "3.checkpoint", "other"] {
            fs::remove_file(path(name)).unwrap();
        }
        assert_eq!(snapshot.list(folder.path()).unwrap(), names);
        for name in ["1.log", "1.idx", "2.log", "3.checkpoint", "4.log"] {
            assert_eq!(snapshot.read(&path(name)).unwrap(), long, "{name}");
            let file = snapshot.open(&path(name), Access::Read).unwrap();
            assert_eq!(file.map_settled(300).unwrap().bytes(0..300), Some(&long[..]), "{name}");
            assert_eq!(file.map_settled(20).unwrap().len(), 20, "{name}");
            assert!(file.map_settled(301).is_err(), "{name}");
        }
        assert_eq!(snapshot.read(&path("other")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
