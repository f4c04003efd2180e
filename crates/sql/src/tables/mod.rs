//! The tables, by what they read.
//!
//! | tables | read | as of |
//! |---|---|---|
//! | `events`, `event_tags` | the log along tags | the position of the statement |
//! | `search` | the file of a text index, and the log at its positions | the position of the statement |
//! | `records` | the batches of partitions | the position of the statement |
//! | `blocks`, `edges`, `walk` | a snapshot of the graph | the position of the statement |
//! | `commits`, `entries` | the log by position | the position of the statement |
//! | `quire_tables`, `quire_columns` | this crate | - |
//! | all others | the state | now |

mod catalog;
mod commits;
mod edges;
mod event_tags;
mod events;
mod graphs;
mod groups;
mod job_steps;
mod jobs;
mod queues;
mod records;
mod search;
mod storage;
mod stores;
mod topics;
mod walk;

use std::sync::Arc;

use quire::{Operation, ResourceKind};
use quire_vtab::{ColumnKind, FilterOp, PlannedFilter, RowSource, ScanRequest, TableColumn, VirtualTable};

use crate::SqlValue;
use crate::context::StatementContext;
use crate::functions::FUNCTIONS;

/// A table of one statement.
pub(crate) struct NamedTable {
    pub(crate) name: &'static str,
    pub(crate) table: Arc<dyn VirtualTable>,
}

/// Begins a scan of a table.
type BeginScan = fn(&Arc<StatementContext>, &ScanRequest) -> quire::Result<Box<dyn RowSource>>;

/// A table: its name, its columns and its scan.
struct TableKind {
    name: &'static str,
    about: &'static str,
    columns: &'static [TableColumn],
    /// About how many rows a scan without a filter has.
    rows: u64,
    /// The column by which scans can be ordered, if these other columns have an `=` each.
    order: Option<(usize, &'static [usize])>,
    /// Whether a scan with these filters reads the segments of the log from front to back.
    in_order: fn(&[PlannedFilter]) -> bool,
    scan: BeginScan,
}

/// The scans of a table that reads no segments.
fn never(_: &[PlannedFilter]) -> bool {
    false
}

/// The scans of a table that reads segments only.
fn always(_: &[PlannedFilter]) -> bool {
    true
}

/// Every table, in the order of the reference.
const KINDS: &[&TableKind] = &[
    &events::EVENTS,
    &event_tags::EVENT_TAGS,
    &search::SEARCH,
    &stores::STORES,
    &records::RECORDS,
    &topics::TOPICS,
    &topics::PARTITIONS,
    &groups::GROUPS,
    &groups::LAG,
    &jobs::JOBS,
    &job_steps::JOB_STEPS,
    &queues::QUEUES,
    &graphs::GRAPHS,
    &graphs::BLOCKS,
    &edges::EDGES,
    &walk::WALK,
    &commits::COMMITS,
    &commits::ENTRIES,
    &storage::SEGMENTS,
    &storage::STATISTICS,
    &storage::DAMAGE,
    &catalog::TABLES,
    &catalog::COLUMNS,
];

/// A table with the context of its statement.
struct StatementTable {
    kind: &'static TableKind,
    context: Arc<StatementContext>,
}

impl VirtualTable for StatementTable {
    fn columns(&self) -> &'static [TableColumn] {
        self.kind.columns
    }

    fn rows(&self) -> u64 {
        self.kind.rows
    }

    fn is_ordered_by(&self, column: usize, filters: &[PlannedFilter]) -> bool {
        let Some((ordered, pinned)) = self.kind.order else { return false };
        let is_pinned = |pinned: &usize| {
            let mut own = filters.iter().filter(|filter| filter.column == *pinned);
            own.any(|filter| filter.op == FilterOp::Equal && !filter.is_list)
        };
        ordered == column && pinned.iter().all(is_pinned)
    }

    fn reads_segments_in_order(&self, filters: &[PlannedFilter]) -> bool {
        (self.kind.in_order)(filters)
    }

    fn scan(&self, request: &ScanRequest) -> Result<Box<dyn RowSource>, String> {
        (self.kind.scan)(&self.context, request).map_err(|error| self.context.note(error))
    }
}

/// Returns the tables of a statement.
pub(crate) fn all(context: &Arc<StatementContext>) -> impl Iterator<Item = NamedTable> {
    KINDS.iter().map(|kind| NamedTable {
        name: kind.name,
        table: Arc::new(StatementTable { kind, context: Arc::clone(context) }),
    })
}

/// A table, its columns and what narrows its scans: for help and completion.
#[derive(Debug, Clone, Copy)]
pub struct TableDescription {
    /// The name.
    pub name: &'static str,
    /// The meaning of a row, in one sentence.
    pub about: &'static str,
    /// The columns.
    pub columns: &'static [TableColumn],
}

impl TableDescription {
    /// Returns the tables and functions as a page in Markdown.
    pub fn reference() -> String {
        let mut page = String::new();
        for table in tables() {
            page += &format!(
                "### `{}`\n\n{}\n\n| column | type | narrows | |\n|---|---|---|---|\n",
                table.name, table.about
            );
            for column in table.columns {
                let kind = type_name(column.kind);
                let narrows: Vec<String> = narrows(column).iter().map(|narrows| format!("`{narrows}`")).collect();
                page += &format!("| `{}` | {kind} | {} | {} |\n", column.name, narrows.join(" "), column.about);
            }
            page += "\n";
        }
        page += "### Functions\n\nAll functions of SQLite, except those that load code, `json_patch`, `jsonb_patch` and `unhex` with two arguments, and:\n\n| function | |\n|---|---|\n";
        for function in FUNCTIONS {
            page += &format!("| `{}` | {} |\n", function.call, function.about);
        }
        page
    }
}

/// Returns the name of a type.
fn type_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Integer => "integer",
        ColumnKind::Real => "real",
        ColumnKind::Text => "text",
        ColumnKind::Bytes => "text or blob",
    }
}

/// Returns the comparisons that narrow a scan.
fn narrows(column: &TableColumn) -> Vec<&'static str> {
    let mut narrows: Vec<&str> = column.filters.iter().map(|filter| filter.symbol()).collect();
    if column.filters.contains(&FilterOp::Equal) {
        narrows.push("IN");
    }
    narrows
}

/// Returns a description of each table.
pub fn tables() -> impl Iterator<Item = TableDescription> {
    KINDS.iter().map(|kind| TableDescription { name: kind.name, about: kind.about, columns: kind.columns })
}

/// Returns whether the client may perform the operation on an object.
///
/// # Errors
/// When the rules can't be read: its rows are not omitted then.
fn permits(context: &StatementContext, kind: ResourceKind, name: &str, operation: Operation) -> quire::Result<bool> {
    context.database.read_published_permitted(|view| view.permits(kind, name, operation))
}

/// Returns the objects that a scan visits: those that its filter names, or those that `list` finds.
fn named(
    request: &ScanRequest,
    column: usize,
    list: impl FnOnce() -> quire::Result<Vec<String>>,
) -> quire::Result<Vec<String>> {
    request.texts(column).map_or_else(list, Ok)
}

/// Returns texts as a JSON array. A text that is not UTF-8 becomes `{"hex": "…"}`.
fn json_array<'t>(texts: impl Iterator<Item = &'t [u8]>) -> SqlValue {
    let mut json = String::from("[");
    for text in texts {
        if json.len() > 1 {
            json.push(',');
        }
        push_json(&mut json, text);
    }
    json.push(']');
    SqlValue::Text(json)
}

/// Adds bytes as a JSON string. Bytes that are not UTF-8 become `{"hex": "…"}`.
fn push_json(json: &mut String, bytes: &[u8]) {
    use std::fmt::Write as _;
    let Ok(text) = std::str::from_utf8(bytes) else {
        json.push_str("{\"hex\":\"");
        for byte in bytes {
            write!(json, "{byte:02x}").expect("a string takes everything");
        }
        json.push_str("\"}");
        return;
    };
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            letter if letter < ' ' => write!(json, "\\u{:04x}", letter as u32).expect("a string takes everything"),
            letter => json.push(letter),
        }
    }
    json.push('"');
}

/// Returns the key of a row that is known by names.
fn key(names: &[&str]) -> [u64; 2] {
    let id = quire::graph::BlockId::of_name(&names.join("\0"));
    let (high, low) = id.as_bytes().split_at(8);
    let number = |half: &[u8]| u64::from_be_bytes(half.try_into().expect("it has 8 bytes"));
    [number(high), number(low)]
}
