//! `quire inspect`: the contents of database files in readable form. It shows an overview of a
//! directory, the records of a segment or of a range of positions, and the other files.

mod file;
mod overview;
mod record;

use std::io::Write;
use std::path::Path;

use clap::Args;
use quire::tools::{self, InspectedSegment, Stretch};

use super::location::ToolLocation;
use crate::failure::Result;
use record::RecordForm;

/// Arguments of `quire inspect`.
#[derive(Debug, Args)]
#[command(after_help = "DIR can also be one file of a database: a segment, an index, a checkpoint, the control file \
                        or the statistics page. No file is changed.")]
pub(crate) struct Inspect {
    #[command(flatten)]
    location: ToolLocation,
    /// Start at this position
    #[arg(long, value_name = "POSITION")]
    from: Option<u64>,
    /// Show at most this many records [default: 20 for a directory, all for a segment]
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// Also show the entries of each record, with tags and bodies
    #[arg(long)]
    entries: bool,
    /// Print one JSON object per line; records include their entries
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(self, out: &mut dyn Write) -> Result {
        let path = self.location.directory("run `quire inspect --data DIR`, also while it serves")?;
        match (path.is_dir(), self.from) {
            (true, None) => overview::print(out, path, self.json),
            (true, Some(from)) => {
                let (identity, survey) = tools::survey(path)?;
                let mut left = self.limit.unwrap_or(20);
                let segments: Vec<_> = survey.segments().collect();
                for (index, (file, _)) in segments.iter().enumerate() {
                    // The next segment's first position marks the end of this one.
                    let ends_before = segments.get(index + 1).is_some_and(|(_, next)| next.get() <= from);
                    if left > 0 && !ends_before {
                        self.records(out, &tools::segment(&file.path, Some(identity))?, from, &mut left)?;
                    }
                }
                Ok(())
            }
            (false, from) if path.extension().is_some_and(|extension| extension == "log") => {
                let segment = tools::segment(path, None)?;
                let mut left = self.limit.unwrap_or(u64::MAX);
                self.records(out, &segment, from.unwrap_or(0), &mut left)
            }
            (false, _) => file::print(out, path, self.json),
        }
    }

    /// Prints the records of a segment, starting at a position.
    fn records(&self, out: &mut dyn Write, segment: &InspectedSegment, from: u64, left: &mut u64) -> Result {
        let mut done = Ok(());
        segment.stretches(|stretch| {
            let printed = match stretch {
                Stretch::Record(record) if record.position().get() < from => return true,
                _ if *left == 0 => return false,
                Stretch::Record(record) => {
                    *left -= 1;
                    let form = RecordForm::of(segment.path(), &record);
                    match self.json {
                        true => form.json(out),
                        false => form.text(out, self.entries),
                    }
                }
                Stretch::Damaged { offset, position, message, .. } => {
                    damage(out, segment.path(), offset, position.get(), &message, self.json)
                }
                Stretch::End { .. } => Ok(()),
            };
            done = printed;
            done.is_ok()
        });
        Ok(done?)
    }
}

fn damage(
    out: &mut dyn Write,
    path: &Path,
    offset: u64,
    position: u64,
    message: &str,
    json: bool,
) -> std::io::Result<()> {
    match json {
        true => {
            let file = path.to_string_lossy();
            let value = serde_json::json!({ "file": file, "offset": offset, "position": position, "damage": message });
            writeln!(out, "{value}")
        }
        false => writeln!(out, "damaged at byte {offset} of {}, record {position}: {message}", path.display()),
    }
}
