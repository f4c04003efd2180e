//! A graph, by name.

use std::slice;
use std::sync::Arc;

use quire_model::{Operation, Place, Resource, ResourceKind};
use quire_shard::Commands;

use crate::Position;
use crate::ReadView;
use crate::Result;
use crate::commit::{BlockKey, NewBlock, NewEdge};
use crate::database::Database;
use crate::graph::{
    Command, DeleteBlock, DeleteEdge, DeleteEdges, Graph as State, Reply, Retention, SetRetention, TrimHistory,
};
use crate::handles::{GraphChanges, GraphSnapshot, commit_one};

/// A graph. See [`Database::graph`].
///
/// ```
/// use quire::graph::{BlockId, Direction};
/// use quire::{NewBlock, NewEdge};
///
/// # let directory = tempfile::tempdir()?;
/// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
/// let (air, from) = (db.graph("air/routes"), "EWR");
/// for code in ["EWR", "IAH", "SFO"] {
///     air.put_block(NewBlock::new(format!("airport:{code}"), "airport"))?;
/// }
/// for code in ["IAH", "SFO"] {
///     air.put_edge(NewEdge::new(format!("airport:{from}"), "flies_to", format!("airport:{code}")))?;
/// }
/// let routes = air.snapshot()?.expect("a block was put");
/// println!("{} at position {}", air.name(), routes.at());
/// let start = BlockId::of_name(&format!("airport:{from}"));
/// assert_eq!(routes.degree(start, Direction::Outgoing, &["flies_to"])?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Graph {
    database: Database,
    name: Arc<str>,
}

impl Graph {
    pub(crate) fn new(database: &Database, name: &str) -> Self {
        Graph { database: database.clone(), name: name.into() }
    }

    /// Returns the name of the graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts a block into this graph, and waits until the block is durable.
    ///
    /// ```
    /// use quire::NewBlock;
    /// use quire::graph::Reply;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let (code, city) = ("EWR", "Newark");
    /// let airport = NewBlock::new(format!("airport:{code}"), "airport").metadata(format!(r#"{{"city":"{city}"}}"#));
    /// assert!(matches!(db.graph("air/routes").put_block(airport)?, Reply::BlockPut { created: true, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) and the errors of [`Database::commit`].
    pub fn put_block<'c>(&self, block: impl Into<NewBlock<'c>>) -> Result<Reply> {
        let block = block.into();
        let tags = block.tags().listed();
        self.commit(Command::PutBlock(block.view(&self.name, block.tags().slice(tags.as_deref()))))
    }

    /// Puts an edge into this graph, and waits until the edge is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) and the errors of [`Database::commit`].
    pub fn put_edge<'c>(&self, edge: impl Into<NewEdge<'c>>) -> Result<Reply> {
        self.commit(Command::PutEdge(edge.into().view(&self.name)))
    }

    /// Deletes a block and its edges, and waits until the deletion is durable. A block with more
    /// than a hundred thousand edges is refused. Delete its edges first, in parts, with
    /// [`Graph::delete_edges`].
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) and the errors of [`Database::commit`].
    pub fn delete_block<'c>(&self, block: impl Into<BlockKey<'c>>) -> Result<Reply> {
        let block = block.into();
        self.commit(Command::DeleteBlock(DeleteBlock { graph: &self.name, block: block.view() }))
    }

    /// Deletes an edge, and waits until the deletion is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) and the errors of [`Database::commit`].
    pub fn delete_edge<'c>(
        &self,
        source: impl Into<BlockKey<'c>>,
        edge_type: &str,
        target: impl Into<BlockKey<'c>>,
    ) -> Result<Reply> {
        let (source, target) = (source.into(), target.into());
        let (source, target) = (source.view(), target.view());
        self.commit(Command::DeleteEdge(DeleteEdge { graph: &self.name, source, edge_type, target }))
    }

    /// Deletes up to `count_max` edges from and to a block, and waits until the deletion is
    /// durable. Writers wait during the call, and may commit between two calls.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) and the errors of [`Database::commit`].
    ///
    /// ```
    /// use quire::graph::Reply;
    /// use quire::{Database, NewBlock, NewEdge};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let database = Database::builder(folder.path()).create(true).open()?;
    /// let air = database.graph("air");
    /// for name in ["hub", "a", "b", "c"] {
    ///     air.put_block(NewBlock::new(name, "airport"))?;
    ///     air.put_edge(NewEdge::new("hub", "flies_to", name))?;
    /// }
    /// while let Reply::EdgesDeleted { is_more: true, .. } = air.delete_edges("hub", 3)? {}
    /// assert!(matches!(air.delete_block("hub")?, Reply::BlockDeleted { .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_edges<'c>(&self, block: impl Into<BlockKey<'c>>, count_max: usize) -> Result<Reply> {
        let block = block.into();
        self.commit(Command::DeleteEdges(DeleteEdges { graph: &self.name, block: block.view(), count_max }))
    }

    /// Sets how much of its past the graph keeps, and waits until the setting is durable. A
    /// background thread deletes older history over time. A compaction frees its disk space.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) and the errors of [`Database::commit`].
    pub fn set_retention(&self, retention: Retention) -> Result<Reply> {
        self.commit(Command::SetRetention(SetRetention { graph: &self.name, retention }))
    }

    /// Deletes the graph's history before a position, whatever its retention, and waits until the
    /// deletion is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) when the position is beyond the end of the
    /// log. The errors of [`Database::commit`].
    ///
    /// ```
    /// use quire::{Database, ErrorKind, NewBlock, Position};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let database = Database::builder(folder.path()).create(true).open()?;
    /// let code = database.graph("code");
    /// for content in ["one", "two"] {
    ///     code.put_block(NewBlock::new("main", "function").content(content))?;
    /// }
    /// code.trim_history(Position::new(2))?;
    /// assert_eq!(code.snapshot_at(Position::new(1)).unwrap_err().kind(), ErrorKind::Gone);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trim_history(&self, from: Position) -> Result<Reply> {
        self.commit(Command::TrimHistory(TrimHistory { graph: &self.name, from }))
    }

    /// Returns a snapshot of the graph as it is now. The snapshot can be read and walked for any
    /// length of time while writers continue. `None` when the graph does not exist.
    ///
    /// ```
    /// use quire::NewBlock;
    /// use quire::graph::BlockId;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let air = db.graph("air/routes");
    /// air.put_block(NewBlock::new("EWR", "airport"))?;
    /// let before = air.snapshot()?.expect("a block was put");
    /// air.put_block(NewBlock::new("IAH", "airport"))?;
    /// assert!(!before.contains(BlockId::of_name("IAH"))?, "a snapshot does not change");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn snapshot(&self) -> Result<Option<GraphSnapshot>> {
        GraphSnapshot::of(&self.database, &self.name, None)
    }

    /// Returns the graph as it was after the record at position `at`. `None` when the graph no
    /// longer exists.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) when nothing is published at the
    /// position yet. [`ErrorKind::Gone`](crate::ErrorKind::Gone) when the graph's history begins
    /// later. [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn snapshot_at(&self, at: Position) -> Result<Option<GraphSnapshot>> {
        GraphSnapshot::of(&self.database, &self.name, Some(at))
    }

    /// Returns the changes from a place, past changes first and then new ones.
    /// [`Place::START`](crate::Place::START) starts where the graph's history begins. The history
    /// is complete unless the graph has a retention or was trimmed.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// use quire::graph::GraphChangeKind;
    /// use quire::{NewBlock, Place};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let air = db.graph("air/routes");
    /// for code in ["EWR", "IAH"] {
    ///     air.put_block(NewBlock::new(format!("airport:{code}"), "airport"))?;
    /// }
    /// let (mut changes, mut blocks) = (air.changes(Place::START), 0);
    /// changes.visit_next(|change| {
    ///     blocks += u32::from(matches!(change.what, GraphChangeKind::BlockPut(_)));
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(blocks, 2);
    /// let resume_from = changes.next(); // keep it, and ask for the changes from it the next time
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn changes(&self, from: Place) -> GraphChanges {
        GraphChanges::new(&self.database, &self.name, from)
    }

    /// Reads from the graph. Returns `None` when the graph does not exist. The result is available
    /// once the commits that it depends on are durable.
    ///
    /// Writers wait while `look` runs. `look` gets the log to read the contents of blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn read<T>(&self, look: impl FnOnce(&State, &ReadView<'_>) -> T) -> Result<Option<T>> {
        let own = Resource::new(ResourceKind::Graph, &self.name);
        let look = |view: &ReadView<'_>| view.graphs.graph(&self.name).map(|graph| look(graph, view));
        self.database.read_for(own, Operation::Read, look)?.wait()
    }

    fn commit(&self, command: Command<'_>) -> Result<Reply> {
        let commands = Commands { graph: slice::from_ref(&command), ..Commands::default() };
        commit_one(&self.database, &commands, |replies| &mut replies.graph)
    }
}
