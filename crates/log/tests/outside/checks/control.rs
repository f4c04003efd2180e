//! Arbitrary bytes of a control file in an intact, closed log.
//!
//! The control file decides whether damage counts as a torn tail. So its content can make the log
//! refuse to open, but never loses a record.

use std::sync::LazyLock;

use quire_log::inspect::Survey;

use super::base::{Base, IDENTITY, RECORDS, answers, append};

static PLAIN: LazyLock<Base> = LazyLock::new(Base::plain);

/// The sealed words, 48 bits of number and 16 bits of checksum: version, durability, tail, durable
/// mark, active segment.
const SEALED: [usize; 5] = [1, 5, 8, 16, 25];

/// The initial corpus: the file of a closed log, and of a log whose last process died while another
/// had it open.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let closed = PLAIN.files["control"].clone();
    let mut died = closed.clone();
    // Two processes have the log open. The first holds the turn and listens.
    for (word, value) in [(24, 1_u64), (48, 3), (64, 4711), (65, 4712)] {
        died[word * 8..][..8].copy_from_slice(&value.to_le_bytes());
    }
    vec![("closed".to_owned(), closed), ("died".to_owned(), died)]
}

/// Returns whether the log opens. If so, it has every record and accepts more. A file with computed
/// checksums is not genuine, and the log may refuse it.
pub(crate) fn check(bytes: &[u8], is_genuine: bool) -> bool {
    let is_opened = opened(bytes, is_genuine);
    opened(&sealed(bytes), false);
    is_opened
}

/// Returns the bytes as a control file of this log, with sealed numbers.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let own: &[u8] = &PLAIN.files["control"];
    bytes.resize(bytes.len().max(40), 0);
    bytes[..8].copy_from_slice(&own[..8]);
    bytes[16..40].copy_from_slice(&own[16..40]);
    for word in SEALED {
        if let Some(word) = bytes.as_chunks_mut::<8>().0.get_mut(word) {
            *word = seal(u64::from_le_bytes(*word) & ((1 << 48) - 1)).to_le_bytes();
        }
    }
    bytes
}

/// As defined in `docs/file-format.md`: fmix64 of MurmurHash3, salted.
fn seal(number: u64) -> u64 {
    let mut hash = number ^ u64::from_le_bytes(*b"QUIRECTL");
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number | (hash ^ (hash >> 33)) << 48
}

fn opened(bytes: &[u8], is_genuine: bool) -> bool {
    let shard = PLAIN.with("control", bytes, |_| true);
    Survey::of(&(std::sync::Arc::new(quire_log::Disk) as _), shard.path(), IDENTITY).expect("the folder is there");
    let mut opened = match shard.open() {
        Ok(opened) => opened,
        Err(error) => {
            assert!(!is_genuine, "no damage of a control file keeps a log from being opened: {error}");
            return false;
        }
    };
    // A file with a later tail is trusted, and the log reports the missing records.
    assert!(!is_genuine || opened.recovery.cut.is_none(), "{:?}", opened.recovery);
    assert!(answers(&opened).expect("its segments are sound") == PLAIN.answers);
    append(&mut opened, RECORDS + 1).expect("it goes on");
    let then = answers(&opened).expect("its segments are sound");
    drop(opened);
    let again = shard.open().expect("it was closed well");
    assert!(answers(&again).expect("its segments are sound") == then, "it is as it was when it is opened again");
    true
}
