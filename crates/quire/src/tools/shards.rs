//! The shards of a database, as directories.

use std::path::{Path, PathBuf};

use quire_log::{Disk, Page};

use crate::Result;
use crate::meta::Meta;

/// A shard's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPath {
    /// Its name within the database: `shard-0000`.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
}

/// The shards of the database in a directory.
///
/// # Errors
/// [`ErrorKind::NotADatabase`](crate::ErrorKind::NotADatabase),
/// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
/// [`ErrorKind::NewerFormat`](crate::ErrorKind::NewerFormat),
/// [`ErrorKind::Io`](crate::ErrorKind::Io).
pub fn shards(database: &Path) -> Result<Vec<ShardPath>> {
    let meta = Meta::read(&Disk, database)?;
    let shard = |number| {
        let name = Meta::shard_name(number);
        ShardPath { path: database.join(&name), name }
    };
    Ok((0..meta.shards).map(shard).collect())
}

impl ShardPath {
    /// The shard's statistics page as it is now.
    ///
    /// # Errors
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when no process has opened the shard yet,
    /// [`ErrorKind::Damaged`](crate::ErrorKind::Damaged),
    /// [`ErrorKind::NewerFormat`](crate::ErrorKind::NewerFormat).
    pub fn page(&self) -> Result<Page> {
        Ok(Page::read(&self.path)?)
    }
}
