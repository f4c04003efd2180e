//! Graphs: blocks and the edges between them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quire::graph::{BlockId, Direction, End, WalkPlan};
use quire::{Error, ErrorKind, GraphSnapshot, NewEdge};

use crate::commit::{PutResult, new_block};
use crate::query::strings;
use crate::shared::Shared;
use crate::values;

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
    database: Shared,
    #[pyo3(get)]
    name: String,
}

impl Graph {
    pub(crate) fn new(database: Shared, name: String) -> Self {
        Graph { database, name }
    }

    fn call<T: Send>(&self, py: Python<'_>, call: impl FnOnce(quire::Graph) -> quire::Result<T> + Send) -> PyResult<T> {
        self.database.call(py, |database| call(database.graph(&self.name)))
    }

    /// Reads the graph as it is now, which commits that run meanwhile do not change.
    fn look<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&GraphSnapshot) -> quire::Result<T> + Send,
    ) -> PyResult<T> {
        self.call(py, |graph| {
            let snapshot = graph.snapshot()?;
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
        let block = new_block(name, kind, content, tags, metadata, source, expect_version)?;
        Ok(PutResult::new(&self.call(py, |graph| graph.put_block(block))?))
    }

    fn delete(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.call(py, |graph| graph.delete_block(name).map(|_| ()))
    }

    #[pyo3(signature = (source, edge_type, target, properties=None, *, allow_missing=false))]
    fn link(
        &self,
        py: Python<'_>,
        source: &str,
        edge_type: &str,
        target: &str,
        properties: Option<&Bound<'_, PyAny>>,
        allow_missing: bool,
    ) -> PyResult<()> {
        let properties = values::owned(properties)?;
        let edge = NewEdge::new(source, edge_type, target).properties(properties).allow_missing(allow_missing);
        self.call(py, |graph| graph.put_edge(edge).map(|_| ()))
    }

    fn unlink(&self, py: Python<'_>, source: &str, edge_type: &str, target: &str) -> PyResult<()> {
        self.call(py, |graph| graph.delete_edge(source, edge_type, target).map(|_| ()))
    }

    /// The block of a name; `None` when the graph has none.
    fn block(&self, py: Python<'_>, name: &str) -> PyResult<Option<Block>> {
        let found = self.look(py, |snapshot| {
            snapshot.block(BlockId::of_name(name), |block| {
                let tags = block.tags().map(str::to_owned).collect();
                let texts = (block.name.map(str::to_owned), block.kind.to_owned(), block.source.to_owned());
                let bytes = (block.metadata.to_vec(), block.content.to_vec());
                (texts, tags, block.version.get(), block.time, bytes)
            })
        })?;
        Ok(found.map(|((name, kind, source), tags, version, time, (metadata, content))| Block {
            name,
            kind,
            source,
            tags,
            version,
            time: values::seconds(time),
            metadata: PyBytes::new(py, &metadata).unbind(),
            content: PyBytes::new(py, &content).unbind(),
        }))
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
        let (direction, types) = (self::direction(direction)?, strings("types", types)?);
        self.look(py, |snapshot| {
            let types: Vec<&str> = types.iter().map(String::as_str).collect();
            let found = snapshot.neighbours(BlockId::of_name(name), direction, &types, None, limit, |neighbour| {
                (neighbour.block, neighbour.edge_type.to_owned(), matches!(neighbour.end, End::Target))
            })?;
            let neighbour =
                |(id, edge_type, outgoing)| Ok(Neighbour { name: self::name(snapshot, id)?, edge_type, outgoing });
            found.into_iter().map(neighbour).collect()
        })
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
        let (direction, types) = (self::direction(direction)?, strings("types", types)?);
        self.look(py, |snapshot| {
            let edge_types: Vec<&str> = types.iter().map(String::as_str).collect();
            let (edge_types, start) = (edge_types.as_slice(), BlockId::of_name(start));
            let plan = WalkPlan { direction, edge_types, depth_max: depth, visited_max: limit, ..WalkPlan::default() };
            let walk = snapshot.walk(&[start], plan, None)?;
            let visits = walk.visits();
            visits.map(|visit| Ok(Visit { name: name(snapshot, visit.block)?, depth: visit.depth })).collect()
        })
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
        let (direction, types) = (self::direction(direction)?, strings("types", types)?);
        self.look(py, |snapshot| {
            let edge_types: Vec<&str> = types.iter().map(String::as_str).collect();
            let plan = WalkPlan { direction, edge_types: &edge_types, depth_max: depth, ..WalkPlan::default() };
            let ends = (BlockId::of_name(start), BlockId::of_name(end));
            let found = snapshot.shortest_path(ends, plan, None)?.paths.into_iter().next();
            found.map(|path| path.iter().map(|visit| name(snapshot, visit.block)).collect()).transpose()
        })
    }
}
