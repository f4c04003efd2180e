//! Errors of the file of a text index: damage, after which the index is built again, and others.

use quire::{Error, ErrorKind};
use rusqlite::ffi;

/// An error of the file of a text index.
#[derive(Debug)]
pub(super) enum IndexError {
    /// The file is damaged, or not one of this version: it is built again.
    Damaged(String),
    /// Another error.
    Failed(Error),
}

impl From<Error> for IndexError {
    fn from(error: Error) -> Self {
        IndexError::Failed(error)
    }
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        let rusqlite::Error::SqliteFailure(code, _) = &error else { return IndexError::Damaged(error.to_string()) };
        let kind = match code.extended_code & 0xff {
            ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB | ffi::SQLITE_ERROR | ffi::SQLITE_SCHEMA | ffi::SQLITE_FORMAT => {
                return IndexError::Damaged(error.to_string());
            }
            ffi::SQLITE_FULL => ErrorKind::NoSpace,
            ffi::SQLITE_NOMEM => ErrorKind::TooCostly,
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => ErrorKind::Overloaded,
            _ => ErrorKind::Io,
        };
        IndexError::Failed(Error::new(kind, format!("the file of a text index: {error}")))
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Damaged(message) => {
                Error::new(ErrorKind::Io, format!("the file of a text index is damaged: {message}"))
            }
            IndexError::Failed(error) => error,
        }
    }
}

pub(super) type IndexResult<T> = Result<T, IndexError>;
