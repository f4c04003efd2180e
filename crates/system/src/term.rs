//! The entry that begins a term: the first record of a leader of a cluster.
//!
//! It changes nothing of the state. The header of its record names the term.

use quire_model::EntryKind;
use quire_model::codec::{CodecError, Decoder};

use crate::codec::{TERM_BEGUN, unlike};

/// The node that leads in a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermBegun {
    /// Its number in the cluster.
    pub node: u64,
}

/// The kind of the entry that begins a term.
pub const fn term_begun_kind() -> EntryKind {
    TERM_BEGUN
}

impl TermBegun {
    /// The body of its entry.
    pub fn encode(self) -> [u8; 8] {
        self.node.to_le_bytes()
    }

    /// Reads the body of its entry.
    ///
    /// # Errors
    /// When the body is not that of such an entry.
    pub fn decode(body: &[u8]) -> Result<Self, CodecError> {
        let node = body.try_into().map(u64::from_le_bytes);
        node.map(|node| TermBegun { node }).map_err(|_| unlike("the number of a node", &Decoder::new(body)))
    }
}

#[cfg(test)]
mod tests {
    use quire_model::{Entry, Model, Place, Position, Tags, Timestamp};

    use super::*;
    use crate::System;

    #[test]
    fn a_term_begins_without_a_change_of_the_state() {
        let begun = TermBegun { node: 3 };
        assert_eq!(TermBegun::decode(&begun.encode()), Ok(begun));
        assert!(TermBegun::decode(&[0; 7]).is_err() && TermBegun::decode(&[0; 9]).is_err());
        let body = begun.encode();
        let entry = Entry {
            place: Place::new(Position::new(1), 0),
            time: Timestamp::from_millis(1),
            kind: term_begun_kind(),
            tags: Tags::from_encoded(&[]),
            sequence: None,
            count: 0,
            body: &body,
        };
        let mut system = System::default();
        assert_eq!(system.check_applicable(&entry), Ok(()));
        system.apply(&entry);
        assert!(system.is_unused() && system.survives(&entry, Timestamp::from_millis(9)));
    }
}
