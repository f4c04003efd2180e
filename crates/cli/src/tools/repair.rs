//! `quire repair`: rebuilds files that follow from the log. Without `--yes`, it only prints the
//! plan.

use std::io::Write;

use clap::Args;
use quire::tools::{self, RepairPlan};

use super::going;
use super::location::ToolLocation;
use crate::failure::{CommandError, Result};
use crate::graph_memory::GraphMemoryArgs;

/// Arguments of `quire repair`.
#[derive(Debug, Args)]
pub(crate) struct Repair {
    #[command(flatten)]
    location: ToolLocation,
    /// Carry out the plan instead of only printing it
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    graph_memory: GraphMemoryArgs,
}

impl Repair {
    /// Verifies the database, prints the plan, and carries it out with `--yes`.
    ///
    /// # Errors
    /// [`CommandError::Damaged`] when there is damage that no repair can undo, or when the plan was
    /// not carried out.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let data = self.location.directory("stop the server and run `quire repair --data DIR`")?;
        let memory = self.graph_memory.elsewhere();
        let verification = going("verify, bytes", |progress| tools::verify(data, memory.as_ref(), progress))?;
        for finding in &verification.findings {
            writeln!(out, "{finding}")?;
        }
        let plan = RepairPlan::of(&verification);
        if plan.steps.is_empty() && plan.stays.is_empty() {
            writeln!(out, "nothing to repair")?;
            return Ok(());
        }
        if self.yes {
            // A database in use gets no plan: the files change meanwhile.
            tools::repair(data, &plan)?;
        }
        for step in &plan.steps {
            writeln!(out, "{}: {step}", if self.yes { "done" } else { "would" })?;
        }
        if !plan.stays.is_empty() {
            writeln!(out, "records are lost: restore a backup, or copy the whole records with `quire salvage`")?;
        }
        if !self.yes && !plan.steps.is_empty() {
            writeln!(out, "nothing was changed; `quire repair --yes` carries out the plan")?;
        }
        match self.yes && plan.stays.is_empty() {
            true => Ok(writeln!(out, "repaired")?),
            false => Err(CommandError::Damaged),
        }
    }
}
