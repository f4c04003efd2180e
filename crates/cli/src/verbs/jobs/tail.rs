//! `quire jobs tail`: the life-cycle events of jobs, as they happen.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::details;
use crate::failure::{CommandError, Result};
use crate::verbs::client::Path;
use crate::verbs::place::DatabaseArgs;
use crate::verbs::print::{OutputForm, bytes, time, word};

/// Arguments of `quire jobs tail`.
#[derive(Debug, Args)]
pub(crate) struct TailJobs {
    /// Only events of this queue, which need not exist yet; may be given several times
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,
    /// Only events of this job; may be given several times
    #[arg(long = "job", value_name = "ID")]
    jobs: Vec<String>,
    /// Only events of jobs with this handler; may be given several times
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// Only events of jobs with this tag; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only events with this name, like completed; may be given several times
    #[arg(long = "event", value_name = "NAME")]
    events: Vec<String>,
    /// Start after the event with this cursor, or with `start` at the oldest event [default: only
    /// new events]
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// Stop after this many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    place: DatabaseArgs,
    #[command(flatten)]
    form: OutputForm,
}

impl TailJobs {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        self.place.visit(|client| {
            let path = Path::new(&["jobs", "subscribe"]).with_all("queue", &self.queues).with_all("job", &self.jobs);
            let path = path.with_all("kind", &self.kinds).with_all("tag", &self.tags).with_all("event", &self.events);
            let path = self.after.iter().fold(path, |path, after| path.with("after", after));
            let mut left = self.limit.unwrap_or(u64::MAX);
            if left == 0 {
                return Ok(());
            }
            let mut seen = self.after.clone();
            let ended = client.follow(&path, |name, event| {
                if name == "caught_up" {
                    return Ok(!self.place.ends_here());
                }
                self.form.print(out, std::slice::from_ref(&event), line)?;
                out.flush()?;
                seen = event["after"].as_str().map(str::to_owned).or(seen.take());
                left -= 1;
                Ok(left > 0)
            })?;
            match ended {
                true => Ok(()),
                false => Err(CommandError::new(match seen {
                    Some(cursor) => format!("the server has ended the response; resume with --after {cursor}"),
                    None => "the server has ended the answer".to_owned(),
                })),
            }
        })
    }
}

fn line(event: &Value) -> String {
    let (at, queue, job) = (time(event, "time_ms"), word(event, "queue"), word(event, "job"));
    let (name, kind) = (word(event, "event"), word(event, "kind"));
    let mut line = format!("{at}  {queue:<16} {job:<10} {name:<13} {kind}");
    let details = details(event);
    if !details.is_empty() {
        line.push_str("  ");
        line.push_str(&details);
    }
    for brought in ["payload", "result", "progress"] {
        let shown = bytes(event, brought);
        if shown != "-" {
            line.push_str(&format!("  {brought} {shown}"));
        }
    }
    line
}
