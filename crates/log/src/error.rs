//! What can go wrong with a log, by what the owner can do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use quire_model::{Position, ReadError};

use crate::mark::Mark;

/// The result of an operation on a log.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a log failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another process has the directory open.
    InUse {
        /// The shard's directory.
        directory: PathBuf,
        /// The process that has it, when it said so.
        process: Option<u64>,
    },
    /// A file is not what it should be.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first byte that is not as it should be.
        offset: u64,
        /// The record it would be part of, when that is known.
        position: Option<Position>,
        /// What was met.
        message: String,
    },
    /// A file was written by a newer version of Quire.
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        version: u32,
        /// The newest version that this program reads.
        supported: u32,
    },
    /// The settings can't be used.
    Settings {
        /// Every problem, one sentence each.
        problems: Vec<String>,
    },
    /// A record has more bytes than the settings allow. Nothing was appended.
    TooLarge {
        /// The bytes the record would have.
        bytes: u64,
        /// The most it may have.
        bytes_max: u64,
    },
    /// The disk is full. Nothing was appended; appends work again when there is space.
    NoSpace {
        /// The file that could not be made.
        path: PathBuf,
    },
    /// An earlier failure left the log without a promise it could keep: nothing more is appended or acknowledged until it
    /// is opened anew.
    Failed {
        /// What failed.
        message: String,
    },
    /// A truncation took away the record that was waited for, before it was published here. Whether it survives elsewhere is
    /// unknown: the caller looks for it, or repeats it in a way that has no effect the second time.
    Unsettled {
        /// The position that the record had.
        position: Position,
    },
    /// The log was to be truncated below its published position. That is a broken invariant of the caller: it must stop.
    Published {
        /// The last record that was to be kept.
        kept: Position,
        /// The last published record.
        published: Position,
    },
    /// The log does not hold the record of a mark: the record is not there yet, or another one has its position.
    UnknownMark {
        /// The record.
        mark: Mark,
    },
    /// Stored bytes could not be read back.
    Unreadable(ReadError),
    /// The operating system refused an operation.
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Bytes of a log that are not as they were written. Reads that need them fail; all else is read as before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The first byte that is not as it should be, or of the record that does not verify.
    pub offset: u64,
    /// The record, when that is known.
    pub position: Option<Position>,
    /// What was met.
    pub message: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}", self.path.display(), self.offset)?;
        if let Some(position) = self.position {
            write!(f, ", record {position}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl Damage {
    pub(crate) fn into_error(self) -> Error {
        let Damage { path, offset, position, message } = self;
        Error::Damaged { path, offset, position, message }
    }
}

impl Error {
    /// Whether it is that a file is not there.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// An I/O error, told apart from a full disk.
    pub(crate) fn io(attempt: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace { path },
            _ => Error::Io { attempt, path, source },
        }
    }
}

impl Error {
    /// What happened, where it is not to be tried again: the log takes nothing more behind it.
    pub(crate) fn final_message(&self) -> String {
        match self {
            Error::NoSpace { path } => format!("no space left on the disk for {}", path.display()),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InUse { directory, process } => {
                write!(f, "{} is in use by another process", directory.display())?;
                process.map_or(Ok(()), |process| write!(f, " (process {process})"))?;
                f.write_str("; stop it, or use its server")
            }
            Error::Damaged { path, offset, position, message } => {
                write!(f, "{} is damaged at byte {offset}", path.display())?;
                position.map_or(Ok(()), |position| write!(f, " (record {position})"))?;
                write!(f, ": {message}; restore it from a backup")
            }
            Error::NewerFormat { path, version, supported } => write!(
                f,
                "{} has format version {version}, and this program reads up to {supported}; use a newer program",
                path.display()
            ),
            Error::Settings { problems } => write!(f, "the settings can't be used: {}", problems.join("; ")),
            Error::TooLarge { bytes, bytes_max } => {
                write!(f, "the commit takes {bytes} bytes, and at most {bytes_max} are allowed; commit less at once")
            }
            Error::NoSpace { path } => {
                write!(f, "no space left on the disk for {}; free some, and it can be written again", path.display())
            }
            Error::Failed { message } => {
                write!(f, "the log stopped after a failure and has to be opened anew: {message}")
            }
            Error::Unsettled { position } => write!(
                f,
                "record {position} was truncated before it was published: the commit may or may not survive; look for its effect, or repeat it with an id that makes it count once"
            ),
            Error::Published { kept, published } => {
                write!(f, "cannot truncate the log after record {kept}: records up to {published} are published")
            }
            Error::UnknownMark { mark } => write!(f, "unknown mark: the log does not hold {mark}"),
            Error::Unreadable(error) => error.fmt(f),
            Error::Io { attempt, path, source } => write!(f, "can't {attempt} {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Error::Unreadable(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_final_is_not_said_to_pass() {
        let full = Error::NoSpace { path: PathBuf::from("a") };
        assert!(full.to_string().contains("it can be written again"));
        assert_eq!(full.final_message(), "no space left on the disk for a");
        let other = Error::Failed { message: "b".to_owned() };
        assert_eq!(other.final_message(), other.to_string());
    }
}
