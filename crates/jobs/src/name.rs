//! The rules for names of queues, kinds, groups, tags and workers.
//!
//! Names of queues appear in paths, topic names and metrics, so they keep to characters that need
//! no escape there, and none is `.` or `..`, which clients take out of the path of an address,
//! escaped or not.

use alloc::string::String;

use crate::Refusal;

const NAME_BYTES_MAX: usize = 255;

/// Refuses names with control characters, each with the field that has the name. The log may
/// contain older names with some.
#[inline]
pub(crate) fn check_printable<'n>(names: impl IntoIterator<Item = (&'static str, &'n str)>) -> Result<(), Refusal> {
    match names.into_iter().find(|(_, name)| name.contains(char::is_control)) {
        Some((field, name)) => Err(Refusal::ControlCharacter { field, name: String::from(name) }),
        None => Ok(()),
    }
}

/// Refuses a name that a queue can't have.
pub(crate) fn check_queue_name(name: &str) -> Result<(), Refusal> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let segment_ok = |segment: &str| !segment.is_empty() && segment.bytes().all(allowed);
    if name.len() <= NAME_BYTES_MAX && !matches!(name, "." | "..") && name.split('/').all(segment_ok) {
        return Ok(());
    }
    Err(Refusal::InvalidName { name: String::from(&name[..name.floor_char_boundary(NAME_BYTES_MAX)]) })
}
