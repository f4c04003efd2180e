//! The file name of a segment: the position of its first record, in 20 digits.

use quire_model::Position;

/// The name of the segment whose first record has the position `first`.
pub(crate) fn segment_name(first: Position) -> String {
    format!("{first:020}.log")
}

/// Whether `name` is the name of a segment.
pub(crate) fn is_segment_name(name: &str) -> bool {
    name.strip_suffix(".log").is_some_and(|first| first.len() == 20 && first.bytes().all(|byte| byte.is_ascii_digit()))
}
