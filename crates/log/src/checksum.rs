//! CRC-32C (Castagnoli, RFC 3720 appendix B.4), the one checksum of the file format.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// The CRC-32C of some bytes: the checksum of every file of a database.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// The CRC-32C of some bytes followed by others.
pub(crate) fn crc32c_of_two(first: &[u8], second: &[u8]) -> u32 {
    crc32c_append(crc32c(first), second)
}

/// The CRC-32C of some bytes, of which that was `crc`, followed by others.
#[inline]
pub(crate) fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    // The library begins with a state, which is the checksum of what came before with all bits the other way round.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, (!crc).into());
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_catalogue_comes_out() {
        // "123456789" is the check input of every CRC catalogue.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c_of_two(b"1234", b"56789"), 0xE306_9283);
    }

    proptest::proptest! {
        #[test]
        fn another_library_has_the_same_opinion(
            // It goes about them in another way by their number.
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..3000),
        ) {
            let (first, second) = bytes.split_at(bytes.len() / 2);
            proptest::prop_assert_eq!(crc32c(&bytes), ::crc32c::crc32c(&bytes));
            proptest::prop_assert_eq!(crc32c_of_two(first, second), crc32c(&bytes));
        }
    }
}
