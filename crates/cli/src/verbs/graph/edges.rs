//! `quire graph edge` and `degree`.

use std::io::Write;

use clap::Args;

use super::at;
use super::by::By;
use crate::failure::Result;
use crate::text::counted;
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, bytes, time};

/// Shows an edge with its properties.
#[derive(Debug, Args)]
pub(crate) struct Edge {
    /// The graph, like air/routes
    graph: String,
    /// Source block
    source: String,
    /// Type of the edge, like calls
    edge_type: String,
    /// Target block
    target: String,
    #[command(flatten)]
    by: By,
    /// Read the graph as of this position
    #[arg(long, value_name = "POSITION")]
    at: Option<u64>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

/// Counts the edges of a block. A loop counts in both directions.
#[derive(Debug, Args)]
pub(crate) struct Degree {
    /// The graph, like air/routes
    graph: String,
    /// The block
    block: String,
    #[command(flatten)]
    by: By,
    /// Only edges of this type; given several times, of any of them
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Read the graph as of this position
    #[arg(long, value_name = "POSITION")]
    at: Option<u64>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl Edge {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let Edge { graph, source, edge_type, target, by, at: position, place, form } = self;
        place.visit(|client| {
            let path = Path::new(&["graphs", &graph, "edges"]).with("source", &source).with("type", &edge_type);
            let edge = client.get(&at(by.add_to(path.with("target", &target)), position))?;
            form.print(out, std::slice::from_ref(&edge), |edge| {
                let head = format!("{source} --{edge_type}-> {target}");
                let put = format!("  put         {}, at {}", time(edge, "time_ms"), edge["position"]);
                [head, put, format!("  properties  {}", bytes(edge, "properties"))].join("\n")
            })
        })
    }
}

impl Degree {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let Degree { graph, block, by, types, at: position, place, form } = self;
        place.visit(|client| {
            let path = Path::new(&["graphs", &graph, "blocks", &block, "degree"]).with_all("type", &types);
            let degree = client.get(&at(by.add_to(path), position))?;
            form.print(out, std::slice::from_ref(&degree), |degree| {
                let count = |name: &str| counted(degree[name].as_u64().unwrap_or_default(), &format!("{name} edge"));
                format!("{}, {}", count("outgoing"), count("incoming"))
            })
        })
    }
}
