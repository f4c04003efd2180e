//! Graphs: blocks and the edges between them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quire::graph::{BlockId, Direction, End, WalkPlan};
use quire::{Error, ErrorKind, GraphSnapshot, Timestamp};
use quire_client::request::{DeleteBlockPart, DeleteEdgePart};

use crate::home::{Home, Shared};
use crate::pieces::{BlockPieces, BorrowValues, EdgePieces};
use crate::query::strings;
use crate::replies::PutResult;
use crate::served::graph::EdgeFilter;
use crate::{served, values};

/// A block of a graph.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct Block {
    name: Option<String>,
    kind: String,
    source: String,
    tags: Vec<String>,
    version: u64,
    time: f64,
    metadata: Py<PyBytes>,
    content: Py<PyBytes>,
}

#[pymethods]
impl Block {
    fn text(&self, py: Python<'_>) -> PyResult<String> {
        values::text(self.content.bind(py))
    }

    fn json(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        values::json(self.content.bind(py))
    }

    fn __repr__(&self) -> String {
        format!("Block(name={:?}, kind={:?}, version={})", self.name, self.kind, self.version)
    }
}

/// The other end of an edge.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct Neighbour {
    name: Option<String>,
    edge_type: String,
    /// Whether the edge leaves the block that was asked about.
    outgoing: bool,
}

/// A block that a walk reached.
#[pyclass(frozen, get_all, module = "quire")]
pub(crate) struct Visit {
    name: Option<String>,
    depth: usize,
}

/// A graph.
#[pyclass(frozen, module = "quire")]
pub(crate) struct Graph {
    home: Home,
    #[pyo3(get)]
    name: String,
}

impl Graph {
    pub(crate) fn new(home: Home, name: String) -> Self {
        Graph { home, name }
    }

    /// Reads the graph as it is now, which commits that run meanwhile do not change.
    fn look<T: Send>(
        &self,
        py: Python<'_>,
        database: &Shared<quire::Database>,
        look: impl FnOnce(&GraphSnapshot) -> quire::Result<T> + Send,
    ) -> PyResult<T> {
        database.call(py, |database| {
            let snapshot = database.graph(&self.name).snapshot()?;
            let unknown = || Error::new(ErrorKind::NotFound, format!("unknown graph {:?}", self.name));
            look(&snapshot.ok_or_else(unknown)?)
        })
    }
}

/// Returns the name of a block; `None` for one that has only an id.
fn name(snapshot: &GraphSnapshot, id: BlockId) -> quire::Result<Option<String>> {
    Ok(snapshot.block(id, |block| block.name.map(str::to_owned))?.flatten())
}

fn direction(text: &str) -> PyResult<Direction> {
    match text {
        "out" => Ok(Direction::Outgoing),
        "in" => Ok(Direction::Incoming),
        "both" => Ok(Direction::Both),
        other => Err(PyValueError::new_err(format!("direction must be \"out\", \"in\" or \"both\", got {other:?}"))),
    }
}

#[pymethods]
impl Graph {
    #[pyo3(signature = (name, kind, content=None, *, tags=None, metadata=None, source=None, expect_version=None))]
    fn put(
        &self,
        py: Python<'_>,
        name: String,
        kind: String,
        content: Option<&Bound<'_, PyAny>>,
        tags: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyAny>>,
        source: Option<String>,
        expect_version: Option<u64>,
    ) -> PyResult<Option<PutResult>> {
        let block = BlockPieces::of(name, kind, content, tags, metadata, source, expect_version)?;
        match &self.home {
            Home::Embedded(database) => {
                let put = database
                    .call(py, |database| database.graph(&self.name).put_block(block.embedded::<BorrowValues>()));
                Ok(PutResult::new(&put?))
            }
            Home::Served(client) => {
                let put = block.served(&self.name);
                let put = client.call(py, move |client| served::commit_part(client, put).map(served::graph::put))?;
                Ok(put.map(|(version, created)| PutResult { version, created }))
            }
        }
    }

    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match &self.home {
            Home::Embedded(database) => {
                database.call(py, |database| database.graph(&self.name).delete_block(name).map(|_| ()))
            }
            Home::Served(client) => {
                let delete = DeleteBlockPart::new(self.name.clone(), name.to_owned());
                client.call(py, move |client| served::commit_part(client, delete).map(drop))
            }
        }
    }

    #[pyo3(signature = (source, edge_type, target, properties=None, *, allow_missing=false))]
    fn link(
        &self,
        py: Python<'_>,
        source: String,
        edge_type: String,
        target: String,
        properties: Option<&Bound<'_, PyAny>>,
        allow_missing: bool,
    ) -> PyResult<()> {
        let properties = values::owned(properties)?;
        let edge = EdgePieces { source, edge_type, target, properties, allow_missing };
        match &self.home {
            Home::Embedded(database) => database
                .call(py, |database| database.graph(&self.name).put_edge(edge.embedded::<BorrowValues>()).map(|_| ())),
            Home::Served(client) => {
                let edge = edge.served(&self.name);
                client.call(py, move |client| served::commit_part(client, edge).map(drop))
            }
        }
    }

    fn unlink(&self, py: Python<'_>, source: &str, edge_type: &str, target: &str) -> PyResult<()> {
        match &self.home {
            Home::Embedded(database) => database
                .call(py, |database| database.graph(&self.name).delete_edge(source, edge_type, target).map(|_| ())),
            Home::Served(client) => {
                let [graph, source, edge_type, target] = [&self.name, source, edge_type, target].map(str::to_owned);
                let delete = DeleteEdgePart::new(graph, source, edge_type, target);
                client.call(py, move |client| served::commit_part(client, delete).map(drop))
            }
        }
    }

    /// The block of a name; `None` when the graph has none.
    fn block(&self, py: Python<'_>, name: &str) -> PyResult<Option<Block>> {
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
        match &self.home {
            Home::Embedded(database) => {
                let found = self.look(py, database, |snapshot| {
                    snapshot.block(BlockId::of_name(name), |block| {
                        let tags = block.tags().map(str::to_owned).collect();
                        let texts = (block.name.map(str::to_owned), block.kind.to_owned(), block.source.to_owned());
                        let bytes = (block.metadata.to_vec(), block.content.to_vec());
                        (texts, tags, block.version.get(), block.time, bytes)
                    })
                })?;
                Ok(found.map(|((name, kind, source), tags, version, time, (metadata, content))| {
                    let (time, metadata, content) = (values::seconds(time), bytes(&metadata), bytes(&content));
                    Block { name, kind, source, tags, version, time, metadata, content }
                }))
            }
            Home::Served(client) => {
                let (graph, name) = (self.name.clone(), name.to_owned());
                let found = client.call(py, move |client| served::graph::block(client, &graph, &name))?;
                Ok(found.map(|block| Block {
                    name: block.name,
                    kind: block.kind,
                    source: block.source,
                    tags: block.tags,
                    version: block.version,
                    time: values::seconds(Timestamp::from_millis(block.time_ms)),
                    metadata: bytes(block.metadata.bytes()),
                    content: bytes(block.content.bytes()),
                }))
            }
        }
    }

    #[pyo3(signature = (name, *, direction="out", types=None, limit=1000))]
    fn neighbours(
        &self,
        py: Python<'_>,
        name: &str,
        direction: &str,
        types: Option<&Bound<'_, PyAny>>,
        limit: usize,
    ) -> PyResult<Vec<Neighbour>> {
        let edges = EdgeFilter { direction: self::direction(direction)?, types: strings("types", types)? };
        match &self.home {
            Home::Embedded(database) => self.look(py, database, |snapshot| {
                let types: Vec<&str> = edges.types.iter().map(String::as_str).collect();
                let block = BlockId::of_name(name);
                let found = snapshot.neighbours(block, edges.direction, &types, None, limit, |neighbour| {
                    (neighbour.block, neighbour.edge_type.to_owned(), matches!(neighbour.end, End::Target))
                })?;
                let neighbour =
                    |(id, edge_type, outgoing)| Ok(Neighbour { name: self::name(snapshot, id)?, edge_type, outgoing });
                found.into_iter().map(neighbour).collect()
            }),
            Home::Served(client) => {
                let (graph, name) = (self.name.clone(), name.to_owned());
                let found =
                    client.call(py, move |client| served::graph::neighbours(client, &graph, &name, &edges, limit))?;
                let neighbour = found.into_iter().map(|found| {
                    let outgoing = found.end == "target";
                    Neighbour { name: found.name, edge_type: found.edge_type, outgoing }
                });
                Ok(neighbour.collect())
            }
        }
    }

    /// The blocks that edges reach from a start, the nearest first.
    #[pyo3(signature = (start, *, direction="out", types=None, depth=10, limit=10_000))]
    fn walk(
        &self,
        py: Python<'_>,
        start: &str,
        direction: &str,
        types: Option<&Bound<'_, PyAny>>,
        depth: usize,
        limit: usize,
    ) -> PyResult<Vec<Visit>> {
        let edges = EdgeFilter { direction: self::direction(direction)?, types: strings("types", types)? };
        match &self.home {
            Home::Embedded(database) => self.look(py, database, |snapshot| {
                let edge_types: Vec<&str> = edges.types.iter().map(String::as_str).collect();
                let (edge_types, direction) = (edge_types.as_slice(), edges.direction);
                let plan =
                    WalkPlan { direction, edge_types, depth_max: depth, visited_max: limit, ..WalkPlan::default() };
                let walk = snapshot.walk(&[BlockId::of_name(start)], plan, None)?;
                let visits = walk.visits();
                visits.map(|visit| Ok(Visit { name: name(snapshot, visit.block)?, depth: visit.depth })).collect()
            }),
            Home::Served(client) => {
                let (graph, start) = (self.name.clone(), start.to_owned());
                let visits =
                    client.call(py, move |client| served::graph::walk(client, &graph, &start, &edges, depth, limit))?;
                Ok(visits.into_iter().map(|visit| Visit { name: visit.name, depth: visit.depth }).collect())
            }
        }
    }

    /// The names of a shortest path, with both ends; `None` when there is no path.
    #[pyo3(signature = (start, end, *, direction="out", types=None, depth=10))]
    fn path(
        &self,
        py: Python<'_>,
        start: &str,
        end: &str,
        direction: &str,
        types: Option<&Bound<'_, PyAny>>,
        depth: usize,
    ) -> PyResult<Option<Vec<Option<String>>>> {
        let edges = EdgeFilter { direction: self::direction(direction)?, types: strings("types", types)? };
        match &self.home {
            Home::Embedded(database) => self.look(py, database, |snapshot| {
                let edge_types: Vec<&str> = edges.types.iter().map(String::as_str).collect();
                let (edge_types, direction) = (edge_types.as_slice(), edges.direction);
                let plan = WalkPlan { direction, edge_types, depth_max: depth, ..WalkPlan::default() };
                let ends = (BlockId::of_name(start), BlockId::of_name(end));
                let found = snapshot.shortest_path(ends, plan, None)?.paths.into_iter().next();
                found.map(|path| path.iter().map(|visit| name(snapshot, visit.block)).collect()).transpose()
            }),
            Home::Served(client) => {
                let [graph, start, end] = [&self.name, start, end].map(str::to_owned);
                let found = client
                    .call(py, move |client| served::graph::path(client, &graph, (&start, &end), &edges, depth))?;
                Ok(found.map(|path| path.into_iter().map(|visit| visit.name).collect()))
            }
        }
    }
}
