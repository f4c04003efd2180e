//! Indexing: adds the events of a store to its text index, and erases deleted ones.
//!
//! ```text
//! refresh:  BEGIN ─▶ erase deleted events ─▶ add events after the stamp ─▶ move the stamp ─▶ COMMIT
//!              ▲                                                                               │
//!              └────────────────────── until the store has no further event ◀──────────────────┘
//! ```
//!
//! A batch begins before it reads the store, and a commit that deletes events waits for it. So the
//! batch either sees the deletion, or ends before the deletion is erased.

use std::ops::ControlFlow;

use quire::events::{EventPosition, EventView, Query, ReadOptions};
use quire::{Database, Result, TextIndex};
use rusqlite::{Connection, Statement, TransactionBehavior};

use super::error::IndexResult;
use super::index_file::{IndexStamp, TextIndexFile};
use super::store::{self, StoreMarks};

/// A step of indexing, for tests that end a process after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub enum IndexingStep {
    /// A transaction has begun.
    Begun,
    /// Deleted events were erased, or events were added, in the transaction.
    Changed,
    /// The stamp was moved in the transaction.
    Stamped,
    /// The transaction was committed.
    Committed,
}

/// The size of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchSize {
    /// The most events.
    pub(super) events: u64,
    /// The bytes of data after which it ends.
    pub(super) bytes: usize,
}

impl BatchSize {
    pub(super) const USUAL: BatchSize = BatchSize { events: 4_096, bytes: 16 << 20 };
}

/// The most events that one transaction erases.
const ERASED_AT_ONCE: usize = 1_000;

/// Brings an index up to date with its store. `step` may end it: what was committed stays.
pub(super) fn refresh(
    file: &mut TextIndexFile,
    database: &Database,
    index: &TextIndex,
    batch: BatchSize,
    step: &mut dyn FnMut(IndexingStep) -> Result<()>,
) -> IndexResult<()> {
    if StoreMarks::of(database, &index.store)?.is_covered_by(&IndexStamp::read(&file.connection)?) {
        return Ok(());
    }
    loop {
        let transaction = file.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        step(IndexingStep::Begun)?;
        let mut stamp = IndexStamp::read(&transaction)?;
        let mut progress = erase_some(&transaction, database, index, &mut stamp)?;
        if progress.is_break() {
            progress = add_some(&transaction, database, index, batch, &mut stamp)?;
        }
        step(IndexingStep::Changed)?;
        write(&transaction, database, &mut stamp)?;
        step(IndexingStep::Stamped)?;
        transaction.commit()?;
        step(IndexingStep::Committed)?;
        if progress.is_break() {
            return Ok(());
        }
    }
}

/// Erases the deleted events of a store from its index.
pub(super) fn erase(file: &mut TextIndexFile, database: &Database, index: &TextIndex) -> IndexResult<()> {
    if StoreMarks::of(database, &index.store)?.are_erased_from(&IndexStamp::read(&file.connection)?) {
        return Ok(());
    }
    loop {
        let transaction = file.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut stamp = IndexStamp::read(&transaction)?;
        let progress = erase_some(&transaction, database, index, &mut stamp)?;
        write(&transaction, database, &mut stamp)?;
        transaction.commit()?;
        if progress.is_break() {
            return Ok(());
        }
    }
}

/// Writes the stamp, with the last published record. Every event that was read is in a record up to
/// it.
fn write(connection: &Connection, database: &Database, stamp: &mut IndexStamp) -> IndexResult<()> {
    let at = database.published();
    if let Some(checksum) = database.checksum_at(at)? {
        (stamp.log_position, stamp.checksum) = (at.get(), checksum);
    }
    stamp.write(connection)?;
    Ok(())
}

/// Adds events after the stamp. Breaks at the end of the store.
fn add_some(
    connection: &Connection,
    database: &Database,
    index: &TextIndex,
    batch: BatchSize,
    stamp: &mut IndexStamp,
) -> IndexResult<ControlFlow<()>> {
    let mut adding = EventAdding {
        document: connection.prepare(&insertion(&index.paths))?,
        tag: connection.prepare("INSERT OR IGNORE INTO tags VALUES (?1, ?2)")?,
        index,
    };
    let after = EventPosition::new(stamp.covered);
    let options = ReadOptions { after, limit: Some(batch.events), ..ReadOptions::default() };
    let (mut given, mut bytes, mut left_out, mut failure) = (0, 0, false, None);
    let head = database.events(&index.store).visit(&Query::all(), options, |event| {
        given += 1;
        left_out |= bytes >= batch.bytes || failure.is_some();
        if left_out {
            return;
        }
        match adding.add(&event) {
            Ok(is_added) => stamp.documents += u64::from(is_added),
            Err(error) => failure = Some(error),
        }
        stamp.covered = event.position.get();
        bytes += event.data.len();
    })?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    if given == batch.events || left_out {
        return Ok(ControlFlow::Continue(()));
    }
    stamp.covered = head.get();
    Ok(ControlFlow::Break(()))
}

/// The path of the whole data, which then need not be JSON.
pub(super) const WHOLE: &str = "$";

/// The statements that add an event.
struct EventAdding<'c> {
    document: Statement<'c>,
    tag: Statement<'c>,
    index: &'c TextIndex,
}

/// Returns the statement that adds the text of an event, unless the event has none.
fn insertion(paths: &[String]) -> String {
    let text = |(number, path): (usize, &String)| match &**path {
        WHOLE => "?2".to_owned(),
        _ => format!("iif(json_valid(?2), json_extract(?2, ?{}), NULL)", number + FIRST_PATH),
    };
    let texts: Vec<String> = paths.iter().enumerate().map(text).collect();
    format!(
        "INSERT INTO docs(rowid, text, tags) SELECT ?1, found, ?3 FROM (SELECT concat_ws(char(10), {}) AS found) \
        WHERE found <> ''",
        texts.join(", ")
    )
}

/// The parameter of the first path.
const FIRST_PATH: usize = 4;

impl EventAdding<'_> {
    /// Adds an event. Returns whether it has text.
    fn add(&mut self, event: &EventView<'_>) -> rusqlite::Result<bool> {
        let Ok(data) = str::from_utf8(event.data) else { return Ok(false) };
        let position = event.position.get().cast_signed();
        let hashes: Vec<i64> = event.tags().map(hash).collect();
        self.document.raw_bind_parameter(1, position)?;
        self.document.raw_bind_parameter(2, data)?;
        self.document.raw_bind_parameter(3, hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect::<Vec<u8>>())?;
        for (number, path) in self.index.paths.iter().enumerate().filter(|(_, path)| *path != WHOLE) {
            self.document.raw_bind_parameter(number + FIRST_PATH, path)?;
        }
        let is_added = self.document.raw_execute()? > 0;
        if is_added {
            hashes.iter().try_for_each(|hash| self.tag.execute((hash, position)).map(drop))?;
        }
        Ok(is_added)
    }
}

/// Returns the hash of a tag: 64-bit FNV-1a. The index has no tags, because they may name persons.
fn hash(tag: &[u8]) -> i64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    tag.iter().fold(0xcbf2_9ce4_8422_2325, step).cast_signed()
}

/// Erases some deleted events. Breaks when none is left.
fn erase_some(
    connection: &Connection,
    database: &Database,
    index: &TextIndex,
    stamp: &mut IndexStamp,
) -> IndexResult<ControlFlow<()>> {
    let marks = StoreMarks::of(database, &index.store)?;
    if marks.are_erased_from(stamp) {
        return Ok(ControlFlow::Break(()));
    }
    let mut erasing = EventErasing::new(connection)?;
    let mut deleted = erasing.trimmed(marks.trimmed)?;
    let tags = store::forgotten_from(database, &index.store, stamp.forgotten)?;
    // A new index has no event yet.
    for (tag, up_to) in tags.iter().filter(|_| stamp.covered > 0) {
        if deleted.len() >= ERASED_AT_ONCE {
            break;
        }
        deleted.extend(erasing.forgotten(database, index, tag, *up_to)?);
    }
    deleted.sort_unstable();
    deleted.dedup();
    deleted.iter().try_for_each(|position| erasing.erase(*position))?;
    stamp.documents = stamp.documents.saturating_sub(deleted.len() as u64);
    if !deleted.is_empty() {
        name_pages(connection)?;
    }
    if deleted.len() >= ERASED_AT_ONCE {
        return Ok(ControlFlow::Continue(()));
    }
    (stamp.trimmed, stamp.deleted_since) = (marks.trimmed, marks.deleted_since);
    stamp.forgotten = tags.iter().map(|(_, up_to)| *up_to).fold(stamp.forgotten, u64::max);
    Ok(ControlFlow::Break(()))
}

/// The statements that find and erase events.
struct EventErasing<'c> {
    trimmed: Statement<'c>,
    tagged: Statement<'c>,
    hashes: Statement<'c>,
    tag: Statement<'c>,
    document: Statement<'c>,
}

impl<'c> EventErasing<'c> {
    fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(EventErasing {
            trimmed: connection.prepare("SELECT rowid FROM docs WHERE rowid <= ?1 ORDER BY rowid LIMIT ?2")?,
            tagged: connection.prepare("SELECT position FROM tags WHERE hash = ?1 AND position <= ?2")?,
            hashes: connection.prepare("SELECT tags FROM docs WHERE rowid = ?1")?,
            tag: connection.prepare("DELETE FROM tags WHERE hash = ?1 AND position = ?2")?,
            document: connection.prepare("DELETE FROM docs WHERE rowid = ?1")?,
        })
    }

    /// Returns indexed events up to a position.
    fn trimmed(&mut self, up_to: u64) -> rusqlite::Result<Vec<i64>> {
        self.trimmed.query_map((up_to.cast_signed(), ERASED_AT_ONCE as i64), |row| row.get(0))?.collect()
    }

    /// Returns indexed events with a forgotten tag. Another tag may have the same hash: the events
    /// with it still exist.
    fn forgotten(&mut self, database: &Database, index: &TextIndex, tag: &[u8], up_to: u64) -> IndexResult<Vec<i64>> {
        let positions = self.tagged.query_map((hash(tag), up_to.cast_signed()), |row| row.get(0))?;
        let mut positions: Vec<i64> = positions.collect::<rusqlite::Result<_>>()?;
        let mut left = Vec::new();
        store::look_up(database, &index.store, positions.iter().map(|position| position.cast_unsigned()), |event| {
            left.push(event.position.get().cast_signed());
        })?;
        positions.retain(|position| !left.contains(position));
        Ok(positions)
    }

    fn erase(&mut self, position: i64) -> rusqlite::Result<()> {
        let hashes: Vec<u8> = self.hashes.query_row([position], |row| row.get(0))?;
        for hash in hashes.as_chunks().0 {
            self.tag.execute((i64::from_le_bytes(*hash), position))?;
        }
        self.document.execute([position]).map(drop)
    }
}

/// Replaces erased words in FTS5's list of pages. It names each page by the beginning of the page's
/// first word, also after that word was erased. The next word is on the page or before it, and
/// after all words of the page before: so it is right, too.
fn name_pages(connection: &Connection) -> rusqlite::Result<()> {
    // Reading the words makes FTS5 write the deletions of this transaction first.
    connection.query_row("SELECT count(*) FROM (SELECT 1 FROM words LIMIT 1)", [], |_| Ok(()))?;
    let next = "SELECT term FROM words WHERE term >= CAST(substr(docs_idx.term, 2) AS TEXT) ORDER BY term LIMIT 1";
    let text = format!(
        "UPDATE docs_idx SET term = CAST('0' || ({next}) AS BLOB) WHERE length(term) > 1 AND NOT EXISTS (
            SELECT 1 FROM words WHERE words.term >= CAST(substr(docs_idx.term, 2) AS TEXT)
                AND words.term < CAST(substr(docs_idx.term, 2) || x'ff' AS TEXT))"
    );
    connection.execute(&text, []).map(drop)
}
