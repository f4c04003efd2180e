//! A graph, by name.

use crate::database::{Database, View};
use crate::decide::Commands;
use crate::error::Result;
use crate::graph::{Command, Graph as State, PutBlock, PutEdge, Reply};
use crate::handles::only;

/// A graph. See [`Database::graph`].
#[derive(Debug, Clone, Copy)]
pub struct Graph<'a> {
    database: &'a Database,
    name: &'a str,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(database: &'a Database, name: &'a str) -> Self {
        Graph { database, name }
    }

    /// Puts a block into this graph, whatever graph it names, and waits until it is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) and the errors of [`Database::commit`].
    pub fn put_block(&self, block: PutBlock<'_>) -> Result<Reply> {
        self.commit(Command::PutBlock(PutBlock { graph: self.name, ..block }))
    }

    /// Puts an edge into this graph, whatever graph it names, and waits until it is durable.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`](crate::ErrorKind::Refused) and the errors of [`Database::commit`].
    pub fn put_edge(&self, edge: PutEdge<'_>) -> Result<Reply> {
        self.commit(Command::PutEdge(PutEdge { graph: self.name, ..edge }))
    }

    /// Looks something up in the graph; `None` when it is not there. The answer is told once all it may rest on is durable.
    ///
    /// `look` runs while writers wait, and gets the log for the contents of blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Failed`](crate::ErrorKind::Failed).
    pub fn read<T>(&self, look: impl FnOnce(&State, &View<'_>) -> T) -> Result<Option<T>> {
        self.database.read(|view| view.graphs.graph(self.name).map(|graph| look(graph, view)))?.wait()
    }

    fn commit(&self, command: Command<'_>) -> Result<Reply> {
        let ticket = self.database.decide(Commands { graph: &[command], ..Commands::default() })?;
        only(ticket.wait()?.map(|(_, replies)| replies.graph))
    }
}
