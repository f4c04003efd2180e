//! Errors of a log, one variant for each reaction of the owner.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use quire_model::{Position, ReadError};

use crate::mark::Mark;

/// The result of an operation on a log.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of an operation on a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another process has the directory open.
    InUse {
        /// The shard's directory.
        directory: PathBuf,
        /// The other process, when it has written its id to the control file.
        process: Option<u64>,
    },
    /// A file is damaged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first damaged byte.
        offset: u64,
        /// The record at that byte, when known.
        position: Option<Position>,
        /// The defect found there.
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
    /// The settings are invalid.
    Settings {
        /// All problems, one sentence each.
        problems: Vec<String>,
    },
    /// A record exceeds the size limit of the settings. Nothing was appended.
    TooLarge {
        /// The size of the record.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The disk is full. Nothing was appended. Appends succeed again when space is available.
    NoSpace {
        /// The file that could not be written.
        path: PathBuf,
    },
    /// An earlier write or sync failed. The log appends and acknowledges nothing until it is
    /// reopened.
    Failed {
        /// The operation that failed.
        message: String,
    },
    /// A truncation removed the record before it was published here. The record may survive
    /// elsewhere. The caller looks for the effect of the record, or repeats the commit with an
    /// idempotency id.
    Unsettled {
        /// The position that the record had.
        position: Position,
    },
    /// The caller tried to truncate the log below its published position. This is a broken
    /// invariant: the caller must stop.
    Published {
        /// The last record that the truncation would have kept.
        kept: Position,
        /// The last published record.
        published: Position,
    },
    /// The log does not hold the record of a mark. The record is missing, or its position holds
    /// another record.
    UnknownMark {
        /// The record.
        mark: Mark,
    },
    /// A record that another node sent is not sound, or does not follow the last record. Nothing
    /// was appended.
    InvalidCopy {
        /// The defect.
        message: String,
    },
    /// Stored bytes could not be read back.
    Unreadable(ReadError),
    /// The operating system refused an operation.
    Io {
        /// The operation that failed.
        attempt: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Damaged bytes of a log. Reads that need these bytes fail; all other reads succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// The first damaged byte, or the first byte of a record that does not verify.
    pub offset: u64,
    /// The record, when that is known.
    pub position: Option<Position>,
    /// The defect found there.
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

/// A file as clients of a server see it: its name, and that of its shard's directory. Where the
/// database is on the machine is no concern of theirs.
pub(crate) fn file_label(path: &Path) -> PathBuf {
    let Some(name) = path.file_name() else { return PathBuf::new() };
    if name.as_encoded_bytes().starts_with(SHARD_PREFIX) {
        return PathBuf::from(name);
    }
    path.parent().and_then(Path::file_name).map(PathBuf::from).unwrap_or_default().join(name)
}

/// How the names of shards' directories begin.
const SHARD_PREFIX: &[u8] = b"shard-";

impl Damage {
    /// The damage without the path of the database's directory.
    pub fn for_clients(&self) -> Damage {
        Damage { path: file_label(&self.path), ..self.clone() }
    }

    pub(crate) fn into_error(self) -> Error {
        let Damage { path, offset, position, message } = self;
        Error::Damaged { path, offset, position, message }
    }
}

impl Error {
    /// Whether the error says that a file does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Converts an I/O error. A full disk becomes [`Error::NoSpace`].
    pub(crate) fn io(attempt: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace { path },
            _ => Error::Io { attempt, path, source },
        }
    }
}

impl Error {
    /// The message without the path of the database's directory.
    pub fn for_clients(&self) -> String {
        let labelled = match self {
            Error::Damaged { path, offset, position, message } => Error::Damaged {
                path: file_label(path),
                offset: *offset,
                position: *position,
                message: message.clone(),
            },
            Error::NewerFormat { path, version, supported } => {
                Error::NewerFormat { path: file_label(path), version: *version, supported: *supported }
            }
            Error::InUse { directory, process } => Error::InUse { directory: file_label(directory), process: *process },
            Error::NoSpace { path } => Error::NoSpace { path: file_label(path) },
            Error::Io { attempt, path, source } => {
                return format!("can't {attempt} {}: {source}", file_label(path).display());
            }
            other => return other.to_string(),
        };
        labelled.to_string()
    }

    /// The message for a failure that ends all appends, which clients see. It does not suggest a
    /// retry.
    pub(crate) fn final_message(&self) -> String {
        match self {
            Error::NoSpace { path } => format!("no space left on the disk for {}", file_label(path).display()),
            other => other.for_clients(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InUse { directory, process } => {
                write!(f, "{} is in use by another process", directory.display())?;
                process.map_or(Ok(()), |process| write!(f, " (process {process})"))?;
                f.write_str("; stop that process, or connect to its server")
            }
            Error::Damaged { path, offset, position, message } => {
                write!(f, "{} is damaged at byte {offset}", path.display())?;
                position.map_or(Ok(()), |position| write!(f, " (record {position})"))?;
                write!(f, ": {message}; restore a backup, or copy the whole records with `quire salvage`")
            }
            Error::NewerFormat { path, version, supported } => write!(
                f,
                "{} has format version {version}, and this program reads up to {supported}; use a newer program",
                path.display()
            ),
            Error::Settings { problems } => write!(f, "invalid settings: {}", problems.join("; ")),
            Error::TooLarge { bytes, bytes_max } => {
                write!(
                    f,
                    "the commit has {bytes} bytes and exceeds the limit of {bytes_max}; split it into smaller commits"
                )
            }
            Error::NoSpace { path } => {
                write!(f, "no space left on the disk for {}; free some space, then retry", path.display())
            }
            Error::Failed { message } => {
                write!(f, "the log stopped after a failure: {message}; reopen the log")
            }
            Error::Unsettled { position } => write!(
                f,
                "record {position} was truncated, or this node stopped leading, before it was published, and its commit may survive; look for its effect, or repeat it with an idempotency id"
            ),
            Error::Published { kept, published } => {
                write!(f, "cannot truncate the log after record {kept}: records up to {published} are published")
            }
            Error::UnknownMark { mark } => write!(f, "unknown mark: the log does not hold {mark}"),
            Error::InvalidCopy { message } => write!(f, "invalid record from another node: {message}"),
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
    fn a_final_message_suggests_no_retry() {
        let full = Error::NoSpace { path: PathBuf::from("a") };
        assert!(full.to_string().contains("free some space, then retry"));
        assert_eq!(full.final_message(), "no space left on the disk for a");
        let other = Error::Failed { message: "b".to_owned() };
        assert_eq!(other.final_message(), other.to_string());
    }

    #[test]
    fn clients_see_file_names_without_the_directory_of_the_machine() {
        let path = |path: &str| Error::NoSpace { path: PathBuf::from(path) }.final_message();
        assert_eq!(path("/home/me/db/shard-0000/spare-00"), "no space left on the disk for shard-0000/spare-00");
        assert_eq!(path("/home/me/db/shard-0000"), "no space left on the disk for shard-0000");
    }
}
