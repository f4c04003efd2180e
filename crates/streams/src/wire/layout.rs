//! The offsets of the fields in a batch's header. All numbers are big-endian.
//!
//! ```text
//!  0        8       12      16 17    21    23      27       35       43      51   53      57      61
//!  ├────────┼───────┼───────┼──┼─────┼─────┼───────┼────────┼────────┼───────┼────┼───────┼───────┼────────────┐
//!  │base    │batch  │leader │ 2│CRC  │attri│last   │base    │max     │producer    │base   │record │ records    │
//!  │offset  │length │epoch  │  │ 32C │butes│offset │time-   │time-   │id     epoch│sequen-│count  │ (maybe com-│
//!  │        │       │       │  │     │     │delta  │stamp   │stamp   │       │    │ce     │       │  pressed)  │
//!  └────────┴───────┴───────┴──┴─────┴─────┴───────┴────────┴────────┴───────┴────┴───────┴───────┴────────────┘
//!                    the length covers from here ▲     the checksum covers from "attributes" to the end
//!                    (leader epoch, byte 12)
//! ```
//!
//! The length counts the bytes after the length field. Base offset, length and leader epoch are
//! outside the checksum, so that a broker may set them without touching the rest. The magic byte
//! has the same offset in formats 0 and 1.

/// The length of a batch's header, in bytes.
pub const HEADER_BYTES: usize = 61;

pub(super) const BASE_OFFSET: usize = 0;
pub(super) const BATCH_LENGTH: usize = 8;
/// The length field counts the bytes from here on.
pub(super) const LEADER_EPOCH: usize = 12;
pub(super) const MAGIC: usize = 16;
pub(super) const CHECKSUM: usize = 17;
/// The checksum covers the bytes from here on.
pub(super) const ATTRIBUTES: usize = 21;
pub(super) const LAST_OFFSET_DELTA: usize = 23;
pub(super) const BASE_TIMESTAMP: usize = 27;
pub(super) const MAX_TIMESTAMP: usize = 35;
pub(super) const PRODUCER_ID: usize = 43;
pub(super) const PRODUCER_EPOCH: usize = 51;
pub(super) const BASE_SEQUENCE: usize = 53;
pub(super) const RECORD_COUNT: usize = 57;

/// The magic byte of format v2.
pub(super) const MAGIC_V2: u8 = 2;

/// The least a record can take: seven fields of one byte each (length, attributes, timestamp delta,
/// offset delta, key length, value length, header count).
pub(super) const RECORD_BYTES_MIN: usize = 7;

const _: () = assert!(RECORD_COUNT + 4 == HEADER_BYTES);

/// The `N` bytes of the field at `at`, of a slice that holds a whole header.
pub(super) fn field<const N: usize>(batch: &[u8], at: usize) -> [u8; N] {
    let header = batch.first_chunk::<HEADER_BYTES>().expect("a batch holds its header");
    *header[at..].first_chunk().expect("a field lies within the header")
}

/// Sets the field at `at`.
#[inline]
pub(super) fn set_field<const N: usize>(batch: &mut [u8], at: usize, value: [u8; N]) {
    batch[at..at + N].copy_from_slice(&value);
}
