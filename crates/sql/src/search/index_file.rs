//! The file of a text index: an SQLite database with an FTS5 table and a stamp.
//!
//! | table | content |
//! |---|---|
//! | `docs` | FTS5: the text of each event, and the hashes of its tags; its row number is the position |
//! | `tags` | hash of a tag, position: to find the events that a forgotten tag deletes |
//! | `words` | the words of `docs` |
//! | `stamp` | one row: the definition, the covered position, and the record of the log at that time |
//!
//! # Invariants
//! * A transaction adds events and moves the stamp, so each event is indexed once, whatever is
//!   killed.
//! * A file is used only if the log has the record of its stamp. So an index that is ahead of a
//!   restored log is built again.
//! * A new file has a new name. A process that still has a removed file open, with its journal,
//!   does not touch the new one.
//! * Freed bytes are overwritten (`secure_delete` of SQLite, `secure-delete` of FTS5).

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use quire::{Database, Error, ErrorKind, Position, Result, TextIndex};
use rusqlite::{Connection, OpenFlags, Row, TransactionBehavior};

use super::error::{IndexError, IndexResult};
use super::store::StoreMarks;

/// The version of the tables.
const VERSION: u32 = 1;

/// The memory of SQLite's cache of pages, in KiB.
const CACHE_KIB: u32 = 8 << 10;

/// How long a process waits for a batch of another one.
const BUSY: Duration = Duration::from_secs(30);

/// How often a file that is not usable is built again at once.
const ATTEMPTS: usize = 3;

const SCHEMA: &str = "
    CREATE TABLE stamp(definition TEXT NOT NULL, covered INTEGER NOT NULL, log_position INTEGER NOT NULL,
        checksum INTEGER NOT NULL, trimmed INTEGER NOT NULL, deleted_since INTEGER NOT NULL, forgotten INTEGER NOT NULL,
        documents INTEGER NOT NULL);
    CREATE TABLE tags(hash INTEGER NOT NULL, position INTEGER NOT NULL, PRIMARY KEY(hash, position)) WITHOUT ROWID;
    CREATE VIRTUAL TABLE docs USING fts5(text, tags UNINDEXED);
    CREATE VIRTUAL TABLE words USING fts5vocab(docs, row);
    INSERT INTO docs(docs, rank) VALUES('secure-delete', 1);
";

/// The position up to which an index covers its store, and the log that it was built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct IndexStamp {
    /// The last position of the store that is covered.
    pub(super) covered: u64,
    /// A published record when the events were read, and its checksum.
    pub(super) log_position: u64,
    pub(super) checksum: u32,
    /// The deletions of the store that have left the index.
    pub(super) trimmed: u64,
    pub(super) deleted_since: u64,
    /// The last position whose events a forgotten tag of these deletions deletes.
    pub(super) forgotten: u64,
    /// The number of events with text.
    pub(super) documents: u64,
}

impl IndexStamp {
    /// Reads the stamp.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let number = |row: &Row<'_>, column| row.get::<_, i64>(column).map(i64::cast_unsigned);
        let of = |row: &Row<'_>| {
            Ok(IndexStamp {
                covered: number(row, 0)?,
                log_position: number(row, 1)?,
                checksum: row.get(2)?,
                trimmed: number(row, 3)?,
                deleted_since: number(row, 4)?,
                forgotten: number(row, 5)?,
                documents: number(row, 6)?,
            })
        };
        let columns = "covered, log_position, checksum, trimmed, deleted_since, forgotten, documents";
        connection.query_row(&format!("SELECT {columns} FROM stamp"), [], of)
    }

    /// Writes the stamp.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let text = "UPDATE stamp SET covered = ?1, log_position = ?2, checksum = ?3, trimmed = ?4, deleted_since = ?5, \
            forgotten = ?6, documents = ?7";
        let signed = u64::cast_signed;
        let row = (
            signed(self.covered),
            signed(self.log_position),
            self.checksum,
            signed(self.trimmed),
            signed(self.deleted_since),
            signed(self.forgotten),
            signed(self.documents),
        );
        connection.execute(text, row).map(drop)
    }
}

/// An open file of a text index, or a text index in memory for a read-only database.
#[derive(Debug)]
pub(super) struct TextIndexFile {
    pub(super) connection: Connection,
    path: Option<PathBuf>,
}

impl TextIndexFile {
    /// Opens the file of an index. Makes a new one when there is none, and when the present one is
    /// damaged or of another log.
    pub(super) fn open(database: &Database, index: &TextIndex) -> Result<Self> {
        if database.is_read_only() {
            return Self::open_read_only(database, index);
        }
        let directory = database.index_directory();
        make_directory(&directory)?;
        let mut attempts = 0;
        loop {
            let mut files = files_of(&directory, index)?.into_iter();
            let path = files.next().map_or_else(|| new_file(&directory, index), Ok)?;
            // Another process made a file at the same time.
            files.try_for_each(|other| remove(&other))?;
            attempts += 1;
            match Self::open_at(&path, database, index) {
                Ok(Some(file)) => return Ok(file),
                Err(IndexError::Failed(error)) => return Err(error),
                Err(error @ IndexError::Damaged(_)) if attempts == ATTEMPTS => return Err(error.into()),
                Ok(None) | Err(IndexError::Damaged(_)) => remove(&path)?,
            }
        }
    }

    /// Opens a file. `None` when it is of another log or another definition.
    pub(super) fn open_at(path: &Path, database: &Database, index: &TextIndex) -> IndexResult<Option<Self>> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut file =
            TextIndexFile { connection: Connection::open_with_flags(path, flags)?, path: Some(path.to_owned()) };
        file.prepare(database, index)?;
        Ok(file.is_of(database, index)?.then_some(file))
    }

    /// Opens a file that covers the store, or else makes an index in memory.
    fn open_read_only(database: &Database, index: &TextIndex) -> Result<Self> {
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let covers = |path: &Path| -> IndexResult<Option<Self>> {
            let file = TextIndexFile { connection: Connection::open_with_flags(path, flags)?, path: None };
            let is_current = file.is_of(database, index)?
                && StoreMarks::of(database, &index.store)?.is_covered_by(&IndexStamp::read(&file.connection)?);
            Ok(is_current.then_some(file))
        };
        let files = files_of(&database.index_directory(), index).unwrap_or_default();
        if let Some(file) = files.iter().find_map(|path| covers(path).ok().flatten()) {
            return Ok(file);
        }
        let connection = Connection::open_in_memory().map_err(IndexError::from)?;
        let mut file = TextIndexFile { connection, path: None };
        file.prepare(database, index)?;
        Ok(file)
    }

    /// Sets the connection up, and makes the tables of a new file.
    fn prepare(&mut self, database: &Database, index: &TextIndex) -> IndexResult<()> {
        self.connection.busy_timeout(BUSY)?;
        self.connection.execute_batch(&format!(
            "PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{CACHE_KIB};"
        ))?;
        let has_tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'stamp'";
        if self.connection.query_row(has_tables, [], |row| row.get::<_, u32>(0))? == 0 {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if transaction.query_row(has_tables, [], |row| row.get::<_, u32>(0))? == 0 {
                transaction.execute_batch(SCHEMA)?;
                let first = "INSERT INTO stamp VALUES (?1, 0, 0, 0, 0, 0, 0, 0)";
                transaction.execute(first, [definition(database, index)])?;
            }
            transaction.commit()?;
        }
        Ok(())
    }

    /// Returns whether the file is of this definition, and of the log of the database.
    fn is_of(&self, database: &Database, index: &TextIndex) -> IndexResult<bool> {
        let defined: String = self.connection.query_row("SELECT definition FROM stamp", [], |row| row.get(0))?;
        let stamp = IndexStamp::read(&self.connection)?;
        if defined != definition(database, index) {
            return Ok(false);
        }
        if stamp.log_position == 0 {
            return Ok(stamp.covered == 0);
        }
        let at = Position::new(stamp.log_position);
        let marks = StoreMarks::of(database, &index.store)?;
        let has_record = at <= database.published() && database.checksum_at(at)? == Some(stamp.checksum);
        // Nothing that it covers is left: a new file takes less time than deletions.
        let is_empty = stamp.documents > 0 && marks.trimmed >= stamp.covered;
        Ok(has_record && stamp.covered <= marks.head && !is_empty)
    }

    /// Removes the file, so that the next opening builds the index again.
    pub(super) fn remove(self) -> Result<()> {
        let TextIndexFile { connection, path } = self;
        // Its errors are those of a damaged file.
        drop(connection);
        path.map_or(Ok(()), |path| remove(&path))
    }

    /// Returns the size of the file, in bytes; zero in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.path.as_ref().and_then(|path| fs::metadata(path).ok()).map_or(0, |found| found.len())
    }
}

/// Returns the definition as the stamp has it.
fn definition(database: &Database, index: &TextIndex) -> String {
    let TextIndex { number, name, store, paths } = index;
    format!("{VERSION}\n{:032x}\n{number}\n{name}\n{store}\n{}", database.id(), paths.join("\n"))
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("the file of a text index, {}: {error}", path.display()))
}

fn make_directory(directory: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(directory, &error)),
        _ => Ok(()),
    }
}

/// Makes an empty file for its owner alone, with a name that no other file had.
fn new_file(directory: &Path, index: &TextIndex) -> Result<PathBuf> {
    let random = RandomState::new().build_hasher().finish();
    let path = directory.join(format!("{}{random:016x}.sqlite", index.file_prefix()));
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    made.map_err(|error| failed(&path, &error))?;
    Ok(path)
}

/// Returns the files of an index, except journals.
pub(super) fn files_of(directory: &Path, index: &TextIndex) -> Result<Vec<PathBuf>> {
    let is_own = |name: &str| index.has_file(name) && name.ends_with(".sqlite");
    files(directory, is_own)
}

/// Returns the files of all indexes, except journals.
pub(super) fn all_files(directory: &Path) -> Result<Vec<PathBuf>> {
    files(directory, |name| name.ends_with(".sqlite"))
}

/// Returns whether a file belongs to one of the indexes.
pub(super) fn is_of_any(path: &Path, indexes: &[TextIndex]) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    indexes.iter().any(|index| index.has_file(name))
}

fn files(directory: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| failed(directory, &error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(directory, &error))?;
        if entry.file_name().to_str().is_some_and(&is_wanted) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a file and its journal.
pub(super) fn remove(path: &Path) -> Result<()> {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    for path in [path, Path::new(&journal)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(path, &error)),
            _ => {}
        }
    }
    Ok(())
}
