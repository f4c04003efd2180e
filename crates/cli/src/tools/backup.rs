//! `quire backup` and `quire restore`: a copy of a database as of one record, and a database from
//! such a copy.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::tools;

use super::going;
use super::location::{ServedToolLocation, ToolPlace, not_over_http};
use crate::failure::{CommandError, Result};
use crate::graph_memory::GraphMemoryArgs;
use crate::server_address::ServerAddress;
use crate::text::{bytes, counted};
use crate::verbs::Path;

/// Arguments of `quire backup`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct Backup {
    #[command(flatten)]
    location: ServedToolLocation,
    /// Directory for the backup, new or empty
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// Earlier backup of the same database; unchanged files become hard links to it. A server sends
    /// every file
    #[arg(long, value_name = "BACKUP", conflicts_with = "http")]
    before: Option<PathBuf>,
}

/// Arguments of `quire restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// Directory of the backup
    #[arg(value_name = "BACKUP")]
    from: PathBuf,
    #[command(flatten)]
    target: RestoreTarget,
    #[command(flatten)]
    graph_memory: GraphMemoryArgs,
}

/// The database that is created.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct RestoreTarget {
    /// Directory for the database, as with --data
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Directory for the database, new or empty
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address of a running server; refused, because a database is restored before it is served
    #[arg(long, value_name = "URL", hide_short_help = true)]
    http: Option<ServerAddress>,
}

impl Backup {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let (to, before) = (&self.to, self.before.as_deref());
        let taken = match self.location.place()? {
            ToolPlace::Directory(data) => {
                going("back up, bytes", |progress| tools::backup(&data, to, before, progress))?
            }
            ToolPlace::Server(client) => {
                let mut archive = client.stream(&Path::new(&["backup"]))?;
                tools::receive_backup(&mut archive, to)?
            }
        };
        let size = taken.files.iter().map(|file| file.used).sum();
        let files = counted(taken.files.len() as u64, "file");
        writeln!(out, "backed up to record {}: {files}, {}", taken.position, bytes(size))?;
        if taken.left_out > 0 {
            let left_out = counted(taken.left_out, "record");
            writeln!(
                out,
                "left out: {left_out} after it, not synced when the backup began; opening the database syncs them"
            )?;
        }
        Ok(())
    }
}

impl Restore {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let RestoreTarget { dir, data, http } = self.target;
        let Some(data) = data.or(dir).filter(|_| http.is_none()) else {
            return Err(not_over_http("run `quire restore BACKUP --data NEW`, and serve NEW"));
        };
        let memory = self.graph_memory.elsewhere();
        let restored = going("verify, bytes", |progress| tools::restore(&self.from, &data, memory.as_ref(), progress))?;
        for finding in &restored.findings {
            writeln!(out, "{finding}")?;
        }
        if restored.worst().is_some_and(|worst| worst > tools::Severity::Note) {
            return Err(CommandError::Damaged);
        }
        let records = counted(restored.totals.records, "record");
        Ok(writeln!(out, "restored and verified: {records} up to record {}", restored.totals.last)?)
    }
}
