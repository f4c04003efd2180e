//! `quire history`: figures of the last hour of a server, one sample every 10 seconds.

use std::io::Write;

use clap::Args;

use super::client::Path;
use super::place::DatabaseArgs;
use super::print::{OutputForm, list, time, word};
use crate::failure::{Result, aside};

/// Arguments of `quire history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryVerb {
    /// Only samples after this time, in milliseconds since 1970
    #[arg(long, value_name = "MS", default_value = "0")]
    after: u64,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl HistoryVerb {
    /// Prints the samples, the oldest first.
    ///
    /// # Errors
    /// When the database can't be reached.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let HistoryVerb { after, place, form } = self;
        if place.is_directory() {
            aside(format_args!(
                "quire: note: each server keeps its samples in memory; ask it with --http, not with --data"
            ));
        }
        place.visit(|client| {
            let answer = client.get(&Path::new(&["history"]).with("after", after))?;
            form.print(out, list(&answer, "samples"), |sample| {
                let figure = |name: &str| word(sample, name);
                format!(
                    "{} commits {} refusals {} requests {} commit p99 {} ms, sync p99 {} ms, lag {}, oldest pending {} ms",
                    time(sample, "time_ms"),
                    figure("commits"),
                    figure("refusals"),
                    figure("requests"),
                    figure("commit_p99_ms"),
                    figure("sync_p99_ms"),
                    figure("lag"),
                    figure("oldest_pending_ms"),
                )
            })
        })
    }
}
