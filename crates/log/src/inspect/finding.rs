//! A finding of verification: one defect of a file.

use std::fmt;
use std::path::PathBuf;

use quire_model::Position;

/// A defect that verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The affected part of the log.
    pub part: LogPart,
    /// The file or directory.
    pub path: PathBuf,
    /// The first wrong byte.
    pub offset: u64,
    /// The record at that byte, when known.
    pub position: Option<Position>,
    /// A description of the defect.
    pub message: String,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information. The data is intact.
    Note,
    /// A defect that opening or a repair fixes from the log.
    Derivable,
    /// Appended records are missing or unreadable.
    Lost,
}

/// The part of a log that a finding affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogPart {
    /// `quire.meta`.
    Meta,
    /// The control file.
    Control,
    /// The statistics page.
    Statistics,
    /// Records, or the header of a segment.
    Log,
    /// The bytes after the last record.
    Tail,
    /// The index of a sealed segment.
    Index,
    /// A checkpoint.
    Checkpoint,
    /// Any other file, for example an unfinished one.
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

impl fmt::Display for LogPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogPart::Meta => "meta",
            LogPart::Control => "control",
            LogPart::Statistics => "statistics",
            LogPart::Log => "log",
            LogPart::Tail => "tail",
            LogPart::Index => "index",
            LogPart::Checkpoint => "checkpoint",
            LogPart::Other => "other",
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
