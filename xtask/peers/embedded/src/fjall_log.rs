//! A log in fjall: a keyspace of its own, keys in big-endian. A write reaches the system before the
//! call returns; a sync is explicit.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::log::Log;
use crate::{Kept, Result};

/// The log; see the module.
pub(crate) struct FjallLog {
    database: Database,
    entries: Keyspace,
    kept: Kept,
}

impl FjallLog {
    pub(crate) fn create(folder: &Path, kept: Kept) -> Result<Self> {
        let database = Database::builder(folder.join("fjall")).open()?;
        let entries = database.keyspace("log", KeyspaceCreateOptions::default)?;
        Ok(FjallLog { database, entries, kept })
    }
}

impl Log for FjallLog {
    fn append(&mut self, first: u64, count: usize, payload: &[u8]) -> Result<()> {
        if count == 1 {
            self.entries.insert(first.to_be_bytes(), payload)?;
        } else {
            let mut batch = self.database.batch();
            (first..first + count as u64).for_each(|number| batch.insert(&self.entries, number.to_be_bytes(), payload));
            batch.commit()?;
        }
        if self.kept == Kept::Sync {
            self.database.persist(PersistMode::SyncData)?;
        }
        Ok(())
    }

    fn read(&self, number: u64, seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(payload) = self.entries.get(number.to_be_bytes())? {
            seen(&payload);
        }
        Ok(())
    }

    fn read_on(&self, first: u64, count: usize, seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        for entry in self.entries.range(first.to_be_bytes()..).take(count) {
            seen(&entry.value()?);
        }
        Ok(())
    }
}
