//! A log in SQLite: a table whose key is the row's number, and a transaction an operation.

use rusqlite::{Connection, params};

use crate::Result;
use crate::log::Log;

/// The log; see the module.
pub(crate) struct SqliteLog(Connection);

impl SqliteLog {
    pub(crate) fn create(connection: Connection) -> Result<Self> {
        connection.execute_batch("CREATE TABLE log (number INTEGER PRIMARY KEY, payload BLOB NOT NULL)")?;
        Ok(SqliteLog(connection))
    }
}

impl Log for SqliteLog {
    fn append(&mut self, first: u64, count: usize, payload: &[u8]) -> Result<()> {
        let transaction = self.0.transaction()?;
        let mut insert = transaction.prepare_cached("INSERT INTO log VALUES (?1, ?2)")?;
        for number in first..first + count as u64 {
            insert.execute(params![number.cast_signed(), payload])?;
        }
        drop(insert);
        Ok(transaction.commit()?)
    }

    fn read(&self, number: u64, seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut select = self.0.prepare_cached("SELECT payload FROM log WHERE number = ?1")?;
        let mut rows = select.query([number.cast_signed()])?;
        while let Some(row) = rows.next()? {
            seen(row.get_ref(0)?.as_blob()?);
        }
        Ok(())
    }

    fn read_on(&self, first: u64, count: usize, seen: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut select =
            self.0.prepare_cached("SELECT payload FROM log WHERE number >= ?1 ORDER BY number LIMIT ?2")?;
        let mut rows = select.query(params![first.cast_signed(), count.cast_signed()])?;
        while let Some(row) = rows.next()? {
            seen(row.get_ref(0)?.as_blob()?);
        }
        Ok(())
    }
}
