//! Read-only SQL over a database, while writers continue: events, messages, jobs and graphs are
//! tables.
//!
//! ```
//! use quire::events::NewEvent;
//! use quire::{Commit, Database, Message, NewJob};
//! use quire_sql::{Sql, SqlValue};
//!
//! # let directory = tempfile::tempdir()?;
//! let db = Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
//! let commit = Commit::new()
//!     .append("orders", [NewEvent::new("OrderPlaced").tag("order:17").data(r#"{"total":42}"#)])
//!     .produce("placed", Message::new("order 17"))
//!     .enqueue("mails", NewJob::new("confirm order 17"));
//! db.commit(&commit)?.committed()?;
//!
//! let found = Sql::over(&db).query(
//!     "SELECT e.data ->> '$.total', j.queue, r.value
//!      FROM events e JOIN jobs j USING (commit_position) JOIN records r USING (commit_position)
//!      WHERE e.store = 'orders' AND e.tags MATCH ?1",
//!     &["order:17".into()],
//! )?;
//! assert_eq!(found.rows, [[SqlValue::Integer(42), "mails".into(), "order 17".into()]]);
//! assert_eq!(found.summary.as_of, db.published());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The path of a statement
//! ```text
//! text, parameters ─▶ sql: Sql::visit ─▶ SQLite ─▶ a table of `tables` ─▶ permitted reads of the database
//!                      │   authorizer, limits         filters narrow the scan       one page at a time
//!                      └─▶ rows, one by one ─▶ SqlSummary: as_of, scanned
//! ```
//!
//! # Invariants
//! * A statement changes nothing: an authorizer permits `SELECT` only.
//! * A statement sees one position of the log. Events, messages, graphs and commits are read as of
//!   it. Jobs, queues, groups and other states are read as they are now.
//! * A row is visible only to a client that may read its object: each scan uses the reads of the
//!   database that it was given.
//! * A text index is derived from the log: its file is built again when it is missing, damaged or
//!   ahead of the log ([`TextIndexes`]).
//! * A statement is bounded in time, steps, rows, bytes and memory ([`SqlLimits`]).
//!
//! It knows no wire format: `quire-http` streams the rows.

mod functions;
mod limits;
mod pattern;
mod text_functions;

mod context;
mod search;
mod tables;

mod sandbox;
mod sql;

pub use limits::SqlLimits;
pub use quire_vtab::{ColumnKind, FilterOp, SqlValue, TableColumn};
pub use rusqlite::types::ValueRef as SqlValueRef;
pub use search::{IndexingStep, TextIndexStatus, TextIndexes};
pub use sql::{OwnedSqlStatement, Sql, SqlRows, SqlStatement, SqlSummary};
pub use tables::{TableDescription, tables};
