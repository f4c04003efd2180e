//! The public error: a kind that says what the caller should do, and a message that says what was met.

use std::fmt;

use quire_model::{Position, ReadError, ReadErrorKind};

use crate::jobs;
use crate::models::UnknownModel;
use crate::refusal::{Reason, Refused};

/// The result of an operation on a database.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller should do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Open another directory: this one holds something that is not a database.
    NotADatabase,
    /// Stop the process that has the database open, or use its server.
    InUse,
    /// Use a newer program: the files are of a newer format.
    NewerFormat,
    /// Restore from a backup: files are damaged. The message names file and byte.
    Damaged,
    /// Correct the call: a setting, a name or an argument can't be.
    Invalid,
    /// Correct the call: what it names is not there.
    NotFound,
    /// Ask for what is later: what was so then was let go of. The message says from where on it is kept.
    Gone,
    /// Split the commit: it takes more bytes than a record may have.
    TooLarge,
    /// Decide again: a part of the commit was refused, and nothing was done. Only from `Outcome::committed`.
    Refused,
    /// Wait a moment, as long as the message says, and do it again: a queue has as many jobs as it may.
    Overloaded,
    /// Mend the handler, or give the consumer a dead-letter topic: records could not be handled, and were not noted as read.
    Handler,
    /// Open the database to be written: it was opened to be read only.
    ReadOnly,
    /// Free disk space; reads work, and writes work again when there is space.
    NoSpace,
    /// Open the database anew: after a failure it can't keep its promises in this process any more.
    Failed,
    /// Look at the system: it refused an operation on a file.
    Io,
}

/// What went wrong.
// Behind a pointer: every call hands a result on, and most hold no error.
pub struct Error(Box<Met>);

#[derive(Debug)]
struct Met {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// For the crates of the database.
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Met { kind, message: message.into(), source: None }))
    }

    /// What came of another error, which it says more of.
    fn of(kind: ErrorKind, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let message = source.to_string();
        Error(Box::new(Met { kind, message, source: Some(Box::new(source)) }))
    }

    /// For the crates of the database.
    #[doc(hidden)]
    pub fn newer(position: Position, UnknownModel(model): &UnknownModel) -> Self {
        let message = format!(
            "record {position} holds an entry of model {}, which this program does not know; use a newer program",
            model.get()
        );
        Error::new(ErrorKind::NewerFormat, message)
    }

    /// For the crates of the database.
    #[doc(hidden)]
    pub fn io(attempt: &str, path: &std::path::Path, error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            _ => ErrorKind::Io,
        };
        let message = format!("can't {attempt} {}: {error}", path.display());
        Error(Box::new(Met { kind, message, source: Some(Box::new(error)) }))
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Met { kind, message, source } = &*self.0;
        f.debug_struct("Error").field("kind", kind).field("message", message).field("source", source).finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<quire_log::Error> for Error {
    fn from(error: quire_log::Error) -> Self {
        use quire_log::Error as Log;
        let kind = match &error {
            Log::InUse { .. } => ErrorKind::InUse,
            Log::Damaged { .. } => ErrorKind::Damaged,
            Log::Unreadable(error) => kind_of(error),
            Log::NewerFormat { .. } => ErrorKind::NewerFormat,
            Log::Settings { .. } => ErrorKind::Invalid,
            Log::TooLarge { .. } => ErrorKind::TooLarge,
            Log::NoSpace { .. } => ErrorKind::NoSpace,
            Log::Failed { .. } => ErrorKind::Failed,
            _ => ErrorKind::Io,
        };
        Error::of(kind, error)
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Error::of(kind_of(&error), error)
    }
}

fn kind_of(error: &ReadError) -> ErrorKind {
    match error.kind {
        ReadErrorKind::Damaged => ErrorKind::Damaged,
        ReadErrorKind::Io => ErrorKind::Io,
        ReadErrorKind::Gone => ErrorKind::Gone,
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let is_overload = matches!(refused.reason, Reason::Jobs(jobs::Refusal::Overloaded { .. }));
        let kind = if is_overload { ErrorKind::Overloaded } else { ErrorKind::Refused };
        Error::new(kind, refused.to_string())
    }
}

impl From<jobs::ParseIdError> for Error {
    fn from(error: jobs::ParseIdError) -> Self {
        Error::new(ErrorKind::Invalid, error.to_string())
    }
}
