//! CRC-32C (Castagnoli, RFC 3720 appendix B.4), the one checksum of the file format.

/// The CRC-32C of some bytes: the checksum of every file of a database.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC-32C of some bytes followed by others.
pub(crate) fn crc32c_of_two(first: &[u8], second: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(second);
    u32::try_from(digest.finalize()).expect("a 32-bit checksum")
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
}
