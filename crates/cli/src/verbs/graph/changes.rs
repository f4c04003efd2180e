//! `quire graph changes`: puts and deletions of blocks and edges, past ones and then new ones.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::lines;
use crate::failure::{Result, aside};
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, list, time, word};

/// How long a request waits for a new change, in milliseconds.
const WAIT_MS: u64 = 30_000;

/// Lists changes.
#[derive(Debug, Args)]
pub(crate) struct ChangesArgs {
    /// The graph, like air/routes
    graph: String,
    /// Start after the changes that an earlier output ended with [default: at the beginning of the
    /// graph's history]
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    /// Stop after this many changes
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Wait for new changes at the end
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl ChangesArgs {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let ChangesArgs { graph, mut after, limit, follow, place, form } = self;
        let mut left = limit.unwrap_or(u64::MAX);
        place.visit(|client| {
            let mut wait_ms = 0;
            while left > 0 {
                let path = Path::new(&["graphs", &graph, "changes"]).with("limit", left.min(1_000));
                let path = after.iter().fold(path.with("wait_ms", wait_ms), |path, after| path.with("after", after));
                let answer = client.get(&path)?;
                let changes = list(&answer, "data");
                form.print(out, changes, line)?;
                out.flush()?;
                left -= left.min(changes.len() as u64);
                after = answer["next"].as_str().map(str::to_owned);
                if answer["has_more"] != true {
                    if !follow || place.ends_here() {
                        break;
                    }
                    wait_ms = WAIT_MS;
                }
            }
            if let Some(after) = &after {
                aside(format_args!("continue with --after {after}"));
            }
            Ok(())
        })
    }
}

/// A change on one line.
fn line(change: &Value) -> String {
    let head = format!("{}  {}", word(change, "position"), time(change, "time_ms"));
    let edge = |edge: &Value| format!("{} --{}-> {}", word(edge, "source"), word(edge, "type"), word(edge, "target"));
    let kinds = ["block_put", "block_deleted", "edge_put", "edge_deleted"];
    let kind = kinds.into_iter().find(|kind| !change[*kind].is_null()).unwrap_or("-");
    let what = match (kind, &change[kind]) {
        ("block_put", block) => format!("put      {}", lines::short(block)),
        ("block_deleted", block) => format!("deleted  {}", word(block, "id")),
        ("edge_put", put) => format!("put      {}", edge(put)),
        ("edge_deleted", deleted) => format!("deleted  {}", edge(deleted)),
        _ => "-".to_owned(),
    };
    format!("{head}  {what}")
}
