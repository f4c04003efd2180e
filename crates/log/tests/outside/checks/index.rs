//! Arbitrary bytes of an index with its intact segment.

use std::sync::LazyLock;

use super::base::{Base, RECORDS, answers, append, name_of, seal, u32_at};

static PLAIN: LazyLock<Base> = LazyLock::new(Base::plain);

/// The initial corpus.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    PLAIN.names(".idx").iter().take(3).map(|name| (name[17..20].to_owned(), PLAIN.files[*name].clone())).collect()
}

/// Returns whether the index was used and not rebuilt. An index with computed checksums is trusted:
/// it only must open without harm.
pub(crate) fn check(bytes: &[u8], is_genuine: bool) -> bool {
    let name = name_of(&PLAIN, bytes, ".idx");
    for forged in [bytes, &sealed(bytes)] {
        let _ = PLAIN.with(name, forged, |_| true).open();
    }
    if !is_genuine {
        return false;
    }
    let shard = PLAIN.with(name, bytes, |_| true);
    let mut opened = shard.open().expect("its segments are sound");
    let found = answers(&opened).expect("its segments are sound");
    assert!(found == PLAIN.answers, "the answers are those of the segments, whatever the index is");
    append(&mut opened, RECORDS + 1).expect("it goes on");
    drop(opened);
    let kept = std::fs::read(shard.path().join(name)).expect("it is there");
    assert!(kept == bytes || kept == PLAIN.files[name], "it is what it was, or was made anew");
    kept == bytes
}

/// Returns the bytes with correct checksums.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let part = |at: usize| u32_at(&bytes, at);
    let fixed = [(part(68), 12), (part(72), 8), (part(76), 16)].map(|(count, each)| count.saturating_mul(each));
    let lists = [part(88), part(96), part(104)];
    let body = fixed.iter().chain(&lists).fold(0_usize, |sum, part| sum.saturating_add(*part));
    let begin = 128_usize.saturating_add(body.div_ceil(4096).saturating_mul(4));
    for (block, at) in (128..begin.min(bytes.len())).step_by(4).enumerate() {
        let from = begin + block * 4096;
        let end = (from + 4096).min(begin.saturating_add(body));
        seal(&mut bytes, at, from..end.max(from), 0..0);
    }
    seal(&mut bytes, 12, 0..12, 16..begin.max(16));
    bytes
}
