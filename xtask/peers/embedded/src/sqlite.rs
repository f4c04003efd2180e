//! SQLite as its documentation recommends for one program: a write-ahead log, synced at each commit
//! or left to the system, and reads that map the file.

use std::path::Path;

use rusqlite::Connection;

use crate::{Kept, Result};

/// The bytes of its page cache, and of its mapping of the file.
const CACHE_KIB: i64 = 256 << 10;
const MAPPED_BYTES: i64 = 4 << 30;

/// A database in this folder.
pub(crate) fn open(folder: &Path, kept: Kept) -> Result<Connection> {
    let connection = Connection::open(folder.join("sqlite.db"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", if kept == Kept::Sync { "FULL" } else { "OFF" })?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "mmap_size", MAPPED_BYTES)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}
