//! A log in redb: a table, with one transaction an operation. A transaction is synced, or lost with
//! the process: there is nothing between.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use crate::log::Log;
use crate::{Kept, Result};

const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");

/// The log; see the module.
pub(crate) struct RedbLog {
    database: Database,
    durability: Durability,
}

impl RedbLog {
    /// `os` is for reads only: its appends have no guarantee.
    pub(crate) fn create(folder: &Path, kept: Kept) -> Result<Self> {
        let durability = if kept == Kept::Sync { Durability::Immediate } else { Durability::None };
        Ok(RedbLog { database: Database::create(folder.join("log.redb"))?, durability })
    }
}

impl Log for RedbLog {
    fn append(&mut self, first: u64, count: usize, payload: &[u8]) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        let mut entries = transaction.open_table(ENTRIES)?;
        for number in first..first + count as u64 {
            entries.insert(number, payload)?;
        }
        drop(entries);
        Ok(transaction.commit()?)
    }

    fn read(&self, number: u64, seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        if let Some(payload) = self.database.begin_read()?.open_table(ENTRIES)?.get(number)? {
            seen(payload.value());
        }
        Ok(())
    }

    fn read_on(&self, first: u64, count: usize, seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        for entry in self.database.begin_read()?.open_table(ENTRIES)?.range(first..)?.take(count) {
            seen(entry?.1.value());
        }
        Ok(())
    }
}
