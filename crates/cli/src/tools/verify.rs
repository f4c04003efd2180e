//! `quire verify`: checks every checksum, position and chain of the log, and the checkpoints
//! against a replay.

use std::io::Write;

use clap::Args;
use quire::tools::{self, Finding, Severity, Verification};
use serde::Serialize;

use super::going;
use super::location::ToolLocation;
use crate::failure::{CommandError, Result};
use crate::graph_memory::GraphMemoryArgs;
use crate::text::{bytes, counted};

/// Arguments of `quire verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    location: ToolLocation,
    /// Print one JSON object per line: each finding, then the totals
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    graph_memory: GraphMemoryArgs,
}

/// The JSON form of a finding.
#[derive(Debug, Serialize)]
struct FindingForm<'f> {
    severity: String,
    part: String,
    file: &'f str,
    offset: u64,
    position: Option<u64>,
    message: &'f str,
}

/// The JSON form of the last line.
#[derive(Debug, Serialize)]
struct Sum {
    verdict: &'static str,
    segments: u64,
    records: u64,
    entries: u64,
    bytes: u64,
    position: u64,
    checkpoints: u64,
    findings: usize,
}

impl Verify {
    /// Prints the findings and the totals.
    ///
    /// # Errors
    /// [`CommandError::Damaged`] when there is a finding.
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let data = self.location.directory("run `quire verify --data DIR`, also while it serves")?;
        let memory = self.graph_memory.elsewhere();
        let verification = going("verify, bytes", |progress| tools::verify(data, memory.as_ref(), progress))?;
        for finding in &verification.findings {
            match self.json {
                true => writeln!(out, "{}", json(&FindingForm::of(finding)))?,
                false => writeln!(out, "{finding}")?,
            }
        }
        match self.json {
            true => writeln!(out, "{}", json(&sum(&verification)))?,
            false => writeln!(out, "{}", sentence(&verification))?,
        }
        match verification.worst() {
            None | Some(Severity::Note) => Ok(()),
            Some(Severity::Derivable | Severity::Lost) => Err(CommandError::Damaged),
        }
    }
}

impl<'f> FindingForm<'f> {
    fn of(finding: &'f Finding) -> Self {
        FindingForm {
            severity: finding.severity.to_string(),
            part: finding.part.to_string(),
            file: finding.path.to_str().unwrap_or_default(),
            offset: finding.offset,
            position: finding.position.map(|position| position.get()),
            message: &finding.message,
        }
    }
}

fn json(of: &impl Serialize) -> String {
    serde_json::to_string(of).expect("numbers and names are JSON")
}

fn verdict(verification: &Verification) -> &'static str {
    match verification.worst() {
        None | Some(Severity::Note) => "whole",
        Some(Severity::Derivable) => "repairable",
        Some(Severity::Lost) => "damaged",
    }
}

fn sum(of: &Verification) -> Sum {
    Sum {
        verdict: verdict(of),
        segments: of.totals.segments,
        records: of.totals.records,
        entries: of.totals.entries,
        bytes: of.totals.bytes,
        position: of.totals.last.get(),
        checkpoints: of.checkpoints,
        findings: of.findings.len(),
    }
}

fn sentence(of: &Verification) -> String {
    let totals = of.totals;
    let told = match verdict(of) {
        "repairable" => "repairable: `quire repair` rebuilds or cuts the damaged parts above, and keeps the rest",
        "damaged" => "damaged: records are lost; restore a backup, or copy the whole records with `quire salvage`",
        whole => whole,
    };
    format!(
        "{}, {}, {} in {} up to record {}; {} {} with the log\n{told}",
        counted(totals.records, "record"),
        if totals.entries == 1 {
            "1 entry".to_owned()
        } else {
            format!("{} entries", crate::text::grouped(totals.entries))
        },
        bytes(totals.bytes),
        counted(totals.segments, "segment"),
        totals.last,
        counted(of.checkpoints, "checkpoint"),
        if of.checkpoints == 1 { "agrees" } else { "agree" },
    )
}
