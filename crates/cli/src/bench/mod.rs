//! `quire bench`: how fast it is here, measured through the public API.
//!
//! ```text
//! cases (what there is) ─▶ scratch database a case ─▶ run (append, read back) ─▶ Measurement ─▶ table or JSON lines
//! ```
//! A suite only says what to run; how it is measured and printed is the same for all.

mod cases;
mod measurement;
mod output;
mod run;
mod scratch;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::promise::Promise;
use crate::stop::Stop;
use crate::threads;
use cases::{CASES, Case};
use scratch::Scratch;

/// What `quire bench` takes.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// The suite to run
    #[arg(required_unless_present = "list", value_parser = ["log"])]
    suite: Option<String>,
    /// Print the cases there are, and run nothing
    #[arg(long)]
    list: bool,
    /// Run only the cases whose names begin like this; may be given several times
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Run only with this durability [default: both]
    #[arg(long, value_enum)]
    durability: Option<Promise>,
    /// Operations a case [default: each case's own, see --list]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    ops: Option<u64>,
    /// Where to write: databases are made below it and removed afterwards [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// One JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

impl Bench {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let selected: Vec<&Case> = CASES.iter().filter(|case| self.selects(case)).collect();
        if self.list {
            return Ok(output::list(out, &selected)?);
        }
        if selected.is_empty() {
            return Err(Failure::new("no case is called so; `quire bench --list` names them"));
        }
        let runtime = threads::start(1)?;
        let stop = Stop::on_signals(&runtime)?;
        let scratch = Scratch::create(self.data.as_deref())?;
        if !self.json {
            output::heading(out, scratch.path())?;
        }
        for case in selected {
            let measurement = run::run(case, &scratch, self.ops.unwrap_or(case.ops), &stop)?;
            if self.json {
                output::json_line(out, &measurement)?;
            } else {
                output::row(out, &measurement)?;
            }
        }
        Ok(())
    }

    fn selects(&self, case: &Case) -> bool {
        let suite = self.suite.as_deref().is_none_or(|suite| suite == case.suite);
        let durability = self.durability.is_none_or(|promise| case.durability == promise.into());
        let named = self.cases.is_empty() || self.cases.iter().any(|name| case.name.starts_with(name.as_str()));
        suite && durability && named
    }
}
