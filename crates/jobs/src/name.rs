//! Which names a queue may have.
//!
//! Names appear in paths, topic names and metrics, so they keep to characters that need no escape
//! there, and none is `.` or `..`, which clients take out of the path of an address, escaped or
//! not.

use alloc::string::String;

use crate::Refusal;

const NAME_BYTES_MAX: usize = 255;

/// Refuses a name that a queue can't have.
pub(crate) fn check_queue_name(name: &str) -> Result<(), Refusal> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let segment_ok = |segment: &str| !segment.is_empty() && segment.bytes().all(allowed);
    if name.len() <= NAME_BYTES_MAX && !matches!(name, "." | "..") && name.split('/').all(segment_ok) {
        return Ok(());
    }
    Err(Refusal::InvalidName { name: String::from(&name[..name.floor_char_boundary(NAME_BYTES_MAX)]) })
}
