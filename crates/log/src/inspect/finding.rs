//! What verification found: one thing that is not as it should be.

use std::fmt;
use std::path::PathBuf;

use quire_model::Position;

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether anything is lost.
    pub severity: Severity,
    /// What is concerned.
    pub part: Part,
    /// The file or directory.
    pub path: PathBuf,
    /// The first byte that is not as it should be.
    pub offset: u64,
    /// The record it would be part of, when that is known.
    pub position: Option<Position>,
    /// What was met.
    pub message: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know; nothing is wrong with the data.
    Note,
    /// Wrong, and made right from the log: by opening it, or by a repair.
    Derivable,
    /// Records that were appended are not there, or can't be read.
    Lost,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// `quire.meta`.
    Meta,
    /// The control file.
    Control,
    /// The statistics page.
    Statistics,
    /// Records, or the header of a segment.
    Log,
    /// What stands behind the last record.
    Tail,
    /// The index of a sealed segment.
    Index,
    /// A checkpoint.
    Checkpoint,
    /// A file that is no part of a database, or of none that was finished.
    Other,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Derivable => "derivable",
            Severity::Lost => "lost",
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Meta => "meta",
            Part::Control => "control",
            Part::Statistics => "statistics",
            Part::Log => "log",
            Part::Tail => "tail",
            Part::Index => "index",
            Part::Checkpoint => "checkpoint",
            Part::Other => "other",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} byte {}", self.severity, self.path.display(), self.offset)?;
        self.position.map_or(Ok(()), |position| write!(f, ", record {position}"))?;
        write!(f, ": {}", self.message)
    }
}
