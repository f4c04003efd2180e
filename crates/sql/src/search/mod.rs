//! Text indexes: words in the data of events, found by FTS5 of SQLite.
//!
//! ```text
//! search('orders', 'fragile') ─▶ definition (the log) ─▶ file ─▶ refresh ─▶ FTS5 ─▶ positions and ranks
//! forget_tag, trim_events     ─▶ ErasedIndexes: each file of the store, before the commit is answered
//! ```
//!
//! # Invariants
//! * The definition of an index is part of the log; its file is derived from the log.
//! * A search covers each event that was published when its statement began.
//! * A deleted event is in no answer: a row is an event that the client can read now.

mod error;
mod expression;
mod index_file;
mod indexing;
mod store;

use std::sync::{Arc, Mutex, PoisonError};

use quire::events::EventPosition;
use quire::{Database, DerivedState, Error, ErrorKind, Result, TextIndex};
use rusqlite::{Connection, ffi};

use crate::context::{StatementContext, invalid};

use error::{IndexError, IndexResult};
use index_file::{IndexStamp, TextIndexFile};
use indexing::BatchSize;
pub use indexing::IndexingStep;
use store::StoreMarks;

/// The most events that one search finds.
const FOUND_MAX: usize = 100_000;

/// The instructions of SQLite between two checks of a search, and the steps that they claim.
const CHECK_INSTRUCTIONS: i32 = 1_000;
const CHECK_STEPS: u64 = 4;

/// The text indexes of a database.
///
/// ```
/// use quire::events::NewEvent;
/// use quire::{Database, Durability};
/// use quire_sql::{Sql, TextIndexes};
///
/// # let directory = tempfile::tempdir()?;
/// let db = Database::builder(directory.path()).durability(Durability::Os).open()?;
/// let orders = db.events("orders");
/// orders.append([NewEvent::new("Placed").tag("person:ann").data(r#"{"note":"Fragile glass"}"#)])?;
/// orders.append([NewEvent::new("Placed").tag("person:ben").data(r#"{"note":"leave at the door"}"#)])?;
/// let indexes = TextIndexes::over(&db);
/// assert_eq!(indexes.create("orders", None, &["$.note"])?.documents, 2);
///
/// let search = "SELECT e.tags FROM search('orders', 'glass') s JOIN events e USING (store, position)";
/// assert_eq!(Sql::over(&db).query(search, &[])?.rows, [[r#"["person:ann"]"#.into()]]);
/// orders.forget("person:ann")?;
/// assert!(Sql::over(&db).query(search, &[])?.rows.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct TextIndexes {
    database: Database,
}

/// A text index and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextIndexStatus {
    /// The definition.
    pub index: TextIndex,
    /// The last position of the store that the index covers.
    pub covered: EventPosition,
    /// The last position of the store.
    pub head: EventPosition,
    /// The number of events with text.
    pub documents: u64,
    /// The size of the file, in bytes.
    pub bytes: u64,
}

impl TextIndexes {
    /// Returns the text indexes of a database. From the first call on, commits of this process that
    /// delete events erase them from the files of the indexes.
    ///
    /// The first call, if the owner makes it, erases what an ended process did not erase any more.
    pub fn over(database: &Database) -> Self {
        attach(database);
        TextIndexes { database: database.clone() }
    }

    /// Creates a text index over an event store, and builds it as far as the budget of the database
    /// permits. `name` is that of the store by
    /// default. The paths are JSON paths of text in the data of events, such as `$.note`; `$` is
    /// the whole data, which then need not be JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid path, and the errors of
    /// [`Database::create_text_index`]. After an error of its file, the index exists, and the next
    /// search builds it.
    pub fn create(&self, store: &str, name: Option<&str>, paths: &[&str]) -> Result<TextIndexStatus> {
        paths.iter().try_for_each(|path| check_path(path))?;
        let index = self.database.create_text_index(name.unwrap_or(store), store, paths)?;
        match self.built(index.clone()) {
            Err(error) if error.kind() == ErrorKind::TooCostly => self.status(index),
            built => built,
        }
    }

    /// Deletes a text index and its file.
    ///
    /// # Errors
    /// The errors of [`Database::delete_text_index`]; [`ErrorKind::Io`] when the file can't be
    /// removed.
    pub fn delete(&self, name: &str) -> Result<()> {
        let index = self.named(name)?;
        self.database.delete_text_index(name)?;
        let files = index_file::files_of(&self.database.index_directory(), &index)?;
        files.iter().try_for_each(|path| index_file::remove(path))
    }

    /// Returns the text indexes over stores that the client may read, as far as they are built.
    ///
    /// # Errors
    /// The errors of [`Database::text_indexes`].
    pub fn list(&self) -> Result<Vec<TextIndexStatus>> {
        let indexes = self.database.text_indexes()?;
        indexes.into_iter().map(|index| self.status(index)).collect()
    }

    /// Builds a text index up to the end of its store.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for an unknown index. [`ErrorKind::TooCostly`] and
    /// [`ErrorKind::Cancelled`] by the budget of the database: the batches so far are kept. The
    /// errors of reads, and [`ErrorKind::NoSpace`] and [`ErrorKind::Io`] for the file.
    pub fn refresh(&self, name: &str) -> Result<TextIndexStatus> {
        self.built(self.named(name)?)
    }

    /// Erases deleted events from the files of all indexes, also those that a retention or another
    /// process deleted. A server calls it every few seconds.
    ///
    /// # Errors
    /// The errors of reads, and [`ErrorKind::Io`] when a file can be neither changed nor removed.
    pub fn erase_deleted(&self) -> Result<()> {
        erase(&self.database, |_| true)
    }

    /// Builds a text index in batches of `events` events, and calls `step` after each step.
    #[doc(hidden)]
    pub fn refresh_by_steps(
        &self,
        name: &str,
        events: u64,
        step: &mut dyn FnMut(IndexingStep) -> Result<()>,
    ) -> Result<()> {
        let (index, batch) = (self.named(name)?, BatchSize { events, ..BatchSize::USUAL });
        let mut file = TextIndexFile::open(&self.database, &index)?;
        Ok(indexing::refresh(&mut file, &self.database, &index, batch, step)?)
    }

    fn named(&self, name: &str) -> Result<TextIndex> {
        let found = self.database.text_indexes()?.into_iter().find(|index| index.name == name);
        found.ok_or_else(|| unknown(name))
    }

    fn built(&self, index: TextIndex) -> Result<TextIndexStatus> {
        let budget = self.database.budget().cloned();
        let check = move || budget.as_ref().map_or(Ok(()), |budget| budget.claim(CHECK_STEPS).map_err(Error::from));
        with_index(&self.database, &index, &check, |_| Ok(()))?;
        self.status(index)
    }

    fn status(&self, index: TextIndex) -> Result<TextIndexStatus> {
        let head = EventPosition::new(StoreMarks::of(&self.database, &index.store)?.head);
        let mut status = TextIndexStatus { index, covered: EventPosition::ZERO, head, documents: 0, bytes: 0 };
        if !index_file::files_of(&self.database.index_directory(), &status.index)?.is_empty() {
            let file = TextIndexFile::open(&self.database, &status.index)?;
            let stamp = IndexStamp::read(&file.connection).map_err(IndexError::from)?;
            status.covered = EventPosition::new(stamp.covered);
            (status.documents, status.bytes) = (stamp.documents, file.bytes());
        }
        Ok(status)
    }
}

/// Makes deletions of this process erase events from text indexes, from the first call on.
pub(crate) fn attach(database: &Database) {
    let is_first = database.attach(Arc::new(ErasedIndexes));
    if is_first && database.guard().is_none() && !database.is_read_only() {
        // A file that can't be changed now is changed or removed by its next use.
        let _ = erase(database, |_| true);
    }
}

/// Returns the index of this name, or else the only one over the store of this name.
///
/// # Errors
/// [`ErrorKind::NotFound`] for none, also when the client may not read the store.
/// [`ErrorKind::Invalid`] for several.
pub(crate) fn find(database: &Database, name: &str) -> Result<TextIndex> {
    let mut indexes = database.text_indexes()?;
    if let Some(at) = indexes.iter().position(|index| index.name == name) {
        return Ok(indexes.swap_remove(at));
    }
    indexes.retain(|index| index.store == name);
    match &indexes[..] {
        [_] => Ok(indexes.remove(0)),
        [] => Err(unknown(name)),
        several => {
            let names: Vec<&str> = several.iter().map(|index| &*index.name).collect();
            Err(invalid(format!("store {name} has several text indexes: name one of {}", names.join(", "))))
        }
    }
}

/// An event that a search found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FoundEvent {
    pub(crate) position: u64,
    /// Smaller for a better match.
    pub(crate) rank: f64,
}

/// Searches an index that covers its store, best matches first. Some of the events may have been
/// deleted since.
pub(crate) fn search(context: &Arc<StatementContext>, index: &TextIndex, words: &str) -> Result<Vec<FoundEvent>> {
    expression::check(words)?;
    let check = || context.check(0);
    with_index(&context.database, index, &check, |connection| found(context, connection, words))
}

/// Returns those of the found events that the client can read as of the position of the statement.
pub(crate) fn readable(
    context: &StatementContext,
    index: &TextIndex,
    found: impl IntoIterator<Item = u64>,
) -> Result<Vec<u64>> {
    let mut positions = Vec::new();
    store::look_up(&context.database, &index.store, found, |event| {
        if event.place.position <= context.at {
            positions.push(event.position.get());
        }
    })?;
    Ok(positions)
}

/// Passes an index that covers its store to `use_index`. Builds it again when it is damaged.
fn with_index<T>(
    database: &Database,
    index: &TextIndex,
    check: &dyn Fn() -> Result<()>,
    use_index: impl Fn(&mut Connection) -> IndexResult<T>,
) -> Result<T> {
    let mut is_repeated = false;
    loop {
        let mut file = TextIndexFile::open(database, index)?;
        let refreshed = indexing::refresh(&mut file, database, index, BatchSize::USUAL, &mut |_| check());
        let done = match refreshed {
            Ok(()) => use_index(&mut file.connection),
            Err(IndexError::Failed(error)) if error.kind() == ErrorKind::TooCostly => {
                Err(IndexError::Failed(unfinished(&file, index, &error)))
            }
            Err(error) => Err(error),
        };
        match done {
            Err(IndexError::Damaged(_)) if !is_repeated => file.remove()?,
            done => return Ok(done?),
        }
        is_repeated = true;
    }
}

/// Returns the error about an index that was not built in time.
fn unfinished(file: &TextIndexFile, index: &TextIndex, error: &Error) -> Error {
    let covered = IndexStamp::read(&file.connection).map_or(0, |stamp| stamp.covered);
    let name = &index.name;
    let message = format!(
        "{error}; text index {name} covers events up to position {covered}, and the next search continues there"
    );
    Error::new(ErrorKind::TooCostly, message)
}

/// Runs an expression.
fn found(context: &Arc<StatementContext>, connection: &mut Connection, words: &str) -> IndexResult<Vec<FoundEvent>> {
    let failure: Arc<Mutex<Option<Error>>> = Arc::default();
    let (kept, checked) = (Arc::clone(&failure), Arc::clone(context));
    let keep = move || {
        let failed = checked.check(CHECK_STEPS).err();
        let is_ended = failed.is_some();
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = failed;
        is_ended
    };
    connection.progress_handler(CHECK_INSTRUCTIONS, Some(keep))?;
    let text = "SELECT rowid, rank FROM docs WHERE docs MATCH ?1 ORDER BY rank LIMIT ?2";
    let mut prepared = connection.prepare(text)?;
    let rows = prepared.query_map((words, FOUND_MAX as i64 + 1), |row| {
        Ok(FoundEvent { position: row.get::<_, i64>(0)?.cast_unsigned(), rank: row.get(1)? })
    });
    let rows: rusqlite::Result<Vec<FoundEvent>> = rows.and_then(Iterator::collect);
    if let Some(error) = failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error.into());
    }
    let rows = rows.map_err(|error| match &error {
        rusqlite::Error::SqliteFailure(code, Some(message)) if code.extended_code == ffi::SQLITE_ERROR => {
            IndexError::Failed(invalid(format!("invalid search expression {words:?}: {message}")))
        }
        _ => IndexError::from(error),
    })?;
    if rows.len() > FOUND_MAX {
        let message = format!("the search finds more than {FOUND_MAX} events: add words");
        return Err(Error::new(ErrorKind::TooCostly, message).into());
    }
    Ok(rows)
}

/// Checks a JSON path.
fn check_path(path: &str) -> Result<()> {
    let connection = Connection::open_in_memory().map_err(IndexError::from)?;
    let checked = connection.query_row("SELECT json_extract('{}', ?1)", [path], |_| Ok(()));
    checked.map_err(|_| invalid(format!("invalid JSON path {path:?}: write a path like $.note")))
}

/// Returns the error about an index that does not exist, or that the client may not search.
fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("unknown text index {name:?}: `quire index create` makes one"))
}

/// Erases deleted events from the files of text indexes.
#[derive(Debug)]
struct ErasedIndexes;

impl DerivedState for ErasedIndexes {
    fn erase(&self, owner: &Database, stores: &[&str]) -> Result<()> {
        erase(owner, |store| stores.contains(&store))
    }
}

/// Erases deleted events from the indexes over some stores. Removes a file that can't be changed.
fn erase(database: &Database, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
    let directory = database.index_directory();
    if !directory.is_dir() {
        return Ok(());
    }
    // Listed before the definitions: a file that is made later is of a newer definition.
    let present = index_file::all_files(&directory)?;
    let indexes = database.text_indexes()?;
    for path in present.iter().filter(|path| !index_file::is_of_any(path, &indexes)) {
        index_file::remove(path)?;
    }
    for index in indexes.iter().filter(|index| is_wanted(&index.store)) {
        // Without the log, nothing is known of the file.
        StoreMarks::of(database, &index.store)?;
        for path in index_file::files_of(&directory, index)? {
            let erased = match TextIndexFile::open_at(&path, database, index) {
                Ok(Some(mut file)) => indexing::erase(&mut file, database, index).is_ok(),
                Ok(None) | Err(_) => false,
            };
            if !erased {
                index_file::remove(&path)?;
            }
        }
    }
    Ok(())
}
