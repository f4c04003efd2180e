//! The id of an event: a UUID, the client's own or derived.
//!
//! A client's id makes its append idempotent and is stored. An event without a client's id has an
//! id derived from facts that never change (store, position and time). The derived id costs no
//! bytes and is the same on every read. The time is part of it so that the derived ids of two
//! databases do not collide when one is imported into the other.

use core::fmt;
use core::str::FromStr;

use quire_model::Timestamp;

use crate::{EventPosition, StoreNumber};

/// 16 bytes of UUID, in the order in which they are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId([u8; 16]);

/// The bits of a UUID's last eight bytes that its variant leaves free.
const LOW_BITS: u64 = (1 << 62) - 1;

impl EventId {
    /// The nil UUID, which is no id: some clients send it for an event without an id.
    pub const NIL: EventId = EventId([0; 16]);

    /// The id of these bytes; any 16 bytes are an id.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        EventId(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The id of an event whose client gave none, in the form of a UUID version 8 (RFC 9562).
    ///
    /// ```text
    /// | 48 + 12 bits of a hash of store and time, around the version | variant | 62 bits: position |
    /// ```
    pub(crate) fn derived(store: StoreNumber, position: EventPosition, time: Timestamp) -> Self {
        let hash = mix(mix(time.as_micros()) ^ u64::from(store.get()));
        let high = (hash & !0xf000) | 0x8000;
        let low = (position.get() & LOW_BITS) | (1 << 63);
        EventId((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }

    /// The position that this id names if it is a derived one.
    pub(crate) fn derived_position(&self) -> Option<EventPosition> {
        let bits = u128::from_be_bytes(self.0);
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        let is_version_8 = high & 0xf000 == 0x8000 && low >> 62 == 0b10;
        is_version_8.then(|| EventPosition::new(low & LOW_BITS))
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every
/// bit of `value`.
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventId({self})")
    }
}

/// A text that is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAnEventId;

impl fmt::Display for NotAnEventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid event id: expected a UUID of 32 hexadecimal digits, with or without the four hyphens")
    }
}

impl core::error::Error for NotAnEventId {}

impl FromStr for EventId {
    type Err = NotAnEventId;

    /// Reads 32 hexadecimal digits of either case, with hyphens in a UUID's places or without any.
    fn from_str(text: &str) -> Result<Self, NotAnEventId> {
        let hyphenated = text.len() == 36;
        if !hyphenated && text.len() != 32 {
            return Err(NotAnEventId);
        }
        let mut value = 0u128;
        for (index, byte) in text.bytes().enumerate() {
            if hyphenated && matches!(index, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return Err(NotAnEventId);
                }
                continue;
            }
            let digit = char::from(byte).to_digit(16).ok_or(NotAnEventId)?;
            value = value << 4 | u128::from(digit);
        }
        Ok(EventId(value.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn derived(store: u32, position: u64, micros: u64) -> EventId {
        EventId::derived(StoreNumber::new(store), EventPosition::new(position), Timestamp::from_micros(micros))
    }

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = derived(3, 42, 1_700_000_000_000_000);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().replace('-', "").to_uppercase().parse(), Ok(id));
    }

    #[test]
    fn an_invalid_uuid_is_refused() {
        let hyphens_astray = "000000000-000-8000-8000-000000000001";
        let long = "00000000-0000-8000-8000-0000000000011";
        for text in ["", "1", hyphens_astray, long, "0000000g000000000000000000000000"] {
            assert_eq!(text.parse::<EventId>(), Err(NotAnEventId), "{text}");
        }
    }

    #[test]
    fn a_derived_id_is_a_uuid_of_version_8_and_names_its_position() {
        for position in [1, 42, (1 << 62) - 1] {
            let id = derived(7, position, 1_700_000_000_000_000);
            assert_eq!(id.derived_position(), Some(EventPosition::new(position)));
            assert_eq!(id.as_bytes()[6] >> 4, 8);
            assert_eq!(id.as_bytes()[8] >> 6, 0b10);
        }
    }

    #[test]
    fn derived_ids_differ_by_store_position_and_time() {
        let id = derived(1, 1, 1_000);
        assert_ne!(id, derived(2, 1, 1_000));
        assert_ne!(id, derived(1, 2, 1_000));
        assert_ne!(id, derived(1, 1, 1_001));
    }
}
