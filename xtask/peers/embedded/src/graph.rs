//! A graph in SQLite: a table of nodes, a table of edges that is its own index from the source, and
//! an index from the target. The cases are those of `quire-bench graph`, on the same blocks and
//! edges.
//!
//! A walk is a loop over a prepared statement with a set of visited blocks: a recursive query
//! visits each block once for every depth.

use std::collections::HashSet;
use std::hint::black_box;

use rusqlite::{Connection, OptionalExtension, params};

use crate::Result;
use crate::measured::Measured;

const SCHEMA: &str = "
    CREATE TABLE nodes (id BLOB PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, content BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE edges (source BLOB NOT NULL, type TEXT NOT NULL, target BLOB NOT NULL, PRIMARY KEY (source, type, target))
        WITHOUT ROWID;
    CREATE INDEX edges_to ON edges (target, type, source);";

/// Wide rows do not belong in the tree of a table WITHOUT ROWID, according to SQLite's own page.
const SCHEMA_OF_WIDE: &str = "
    CREATE TABLE nodes (number INTEGER PRIMARY KEY, id BLOB UNIQUE NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL,
        content BLOB NOT NULL);";

const EDGE_TYPE: &str = "calls";
const KIND: &str = "function";
const CONTENT_BYTES: usize = 1_024;
const SMALL_BYTES: usize = 16;
/// How many edges leave a block.
const DEGREE: u64 = 5;
/// How many in-memory lookups are one operation.
const LOOKS: u64 = 100;
/// How many rows a filling transaction has.
const FILL_AT_ONCE: u64 = 1_000;

const CASES: &[&str] = &[
    "block-put-1k",
    "block-put-100k",
    "block-read-1k",
    "block-read-100k",
    "edge-put-100k",
    "edge-lookup-100k",
    "hop-100k",
    "walk-depth-5",
    "walk-all-100k",
];

/// Whether a case is one of these.
pub(crate) fn has(case: &str) -> bool {
    CASES.contains(&case)
}

/// Runs a case.
pub(crate) fn run(case: &str, ops: u64, connection: Connection) -> Result<Measured> {
    let blocks = if case.ends_with("-1k") { 1_000 } else { 100_000 };
    let graph = Graph(connection);
    graph.0.execute_batch(if case.starts_with("block-") { SCHEMA_OF_WIDE } else { SCHEMA })?;
    match case {
        "block-put-1k" | "block-put-100k" => {
            graph.fill(blocks, SMALL_BYTES)?;
            let content = [b'q'; CONTENT_BYTES];
            Measured::warm(ops, 1, |op| graph.put_block(blocks + op, &content))
        }
        "block-read-1k" | "block-read-100k" => {
            graph.fill(blocks, CONTENT_BYTES)?;
            looks(ops, |op| {
                let found = graph.content_bytes(spread(op, blocks))?;
                assert_eq!(black_box(found), Some(CONTENT_BYTES), "the content is the block's");
                Ok(())
            })
        }
        "edge-put-100k" => {
            graph.fill(blocks, SMALL_BYTES)?;
            Measured::warm(ops, 1, |op| {
                let source = spread(op, blocks);
                graph.put_edge_between(source, target(source, op, blocks))
            })
        }
        "edge-lookup-100k" => {
            graph.link(blocks)?;
            looks(ops, |op| {
                let source = spread(op, blocks);
                assert!(black_box(graph.has_edge(source, target(source, op % DEGREE, blocks))?), "it was put");
                Ok(())
            })
        }
        "hop-100k" => {
            graph.link(blocks)?;
            looks(ops, |op| {
                assert_eq!(black_box(graph.hop(spread(op, blocks))?), 1, "it was put once");
                Ok(())
            })
        }
        "walk-depth-5" => {
            graph.link(10_000)?;
            Measured::warm(ops, 1, |op| {
                graph.walk(id(spread(op, 10_000)), 5).map(|visited| assert!(black_box(visited) > 1))
            })
        }
        _ => {
            graph.link(blocks)?;
            Measured::cold(ops, 1, |_| {
                let visited = black_box(graph.walk(id(0), usize::MAX)?);
                assert!(visited as u64 > blocks * 9 / 10, "a walk comes to nearly every block, not to {visited}");
                Ok(())
            })
        }
    }
}

fn looks(ops: u64, mut look: impl FnMut(u64) -> Result<()>) -> Result<Measured> {
    Measured::warm(ops, LOOKS as usize, |op| (op * LOOKS..(op + 1) * LOOKS).try_for_each(&mut look))
}

/// The same distribution, ids and edges as in `quire-bench graph`.
fn id(number: u64) -> [u8; 16] {
    (u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes()
}

fn spread(op: u64, end: u64) -> u64 {
    let spread = op.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(spread) * u128::from(end)) >> 64) as u64
}

fn target(block: u64, edge: u64, blocks: u64) -> u64 {
    spread(black_box(block * DEGREE + edge).wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5851_f42d, blocks)
}

struct Graph(Connection);

impl Graph {
    fn put_block(&self, number: u64, content: &[u8]) -> Result<()> {
        let sql = "INSERT INTO nodes (id, kind, version, content) VALUES (?1, ?2, 1, ?3)
            ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, version = version + 1, content = excluded.content";
        self.0.prepare_cached(sql)?.execute(params![id(number), KIND, content])?;
        Ok(())
    }

    /// Puts an edge if both ends exist.
    fn put_edge_between(&self, source: u64, target: u64) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO edges SELECT ?1, ?2, ?3
            WHERE EXISTS (SELECT 1 FROM nodes WHERE id = ?1) AND EXISTS (SELECT 1 FROM nodes WHERE id = ?3)";
        self.0.prepare_cached(sql)?.execute(params![id(source), EDGE_TYPE, id(target)])?;
        Ok(())
    }

    fn fill(&self, blocks: u64, bytes: usize) -> Result<()> {
        let content = vec![b'q'; bytes];
        self.batches(blocks, |number| self.put_block(number, &content))
    }

    fn link(&self, blocks: u64) -> Result<()> {
        self.fill(blocks, SMALL_BYTES)?;
        self.batches(blocks * DEGREE, |number| {
            let (block, edge) = (number / DEGREE, number % DEGREE);
            self.put_edge_between(block, target(block, edge, blocks))
        })
    }

    fn batches(&self, count: u64, put: impl Fn(u64) -> Result<()>) -> Result<()> {
        for first in (0..count).step_by(FILL_AT_ONCE as usize) {
            let transaction = self.0.unchecked_transaction()?;
            (first..count.min(first + FILL_AT_ONCE)).try_for_each(&put)?;
            transaction.commit()?;
        }
        Ok(())
    }

    fn content_bytes(&self, number: u64) -> Result<Option<usize>> {
        let mut select = self.0.prepare_cached("SELECT content FROM nodes WHERE id = ?1")?;
        let mut rows = select.query([id(number)])?;
        Ok(match rows.next()? {
            Some(row) => Some(row.get_ref(0)?.as_blob()?.len()),
            None => None,
        })
    }

    fn has_edge(&self, source: u64, target: u64) -> Result<bool> {
        let sql = "SELECT 1 FROM edges WHERE source = ?1 AND type = ?2 AND target = ?3";
        Ok(self.0.prepare_cached(sql)?.exists(params![id(source), EDGE_TYPE, id(target)])?)
    }

    /// The version of the block at the end of a block's first edge.
    fn hop(&self, source: u64) -> Result<i64> {
        let sql = "SELECT version FROM edges JOIN nodes ON nodes.id = edges.target WHERE source = ?1 LIMIT 1";
        let found = self.0.prepare_cached(sql)?.query_row([id(source)], |row| row.get(0)).optional()?;
        found.ok_or_else(|| "every block has edges".into())
    }

    /// How many blocks a walk breadth first visits.
    fn walk(&self, start: [u8; 16], depth_max: usize) -> Result<usize> {
        let mut targets = self.0.prepare_cached("SELECT target FROM edges WHERE source = ?1")?;
        let (mut visited, mut front) = (HashSet::from([start]), vec![start]);
        for _ in 0..depth_max {
            let mut next = Vec::new();
            for block in &front {
                let mut rows = targets.query([block])?;
                while let Some(row) = rows.next()? {
                    let target: [u8; 16] = row.get_ref(0)?.as_blob()?.try_into()?;
                    if visited.insert(target) {
                        next.push(target);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            front = next;
        }
        Ok(visited.len())
    }
}
