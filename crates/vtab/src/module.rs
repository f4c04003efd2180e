//! The module that SQLite calls: it plans a scan, begins it and returns its rows.
//!
//! A plan is a line of text, so that `EXPLAIN QUERY PLAN` shows which filters narrow the scan. For
//! example, `store= type IN position> ORDER BY position DESC [1f]` ends with the columns that the
//! statement reads. `SEGMENTS IN ORDER` before them says that the scan reads the log from front to
//! back.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::types::ValueRef;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection, VTabCursor, sqlite3_vtab,
    sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result};

use crate::request::{ColumnSet, ScanFilter, ScanRequest};
use crate::rows::{RowPage, RowSource};
use crate::table::{FilterOp, PlannedFilter, TableColumn, VirtualTable, rows_left};
use crate::value::SqlValue;

/// The rows of the first page. Later pages have more, so that a short answer reads little.
const FIRST_ROWS: usize = 16;
const ROWS_MAX: usize = 1_024;

/// The most rows that one statement numbers.
const NUMBERED_MAX: usize = 1 << 20;

/// How a plan says that a scan reads the log from front to back.
const IN_ORDER: &str = "SEGMENTS IN ORDER ";

/// What the module knows of a table.
struct RegisteredTable {
    table: Arc<dyn VirtualTable>,
    /// The numbers of rows by their keys. SQLite asks for them to return a row once that several
    /// alternatives of an OR find.
    numbers: Mutex<HashMap<[u64; 2], i64>>,
}

/// Makes a table available to the statements of a connection.
///
/// # Errors
/// Those of SQLite for an invalid name.
///
/// # Panics
/// When the table has more than 63 columns.
pub fn register(connection: &Connection, name: &str, table: Arc<dyn VirtualTable>) -> Result<()> {
    const MODULE: &Module<'static, ConnectedTable> = &Module::eponymous_only_module();
    assert!(table.columns().len() < 64, "table {name} has at most 63 columns");
    let registered = RegisteredTable { table, numbers: Mutex::default() };
    connection.create_module(name, MODULE, Some(Arc::new(registered)))
}

/// A table as SQLite holds it.
#[repr(C)]
struct ConnectedTable {
    /// What SQLite knows of the table: the first field.
    base: sqlite3_vtab,
    registered: Arc<RegisteredTable>,
}

/// A scan as SQLite holds it.
#[repr(C)]
struct ScanCursor {
    /// What SQLite knows of the scan: the first field.
    base: sqlite3_vtab_cursor,
    registered: Arc<RegisteredTable>,
    source: Option<Box<dyn RowSource>>,
    page: RowPage,
    row: usize,
    rows_next: usize,
}

// SAFETY: the struct is `repr(C)` and begins with `sqlite3_vtab`, so SQLite's pointer to that field
// is a pointer to the struct.
unsafe impl VTab<'_> for ConnectedTable {
    type Aux = Arc<RegisteredTable>;
    type Cursor = ScanCursor;

    fn connect(
        _: &mut VTabConnection,
        aux: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let registered = Arc::clone(aux.ok_or_else(|| failed("the module has no table"))?);
        let columns = registered.table.columns().iter();
        let declare = |column: &TableColumn| {
            let hidden = if column.is_argument { " HIDDEN" } else { "" };
            format!("\"{}\" {}{hidden}", column.name, column.kind.declaration())
        };
        let columns: Vec<String> = columns.map(declare).collect();
        let declared = CString::new(format!("CREATE TABLE x({})", columns.join(", ")));
        let declared = declared.map_err(|error| failed(error.to_string()))?;
        Ok((Cow::Owned(declared), ConnectedTable { base: sqlite3_vtab::default(), registered }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        caught(|| plan(&*self.registered.table, info))
    }

    fn open(&mut self) -> Result<ScanCursor> {
        let registered = Arc::clone(&self.registered);
        let page = RowPage::new(registered.table.columns().len());
        let base = sqlite3_vtab_cursor::default();
        Ok(ScanCursor { base, registered, source: None, page, row: 0, rows_next: FIRST_ROWS })
    }
}

// SAFETY: the struct is `repr(C)` and begins with `sqlite3_vtab_cursor`, so SQLite's pointer to
// that field is a pointer to the struct.
unsafe impl VTabCursor for ScanCursor {
    fn filter(&mut self, _: c_int, plan: Option<&str>, values: &Filters<'_>) -> Result<()> {
        caught(|| {
            let table = &*self.registered.table;
            let request = scan_request(table, plan.unwrap_or_default(), values)?;
            self.source = Some(table.scan(&request).map_err(failed)?);
            self.rows_next = FIRST_ROWS;
            self.read()
        })
    }

    fn next(&mut self) -> Result<()> {
        self.row += 1;
        if self.row < self.page.len() { Ok(()) } else { caught(|| self.read()) }
    }

    fn eof(&self) -> bool {
        self.row >= self.page.len()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let column = usize::try_from(column).ok();
        match column.and_then(|column| self.page.value(self.row, column)) {
            Some(value) => context.set_result(value),
            None => context.set_result(rusqlite::types::Null),
        }
    }

    fn rowid(&self) -> Result<i64> {
        let mut numbers = self.registered.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, next) = (self.page.key(self.row), numbers.len());
        match numbers.get(&key) {
            Some(number) => Ok(*number),
            None if next == NUMBERED_MAX => Err(failed(format!(
                "the statement needs numbers for more than {NUMBERED_MAX} rows: replace an OR by IN or UNION"
            ))),
            None => {
                numbers.insert(key, next as i64);
                Ok(next as i64)
            }
        }
    }
}

impl ScanCursor {
    /// Reads the next page; an empty one at the end.
    fn read(&mut self) -> Result<()> {
        self.row = 0;
        self.page.clear();
        let Some(source) = &mut self.source else { return Ok(()) };
        source.read(&mut self.page, self.rows_next).map_err(failed)?;
        self.rows_next = (self.rows_next * 4).min(ROWS_MAX);
        Ok(())
    }
}

fn failed(message: impl Into<String>) -> Error {
    Error::ModuleError(message.into())
}

/// Returns a panic as an error: it must not cross the C code.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(failed(format!("a table panicked: {}", message.unwrap_or("without a message"))))
    })
}

/// Returns the comparison of a constraint that may narrow a scan.
fn op_of(op: &IndexConstraintOp) -> Option<FilterOp> {
    Some(match op {
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ => FilterOp::Equal,
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LT => FilterOp::Less,
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_LE => FilterOp::LessOrEqual,
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GT => FilterOp::Greater,
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_GE => FilterOp::GreaterOrEqual,
        IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_MATCH => FilterOp::Match,
        _ => return None,
    })
}

/// Chooses the filters of a scan. Returns false when the scan is impossible in this order of a
/// join.
fn plan(table: &dyn VirtualTable, info: &mut IndexInfo) -> Result<bool> {
    let columns = table.columns();
    let offered: Vec<(usize, usize, FilterOp, bool)> = info
        .constraints()
        .enumerate()
        .filter_map(|(index, constraint)| {
            let column = usize::try_from(constraint.column()).ok()?;
            let op = op_of(&constraint.operator())?;
            columns.get(column)?.filters.contains(&op).then_some((index, column, op, constraint.is_usable()))
        })
        .collect();
    let (mut filters, mut text) = (Vec::new(), String::new());
    for (index, column, op, is_usable) in offered {
        if !is_usable {
            if op == FilterOp::Match || columns[column].is_argument {
                return Ok(false);
            }
            continue;
        }
        // Another collation equates more texts than a scan finds.
        if op == FilterOp::Equal && info.collation(index)? != "BINARY" {
            continue;
        }
        let is_list = op == FilterOp::Equal && columns[column].takes_list && info.set_in_constraint(index, true)?;
        filters.push(PlannedFilter { column, op, is_list });
        let mut usage = info.constraint_usage(index);
        usage.set_argv_index(filters.len() as c_int);
        usage.set_omit(op == FilterOp::Match);
        text += &match (op, is_list) {
            (_, true) => format!("{} IN ", columns[column].name),
            (FilterOp::Match, _) => format!("{} MATCH ", columns[column].name),
            _ => format!("{}{} ", columns[column].name, op.symbol()),
        };
    }
    let mut is_backwards = false;
    let order = info.order_bys().next().map(|order| (order.column(), order.is_order_by_desc()));
    if let Some((column, is_descending)) = order.filter(|_| info.num_of_order_by() == 1)
        && let Ok(column) = usize::try_from(column)
        && table.is_ordered_by(column, &filters)
    {
        info.set_order_by_consumed(true);
        is_backwards = is_descending;
        text += &format!("ORDER BY {} {}", columns[column].name, if is_descending { "DESC " } else { "" });
    }
    if !is_backwards && table.reads_segments_in_order(&filters) {
        text += IN_ORDER;
    }
    text += &format!("[{:x}]", info.col_used());
    info.set_idx_str(&text);
    let rows = rows_left(table, &filters);
    info.set_estimated_rows(i64::try_from(rows).unwrap_or(i64::MAX));
    info.set_estimated_cost(20.0 + rows as f64);
    Ok(true)
}

/// Returns the request of a plan and its values.
fn scan_request(table: &dyn VirtualTable, plan: &str, values: &Filters<'_>) -> Result<ScanRequest> {
    let odd = || failed(format!("an odd plan: {plan}"));
    let (text, columns_read) = plan.rsplit_once('[').ok_or_else(odd)?;
    let columns_read = u64::from_str_radix(columns_read.trim_end_matches(']'), 16).map_err(|_| odd())?;
    let text = text.strip_suffix(IN_ORDER).unwrap_or(text);
    let (text, order) = text.split_once("ORDER BY ").unwrap_or((text, ""));
    let column_named = |name: &str| table.columns().iter().position(|column| column.name == name).ok_or_else(odd);
    let mut words = text.split_ascii_whitespace().peekable();
    let mut filters = Vec::new();
    while let Some(word) = words.next() {
        let index = filters.len();
        let (name, op, is_list) = match words.peek() {
            Some(&"IN") => (word, FilterOp::Equal, true),
            Some(&"MATCH") => (word, FilterOp::Match, false),
            _ => {
                let name = word.trim_end_matches(['<', '>', '=']);
                let symbol = &word[name.len()..];
                let op = FilterOp::ALL.into_iter().find(|op| op.symbol() == symbol).ok_or_else(odd)?;
                (name, op, false)
            }
        };
        if is_list || op == FilterOp::Match {
            words.next();
        }
        let values = if is_list { listed(values, index)? } else { vec![SqlValue::from(values[index].get_raw())] };
        filters.push(ScanFilter { column: column_named(name)?, op, values });
    }
    Ok(ScanRequest { filters, columns: ColumnSet(columns_read), is_descending: order.contains("DESC") })
}

/// Returns the values of an `IN`.
fn listed(values: &Filters<'_>, index: usize) -> Result<Vec<SqlValue>> {
    let (mut found, mut list) = (Vec::new(), values.in_values(index)?);
    while let Some(value) = list.next()? {
        found.push(SqlValue::from(ValueRef::from(value)));
    }
    Ok(found)
}
