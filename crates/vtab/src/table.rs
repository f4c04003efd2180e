//! A table: its columns, the filters that narrow its scans, and what a scan costs.

use crate::request::ScanRequest;
use crate::rows::RowSource;

/// The type of a column, which decides how SQLite compares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Integers or `NULL`.
    Integer,
    /// Floating-point numbers or `NULL`.
    Real,
    /// Text or `NULL`.
    Text,
    /// Text when the bytes are UTF-8, and a blob otherwise.
    Bytes,
}

impl ColumnKind {
    /// Returns the type in a `CREATE TABLE`.
    pub const fn declaration(self) -> &'static str {
        match self {
            ColumnKind::Integer => "INTEGER",
            ColumnKind::Real => "REAL",
            ColumnKind::Text => "TEXT",
            ColumnKind::Bytes => "",
        }
    }
}

/// A comparison that narrows a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterOp {
    /// `=`, and `IN` with a list of values.
    Equal,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
    /// `MATCH`.
    Match,
}

impl FilterOp {
    pub(crate) const ALL: [FilterOp; 6] = [
        FilterOp::Equal,
        FilterOp::Less,
        FilterOp::LessOrEqual,
        FilterOp::Greater,
        FilterOp::GreaterOrEqual,
        FilterOp::Match,
    ];

    /// Returns the comparison in SQL.
    pub const fn symbol(self) -> &'static str {
        match self {
            FilterOp::Equal => "=",
            FilterOp::Less => "<",
            FilterOp::LessOrEqual => "<=",
            FilterOp::Greater => ">",
            FilterOp::GreaterOrEqual => ">=",
            FilterOp::Match => "MATCH",
        }
    }
}

/// Only `=` narrows.
pub const EQUAL: &[FilterOp] = &[FilterOp::Equal];

/// `=` and each order narrow.
pub const RANGE: &[FilterOp] =
    &[FilterOp::Equal, FilterOp::Less, FilterOp::LessOrEqual, FilterOp::Greater, FilterOp::GreaterOrEqual];

/// Only `MATCH` narrows.
pub const MATCH: &[FilterOp] = &[FilterOp::Match];

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct TableColumn {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: ColumnKind,
    /// What the column holds, in one sentence.
    pub about: &'static str,
    /// The comparisons that narrow a scan.
    pub filters: &'static [FilterOp],
    /// A comparison with `=` or `MATCH` leaves about one of this number of rows.
    pub one_of: u64,
    /// Whether a scan takes all values of an `IN` at once. Otherwise, SQLite scans once for each.
    pub takes_list: bool,
    /// Whether the column is an argument of a table-valued function: `name(value, …)` in a `FROM`
    /// compares it by `=`, and `*` leaves it out.
    pub is_argument: bool,
}

impl TableColumn {
    /// Returns a column that narrows no scan.
    pub const fn new(name: &'static str, kind: ColumnKind, about: &'static str) -> Self {
        TableColumn { name, kind, about, filters: &[], one_of: 1, takes_list: false, is_argument: false }
    }

    /// Makes `filters` narrow scans.
    #[must_use]
    pub const fn filtered(self, filters: &'static [FilterOp], one_of: u64) -> Self {
        TableColumn { filters, one_of, ..self }
    }

    /// Makes the column an argument. A scan begins after all tables on which its arguments depend.
    #[must_use]
    pub const fn argument(self) -> Self {
        TableColumn { is_argument: true, ..self }
    }

    /// Makes a scan take all values of an `IN` at once.
    #[must_use]
    pub const fn listed(self) -> Self {
        TableColumn { takes_list: true, ..self }
    }
}

/// A filter of a statement, before its values are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedFilter {
    /// The column.
    pub column: usize,
    /// The comparison.
    pub op: FilterOp,
    /// Whether the scan takes the values of an `IN`.
    pub is_list: bool,
}

/// A table whose rows are read on demand.
pub trait VirtualTable: Send + Sync + 'static {
    /// Returns the columns, at most 63.
    fn columns(&self) -> &'static [TableColumn];

    /// Returns about how many rows a scan without a filter has.
    fn rows(&self) -> u64 {
        1_000
    }

    /// Returns whether a scan with these filters returns its rows in the order of a column,
    /// descending or ascending as the request says.
    fn is_ordered_by(&self, _column: usize, _filters: &[PlannedFilter]) -> bool {
        false
    }

    /// Returns whether a scan with these filters reads the segments of the log from front to back.
    /// The plan then says `SEGMENTS IN ORDER`.
    fn reads_segments_in_order(&self, _filters: &[PlannedFilter]) -> bool {
        false
    }

    /// Begins a scan.
    ///
    /// # Errors
    /// The message of the error that the statement gets.
    fn scan(&self, request: &ScanRequest) -> Result<Box<dyn RowSource>, String>;
}

/// Returns about how many rows a scan with these filters has.
pub(crate) fn rows_left(table: &dyn VirtualTable, filters: &[PlannedFilter]) -> u64 {
    let columns = table.columns();
    let left = filters.iter().fold(table.rows(), |rows, filter| match filter.op {
        FilterOp::Equal | FilterOp::Match if filter.is_list => rows / (columns[filter.column].one_of / 4).max(1),
        FilterOp::Equal | FilterOp::Match => rows / columns[filter.column].one_of.max(1),
        _ => rows / 8,
    });
    left.max(1)
}
