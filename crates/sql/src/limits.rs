//! The limits of a statement.

use std::time::Duration;

/// The limits of one statement. A statement that exceeds one fails with
/// [`ErrorKind::TooCostly`](quire::ErrorKind::TooCostly), and its error names the limit.
///
/// Reads also claim steps from the budget of the database: see
/// [`Database::within`](quire::Database::within).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqlLimits {
    /// The longest duration.
    pub time: Duration,
    /// The most instructions of SQLite's virtual machine. A row of a scan takes about 10.
    pub instructions: u64,
    /// The most rows of the result.
    pub rows: u64,
    /// The most bytes of the values in the result.
    pub bytes: u64,
    /// The most bytes of one value. A longer one fails the statement that reads it.
    pub value_bytes: u32,
    /// The most bytes of memory that SQLite may use in this process, for all statements together.
    /// Sorting and grouping use memory only, and no files. `None` sets no bound.
    ///
    /// The bound holds for each use of the same SQLite in the process, and can only be lowered.
    pub memory_bytes: Option<u64>,
}

impl Default for SqlLimits {
    fn default() -> Self {
        SqlLimits {
            time: Duration::from_secs(60),
            instructions: 4_000_000_000,
            rows: 10_000_000,
            bytes: 1 << 30,
            value_bytes: 64 << 20,
            memory_bytes: Some(256 << 20),
        }
    }
}
