//! Rights: a client sees the rows of the objects that it may read, in each table.

use std::sync::Arc;

use quire::{Database, ErrorKind, Guard, INDEX_STORE, Operation, Permissions, Resource, ResourceKind};
use quire_sql::{Sql, TextIndexes, tables};

use crate::fixture::{filled, from, shown};

/// Permits everything except some operations on one kind and name.
#[derive(Debug)]
struct AllBut(ResourceKind, &'static str, Operation);

impl Permissions for AllBut {
    fn permits(&self, resource: Resource<'_>, operation: Operation) -> bool {
        (resource.kind, resource.name, operation) != (self.0, self.1, self.2)
    }

    fn denies(&self, _: Resource<'_>, _: Operation) -> bool {
        false
    }

    fn permits_every(&self, kind: ResourceKind, operation: Operation) -> bool {
        (kind, operation) != (self.0, self.2)
    }

    fn permits_any(&self, _: ResourceKind, _: Operation) -> bool {
        true
    }
}

/// Permits nothing.
#[derive(Debug)]
struct Nothing;

impl Permissions for Nothing {
    fn permits(&self, _: Resource<'_>, _: Operation) -> bool {
        false
    }

    fn denies(&self, _: Resource<'_>, _: Operation) -> bool {
        false
    }

    fn permits_every(&self, _: ResourceKind, _: Operation) -> bool {
        false
    }

    fn permits_any(&self, _: ResourceKind, _: Operation) -> bool {
        false
    }
}

fn guarded(database: &Database, permissions: impl Permissions + 'static) -> Database {
    database.guarded(Arc::new(Guard::new(Arc::new(permissions))))
}

#[test]
fn a_row_is_visible_with_the_right_to_its_object_only() {
    use Operation::{Describe, Read};
    use ResourceKind::{Graph, Group, Queue, Store, Topic};
    let filled = filled();
    let cases = [
        ("events", "store = 'a'", Store, "a", Read),
        ("event_tags", "store = 'a'", Store, "a", Read),
        ("stores", "name = 'a'", Store, "a", Describe),
        ("records", "topic = 't'", Topic, "t", Read),
        ("topics", "name = 't'", Topic, "t", Describe),
        ("partitions", "topic = 't'", Topic, "t", Describe),
        ("groups", "name = 'readers'", Group, "readers", Describe),
        ("lag", "consumer_group = 'readers'", Group, "readers", Describe),
        ("lag", "source = 't'", Topic, "t", Describe),
        ("lag", "source = 'a'", Store, "a", Describe),
        ("jobs", "queue = 'q'", Queue, "q", Read),
        ("job_steps", "job IN (SELECT id FROM jobs WHERE queue = 'q')", Queue, "q", Read),
        ("queues", "name = 'q'", Queue, "q", Describe),
        ("graphs", "name = 'g'", Graph, "g", Describe),
        ("blocks", "graph = 'g'", Graph, "g", Read),
        ("edges", "graph = 'g'", Graph, "g", Read),
        ("walk('g', 'b1')", "1", Graph, "g", Read),
    ];
    for (table, hidden, kind, name, operation) in cases {
        let lacking = guarded(&filled.database, AllBut(kind, name, operation));
        let count = |database, filter: &str| shown(database, &format!("SELECT count(*) FROM {table} WHERE {filter}"));
        assert_ne!(count(&filled.database, hidden), "0", "{table}");
        assert_eq!(count(&lacking, hidden), "0", "{table} WHERE {hidden}");
        // Without a filter that narrows the scan.
        assert_eq!(count(&lacking, &format!("+{hidden}")), "0", "{table}");
        let rest = format!("NOT ({hidden})");
        assert_eq!(count(&lacking, &rest), count(&filled.database, &rest), "{table}");
    }
    // The group has an offset in the topic and one in the store. Each belongs to its source, too.
    let partitions = "SELECT partitions FROM groups WHERE name = 'readers'";
    assert_eq!(shown(&filled.database, partitions), "2");
    for (kind, name) in [(Topic, "t"), (Store, "a")] {
        assert_eq!(shown(&guarded(&filled.database, AllBut(kind, name, Describe)), partitions), "1", "{name}");
    }
    let others = OF_DATABASE.map(|case| case.0).into_iter().chain(OPEN).chain([SEARCH]);
    let named: Vec<_> = cases.iter().map(|case| case.0).chain(others).collect();
    assert!(tables().all(|table| named.contains(&from(&table))), "each table has a case");
}

/// A text index that a client may not read does not exist for it.
const SEARCH: &str = "search('a', '16 OR 36')";

#[test]
fn a_text_index_needs_the_right_to_read_its_store() {
    let filled = filled();
    let of = |database: &Database, name: &str| {
        Sql::over(database).query(&format!("SELECT count(*) FROM search('{name}', '16 OR 36')"), &[])
    };
    assert_eq!(of(&filled.database, "a").expect("found").rows, [[2.into()]]);
    for operation in [Operation::Read, Operation::Describe] {
        let lacking = guarded(&filled.database, AllBut(ResourceKind::Store, "a", operation));
        let indexes = TextIndexes::over(&lacking);
        if operation == Operation::Describe {
            assert_eq!(of(&lacking, "a").expect("found").rows, [[2.into()]]);
            continue;
        }
        let (hidden, unknown) = (of(&lacking, "a").expect_err("hidden"), of(&lacking, "b").expect_err("unknown"));
        assert_eq!((hidden.kind(), unknown.kind()), (ErrorKind::NotFound, ErrorKind::NotFound));
        assert_eq!(hidden.to_string().replace("\"a\"", "\"b\""), unknown.to_string());
        assert!(indexes.list().expect("listed").is_empty());
        assert_eq!(indexes.delete("a").expect_err("hidden").kind(), ErrorKind::NotFound);
        assert_eq!(indexes.create("a", Some("x"), &["$"]).expect_err("refused").kind(), ErrorKind::NotPermitted);
    }
    for operation in [Operation::Read, Operation::Write] {
        let lacking = guarded(&filled.database, AllBut(ResourceKind::Store, INDEX_STORE, operation));
        let indexes = TextIndexes::over(&lacking);
        assert_eq!(indexes.create("a", Some("x"), &["$"]).expect_err("refused").kind(), ErrorKind::NotPermitted);
        assert_eq!(indexes.delete("a").expect_err("refused").kind(), ErrorKind::NotPermitted);
        assert_eq!(of(&lacking, "a").expect("found").rows, [[2.into()]]);
    }
}

/// Tables of the whole database, with the operation that each needs.
const OF_DATABASE: [(&str, Operation); 5] = [
    ("commits", Operation::Read),
    ("entries", Operation::Read),
    ("segments", Operation::Describe),
    ("statistics", Operation::Describe),
    ("damage", Operation::Describe),
];

/// Tables that show nothing of the database.
const OPEN: [&str; 2] = ["quire_tables", "quire_columns"];

#[test]
fn the_log_and_its_statistics_need_a_right_to_the_whole_database() {
    let filled = filled();
    for (table, operation) in OF_DATABASE {
        let lacking = guarded(&filled.database, AllBut(Resource::DATABASE.kind, "database", operation));
        let refused = Sql::over(&lacking).query(&format!("SELECT count(*) FROM {table}"), &[]).expect_err(table);
        assert_eq!(refused.kind(), ErrorKind::NotPermitted, "{table}: {refused}");
    }
}

#[test]
fn a_client_without_rights_sees_nothing() {
    let filled = filled();
    let nothing = guarded(&filled.database, Nothing);
    for table in tables().filter(|table| !OPEN.contains(&table.name)) {
        match Sql::over(&nothing).query(&format!("SELECT * FROM {}", from(&table)), &[]) {
            Ok(found) => assert!(found.rows.is_empty(), "{}: {found:?}", table.name),
            Err(error) if from(&table) == SEARCH => assert_eq!(error.kind(), ErrorKind::NotFound),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotPermitted, "{}", table.name),
        }
    }
}
