//! `quire salvage`: copies every whole record of a damaged database to a new one, and lists the
//! lost ones.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::tools::{self, LostRecords};
use serde::Serialize;

use super::going;
use super::location::ToolLocation;
use crate::failure::{CommandError, Result};
use crate::graph_memory::GraphMemoryArgs;
use crate::text::counted;

/// Arguments of `quire salvage`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct Salvage {
    #[command(flatten)]
    location: ToolLocation,
    /// Directory for the new database, new or empty
    #[arg(value_name = "NEW")]
    to: PathBuf,
    /// Print one JSON object per line: each loss, then the totals
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    graph_memory: GraphMemoryArgs,
}

/// The JSON form of a loss.
#[derive(Debug, Serialize)]
struct LossForm<'l> {
    file: &'l str,
    offset: u64,
    first: u64,
    last: Option<u64>,
    message: &'l str,
}

/// The JSON form of the last line.
#[derive(Debug, Serialize)]
struct SalvageTotals {
    position: u64,
    records: u64,
    state_from: u64,
    losses: usize,
}

impl Salvage {
    /// Salvages the database, and prints the losses and the totals.
    ///
    /// # Errors
    /// [`CommandError::Damaged`] when a record is lost. The new database is complete then, too.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let data = self.location.directory("run `quire salvage --data DIR NEW`")?;
        let memory = self.graph_memory.elsewhere();
        let salvage = going("salvage, bytes", |progress| tools::salvage(data, &self.to, memory.as_ref(), progress))?;
        for lost in &salvage.lost {
            match self.json {
                true => writeln!(out, "{}", json(&LossForm::of(lost)))?,
                false => writeln!(out, "lost: {lost}")?,
            }
        }
        if self.json {
            let (position, state_from) = (salvage.position.get(), salvage.state_from.get());
            let sum = SalvageTotals { position, records: salvage.records, state_from, losses: salvage.lost.len() };
            writeln!(out, "{}", json(&sum))?;
        } else {
            if salvage.state_from.get() > 0 {
                let up_to = salvage.state_from;
                writeln!(
                    out,
                    "the state up to record {up_to} comes from a checkpoint, with the effects of lost records"
                )?;
            }
            let records = counted(salvage.records, "record");
            writeln!(out, "salvaged and verified: {records} up to record {}", salvage.position)?;
        }
        if salvage.lost.is_empty() { Ok(()) } else { Err(CommandError::Damaged) }
    }
}

impl<'l> LossForm<'l> {
    fn of(lost: &'l LostRecords) -> Self {
        LossForm {
            file: lost.path.to_str().unwrap_or_default(),
            offset: lost.offset,
            first: lost.first.get(),
            last: lost.last.map(|last| last.get()),
            message: &lost.message,
        }
    }
}

fn json(of: &impl Serialize) -> String {
    serde_json::to_string(of).expect("numbers and names are JSON")
}
