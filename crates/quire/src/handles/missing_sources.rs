//! Missing blocks that edges leave, as of a snapshot.
//!
//! An edge put with `allow_missing` may have a source without a block, which no list of blocks
//! contains. Such sources are searched among the graph's current nodes. Those that were removed, or
//! became blocks, are searched in the changes since.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::graph::{BlockId, Direction, End, GraphChangeKind, Neighbour};
use crate::handles::GraphSnapshot;
use crate::{Place, Result};

/// How many neighbours, nodes or changes are read before writers get their turn.
const AT_ONCE: usize = 1_000;

impl GraphSnapshot {
    /// Returns the blocks missing as of the snapshot that edges may leave, in order. Together with
    /// [`GraphSnapshot::list`], this reaches the source of every edge.
    ///
    /// ```
    /// use quire::NewEdge;
    /// use quire::graph::BlockId;
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let db = quire::Database::builder(directory.path()).durability(quire::Durability::Os).open()?;
    /// let code = db.graph("code");
    /// code.put_edge(NewEdge::new("main", "calls", "parse").allow_missing(true))?;
    /// let snapshot = code.snapshot()?.expect("it was just made");
    /// assert!(snapshot.missing_sources()?.contains(&BlockId::of_name("main")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`GraphSnapshot::list`].
    pub fn missing_sources(&self) -> Result<Vec<BlockId>> {
        let (mut found, mut slot) = (BTreeSet::new(), Some(0));
        while let Some(from) = slot {
            let (missing, next) = self.look(|graph| Ok(graph.missing_blocks(from, usize::MAX, AT_ONCE as u32)))?;
            found.extend(missing.into_iter().map(|(_, id)| id));
            slot = next;
        }
        // A node that was missing then and is not now was put since, or lost its last edge. The
        // edge was deleted directly or with the block at its other end.
        let mut changes = self.database.graph(&self.name).changes(Place::new(self.at().next(), 0));
        let (mut deleted, mut is_end) = (Vec::new(), false);
        while !is_end {
            let mut looks = 0;
            is_end = changes.visit_next(|change| {
                match &change.what {
                    GraphChangeKind::BlockPut(block) => drop(found.insert(block.id)),
                    GraphChangeKind::BlockDeleted { block } => deleted.push(*block),
                    GraphChangeKind::EdgeDeleted { source, .. } => drop(found.insert(*source)),
                    GraphChangeKind::EdgePut { .. } => {}
                }
                looks += 1;
                if looks < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        for target in deleted {
            self.sources_of(target, &mut found)?;
        }
        let mut missing = Vec::new();
        for id in found {
            if !self.contains(id)? {
                missing.push(id);
            }
        }
        Ok(missing)
    }

    /// Adds the sources of the edges that enter a block.
    fn sources_of(&self, target: BlockId, sources: &mut BTreeSet<BlockId>) -> Result<()> {
        let mut after: Option<(BlockId, String)> = None;
        loop {
            let behind =
                after.as_ref().map(|(block, edge_type)| Neighbour { block: *block, edge_type, end: End::Source });
            let found = self.neighbours(target, Direction::Incoming, &[], behind, AT_ONCE, |found| {
                (found.block, found.edge_type.to_owned())
            })?;
            sources.extend(found.iter().map(|(source, _)| *source));
            if found.len() < AT_ONCE {
                return Ok(());
            }
            after = found.into_iter().next_back();
        }
    }
}
