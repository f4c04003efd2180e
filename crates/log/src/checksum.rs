//! CRC-32C (Castagnoli, RFC 3720 appendix B.4), the only checksum of the file format.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// Computes the CRC-32C of `bytes`, the checksum of every file of a database.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// Computes the CRC-32C of `first` followed by `second`.
pub(crate) fn crc32c_of_two(first: &[u8], second: &[u8]) -> u32 {
    crc32c_append(crc32c(first), second)
}

/// Computes the CRC-32C of a sequence whose beginning has the checksum `crc` and whose rest is
/// `bytes`.
#[inline]
pub(crate) fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    // The state of the library is the checksum of the beginning with all bits inverted.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, (!crc).into());
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_matches_the_catalogue() {
        // "123456789" is the check input in every CRC catalogue.
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c_of_two(b"1234", b"56789"), 0xE306_9283);
    }

    proptest::proptest! {
        #[test]
        fn the_result_matches_another_library(
            // The library has a separate algorithm for each range of lengths.
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..3000),
        ) {
            let (first, second) = bytes.split_at(bytes.len() / 2);
            proptest::prop_assert_eq!(crc32c(&bytes), ::crc32c::crc32c(&bytes));
            proptest::prop_assert_eq!(crc32c_of_two(first, second), crc32c(&bytes));
        }
    }
}
