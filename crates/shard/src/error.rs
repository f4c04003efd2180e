//! The public error: a kind that says what the caller should do, and a message with the facts.

use std::fmt;
use std::sync::Arc;

use quire_model::{Position, ReadError, ReadErrorKind};

use crate::leader::ClusterLeader;
use crate::models::UnknownModel;
use crate::refusal::{CommitRefusal, Reason};
use crate::{events, jobs, system};

/// The result of an operation on a database.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error: each kind says what the caller should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Open another directory: this one holds no database.
    NotADatabase,
    /// Stop the process that has the database open, or use its server.
    InUse,
    /// Use a newer program: the files are of a newer format.
    NewerFormat,
    /// Restore a backup, or salvage the whole records: files are damaged. The message names file
    /// and byte.
    Damaged,
    /// Correct the call: a setting, a name or an argument is invalid.
    Invalid,
    /// Correct the call: the named thing does not exist.
    NotFound,
    /// Ask for a later position: older history was trimmed. The message names the first position
    /// that is left.
    Gone,
    /// Split the commit: it exceeds the bytes of a record.
    TooLarge,
    /// Decide again: a part of the commit was refused, and nothing was done. Only
    /// `Outcome::committed` returns it.
    Refused,
    /// Narrow the request, or read in parts: it needs more steps than its budget has. The message
    /// names the part and the number of steps. Nothing was done.
    TooCostly,
    /// Send the request again if its answer is still wanted: it was cancelled, and nothing was
    /// done.
    Cancelled,
    /// Wait for the time that the message names, and retry: a queue has as many jobs as it may.
    Overloaded,
    /// Correct the handler, or give the consumer a dead-letter topic: the handler failed, and its
    /// records were not committed as read.
    Handler,
    /// Open the database for writing: it was opened read-only.
    ReadOnly,
    /// Free disk space; reads work, and writes work again when there is space.
    NoSpace,
    /// Look for the effect of the commit, or repeat the commit so that it counts once (ids of
    /// events and jobs, conditions, producer sequences): the log was truncated, or this node
    /// stopped leading its cluster, before the commit was published. It may or may not survive.
    Unsettled,
    /// Send the request to the leader of the cluster, which the message names if it is known, or
    /// repeat it: this node does not lead. Nothing was done.
    NotLeader,
    /// Open the database again: after a failure this process can no longer keep its promises.
    Failed,
    /// Ask an administrator for the permission that the message names. Only a client of a server
    /// can lack a permission. Nothing was done.
    NotPermitted,
    /// Check the operating system: it refused an operation on a file.
    Io,
}

/// An error of the database.
// Behind a pointer: most results hold no error, and every call returns one.
pub struct Error(Box<ErrorInner>);

#[derive(Debug)]
struct ErrorInner {
    kind: ErrorKind,
    message: String,
    /// The message without paths of the machine, where that is another.
    for_clients: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    refusal: Option<CommitRefusal>,
    leader: Option<Arc<ClusterLeader>>,
}

impl Error {
    /// For the crates of the database.
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(ErrorInner {
            kind,
            message: message.into(),
            for_clients: None,
            source: None,
            refusal: None,
            leader: None,
        }))
    }

    /// An error with `source` as its cause and message.
    fn of(kind: ErrorKind, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        let message = source.to_string();
        Error(Box::new(ErrorInner {
            kind,
            message,
            for_clients: None,
            source: Some(Box::new(source)),
            refusal: None,
            leader: None,
        }))
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
        let for_clients = path.file_name().map(|name| format!("can't {attempt} {}: {error}", name.display()));
        Error(Box::new(ErrorInner {
            kind,
            message,
            for_clients,
            source: Some(Box::new(error)),
            refusal: None,
            leader: None,
        }))
    }

    /// A refusal with a message of its own. For the crates of the database.
    #[doc(hidden)]
    pub fn refused(refused: CommitRefusal, message: impl Into<String>) -> Self {
        let mut error = Error::from(refused);
        error.0.message = message.into();
        error
    }

    /// A request to a node that does not lead.
    pub(crate) fn not_leader(message: String, leader: Option<Arc<ClusterLeader>>) -> Self {
        let mut error = Error::new(ErrorKind::NotLeader, message);
        error.0.leader = leader;
        error
    }

    /// A read of this node that rests on records which no majority has confirmed in time. For the
    /// front ends.
    #[doc(hidden)]
    pub fn unconfirmed_here() -> Self {
        let message = "this node has records that no majority confirms: repeat the read, or ask the leader";
        Error::new(ErrorKind::NotLeader, message)
    }

    /// The leader of the cluster, of a request to another node that knows it.
    pub fn leader(&self) -> Option<&ClusterLeader> {
        self.0.leader.as_deref()
    }

    /// Returns the refusal of a commit, with its part and the facts; `None` for every other error.
    pub fn refusal(&self) -> Option<&CommitRefusal> {
        self.0.refusal.as_ref()
    }

    /// The message for clients of a server. It names files, but not the directory of the database.
    pub fn for_clients(&self) -> &str {
        self.0.for_clients.as_deref().unwrap_or(&self.0.message)
    }

    /// The kind, which says what to do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorInner { kind, message, for_clients: _, source, refusal, leader: _ } = &*self.0;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("message", message)
            .field("source", source)
            .field("refusal", refusal)
            .finish()
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
        let kind = ErrorKind::of_log(&error);
        let for_clients = Some(error.for_clients());
        let mut error = Error::of(kind, error);
        error.0.for_clients = for_clients;
        error
    }
}

impl ErrorKind {
    /// Every kind. `Io` stays the last one, so that a new kind does not compile without its place
    /// here.
    pub const ALL: [ErrorKind; ErrorKind::Io as usize + 1] = [
        ErrorKind::NotADatabase,
        ErrorKind::InUse,
        ErrorKind::NewerFormat,
        ErrorKind::Damaged,
        ErrorKind::Invalid,
        ErrorKind::NotFound,
        ErrorKind::Gone,
        ErrorKind::TooLarge,
        ErrorKind::Refused,
        ErrorKind::TooCostly,
        ErrorKind::Cancelled,
        ErrorKind::Overloaded,
        ErrorKind::Handler,
        ErrorKind::ReadOnly,
        ErrorKind::NoSpace,
        ErrorKind::Unsettled,
        ErrorKind::NotLeader,
        ErrorKind::Failed,
        ErrorKind::NotPermitted,
        ErrorKind::Io,
    ];

    /// The kind of an error of the log.
    pub(crate) fn of_log(error: &quire_log::Error) -> Self {
        use quire_log::Error as Log;
        match error {
            Log::InUse { .. } => ErrorKind::InUse,
            Log::Damaged { .. } => ErrorKind::Damaged,
            Log::Unreadable(error) => kind_of(error),
            Log::NewerFormat { .. } => ErrorKind::NewerFormat,
            Log::Settings { .. } => ErrorKind::Invalid,
            Log::TooLarge { .. } => ErrorKind::TooLarge,
            Log::NoSpace { .. } => ErrorKind::NoSpace,
            Log::Unsettled { .. } => ErrorKind::Unsettled,
            // The caller relied on records that were not published, so it can keep no further
            // promise.
            Log::Failed { .. } | Log::Published { .. } => ErrorKind::Failed,
            Log::UnknownMark { .. } | Log::InvalidCopy { .. } => ErrorKind::Invalid,
            _ => ErrorKind::Io,
        }
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
        ReadErrorKind::TooCostly { .. } => ErrorKind::TooCostly,
        ReadErrorKind::Cancelled => ErrorKind::Cancelled,
    }
}

impl From<CommitRefusal> for Error {
    fn from(refused: CommitRefusal) -> Self {
        let kind = match &refused.reason {
            Reason::Jobs(jobs::Refusal::Overloaded { .. }) => ErrorKind::Overloaded,
            Reason::Events(events::Refusal::TooCostly { .. }) => ErrorKind::TooCostly,
            Reason::NotPermitted(_) | Reason::System(system::Refusal::OwnerOnly) => ErrorKind::NotPermitted,
            _ => ErrorKind::Refused,
        };
        let message = refused.to_string();
        Error(Box::new(ErrorInner {
            kind,
            message,
            for_clients: None,
            source: None,
            refusal: Some(refused),
            leader: None,
        }))
    }
}

impl From<jobs::ParseIdError> for Error {
    fn from(error: jobs::ParseIdError) -> Self {
        Error::new(ErrorKind::Invalid, error.to_string())
    }
}
