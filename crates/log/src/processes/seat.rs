//! Seats: which openings of a log, in this process and in others, are alive.
//!
//! Whoever opens a log takes a seat: a file that it keeps locked. The kernel lets go of the lock when the process dies, so a
//! seat that can be locked belongs to nobody, and no process number that is given anew is taken for the one before.

use crate::error::{Error, Result};
use crate::storage::directory::{Directory, LockedFile};

/// How many openings of one log there can be at a time: one bit of a word for each.
pub(crate) const SEATS: u32 = 64;

/// A seat that is taken for as long as this lives.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u32,
    _lock: LockedFile,
}

impl Seat {
    /// Takes the first seat that is free.
    ///
    /// # Errors
    /// [`Error::InUse`] when none is.
    pub(crate) fn take(directory: &Directory) -> Result<Self> {
        for number in 0..SEATS {
            if let Some(lock) = directory.lock_file(&name(number))? {
                return Ok(Seat { number, _lock: lock });
            }
        }
        Err(Error::InUse { directory: directory.path().to_owned(), process: None })
    }

    /// Takes this seat, if there is such a one and it is free.
    ///
    /// # Errors
    /// As of the system.
    pub(crate) fn take_free(directory: &Directory, number: u32) -> Result<Option<Self>> {
        if number >= SEATS {
            return Ok(None);
        }
        Ok(directory.lock_file(&name(number))?.map(|lock| Seat { number, _lock: lock }))
    }

    /// Its number, below [`SEATS`].
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

/// Whether nobody has a seat that somebody once had. Of one that can't be looked at this is not known, and to wait is safe.
pub(crate) fn is_left(directory: &Directory, number: u32) -> bool {
    matches!(directory.is_locked(&name(number)), Ok(Some(false)))
}

/// Whether somebody has a seat, as far as can be seen.
pub(crate) fn is_taken(directory: &Directory, number: u32) -> bool {
    !matches!(directory.is_locked(&name(number)), Ok(None | Some(false)))
}

pub(crate) fn name(number: u32) -> String {
    format!("seat-{number:02}")
}
