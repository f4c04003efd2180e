//! The memory of statements, which is bounded for the whole process: hence a process of its own.

use quire::events::NewEvent;
use quire::{Database, Durability, ErrorKind};
use quire_sql::{Sql, SqlLimits};

#[test]
fn a_giant_sort_is_bounded_in_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::builder(directory.path()).durability(Durability::Os).open().expect("a database");
    database.events("s").append([NewEvent::new("E")]).expect("appended");
    let few = SqlLimits { memory_bytes: Some(64 << 20), ..SqlLimits::default() };
    let sql = Sql::over(&database).limits(few);
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 1000000)";
    for expression in [
        "x FROM n ORDER BY hex(zeroblob(500)) || x",
        "DISTINCT hex(zeroblob(500)) || x FROM n",
        "count(*) FROM n GROUP BY hex(zeroblob(500)) || x",
        "hex(zeroblob(30000000)) || hex(zeroblob(30000000))",
    ] {
        let error = sql.query(&format!("{endless} SELECT {expression}"), &[]).expect_err(expression);
        assert_eq!(error.kind(), ErrorKind::TooCostly, "{expression}: {error}");
        assert!(error.to_string().contains("67108864 bytes"), "{expression}: {error}");
        assert_eq!(sql.query("SELECT count(*) FROM events", &[]).expect("others go on").rows.len(), 1);
    }
}
