//! Request ids: one name for a request, for its client and in logs.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::str;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum length of an id that a client gives.
const BYTES_MAX: usize = 128;

/// The length of an id that the server makes.
const MADE_BYTES: usize = 16;

/// The id of a request that the server made: 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MadeRequestId([u8; MADE_BYTES]);

impl MadeRequestId {
    /// Makes an id. No two requests of a process get the same, and those of different processes
    /// differ with high probability.
    pub fn make() -> Self {
        static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // An odd factor maps each count to another number.
        let number = COUNT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ *SEED;
        let mut digits = [0; MADE_BYTES];
        for (index, digit) in digits.iter_mut().enumerate() {
            let nibble = (number >> (60 - 4 * index)) & 0xf;
            *digit = b"0123456789abcdef"[nibble as usize];
        }
        MadeRequestId(digits)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("hexadecimal digits are UTF-8")
    }
}

impl fmt::Display for MadeRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a server may take over a client's id: 1 to 128 letters, digits and `-_.:/+=@`. Anything
/// else could forge lines of a log.
pub fn is_request_id(id: &[u8]) -> bool {
    (1..=BYTES_MAX).contains(&id.len())
        && id.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn made_ids_differ_and_are_well_formed() {
        let ids: Vec<_> = (0..1_000).map(|_| MadeRequestId::make().to_string()).collect();
        assert!(ids.iter().all(|id| is_request_id(id.as_bytes()) && id.len() == MADE_BYTES));
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    }

    #[test]
    fn an_id_that_could_forge_a_line_is_not_taken_over() {
        assert!(is_request_id(b"0189f3a2-7c1e-4f6b-9d2a-6f1f3a2b4c5d"));
        assert!(is_request_id(&[b'a'; 128]));
        for id in [&b""[..], &[b'a'; 129], b"a b", b"a\tb", b"a\"b", "\u{e9}".as_bytes()] {
            assert!(!is_request_id(id), "{id:?}");
        }
    }
}
