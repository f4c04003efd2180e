//! A shard with files that this user may not read: the inspection reports nothing about their
//! content.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quire_log::inspect::{Finding, InspectedRecord, Watcher, verify};
use quire_log::{Access, Disk, Durability, Error, Mark, Storage, StoredFile};

use crate::shard::{IDENTITY, filled};

/// A disk on which files with this suffix are not readable.
#[derive(Debug)]
struct Forbidden(Disk, &'static str);

impl Storage for Forbidden {
    fn list(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.0.list(directory)
    }

    fn create_directories(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.create_directories(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.0.remove_directory(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        match path.to_string_lossy().ends_with(self.1) {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => self.0.open(path, access),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
}

/// A watcher that collects the findings only.
#[derive(Default)]
struct Found(Vec<Finding>);

impl Watcher for Found {
    fn record(&mut self, _: &Path, _: &InspectedRecord<'_>) {}

    fn gap(&mut self) {}

    fn compacted(&mut self, _: Mark) {}

    fn finding(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

#[test]
fn an_unreadable_file_is_not_reported_as_lost() {
    let (shard, opened) = filled(Durability::Os, 60);
    drop(opened);
    for name in [".log", ".idx", "control"] {
        let storage: Arc<dyn Storage> = Arc::new(Forbidden(Disk, name));
        let mut found = Found::default();
        let error = verify(&storage, shard.path(), IDENTITY, &mut found).expect_err("it may not be read");
        assert!(matches!(&error, Error::Io { path, .. } if path.to_string_lossy().ends_with(name)), "{error}");
        assert_eq!(found.0, []);
    }
    // A lock file holds no data.
    for storage in [Arc::new(Disk) as Arc<dyn Storage>, Arc::new(Forbidden(Disk, "seat-00"))] {
        let mut found = Found::default();
        verify(&storage, shard.path(), IDENTITY, &mut found).expect("verified");
        assert_eq!(found.0, []);
    }
}
