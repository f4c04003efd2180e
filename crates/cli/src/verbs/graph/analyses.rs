//! `quire graph order` and `components`: of the blocks that some reach, or of a whole graph.

use std::io::Write;

use clap::Args;
use serde_json::{Value, json};

use super::by::By;
use super::lines;
use super::read::{Way, tell_bound};
use crate::failure::Result;
use crate::text::counted;
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, list};

/// Orders blocks.
#[derive(Debug, Args)]
pub(crate) struct OrderArgs {
    #[command(flatten)]
    analysis: Analysis,
}

/// Finds components.
#[derive(Debug, Args)]
pub(crate) struct ComponentsArgs {
    #[command(flatten)]
    analysis: Analysis,
}

/// The blocks to analyse.
#[derive(Debug, Args)]
struct Analysis {
    /// The graph, like air/routes
    graph: String,
    /// The blocks to start from
    #[arg(value_name = "START", required_unless_present = "whole")]
    starts: Vec<String>,
    #[command(flatten)]
    by: By,
    /// Start from every block of the graph
    #[arg(long, conflicts_with = "starts")]
    whole: bool,
    #[command(flatten)]
    way: Way,
    /// Largest distance from the starts, in edges [default: unlimited]
    #[arg(long, value_name = "N")]
    depth: Option<u64>,
    /// Print at most this many blocks, up to 10,000
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl Analysis {
    /// Asks for the analysis, and prints the lines of the answer.
    fn run(self, name: &str, out: &mut dyn Write, lines: fn(&Value) -> Vec<String>) -> Result {
        let Analysis { graph, starts, by, whole, way, depth, limit, place, form } = self;
        way.check_only("the walk")?;
        let asked = if whole {
            json!({ "whole": true })
        } else {
            json!({ "starts": starts.iter().map(|start| by.block(start)).collect::<Result<Vec<_>>>()? })
        };
        place.visit(|client| {
            let path = way.add_to(Path::new(&["graphs", &graph, name])).with("limit", limit);
            let path = depth.iter().fold(path, |path, depth| path.with("depth", depth));
            let answer = client.post(&path, &asked)?;
            if form.is_json() {
                return form.print(out, std::slice::from_ref(&answer), Value::to_string);
            }
            for line in lines(&answer) {
                writeln!(out, "{line}")?;
            }
            tell_bound(&answer, form, out)
        })
    }
}

/// The names of a set of blocks, on one line.
fn names(set: &Value) -> String {
    set.as_array().into_iter().flatten().map(lines::name).collect::<Vec<_>>().join(", ")
}

impl OrderArgs {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.analysis.run("order", out, |answer| {
            let order = list(answer, "order").iter().map(lines::name);
            let cycles = list(answer, "cycles").iter().map(|cycle| format!("cycle: {}", names(cycle)));
            let behind = list(answer, "behind").iter().map(|block| format!("behind a cycle: {}", lines::name(block)));
            order.chain(cycles).chain(behind).collect()
        })
    }
}

impl ComponentsArgs {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        self.analysis.run("components", out, |answer| {
            let component = |set: &Value| {
                let count = set.as_array().map_or(0, Vec::len) as u64;
                format!("{}: {}", counted(count, "block"), names(set))
            };
            list(answer, "components").iter().map(component).collect()
        })
    }
}
