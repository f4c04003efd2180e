//! Arbitrary bytes of a plain or packed segment when a log opens.

use std::path::Path;
use std::sync::LazyLock;

use quire_log::Mark;
use quire_log::inspect::{self, Finding, InspectedRecord, Watcher};

use super::base::{Base, CHECKPOINT, IDENTITY, RECORDS, answers, append, assert_consistent, name_of, seal, u32_at};

static PLAIN: LazyLock<Base> = LazyLock::new(Base::plain);
static PACKED: LazyLock<Base> = LazyLock::new(Base::packed);

/// The result of opening a log with a segment of these bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The log does not open.
    Refused,
    /// The log opens, but a part is unreadable.
    Unreadable,
    /// The log opens without this many of its records.
    Opened(u64),
}

/// The initial corpus.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let of = |base: &Base, kind: &str| -> Vec<_> {
        base.names(".log").iter().map(|name| (format!("{kind}-{}", &name[17..20]), base.files[*name].clone())).collect()
    };
    let mut seeds = of(&PLAIN, "plain");
    let packed = of(&PACKED, "packed");
    seeds.extend(packed.into_iter().filter(|(_, bytes)| bytes.starts_with(b"QUIRECMP")));
    seeds
}

/// See the module. Bytes with computed checksums are not genuine: the check only must end.
pub(crate) fn check(bytes: &[u8], is_genuine: bool) -> Outcome {
    let outcome = opened(bytes, is_genuine);
    opened(&sealed(bytes), false);
    outcome
}

fn opened(bytes: &[u8], is_genuine: bool) -> Outcome {
    let base: &Base = if bytes.starts_with(b"QUIRECMP") { &PACKED } else { &PLAIN };
    let name = name_of(base, bytes, ".log");
    // Without indexes, opening verifies every record and uses no earlier knowledge of the segments.
    let shard = base.with(name, bytes, |other| !other.ends_with(".idx"));
    inspect::verify(&(std::sync::Arc::new(quire_log::Disk) as _), shard.path(), IDENTITY, &mut Nobody)
        .expect("the folder is there");
    let mut opened = match shard.open() {
        Ok(opened) => opened,
        Err(_) => return Outcome::Refused,
    };
    let Ok(found) = answers(&opened) else { return Outcome::Unreadable };
    assert_consistent(&found);
    let last = opened.writer.mark().position.get();
    if is_genuine {
        let written = &base.answers.all;
        assert!(written.starts_with(&found.all), "what is read is what was written, up to some record");
        assert!(last <= RECORDS && found.all.last().is_none_or(|read| read.place.position.get() <= last));
        assert!(found.all.len() == written.len() || last < RECORDS, "what is missing, is missing at the end");
    }
    // The log accepts a record and has it after reopening.
    if append(&mut opened, last + 1).is_err() {
        assert!(!is_genuine, "it can be appended to");
        return Outcome::Unreadable;
    }
    let Ok(then) = answers(&opened) else { return Outcome::Unreadable };
    assert_eq!(then.all.len(), found.all.len() + 3);
    drop(opened);
    match shard.open().map(|opened| answers(&opened)) {
        Ok(Ok(again)) => assert!(again == then, "it is as it was when it is opened again"),
        other => assert!(!is_genuine, "it opens again, and not: {other:?}"),
    }
    Outcome::Opened(RECORDS.saturating_sub(last))
}

/// Returns the bytes with correct checksums and chained records.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let is_compacted = bytes.starts_with(b"QUIRECMP");
    let header = if is_compacted { 96 } else { 64 };
    if is_compacted && u32_at(&bytes, 8) == 2 {
        let (frames, dictionary) = (u32_at(&bytes, 96), u32_at(&bytes, 100));
        let at = 112_usize.saturating_add(frames.saturating_mul(12));
        let mut begin = at.saturating_add(dictionary);
        seal(&mut bytes, 104, at..begin, 0..0);
        for entry in (112..at.min(bytes.len())).step_by(12) {
            let end = u32_at(&bytes, entry + 4);
            seal(&mut bytes, entry + 8, begin..end.max(begin), 0..0);
            begin = end;
        }
        seal(&mut bytes, 92, 96..at, 0..0);
    } else {
        let (mut at, mut previous) = (header, None);
        while at + 40 <= bytes.len() && u32_at(&bytes, at + 4) >= 40 {
            let length = u32_at(&bytes, at + 4);
            if let Some(previous) = previous {
                bytes[at + 24..at + 28].copy_from_slice(&u32::to_le_bytes(previous));
            }
            // No entry of the base has its own checksum.
            seal(&mut bytes, at, at + 4..at.saturating_add(length), 0..0);
            previous = Some(u32_at(&bytes, at) as u32);
            at = at.saturating_add(length);
        }
    }
    seal(&mut bytes, 12, 0..12, 16..header);
    bytes
}

/// A watcher that ignores all results.
struct Nobody;

impl Watcher for Nobody {
    fn record(&mut self, _: &Path, record: &InspectedRecord<'_>) {
        assert_eq!(record.entries().count(), record.entry_count() as usize);
    }

    fn gap(&mut self) {}

    fn compacted(&mut self, up_to: Mark) {
        let _ = (up_to, CHECKPOINT);
    }

    fn finding(&mut self, finding: Finding) {
        assert!(!finding.to_string().is_empty());
    }

    fn progress(&mut self, _: u64, _: u64) {}
}
