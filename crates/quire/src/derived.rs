//! State that a program derives from events, such as a text index: deleted events leave it in the
//! commit that deletes them.
//!
//! ```text
//! forget_tag, trim_events ─▶ published ─▶ DerivedState::erase ─▶ the commit is answered
//!                                         no such state in this process: the files are removed
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use quire_model::Position;
use quire_shard::Commands;

use crate::database::Database;
use crate::events::Command;
use crate::shards::DerivedState;
use crate::{Error, ErrorKind, Result};

/// The directory of the files of text indexes, in the directory of the database.
const INDEX_DIRECTORY: &str = "search";

impl Database {
    /// Makes each commit that deletes events erase them from `derived`, too. Returns false when
    /// this opening of the database already has such state.
    ///
    /// Without it, such a commit removes the files of the text indexes over the store. They are
    /// derived again from the events when they are next used.
    pub fn attach(&self, derived: Arc<dyn DerivedState>) -> bool {
        self.shards.derived().set(derived).is_ok()
    }

    /// Returns the directory of the files of text indexes. It exists once an index has a file.
    pub fn index_directory(&self) -> PathBuf {
        let shard = self.shards.only().log().directory();
        shard.parent().unwrap_or(shard).join(INDEX_DIRECTORY)
    }

    /// Returns the checksum of the record at a position, to which the next record chains. Derived
    /// state keeps it: with another checksum, the log is not the one that it was derived from.
    /// `None` when the log has no such record, or no longer has it.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`], [`ErrorKind::Io`], [`ErrorKind::Failed`].
    pub fn checksum_at(&self, position: Position) -> Result<Option<u32>> {
        Ok(self.shards.only().mark_at(position)?.map(|mark| mark.chain))
    }

    /// Returns the same database for work of the database itself, which no guard checks.
    pub(crate) fn unguarded(&self) -> Database {
        Database { guard: None, budget: None, ..self.clone() }
    }

    /// Returns whether a commit deletes events that text indexes may hold.
    pub(crate) fn is_derived_from(&self, commands: &Commands<'_, '_>) -> bool {
        deleting(commands).next().is_some() && self.index_directory().is_dir()
    }

    /// Erases the deleted events of a published commit from derived state.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when a file still holds deleted events. The commit is published.
    pub(crate) fn erase_derived(&self, commands: &Commands<'_, '_>) -> Result<()> {
        if !self.is_derived_from(commands) {
            return Ok(());
        }
        let (stores, owner): (Vec<&str>, _) = (deleting(commands).collect(), self.unguarded());
        match self.shards.derived().get() {
            Some(derived) => derived.erase(&owner, &stores),
            None => owner.remove_index_files(&stores),
        }
    }

    /// Removes the files of the text indexes over some stores.
    fn remove_index_files(&self, stores: &[&str]) -> Result<()> {
        let directory = self.index_directory();
        let failed = |error: std::io::Error| {
            let message = format!("can't remove the files of text indexes in {}: {error}", directory.display());
            Error::new(ErrorKind::Io, message)
        };
        // Listed before the definitions: a file that is made later is of a newer definition.
        let entries: Vec<_> = std::fs::read_dir(&directory).and_then(Iterator::collect).map_err(failed)?;
        let indexes = self.text_indexes()?;
        let is_kept = |name: &str| {
            let mut of_others = indexes.iter().filter(|index| !stores.contains(&&*index.store));
            of_others.any(|index| index.has_file(name))
        };
        for entry in entries.iter().filter(|entry| !is_kept(&entry.file_name().to_string_lossy())) {
            match std::fs::remove_file(entry.path()) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The stores whose events a commit deletes.
fn deleting<'a>(commands: &'a Commands<'_, '_>) -> impl Iterator<Item = &'a str> {
    commands.events.iter().filter_map(|command| match command {
        Command::Forget { store, .. } | Command::Trim { store, .. } => Some(*store),
        _ => None,
    })
}
