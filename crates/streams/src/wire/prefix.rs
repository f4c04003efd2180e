//! Giving a stored batch its offset: the bytes in front of the checksum's reach.
//!
//! A batch is stored as its producer sent it, counting from offset 0. Where it stands is known from the log alone and
//! set when the batch goes out. Nothing behind the prefix changes, so the checksum holds on.

use quire_model::Sequence;

use super::Batch;
use super::layout::{BASE_OFFSET, LEADER_EPOCH, MAGIC, set_field};

/// How many bytes at the front of a batch depend on where it stands: base offset, length, leader epoch.
pub const PREFIX_BYTES: usize = MAGIC;

/// Sets base offset and leader epoch in the bytes of a batch, or in the first [`PREFIX_BYTES`] of one.
///
/// # Panics
/// When there are fewer than [`PREFIX_BYTES`].
pub fn patch(bytes: &mut [u8], base_offset: Sequence, leader_epoch: i32) {
    assert!(bytes.len() >= PREFIX_BYTES, "a batch has at least {PREFIX_BYTES} bytes, not {}", bytes.len());
    set_field(bytes, BASE_OFFSET, base_offset.get().to_be_bytes());
    set_field(bytes, LEADER_EPOCH, leader_epoch.to_be_bytes());
}

impl Batch<'_> {
    /// The first bytes of this batch as they read at `base_offset`; the others follow as they are, from
    /// [`PREFIX_BYTES`] on. For a front end that sends both without joining them first.
    pub fn prefix(&self, base_offset: Sequence, leader_epoch: i32) -> [u8; PREFIX_BYTES] {
        let mut prefix = *self.bytes().first_chunk().expect("a batch holds its header");
        patch(&mut prefix, base_offset, leader_epoch);
        prefix
    }
}
