//! What an export reads: its statements, and the directories of their rows.

use serde_json::{Map, Value, json};

use super::cells::ExportColumn;
use super::{ExportType, reading};
use crate::failure::{CommandError, Result};
use crate::verbs::client::{HttpClient, Path};
use crate::verbs::names::check_store;
use crate::verbs::sql::SqlText;

/// The rows of one statement: the next statement continues after them.
const ROWS_AT_ONCE: usize = 200_000;

/// What the arguments name: a statement, or an object of one kind.
#[derive(Debug)]
pub(super) struct ExportRequest {
    pub(super) statement: Option<String>,
    pub(super) events: Option<String>,
    pub(super) records: Option<String>,
    pub(super) jobs: Option<String>,
    pub(super) graph: Option<String>,
    pub(super) position: String,
}

/// An export.
#[derive(Debug)]
pub(super) enum Export {
    Ordered(OrderedSource),
    Snapshot(SnapshotSource),
}

/// What an ordered export reads.
#[derive(Debug)]
pub(super) enum OrderedSource {
    Events(String),
    Records(String),
    Statement { sql: String, position: String },
}

/// What a snapshot reads.
#[derive(Debug)]
pub(super) enum SnapshotSource {
    Jobs(String),
    Graph(String),
    Statement(String),
}

/// A statement, the values of its names, and the directory of its rows below that of the export.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ExportPlan {
    pub(super) directory: String,
    pub(super) sql: String,
    pub(super) names: Map<String, Value>,
    /// The table whose columns the result has.
    pub(super) table: Option<&'static str>,
    /// The column that grows, in an ordered export.
    pub(super) position: Option<String>,
}

impl Export {
    /// The export of a request. The arguments were checked: they name one thing.
    pub(super) fn of(request: ExportRequest) -> Self {
        let ExportRequest { statement, events, records, jobs, graph, position } = request;
        if let Some(store) = events {
            return Export::Ordered(OrderedSource::Events(store));
        }
        if let Some(topic) = records {
            return Export::Ordered(OrderedSource::Records(topic));
        }
        if let Some(queue) = jobs {
            return Export::Snapshot(SnapshotSource::Jobs(queue));
        }
        if let Some(graph) = graph {
            return Export::Snapshot(SnapshotSource::Graph(graph));
        }
        let sql = statement.unwrap_or_default();
        if has_name(SqlText::parse(&sql).code(), ":after") {
            Export::Ordered(OrderedSource::Statement { sql, position })
        } else {
            Export::Snapshot(SnapshotSource::Statement(sql))
        }
    }
}

/// Whether a statement has a parameter of this name.
fn has_name(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let next = code[at + name.len()..].chars().next();
        next.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_')
    })
}

fn named(name: &str, value: &str) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), json!(value))])
}

impl OrderedSource {
    /// The plans: one, or one for each partition of a topic. A topic may get more partitions.
    ///
    /// # Errors
    /// When the store or the topic does not exist, or can't be read.
    pub(super) fn plans(&self, client: &HttpClient) -> Result<Vec<ExportPlan>> {
        match self {
            OrderedSource::Events(store) => {
                check_store(client, store)?;
                let sql = format!(
                    "SELECT * FROM events WHERE store = :store AND position > :after ORDER BY position LIMIT {ROWS_AT_ONCE}"
                );
                let (names, position) = (named("store", store), Some("position".to_owned()));
                Ok(vec![ExportPlan { directory: String::new(), sql, names, table: Some("events"), position }])
            }
            OrderedSource::Records(topic) => {
                let found = client.get(&Path::new(&["topics", topic]))?;
                let partitions = found["partitions"].as_array().map_or(0, Vec::len);
                let plan = |partition| ExportPlan {
                    directory: format!("partition-{partition}"),
                    // A scan of one partition has the order of its offsets.
                    sql: format!(
                        "SELECT * FROM records WHERE topic = :topic AND partition = {partition} AND \"offset\" > :after LIMIT {ROWS_AT_ONCE}"
                    ),
                    names: named("topic", topic),
                    table: Some("records"),
                    position: Some("offset".to_owned()),
                };
                Ok((0..partitions).map(plan).collect())
            }
            OrderedSource::Statement { sql, position } => {
                let (sql, position) = (sql.clone(), Some(position.clone()));
                Ok(vec![ExportPlan { directory: String::new(), sql, names: Map::new(), table: None, position }])
            }
        }
    }
}

impl SnapshotSource {
    /// Whether the rows are read as of one position. Jobs are read as they are.
    pub(super) fn has_past(&self) -> bool {
        matches!(self, SnapshotSource::Graph(_))
    }

    /// The plans: one, or one for blocks and one for edges.
    ///
    /// # Errors
    /// When the queue or the graph does not exist, or can't be read.
    pub(super) fn plans(&self, client: &HttpClient) -> Result<Vec<ExportPlan>> {
        match self {
            SnapshotSource::Jobs(queue) => {
                client.get(&Path::new(&["queues", queue]))?;
                let (sql, names) = ("SELECT * FROM jobs WHERE queue = :queue".to_owned(), named("queue", queue));
                Ok(vec![ExportPlan { directory: String::new(), sql, names, table: Some("jobs"), position: None }])
            }
            SnapshotSource::Graph(graph) => {
                client.get(&Path::new(&["graphs", graph]))?;
                let plan = |table: &'static str| ExportPlan {
                    directory: table.to_owned(),
                    sql: format!("SELECT * FROM {table} WHERE graph = :graph"),
                    names: named("graph", graph),
                    table: Some(table),
                    position: None,
                };
                Ok(vec![plan("blocks"), plan("edges")])
            }
            SnapshotSource::Statement(sql) => {
                let (directory, sql, names) = (String::new(), sql.clone(), Map::new());
                Ok(vec![ExportPlan { directory, sql, names, table: None, position: None }])
            }
        }
    }
}

impl ExportPlan {
    /// The statement and its names as one text: exports with different ones do not mix.
    pub(super) fn identity(&self) -> String {
        json!({ "sql": self.sql, "named": self.names }).to_string()
    }

    /// The columns of the table; none for a statement of the user.
    ///
    /// # Errors
    /// When the server can't be reached.
    pub(super) fn columns(&self, client: &HttpClient) -> Result<Vec<ExportColumn>> {
        let Some(table) = self.table else { return Ok(Vec::new()) };
        let sql = "SELECT name, type FROM quire_columns WHERE table_name = :table ORDER BY number";
        let answer = client.post(&Path::new(&["sql"]), &reading::request(sql, &named("table", table), None))?;
        let column = |row: &Value| {
            let kind = if row[1] == "integer" { ExportType::Integer } else { ExportType::Text };
            row[0].as_str().map(|name| ExportColumn { name: name.to_owned(), kind })
        };
        let columns: Option<Vec<_>> = answer["rows"].as_array().into_iter().flatten().map(column).collect();
        columns.ok_or_else(|| CommandError::new("the names of the columns are no text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_with_after_is_ordered() {
        let export = |sql: &str| {
            Export::of(ExportRequest {
                statement: Some(sql.to_owned()),
                events: None,
                records: None,
                jobs: None,
                graph: None,
                position: "position".to_owned(),
            })
        };
        for sql in ["SELECT 1 WHERE a > :after", "SELECT :after, 1"] {
            assert!(matches!(export(sql), Export::Ordered(_)), "{sql}");
        }
        for sql in ["SELECT 1", "SELECT ':after'", "SELECT 1 -- :after", "SELECT :afterwards"] {
            assert!(matches!(export(sql), Export::Snapshot(_)), "{sql}");
        }
    }
}
