//! Seats: the live openings of a log, in this process and in other processes.
//!
//! Every opening takes a seat: a file that it keeps locked. The kernel releases the lock when the
//! process dies. A seat that can be locked is therefore free, and a reused process id is never
//! mistaken for the earlier process.

use crate::error::{Error, Result};
use crate::storage::directory::{Directory, LockedFile};

/// The maximum number of openings of one log at the same time: one bit of a word each.
pub(crate) const SEATS: u32 = 64;
const _: () = assert!(SEATS <= u64::BITS);

/// A taken seat. Dropping it releases the seat.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u32,
    _lock: LockedFile,
}

impl Seat {
    /// Takes the first free seat.
    ///
    /// # Errors
    /// [`Error::InUse`] when every seat is taken.
    pub(crate) fn take(directory: &Directory) -> Result<Self> {
        for number in 0..SEATS {
            if let Some(lock) = directory.lock_file(&name(number))? {
                return Ok(Seat { number, _lock: lock });
            }
        }
        Err(Error::InUse { directory: directory.path().to_owned(), process: None })
    }

    /// Takes the seat `number`. Returns `None` when the seat is taken or the number is invalid.
    ///
    /// # Errors
    /// The errors of the system.
    pub(crate) fn take_free(directory: &Directory, number: u32) -> Result<Option<Self>> {
        if number >= SEATS {
            return Ok(None);
        }
        Ok(directory.lock_file(&name(number))?.map(|lock| Seat { number, _lock: lock }))
    }

    /// Returns the number of the seat, below [`SEATS`].
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

/// Whether a seat was used and is free now. An error counts as not free, because waiting is safe.
pub(crate) fn is_left(directory: &Directory, number: u32) -> bool {
    matches!(directory.is_locked(&name(number)), Ok(Some(false)))
}

/// Whether a seat is taken. An error counts as taken.
pub(crate) fn is_taken(directory: &Directory, number: u32) -> bool {
    !matches!(directory.is_locked(&name(number)), Ok(None | Some(false)))
}

pub(crate) fn name(number: u32) -> String {
    debug_assert!(number < SEATS, "a seat has a bit in a word");
    format!("seat-{number:02}")
}
