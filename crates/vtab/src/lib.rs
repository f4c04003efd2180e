//! Tables of SQLite whose rows are read on demand, behind a trait that is safe to implement.
//!
//! ```text
//! SQLite ─▶ module: best_index ─▶ VirtualTable::plan      which filters narrow the scan
//!              │    filter     ─▶ VirtualTable::scan      ScanRequest ─▶ RowSource
//!              └    next       ─▶ RowSource::read         one page of rows at a time
//! ```
//!
//! # Invariants
//! * A filter narrows a scan and decides nothing: SQLite checks each row again. Only `MATCH` has
//!   no second check, because SQLite has no function for it.
//! * A panic of a table becomes an error of the statement. It does not cross the C code of SQLite.
//!
//! The two `unsafe impl` that `rusqlite` asks for are in `module.rs`. Nothing here knows a
//! database.
//!
//! ```
//! use quire_vtab::*;
//!
//! /// The numbers from 1 to 1,000.
//! struct Numbers;
//!
//! impl VirtualTable for Numbers {
//!     fn columns(&self) -> &'static [TableColumn] {
//!         const COLUMNS: &[TableColumn] =
//!             &[TableColumn::new("number", ColumnKind::Integer, "The number.").filtered(RANGE, 1_000)];
//!         COLUMNS
//!     }
//!
//!     fn scan(&self, request: &ScanRequest) -> Result<Box<dyn RowSource>, String> {
//!         let Some(bounds) = request.integers(0) else { return Ok(Box::new(NoRows)) };
//!         let (mut next, last) = (bounds.min.max(1), bounds.max.min(1_000));
//!         Ok(Box::new(move |page: &mut RowPage, count: usize| {
//!             let end = last.min(next + count as i64 - 1);
//!             for number in next..=end {
//!                 page.push([number as u64, 0], [SqlValue::Integer(number)]);
//!             }
//!             next = end.max(next - 1) + 1;
//!             Ok(())
//!         }))
//!     }
//! }
//!
//! let connection = rusqlite::Connection::open_in_memory()?;
//! register(&connection, "numbers", std::sync::Arc::new(Numbers))?;
//! let sum: i64 = connection.query_row("SELECT sum(number) FROM numbers WHERE number > 990", [], |row| row.get(0))?;
//! assert_eq!(sum, (991..=1_000).sum());
//! # Ok::<(), rusqlite::Error>(())
//! ```

mod request;
mod rows;
mod table;
mod value;

mod module;

pub use module::register;
pub use request::{ColumnSet, IntegerBounds, ScanFilter, ScanRequest};
pub use rows::{NoRows, RowPage, RowSource};
pub use table::{ColumnKind, EQUAL, FilterOp, MATCH, PlannedFilter, RANGE, TableColumn, VirtualTable};
pub use value::SqlValue;
