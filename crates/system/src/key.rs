//! API keys: their text, and the stored part.
//!
//! ```text
//! qk_0123456789_0123456789abcdefghijklmnopqrstuv0123Ab
//!    └── id ──┘ └────────── secret ────────────┘└check┘
//! ```
//!
//! The id names the key in lists and in the audit store. The secret has 190 random bits, so one
//! SHA-256 protects it. The checksum is the CRC-32 of everything before it, as six base62
//! characters: scanners of source code recognise a key by it, and a mistyped key is refused without
//! a look-up.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use quire_model::Timestamp;

use crate::AccessRule;

/// The beginning of each key.
pub const KEY_PREFIX: &str = "qk_";

const PREFIX: &[u8] = KEY_PREFIX.as_bytes();
const ID_BYTES: usize = 10;
const SECRET_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 6;
const ID_END: usize = PREFIX.len() + ID_BYTES;
const SECRET_END: usize = ID_END + 1 + SECRET_BYTES;
const TEXT_BYTES: usize = SECRET_END + CHECKSUM_BYTES;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The public id of a key: ten base62 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; ID_BYTES]);

impl KeyId {
    /// The id of this text; `None` unless it has ten base62 characters.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; ID_BYTES] = text.as_bytes().try_into().ok()?;
        bytes.iter().all(u8::is_ascii_alphanumeric).then_some(KeyId(bytes))
    }

    /// The characters.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).expect("an id has ASCII characters")
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// The SHA-256 of a key's secret. It is compared in constant time, and shows as nothing.
#[derive(Clone, Copy)]
pub struct SecretHash(pub [u8; 32]);

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b));
        core::hint::black_box(difference) == 0
    }
}

impl Eq for SecretHash {}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

/// The stored part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The hash of the secret.
    pub secret: SecretHash,
    /// The user as which its holder acts.
    pub principal: String,
    /// Rules that also have to allow an operation. `None` leaves the user's own rights.
    pub rules: Option<Vec<AccessRule>>,
    /// The time from which on the key is refused.
    pub expires: Option<Timestamp>,
    /// A remark of its maker.
    pub note: String,
    /// Whether the key is accepted.
    pub is_enabled: bool,
}

/// The text of a key, which holds its secret. It shows its id only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyText([u8; TEXT_BYTES]);

/// A text that is no API key: of another form, or with a wrong checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAKey;

impl KeyText {
    /// The key made of these random bytes.
    pub fn of_random(id: [u8; 16], secret: [u8; 32]) -> Self {
        let mut text = [0; TEXT_BYTES];
        text[..PREFIX.len()].copy_from_slice(PREFIX);
        text[PREFIX.len()..ID_END].copy_from_slice(&base62::<ID_BYTES, 16>(id));
        text[ID_END] = b'_';
        text[ID_END + 1..SECRET_END].copy_from_slice(&base62::<SECRET_BYTES, 32>(secret));
        let checksum = checksum(&text[..SECRET_END]);
        text[SECRET_END..].copy_from_slice(&checksum);
        KeyText(text)
    }

    /// Reads the text of a key.
    ///
    /// # Errors
    /// [`NotAKey`] when the form or the checksum is wrong.
    pub fn parse(text: &str) -> Result<Self, NotAKey> {
        let text: [u8; TEXT_BYTES] = text.as_bytes().try_into().map_err(|_| NotAKey)?;
        let has_form = text.starts_with(PREFIX)
            && text[ID_END] == b'_'
            && text[PREFIX.len()..ID_END].iter().all(u8::is_ascii_alphanumeric)
            && text[ID_END + 1..].iter().all(u8::is_ascii_alphanumeric);
        if has_form && text[SECRET_END..] == checksum(&text[..SECRET_END]) { Ok(KeyText(text)) } else { Err(NotAKey) }
    }

    /// The id.
    pub fn id(&self) -> KeyId {
        KeyId(self.0[PREFIX.len()..ID_END].try_into().expect("an id has its length"))
    }

    /// The secret, whose SHA-256 is a [`SecretHash`].
    pub fn secret(&self) -> &[u8] {
        &self.0[ID_END + 1..SECRET_END]
    }

    /// The whole text, with the secret.
    pub fn reveal(&self) -> &str {
        core::str::from_utf8(&self.0).expect("a key has ASCII characters")
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyText(qk_{}_…)", self.id())
    }
}

impl fmt::Display for NotAKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "invalid API key: a key is qk_, an id of 10 characters, _, and 38 characters whose last 6 are a checksum",
        )
    }
}

impl core::error::Error for NotAKey {}

/// The last `N` base62 digits of a big-endian number.
fn base62<const N: usize, const B: usize>(mut number: [u8; B]) -> [u8; N] {
    let mut digits = [0; N];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0;
        for byte in &mut number {
            let value = remainder * 256 + u32::from(*byte);
            *byte = (value / 62) as u8;
            remainder = value % 62;
        }
        *digit = DIGITS[remainder as usize];
    }
    digits
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    base62::<CHECKSUM_BYTES, 4>(crc32(bytes).to_be_bytes())
}

/// The CRC-32 of ISO 3309, as zlib and PNG have it. A key is short, so no table is needed.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_key_is_read_back_and_shows_no_secret() {
        let key = KeyText::of_random([7; 16], [9; 32]);
        assert_eq!(key.reveal().len(), 52);
        assert_eq!(KeyText::parse(key.reveal()), Ok(key));
        assert_eq!(KeyId::parse(key.id().as_str()), Some(key.id()));
        let secret = core::str::from_utf8(key.secret()).unwrap().to_string();
        assert_eq!(key.reveal()[14..46], secret);
        assert!(!format!("{key:?}").contains(&secret[..4]));
        assert!(!format!("{:?}", SecretHash([3; 32])).contains('3'));
    }

    #[test]
    fn a_key_with_any_changed_character_is_refused() {
        let key = KeyText::of_random([1; 16], [2; 32]);
        for at in 0..key.reveal().len() {
            let mut other = key.reveal().as_bytes().to_vec();
            other[at] = if other[at] == b'x' { b'y' } else { b'x' };
            assert_eq!(KeyText::parse(core::str::from_utf8(&other).unwrap()), Err(NotAKey), "byte {at}");
        }
        for wrong in ["", "qk_", &key.reveal()[1..], &format!("{} ", key.reveal())] {
            assert_eq!(KeyText::parse(wrong), Err(NotAKey));
        }
    }

    #[test]
    fn random_bytes_reach_every_character_and_zero_is_a_key_too() {
        let mut seen = alloc::collections::BTreeSet::new();
        for number in 0..=255u8 {
            let key = KeyText::of_random([number; 16], [number.wrapping_mul(37); 32]);
            seen.extend(key.secret().iter().copied());
        }
        assert_eq!(seen.len(), 62);
        let zero = KeyText::of_random([0; 16], [0; 32]);
        assert_eq!(zero.id().as_str(), "0000000000");
    }
}
