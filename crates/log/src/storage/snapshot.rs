//! A file system as it is when it is first looked at: what is written stays in memory, and nothing below is ever changed.
//!
//! A log opens on it as on a disk of its own, whoever has the files below open, and may not even write there: it takes no lock
//! below, cuts a torn tail in memory, and is gone when it is closed.
//!
//! * The names in a directory are those of the first time that it was listed: no file that came later tells of records that were
//!   not there yet.
//! * Files that never change once they have their name are mapped as they are. Of the others, what is mapped or written is a copy.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use quire_mapped::{Appender, SharedWords, View};
use rustix::fs::MemfdFlags;

use super::{Access, Lock, Storage, StoredFile};

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
    Removed,
}

/// A file that was opened. Nobody else sees what it becomes, and that is not to last: it needs no lock and no sync.
#[derive(Debug)]
struct Copy {
    path: PathBuf,
    /// What it was when it was opened.
    shown: Arc<dyn StoredFile>,
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

    fn make(&self, path: &Path) -> io::Result<Arc<dyn StoredFile>> {
        let own = Arc::new(in_memory()?);
        self.changes.put(path, Node::Own(Arc::clone(&own)));
        Ok(self.handle(path, Arc::clone(&own) as _, own.into()))
    }

    fn handle(&self, path: &Path, shown: Arc<dyn StoredFile>, own: OnceLock<Arc<File>>) -> Arc<dyn StoredFile> {
        Arc::new(Copy { path: path.to_owned(), shown, own, changes: Arc::clone(&self.changes) })
    }
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
            None => listed.entry(directory.to_owned()).or_insert(self.below.list(directory)?),
        };
        let mut names: BTreeSet<OsString> = below.iter().cloned().collect();
        for (path, node) in self.changes.nodes().iter() {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if parent == directory {
                match node {
                    Node::Own(_) | Node::Below(_) => _ = names.insert(name.to_owned()),
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
            Node::Own(own) => Ok(self.handle(path, Arc::clone(&own) as _, own.into())),
            Node::Removed => Err(io::ErrorKind::NotFound.into()),
            Node::Below(from) => {
                self.below.open(&from, Access::Read).map(|below| self.handle(path, below, OnceLock::new()))
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

impl Copy {
    /// The file to read from now.
    fn now(&self) -> &dyn StoredFile {
        match self.own.get() {
            Some(own) => &**own,
            None => &*self.shown,
        }
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
