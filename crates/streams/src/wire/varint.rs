//! Zigzag varints as records use them: seven bits a byte, least significant first, the sign in the
//! lowest bit.
//!
//! Reading never passes the end of the slice and takes at most five bytes for 32 bits and ten for
//! 64, as Kafka does. Longer forms of a number are valid.

/// Maps small numbers of either sign to small numbers without one.
pub(super) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub(super) const fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// Returns the length of the varint of `value`, in bytes. For a 32-bit number it is the same as in
/// Kafka's 32-bit form.
pub(super) const fn length(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Writes `value` at `at` and returns the offset after it. The slice must have space for [`length`]
/// bytes.
pub(super) fn put(out: &mut [u8], mut at: usize, value: i64) -> usize {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        out[at] = (rest as u8) | 0x80;
        rest >>= 7;
        at += 1;
    }
    out[at] = rest as u8;
    at + 1
}

/// A varint in a register, first byte lowest: how the numbers of nearly every record are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Short {
    pub(super) bytes: u64,
    pub(super) length: usize,
}

/// The [`zigzag`] form of a [`Short`] number is less than this, and takes at most three bytes.
pub(super) const SHORT_LIMIT: u64 = 1 << 21;

impl Short {
    /// The varint of a number in [`zigzag`] form, less than [`SHORT_LIMIT`].
    #[inline]
    pub(super) const fn new(zigzag: u64) -> Self {
        debug_assert!(zigzag < SHORT_LIMIT);
        // Neighbouring records have numbers of the same length: the branches are predicted.
        if zigzag < 1 << 7 {
            return Short { bytes: zigzag, length: 1 };
        }
        let low = (zigzag & 0x7f) | 0x80;
        if zigzag < 1 << 14 {
            return Short { bytes: low | (zigzag >> 7) << 8, length: 2 };
        }
        let middle = ((zigzag >> 7) & 0x7f) | 0x80;
        Short { bytes: low | middle << 8 | (zigzag >> 14) << 16, length: 3 }
    }

    /// This number followed by `next`, together at most eight bytes.
    #[inline]
    pub(super) const fn then(self, next: Short) -> Self {
        Short { bytes: self.bytes | next.bytes << (8 * self.length), length: self.length + next.length }
    }
}

/// Reads the [`zigzag`] form of the number at `at`, and returns it with the offset after it. `None`
/// when it takes more than three bytes, or the slice ends before.
#[inline(always)]
pub(super) fn short_at(from: &[u8], at: usize) -> Option<(u64, usize)> {
    let byte = |at: usize| from.get(at).map(|byte| u64::from(*byte));
    let low = byte(at)?;
    if low < 0x80 {
        return Some((low, at + 1));
    }
    let middle = byte(at + 1)?;
    if middle < 0x80 {
        return Some((low & 0x7f | middle << 7, at + 2));
    }
    let high = byte(at + 2)?;
    (high < 0x80).then_some((low & 0x7f | (middle & 0x7f) << 7 | high << 14, at + 3))
}

/// Reads a 32-bit number from the front; `None` when the slice has none.
#[inline]
pub(super) fn take_i32(from: &mut &[u8]) -> Option<i32> {
    let value = take(from, 5)?;
    Some(unzigzag(u64::from(u32::try_from(value).ok()?)) as i32)
}

/// Reads a 64-bit number from the front; `None` when the slice has none.
#[inline]
pub(super) fn take_i64(from: &mut &[u8]) -> Option<i64> {
    take(from, 10).map(unzigzag)
}

#[inline]
fn take(from: &mut &[u8], bytes_max: usize) -> Option<u64> {
    match **from {
        [first @ ..0x80, ref rest @ ..] => {
            *from = rest;
            Some(u64::from(first))
        }
        [first, second @ ..0x80, ref rest @ ..] => {
            *from = rest;
            Some(u64::from(first & 0x7f) | u64::from(second) << 7)
        }
        _ => take_long(from, bytes_max),
    }
}

fn take_long(from: &mut &[u8], bytes_max: usize) -> Option<u64> {
    let mut value = 0u64;
    for (index, &byte) in from.iter().take(bytes_max).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            *from = &from[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_bytes_that_protocol_buffers_give_them() {
        // https://protobuf.dev/programming-guides/encoding: sint64 0, -1, 1, -2, and 150 of zigzag
        // 300.
        for (value, bytes) in [(0, &[0][..]), (-1, &[1]), (1, &[2]), (-2, &[3]), (150, &[0xac, 0x02])] {
            let mut out = [0; 10];
            let end = put(&mut out, 0, value);
            assert_eq!(&out[..end], bytes);
        }
    }

    proptest::proptest! {
        #[test]
        fn every_number_is_read_back_and_has_its_computed_length(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = [0; 10];
            let end = put(&mut out, 0, value);
            assert_eq!(end, length(value));
            if zigzag(value) < SHORT_LIMIT {
                let short = Short::new(zigzag(value));
                assert_eq!(&short.bytes.to_le_bytes()[..short.length], &out[..end]);
            }
            let short = (zigzag(value) < SHORT_LIMIT).then_some((zigzag(value), end));
            assert_eq!(short_at(&out, 0), short);
            assert_eq!(short_at(&out[..end - 1], 0), None);
            let mut rest = &out[..end];
            assert_eq!(take_i64(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(take_i32(&mut &out[..end]), i32::try_from(value).ok());
            assert_eq!(take_i64(&mut &out[..end - 1]), None);
        }

        #[test]
        fn any_bytes_are_read_or_refused_without_panic(bytes: [u8; 12]) {
            take_i32(&mut &bytes[..]);
            take_i64(&mut &bytes[..]);
        }
    }
}
