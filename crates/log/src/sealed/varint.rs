//! Numbers in a variable count of bytes: LEB128, as in the bodies of entries.

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    let begin = out.len();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    debug_assert!(out.len() - begin <= u64::BITS.div_ceil(7) as usize);
}

/// Removes a number from the front. Returns `None` when it is incomplete or exceeds 64 bits.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        if shift == 63 && low > 1 {
            return None;
        }
        number |= low << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_decode_and_incomplete_numbers_do_not() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut rest = bytes.as_slice();
            assert_eq!((take(&mut rest), rest.len()), (Some(number), 0));
            assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(take(&mut &[0xff; 10][..]), None);
    }
}
