//! `quire graph missing`: the ends of edges without a block.

use std::io::Write;

use clap::Args;

use crate::failure::{Result, aside};
use crate::text::counted;
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, list, word};

/// Lists missing blocks.
#[derive(Debug, Args)]
pub(crate) struct MissingArgs {
    /// The graph, like air/routes
    graph: String,
    /// Stop after this many blocks
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: u64,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl MissingArgs {
    pub(super) fn run(self, out: &mut dyn Write) -> Result {
        let MissingArgs { graph, limit, place, form } = self;
        place.visit(|client| {
            let (mut left, mut after) = (limit, None::<String>);
            while left > 0 {
                let path = Path::new(&["graphs", &graph, "missing"]).with("limit", left.min(1_000));
                let answer = client.get(&after.iter().fold(path, |path, after| path.with("cursor", after)))?;
                let blocks = list(&answer, "data");
                form.print(out, blocks, |block| {
                    let edges = |name: &str| counted(block[name].as_u64().unwrap_or_default(), &format!("{name} edge"));
                    format!("{}  {}, {}", word(block, "id"), edges("outgoing"), edges("incoming"))
                })?;
                left -= left.min(blocks.len() as u64);
                after = answer["next_cursor"].as_str().map(str::to_owned);
                if after.is_none() {
                    return Ok(());
                }
            }
            aside(format_args!("more than {limit} found; raise --limit to see the rest"));
            Ok(())
        })
    }
}
