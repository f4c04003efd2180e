//! Giving a stored batch its offset: the bytes up to where the checksum's reach begins.
//!
//! A batch is stored as its producer sent it, counting from offset 0. Where it stands is known from
//! the log alone and set when the batch goes out. Nothing behind the prefix changes, so the
//! checksum holds on. A batch that was put together here has none until then
//! ([`BatchBuilder::finish_without_checksum`](super::BatchBuilder::finish_without_checksum)).

use quire_model::Sequence;

use super::Batch;
use super::checksum::checksum;
use super::layout::{ATTRIBUTES, BASE_OFFSET, CHECKSUM, LEADER_EPOCH, set_field};

/// The length of the front of a batch that is set when the batch is sent: the fields up to the
/// checksum, and the checksum.
pub const PREFIX_BYTES: usize = ATTRIBUTES;

impl Batch<'_> {
    /// The first bytes of this batch as they read at `base_offset`; the others follow as they are,
    /// from [`PREFIX_BYTES`] on. For a front end that sends both without joining them first.
    pub fn prefix(&self, base_offset: Sequence, leader_epoch: i32) -> [u8; PREFIX_BYTES] {
        let mut prefix = *self.bytes().first_chunk().expect("a batch holds its header");
        set_field(&mut prefix, BASE_OFFSET, base_offset.get().to_be_bytes());
        set_field(&mut prefix, LEADER_EPOCH, leader_epoch.to_be_bytes());
        if self.checksum() == 0 {
            set_field(&mut prefix, CHECKSUM, checksum(self.bytes()).to_be_bytes());
        }
        prefix
    }
}
