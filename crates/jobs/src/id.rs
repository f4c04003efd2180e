//! The names of jobs and leases: places in the log, written `position-index`.
//!
//! An id is given once, by the log, and never again; a replay and a replica give the same. Nothing
//! here knows whether a job of that id exists.

use core::fmt;
use core::str::FromStr;

use quire_model::{Place, Position};

use crate::ordered::OrderedKey;

/// A job: the place of its enqueue entry. Older jobs have lesser ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(PackedPlace);

/// A lease: the place of the entry that granted it. No two leases of a job have the same token;
/// jobs that one fetch leased share theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseToken(PackedPlace);

/// A bulk change: the place of the entry that began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BulkId(PackedPlace);

/// The number of a queue, dense from 0 in the order of creation, never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QueueId(pub(crate) u32);

/// A place in 12 bytes instead of 16, in the order of places: there is one in every index for every
/// job.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PackedPlace {
    /// The lower half first, as one number has it in memory.
    position: [u32; 2],
    index: u32,
}

impl PackedPlace {
    pub(crate) const fn new(place: Place) -> Self {
        let position = place.position.get();
        PackedPlace { position: [position as u32, (position >> 32) as u32], index: place.index }
    }

    const fn position(self) -> u64 {
        self.position[0] as u64 | (self.position[1] as u64) << 32
    }

    pub(crate) const fn place(self) -> Place {
        Place::new(Position::new(self.position()), self.index)
    }
}

impl OrderedKey for JobId {
    /// Jobs of one commit are numbered one by one, and those of commits with one each as well.
    #[inline]
    fn ahead_of(&self, first: &Self) -> usize {
        let (own, first) = (self.0, first.0);
        let by_commits = own.position[0].wrapping_sub(first.position[0]);
        if by_commits == 0 { own.index.wrapping_sub(first.index) as usize } else { by_commits as usize }
    }
}

impl Ord for PackedPlace {
    #[inline]
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.position(), self.index).cmp(&(other.position(), other.index))
    }
}

impl PartialOrd for PackedPlace {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for PackedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(self.place(), f)
    }
}

/// A text that is not `position-index`, two plain decimal numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseIdError;

impl JobId {
    /// The id of the job whose enqueue entry has this place.
    pub const fn new(place: Place) -> Self {
        JobId(PackedPlace::new(place))
    }

    /// The place of its enqueue entry.
    pub const fn place(self) -> Place {
        self.0.place()
    }
}

impl LeaseToken {
    /// The lease that the entry at this place granted.
    pub const fn new(place: Place) -> Self {
        LeaseToken(PackedPlace::new(place))
    }

    /// The place of the entry that granted it.
    pub const fn place(self) -> Place {
        self.0.place()
    }
}

impl BulkId {
    /// The bulk change that the entry at this place began.
    pub const fn new(place: Place) -> Self {
        BulkId(PackedPlace::new(place))
    }

    /// The place of the entry that began it.
    pub const fn place(self) -> Place {
        self.0.place()
    }
}

fn write_place(place: Place, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}-{}", place.position, place.index)
}

fn parse_number<N: FromStr>(text: &str) -> Result<N, ParseIdError> {
    // One id, one text: no plus sign, no leading zeros.
    let is_plain = text.starts_with(|first: char| first.is_ascii_digit()) && (!text.starts_with('0') || text == "0");
    text.parse().ok().filter(|_| is_plain).ok_or(ParseIdError)
}

fn parse_place(text: &str) -> Result<Place, ParseIdError> {
    let (position, index) = text.split_once('-').ok_or(ParseIdError)?;
    Ok(Place::new(Position::new(parse_number(position)?), parse_number(index)?))
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(self.place(), f)
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(self.place(), f)
    }
}

impl fmt::Display for BulkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(self.place(), f)
    }
}

impl FromStr for BulkId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        parse_place(text).map(BulkId::new)
    }
}

impl FromStr for JobId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        parse_place(text).map(JobId::new)
    }
}

impl FromStr for LeaseToken {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        parse_place(text).map(LeaseToken::new)
    }
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected position-index, such as 4711-0")
    }
}

impl core::error::Error for ParseIdError {}
