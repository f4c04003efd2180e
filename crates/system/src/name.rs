//! Which names of users, roles and resources are valid.

use core::fmt;

use crate::NAME_BYTES_MAX;

/// Why a name is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessNameProblem {
    /// It is empty.
    Empty,
    /// It is longer than [`NAME_BYTES_MAX`].
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// It has a control character.
    Control {
        /// The index of the character's first byte.
        at: usize,
    },
    /// It is `*`, which means every name.
    Wildcard,
}

impl fmt::Display for AccessNameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccessNameProblem::Empty => f.write_str("is empty"),
            AccessNameProblem::TooLong { bytes } => {
                write!(f, "has {bytes} bytes, at most {NAME_BYTES_MAX} are allowed")
            }
            AccessNameProblem::Control { at } => write!(f, "has a control character at byte {at}"),
            AccessNameProblem::Wildcard => f.write_str("is *, which means every name"),
        }
    }
}

/// Whether a name is valid for a user, a principal, a role or a resource.
pub fn is_access_name(name: &str) -> bool {
    check_name(name).is_ok()
}

/// Checks the name of a user, a role or a resource.
pub(crate) fn check_name(name: &str) -> Result<(), AccessNameProblem> {
    if name.is_empty() {
        return Err(AccessNameProblem::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(AccessNameProblem::TooLong { bytes: name.len() });
    }
    if let Some((at, _)) = name.char_indices().find(|(_, character)| character.is_control()) {
        return Err(AccessNameProblem::Control { at });
    }
    if name == "*" { Err(AccessNameProblem::Wildcard) } else { Ok(()) }
}
