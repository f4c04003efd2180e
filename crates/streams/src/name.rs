//! The rules for names of topics and groups.
//!
//! A topic's name follows Kafka's rule, so that every Kafka tool accepts it. Kafka has no rule for
//! a group's name, and names from other systems must work here. A group's name is any text without
//! control characters, except `.` and `..`, which clients remove from the path of an address.

use core::fmt;

/// The most bytes a topic's name may have: Kafka's limit.
pub const TOPIC_NAME_BYTES_MAX: usize = 249;

/// The most bytes a group's name may have.
pub const GROUP_NAME_BYTES_MAX: usize = 255;

/// Why a name is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicNameProblem {
    /// It has no character.
    Empty,
    /// It is too long.
    TooLong {
        /// The length of the name, in bytes.
        bytes: usize,
        /// The longest allowed length, in bytes.
        bytes_max: usize,
    },
    /// It is `.` or `..`.
    Dots,
    /// A character that may not be there.
    Character {
        /// The first of them.
        character: char,
    },
    /// A control character.
    Control {
        /// The first of them.
        character: char,
    },
}

impl fmt::Display for TopicNameProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TopicNameProblem::Empty => write!(f, "it is empty"),
            TopicNameProblem::TooLong { bytes, bytes_max } => {
                write!(f, "it has {bytes} bytes, at most {bytes_max} are allowed")
            }
            TopicNameProblem::Dots => write!(f, "`.` and `..` are reserved"),
            TopicNameProblem::Character { character } => {
                write!(f, "it contains {character:?}, only A-Z a-z 0-9 . _ - are allowed")
            }
            TopicNameProblem::Control { character } => {
                write!(f, "it contains the control character {character:?}")
            }
        }
    }
}

/// Checks the name of a topic.
pub(crate) fn check_topic(name: &str) -> Result<(), TopicNameProblem> {
    check_length(name, TOPIC_NAME_BYTES_MAX)?;
    if matches!(name, "." | "..") {
        return Err(TopicNameProblem::Dots);
    }
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
    match name.chars().find(|&character| !allowed(character)) {
        Some(character) => Err(TopicNameProblem::Character { character }),
        None => Ok(()),
    }
}

/// Checks the name of a new group.
///
/// # Errors
/// The first problem.
pub fn check_group(name: &str) -> Result<(), TopicNameProblem> {
    check_length(name, GROUP_NAME_BYTES_MAX)?;
    if matches!(name, "." | "..") {
        return Err(TopicNameProblem::Dots);
    }
    match name.chars().find(|character| character.is_control()) {
        Some(character) => Err(TopicNameProblem::Control { character }),
        None => Ok(()),
    }
}

fn check_length(name: &str, bytes_max: usize) -> Result<(), TopicNameProblem> {
    match name.len() {
        0 => Err(TopicNameProblem::Empty),
        bytes if bytes > bytes_max => Err(TopicNameProblem::TooLong { bytes, bytes_max }),
        _ => Ok(()),
    }
}
