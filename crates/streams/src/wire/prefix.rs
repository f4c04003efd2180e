//! Giving a stored batch its offset: the bytes up to where the checksum's reach begins.
//!
//! A batch is stored as its producer sent it, with base offset 0. The log knows its real offset,
//! which is set when the batch is sent to a consumer. Bytes after the prefix never change, so the
//! checksum stays valid. A batch that was built in this process gets its checksum here
//! ([`BatchBuilder::finish_without_checksum`](super::BatchBuilder::finish_without_checksum)).

use quire_model::Sequence;

use super::Batch;
use super::checksum::checksum;
use super::layout::{ATTRIBUTES, BASE_OFFSET, CHECKSUM, LEADER_EPOCH, set_field};

/// The length of the front of a batch that is set when the batch is sent: the fields up to the
/// checksum, and the checksum.
pub const PREFIX_BYTES: usize = ATTRIBUTES;

impl Batch<'_> {
    /// Returns the first bytes of this batch, with `base_offset` and `leader_epoch` filled in. The
    /// batch's bytes from [`PREFIX_BYTES`] on follow unchanged. A front end sends both parts
    /// without joining them first.
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
