//! A connection that may only read tables: what statements may do, and the limits of SQLite.
//!
//! The connection has an empty database in memory, and lives for one statement.

use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags, Result};

use crate::context::StatementContext;
use crate::limits::SqlLimits;
use crate::{functions, tables, text_functions};

/// The instructions of SQLite between two checks of a statement.
const CHECK_INSTRUCTIONS: i32 = 1_000;

/// The steps that these instructions claim from the budget of a request.
const CHECK_STEPS: u64 = 4;

/// Functions that are refused: they load code, reach into SQLite, or compare each part of one long
/// argument with each part of another, within one instruction.
const REFUSED_FUNCTIONS: &[&str] = &["load_extension", "fts3_tokenizer", "json_patch", "jsonb_patch"];

/// The most bytes of the text of a statement.
pub(crate) const STATEMENT_BYTES_MAX: usize = 256 << 10;

/// Opens a connection for one statement.
pub(crate) fn open(context: &Arc<StatementContext>, limits: &SqlLimits) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_in_memory_with_flags(flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // "name" is a column, never text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    // Sorting and grouping use memory, which is bounded; nothing is written to a disk.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    if let Some(bytes) = limits.memory_bytes {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        connection.query_row(&format!("PRAGMA hard_heap_limit = {bytes}"), [], |_| Ok(()))?;
    }
    let value_bytes = i32::try_from(limits.value_bytes).unwrap_or(i32::MAX);
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, value_bytes),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, STATEMENT_BYTES_MAX as i32),
        (Limit::SQLITE_LIMIT_COLUMN, 200),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
        (Limit::SQLITE_LIMIT_VDBE_OP, 25_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 1_000),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    functions::register(&connection, context.database.now())?;
    text_functions::register(&connection, limits.value_bytes as usize)?;
    for table in tables::all(context) {
        quire_vtab::register(&connection, table.name, table.table)?;
    }
    Ok(connection)
}

/// Makes the connection refuse everything except reads, and check its bounds as it runs.
pub(crate) fn confine(
    connection: &mut Connection,
    context: &Arc<StatementContext>,
    instructions_max: u64,
) -> Result<()> {
    connection.authorizer(Some(permitted))?;
    let (context, mut instructions) = (Arc::clone(context), 0u64);
    connection.progress_handler(
        CHECK_INSTRUCTIONS,
        Some(move || {
            instructions += CHECK_INSTRUCTIONS as u64;
            let checked = match instructions > instructions_max {
                true => Err(quire::Error::new(
                    quire::ErrorKind::TooCostly,
                    format!("the statement takes more than {instructions_max} instructions: narrow it"),
                )),
                false => context.check(CHECK_STEPS),
            };
            checked.map_err(|error| context.note(error)).is_err()
        }),
    )
}

fn permitted(asked: AuthContext<'_>) -> Authorization {
    match asked.action {
        AuthAction::Select | AuthAction::Recursive | AuthAction::Read { .. } => Authorization::Allow,
        AuthAction::Function { function_name } if !REFUSED_FUNCTIONS.contains(&function_name) => Authorization::Allow,
        _ => Authorization::Deny,
    }
}
