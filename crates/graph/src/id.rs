//! The id and the version of a block.
//!
//! An id is 16 opaque bytes: a user's own, or the start of the BLAKE3 hash of a name. So every
//! client that knows the name can compute the id. Invariant: within a graph no two contents ever
//! had the same id and version.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;

/// The id of a block: 16 bytes.
///
/// ```
/// use quire_graph::BlockId;
///
/// let jfk = BlockId::of_name("JFK");
/// assert_eq!(jfk, BlockId::of_name("JFK"));
/// assert_eq!(jfk.to_string().parse(), Ok(jfk));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockId([u8; 16]);

impl Hash for BlockId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // All ids have one length, so their bytes alone distinguish them.
        state.write(&self.0);
    }
}

impl BlockId {
    /// Orders before every other id. An id like any other.
    pub const MIN: BlockId = BlockId([0; 16]);
    /// The largest id; otherwise an ordinary id.
    pub const MAX: BlockId = BlockId([0xff; 16]);

    /// The id of these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        BlockId(bytes)
    }

    /// The id of a block with this name: the first 16 bytes of the name's BLAKE3 hash.
    pub fn of_name(name: &str) -> Self {
        let hash = blake3::hash(name.as_bytes());
        BlockId(*hash.as_bytes().first_chunk().expect("the hash has 32 bytes"))
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// 32 hexadecimal digits, lower case.
impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseBlockIdError;

impl fmt::Display for ParseBlockIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid block id: expected 32 hexadecimal digits")
    }
}

impl core::error::Error for ParseBlockIdError {}

impl FromStr for BlockId {
    type Err = ParseBlockIdError;

    fn from_str(text: &str) -> Result<Self, ParseBlockIdError> {
        // The parser of numbers would take a sign.
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(ParseBlockIdError);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| ParseBlockIdError)?;
        Ok(BlockId(number.to_be_bytes()))
    }
}

/// The number of a block's content. It grows with every put, by one while the block exists.
///
/// A block put again after a deletion starts above every version that was ever deleted in the
/// graph, so a version that someone remembers never names a later block's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(u64);

impl Version {
    /// The version of a block that is not there.
    pub const ABSENT: Version = Version(0);

    /// The version with this number.
    pub const fn new(number: u64) -> Self {
        Version(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Version(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
