//! `quire repair`: makes anew what follows from the log; says what it would do, and does it when told to.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use quire::tools::{self, RepairPlan};

use super::going;
use crate::failure::{Failure, Result};
use crate::graph_memory::Bound;

/// What `quire repair` takes.
#[derive(Debug, Args)]
pub(crate) struct Repair {
    /// The folder of the database, which nobody may have open
    #[arg(value_name = "DIR")]
    data: PathBuf,
    /// Do it, instead of only saying what is to be done
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    graph_memory: Bound,
}

impl Repair {
    /// Verifies, says what is to be done, and does it.
    ///
    /// # Errors
    /// [`Failure::Damaged`] when something is wrong that no repair makes right, or is to be done and was not.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let memory = self.graph_memory.elsewhere();
        let verification = going("verify, bytes", |progress| tools::verify(&self.data, memory.as_ref(), progress))?;
        for finding in &verification.findings {
            writeln!(out, "{finding}")?;
        }
        let plan = RepairPlan::of(&verification);
        if plan.steps.is_empty() && plan.stays.is_empty() {
            writeln!(out, "there is nothing to repair")?;
            return Ok(());
        }
        if self.yes {
            // What is in use is not repaired, and nothing is said of what would be.
            tools::repair(&self.data, &plan)?;
        }
        for step in &plan.steps {
            writeln!(out, "{}: {step}", if self.yes { "done" } else { "would" })?;
        }
        if !plan.stays.is_empty() {
            writeln!(out, "records are lost, and no repair invents them: restore a backup")?;
        }
        if !self.yes && !plan.steps.is_empty() {
            writeln!(out, "nothing was changed; `quire repair --yes` does it")?;
        }
        match self.yes && plan.stays.is_empty() {
            true => Ok(writeln!(out, "repaired")?),
            false => Err(Failure::Damaged),
        }
    }
}
