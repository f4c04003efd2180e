//! `quire graph`: blocks, edges, walks, import and export.

mod analyses;
mod by;
mod changes;
mod dot;
mod edges;
mod lines;
mod missing;
mod read;
mod transfer;
mod write;

use std::io::Write;

use clap::{Subcommand, ValueEnum};

use crate::failure::Result;
use analyses::{ComponentsArgs, OrderArgs};
use changes::ChangesArgs;
use edges::{Degree, Edge};
use missing::MissingArgs;
use read::{Get, List, Neighbours, Paths, Walk};
use transfer::{ExportGraph, ImportGraph};
use write::{Delete, Link, PutBlockArgs, RetainGraphArgs, TrimGraphArgs, Unlink, UnlinkAll};

use super::client::Path;
use super::place::DatabaseArgs;
use super::print::{OutputForm, list, word};
use crate::text::counted;

/// The commands of `quire graph`.
#[derive(Debug, Subcommand)]
pub(crate) enum Graph {
    /// List the graphs with their sizes
    List {
        #[command(flatten)]
        place: DatabaseArgs,
        #[command(flatten)]
        form: OutputForm,
    },
    /// Put a block: create or replace it
    Put(PutBlockArgs),
    /// Show blocks
    Get(Get),
    /// Delete a block and its edges
    Delete(Delete),
    /// List blocks, filtered by kind, tag, source and metadata
    Blocks(List),
    /// Put an edge between two blocks
    Link(Link),
    /// Delete an edge
    Unlink(Unlink),
    /// Delete all edges of a block, in several commits
    UnlinkAll(UnlinkAll),
    /// Show an edge with its properties
    Edge(Edge),
    /// Count the edges of a block
    Degree(Degree),
    /// List the neighbours of a block
    #[command(alias = "neighbors")]
    Neighbours(Neighbours),
    /// Walk from a block
    ///
    /// With --json, the last line names the limit that ended the walk early, if any: {"bound":
    /// "depth"}.
    Walk(Walk),
    /// Find a shortest path between two blocks, or all paths, shortest first
    ///
    /// With --json, the last line names the limit that cut the search short, if any: {"bound":
    /// "depth"}.
    Path(Paths),
    /// Order blocks so that each comes after all blocks with an edge to it
    ///
    /// Blocks on a cycle have no such order: each cycle is printed on a line, and then the blocks
    /// behind a cycle. With --json, the output is one object: {"order": [...], "cycles": [...],
    /// "behind": [...], "bound": null}.
    Order(OrderArgs),
    /// Find the strongly connected components: blocks that all reach each other
    ///
    /// Each component is printed on a line. With --json, the output is one object: {"components":
    /// [...], "bound": null}.
    Components(ComponentsArgs),
    /// List missing blocks, the ends of edges that were put with --allow-missing
    Missing(MissingArgs),
    /// List the changes of a graph: puts and deletions of blocks and edges
    Changes(ChangesArgs),
    /// Set how much history a graph keeps
    Retain(RetainGraphArgs),
    /// Delete a graph's history before a position
    Trim(TrimGraphArgs),
    /// Import blocks and edges from a file
    Import(ImportGraph),
    /// Export all blocks and edges
    Export(ExportGraph),
}

/// The direction in which edges are followed.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Direction {
    /// From source to target
    Outgoing,
    /// From target to source
    Incoming,
    /// Both directions
    Both,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Direction::Outgoing => "outgoing",
            Direction::Incoming => "incoming",
            Direction::Both => "both",
        }
    }
}

impl Graph {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        match self {
            Graph::List { place, form } => place.visit(|client| {
                let answer = client.get(&Path::new(&["graphs"]))?;
                form.print(out, list(&answer, "data"), |graph| {
                    let count = |name: &str| graph[name].as_u64().unwrap_or_default();
                    let (blocks, edges) = (counted(count("blocks"), "block"), counted(count("edges"), "edge"));
                    format!("{:<32} {blocks}, {edges}", word(graph, "graph"))
                })
            }),
            Graph::Put(put) => put.run(out),
            Graph::Get(get) => get.run(out),
            Graph::Delete(delete) => delete.run(out),
            Graph::Blocks(list) => list.run(out),
            Graph::Link(link) => link.run(out),
            Graph::Unlink(unlink) => unlink.run(out),
            Graph::UnlinkAll(unlink) => unlink.run(out),
            Graph::Edge(edge) => edge.run(out),
            Graph::Degree(degree) => degree.run(out),
            Graph::Neighbours(neighbours) => neighbours.run(out),
            Graph::Walk(walk) => walk.run(out),
            Graph::Path(paths) => paths.run(out),
            Graph::Order(order) => order.run(out),
            Graph::Components(components) => components.run(out),
            Graph::Missing(missing) => missing.run(out),
            Graph::Changes(changes) => changes.run(out),
            Graph::Retain(retain) => retain.run(out),
            Graph::Trim(trim) => trim.run(out),
            Graph::Import(import) => import.run(out),
            Graph::Export(export) => export.run(out),
        }
    }
}

/// A read as of a position, if one is given.
fn at(path: Path, at: Option<u64>) -> Path {
    match at {
        Some(at) => path.with("at", at),
        None => path,
    }
}
