//! A file system as it is when it is first looked at: what is written stays in memory, and nothing below is ever changed.
//!
//! A log opens on it as on a disk of its own, whoever has the files below open, and may not even write there: it takes no lock
//! below, cuts a torn tail in memory, and is gone when it is closed.
//!
//! * The names in a directory are those of the first time that it was listed: no file that came later tells of records that were
//!   not there yet. The files that a compaction or a checkpoint takes away or replaces are kept as they were then.
//! * Files that never change once they have their name are mapped as they are. Of the others, what is mapped or written is a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use quire_mapped::{Appender, SharedWords, View};
use rustix::fs::MemfdFlags;

use super::kept::Kept;
use super::{Access, Lock, Storage, StoredFile};

/// What the names of files end with that may go.
const SEGMENT: &str = "log";
const INDEX: &str = "idx";
const CHECKPOINT: &str = "checkpoint";

/// How many files are kept, two for a sealed segment: each has a mapping, of which a process has about 65,000.
const KEPT_MAX: usize = 16_384;

/// How often a directory is listed again because others took away files meanwhile: each look takes some microseconds a file.
const LOOKS_MAX: u32 = 100;

/// How much is copied at once. A piece of zeros takes no memory.
const COPIED_BYTES: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub struct Snapshot {
    below: Arc<dyn Storage>,
    changes: Arc<Changes>,
}

/// What differs from the file system below.
#[derive(Debug, Default)]
struct Changes {
    /// By path; what is not among them is as below.
    nodes: Mutex<BTreeMap<PathBuf, Node>>,
    /// The names in each directory that was listed, as they were below.
    listed: Mutex<BTreeMap<PathBuf, Vec<OsString>>>,
}

#[derive(Debug, Clone)]
enum Node {
    /// A file that is in memory.
    Own(Arc<File>),
    /// The file that has this path below.
    Below(PathBuf),
    /// The file that had this path below when it was listed.
    Kept(Shown),
    Removed,
}

/// A file as it was when it was opened, or listed.
#[derive(Debug, Clone)]
enum Shown {
    File(Arc<dyn StoredFile>),
    Kept(Arc<Kept>),
}

/// A file that was opened. Nobody else sees what it becomes, and that is not to last: it needs no lock and no sync.
#[derive(Debug)]
struct Copy {
    path: PathBuf,
    /// What it was when it was opened.
    shown: Shown,
    /// What it is once it was written to.
    own: OnceLock<Arc<File>>,
    changes: Arc<Changes>,
}

impl Snapshot {
    /// What is on this file system now.
    pub fn of(below: Arc<dyn Storage>) -> Self {
        Snapshot { below, changes: Arc::default() }
    }

    /// What a path stands for, whether or not it is there below.
    fn node(&self, path: &Path) -> Node {
        self.changes.nodes().get(path).cloned().unwrap_or_else(|| Node::Below(path.to_owned()))
    }

    /// The names in a directory; what may go is kept from now on, all of it as it was at one moment.
    fn look(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut looks = 1;
        loop {
            let names = self.below.list(directory)?;
            match self.keep(directory, &names) {
                // It went since the names were listed, and there are others for it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && looks < LOOKS_MAX => looks += 1,
                kept => {
                    for (path, node) in kept? {
                        // What was written to before it was listed stays what it became.
                        self.changes.nodes().entry(path).or_insert(node);
                    }
                    return Ok(names);
                }
            }
        }
    }

    /// The files with these names that may go. One that can't be read is left to who reads it.
    fn keep(&self, directory: &Path, names: &[OsString]) -> io::Result<Vec<(PathBuf, Node)>> {
        let mut paths: Vec<_> = names.iter().map(|name| directory.join(name)).filter(|path| may_go(path)).collect();
        // Checkpoints first: they go sooner than others.
        paths.sort_unstable_by_key(|path| (!has_extension(path, CHECKPOINT), path.clone()));
        // The last segment is appended to, and is not mapped as it is.
        let last = paths.iter().rfind(|path| has_extension(path, SEGMENT)).cloned();
        let mut kept = Vec::with_capacity(paths.len());
        for path in paths.into_iter().take(KEPT_MAX) {
            let file = match self.below.open(&path, Access::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
                Err(_) => continue,
                Ok(file) => file,
            };
            if last.as_ref() == Some(&path) {
                kept.push((path, Node::Kept(Shown::File(file))));
            } else if let Ok(file) = Kept::of(&self.below, path.clone(), &*file) {
                kept.push((path, Node::Kept(Shown::Kept(Arc::new(file)))));
            }
        }
        Ok(kept)
    }

    fn make(&self, path: &Path) -> io::Result<Arc<dyn StoredFile>> {
        let own = Arc::new(in_memory()?);
        self.changes.put(path, Node::Own(Arc::clone(&own)));
        Ok(self.handle(path, Shown::File(Arc::clone(&own) as _), own.into()))
    }

    fn handle(&self, path: &Path, shown: Shown, own: OnceLock<Arc<File>>) -> Arc<dyn StoredFile> {
        Arc::new(Copy { path: path.to_owned(), shown, own, changes: Arc::clone(&self.changes) })
    }
}

/// Whether others may remove the file with this name, or put another in its place, while they have the log open.
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
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, path: &Path, node: Node) {
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
                    Node::Own(_) | Node::Below(_) | Node::Kept(_) => _ = names.insert(name.to_owned()),
                    Node::Removed => _ = names.remove(name),
                }
            }
        }
        Ok(names.into_iter().collect())
    }

    fn create_directories(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove_directory(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        let found = match self.node(path) {
            Node::Own(own) => Ok(self.handle(path, Shown::File(Arc::clone(&own) as _), own.into())),
            Node::Kept(shown) => Ok(self.handle(path, shown, OnceLock::new())),
            Node::Removed => Err(io::ErrorKind::NotFound.into()),
            Node::Below(from) => {
                let file = self.below.open(&from, Access::Read);
                file.map(|file| self.handle(path, Shown::File(file), OnceLock::new()))
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
        self.changes.put(from, Node::Removed);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        drop(self.open(path, Access::Read)?);
        self.changes.put(path, Node::Removed);
        Ok(())
    }
}

impl Shown {
    fn bytes(&self) -> io::Result<u64> {
        match self {
            Shown::File(file) => file.bytes(),
            Shown::Kept(kept) => Ok(kept.len() as u64),
        }
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Shown::File(file) => file.read_at(into, offset),
            Shown::Kept(kept) => kept.read_at(into, offset),
        }
    }

    fn map_settled(&self, bytes: usize) -> io::Result<View> {
        match self {
            Shown::File(file) => file.map_settled(bytes),
            Shown::Kept(kept) => kept.map_settled(bytes),
        }
    }
}

impl Copy {
    /// What is there now.
    fn now(&self) -> Shown {
        self.own.get().map_or_else(|| self.shown.clone(), |own| Shown::File(Arc::clone(own) as _))
    }

    /// The file to write to: from now on it is one in memory, for whoever opens it, too.
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
            self.changes.put(&self.path, Node::Own(Arc::clone(own)));
        }
        Ok(self.own.get().expect("it was just set"))
    }
}

impl StoredFile for Copy {
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
    fn what_others_take_away_or_replace_is_read_as_it_was_listed() {
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
