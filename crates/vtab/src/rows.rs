//! The rows of a scan, page by page.

use crate::value::SqlValue;

/// A page ends before its values exceed this number of bytes. A larger row is a page of its own.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Some rows of a scan.
#[derive(Debug)]
pub struct RowPage {
    values: Vec<SqlValue>,
    keys: Vec<[u64; 2]>,
    width: usize,
    bytes: usize,
}

impl RowPage {
    pub(crate) fn new(width: usize) -> Self {
        RowPage { values: Vec::new(), keys: Vec::new(), width, bytes: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.keys.clear();
        self.bytes = 0;
    }

    /// Adds a row. Its key differs from the keys of all other rows of the table, and is the same in
    /// each scan.
    ///
    /// # Panics
    /// When the row has another number of values than the table has columns.
    pub fn push<const N: usize>(&mut self, key: [u64; 2], row: [SqlValue; N]) {
        assert_eq!(N, self.width, "a row has a value for each column");
        self.bytes += row.iter().map(SqlValue::bytes).sum::<usize>();
        self.values.extend(row);
        self.keys.push(key);
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the page has no rows.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns whether the bytes of the values suffice for a page.
    pub fn is_full(&self) -> bool {
        self.bytes >= PAGE_BYTES
    }

    /// Returns the bytes of the values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn value(&self, row: usize, column: usize) -> Option<&SqlValue> {
        self.values.get(row * self.width + column)
    }

    pub(crate) fn key(&self, row: usize) -> [u64; 2] {
        self.keys[row]
    }
}

/// A scan. It has ended when it adds no row.
pub trait RowSource {
    /// Adds about `count` rows, and at least one unless the scan has ended. Ends earlier when the
    /// page is full.
    ///
    /// # Errors
    /// The message of the error that the statement gets.
    fn read(&mut self, page: &mut RowPage, count: usize) -> Result<(), String>;
}

impl<F: FnMut(&mut RowPage, usize) -> Result<(), String>> RowSource for F {
    fn read(&mut self, page: &mut RowPage, count: usize) -> Result<(), String> {
        self(page, count)
    }
}

/// A scan without rows.
#[derive(Debug, Clone, Copy)]
pub struct NoRows;

impl RowSource for NoRows {
    fn read(&mut self, _: &mut RowPage, _: usize) -> Result<(), String> {
        Ok(())
    }
}
