//! `quire graph`: reads of graphs.

use std::io::Write;

use clap::{Subcommand, ValueEnum};
use serde_json::Value;

use super::client::Path;
use super::place::Place;
use super::print::{Form, bytes, list, time, word, words};
use crate::failure::Result;
use crate::text::counted;

/// What `quire graph` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Graph {
    /// List the graphs, each with how large it is
    List {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
    /// Show a block
    Get {
        /// The graph, like air/routes
        graph: String,
        /// The name of the block
        block: String,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
    /// List the blocks at the other ends of a block's edges
    Neighbours {
        /// The graph, like air/routes
        graph: String,
        /// The name of the block
        block: String,
        /// Which way to follow edges
        #[arg(long, value_enum, default_value = "both")]
        direction: Direction,
        /// Only along edges of this type; given several times, of any of them
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 1_000)]
        limit: u64,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        form: Form,
    },
}

/// Which way to follow edges.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Direction {
    /// From source to target
    Outgoing,
    /// From target to source
    Incoming,
    /// Both ways
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
                form.print(out, list(&answer, "graphs"), |graph| {
                    let count = |name: &str| graph[name].as_u64().unwrap_or_default();
                    let (blocks, edges) = (counted(count("blocks"), "block"), counted(count("edges"), "edge"));
                    format!("{:<32} {blocks}, {edges}", word(graph, "graph"))
                })
            }),
            Graph::Get { graph, block, place, form } => place.visit(|client| {
                let block = client.get(&Path::new(&["graph", &graph, "blocks", &block]))?;
                form.print(out, std::slice::from_ref(&block), block_lines)
            }),
            Graph::Neighbours { graph, block, direction, types, limit, place, form } => place.visit(|client| {
                let path = Path::new(&["graph", &graph, "blocks", &block, "neighbours"]);
                let path = path.with("direction", direction.name()).with_all("type", &types).with("limit", limit);
                let answer = client.get(&path)?;
                form.print(out, list(&answer, "neighbours"), neighbour_line)?;
                if answer["more"] == true {
                    eprintln!("there are more than {limit}; see --limit");
                }
                Ok(())
            }),
        }
    }
}

/// An edge as an arrow, and the block at its other end.
fn neighbour_line(neighbour: &Value) -> String {
    let edge_type = word(neighbour, "type");
    let arrow = if neighbour["end"] == "target" { format!("--{edge_type}->") } else { format!("<-{edge_type}--") };
    format!("{arrow} {}", name(neighbour))
}

/// A block's name, or its id when it has none.
fn name(block: &Value) -> String {
    block["name"].as_str().map_or_else(|| word(block, "id"), str::to_owned)
}

fn block_lines(block: &Value) -> String {
    let lines = [
        name(block),
        format!("  id        {}", word(block, "id")),
        format!("  kind      {}", word(block, "kind")),
        format!("  version   {}, put at {}", word(block, "version"), time(block, "time_ms")),
        format!("  tags      {}", words(block, "tags")),
        format!("  metadata  {}", bytes(block, "metadata")),
        format!("  content   {}", bytes(block, "content")),
    ];
    lines.join("\n")
}
