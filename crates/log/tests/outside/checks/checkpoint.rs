//! Arbitrary bytes of a checkpoint in an intact log. The check covers the frame of the state; the
//! models check the state.

use std::sync::LazyLock;

use quire_log::inspect;

use super::base::{Base, answers, seal};

static PLAIN: LazyLock<Base> = LazyLock::new(Base::plain);

/// The initial corpus.
pub(crate) fn seed() -> &'static [u8] {
    &PLAIN.files[PLAIN.names(".checkpoint")[0]]
}

/// Returns whether the log uses the checkpoint. Bytes with a computed checksum are accepted as
/// genuine.
pub(crate) fn check(bytes: &[u8], is_genuine: bool) -> bool {
    let is_taken = opened(bytes, is_genuine);
    opened(&sealed(bytes), false);
    is_taken
}

/// Returns the bytes with a correct length and checksum.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    let end = sealed.len();
    if end >= 40 {
        sealed[32..40].copy_from_slice(&((end - 40) as u64).to_le_bytes());
        seal(&mut sealed, 12, 0..12, 16..end);
    }
    sealed
}

fn opened(bytes: &[u8], is_genuine: bool) -> bool {
    let name = PLAIN.names(".checkpoint")[0];
    let shard = PLAIN.with(name, bytes, |_| true);
    let alone = inspect::read_checkpoint(&(std::sync::Arc::new(quire_log::Disk) as _), &shard.path().join(name));
    let opened = match shard.open() {
        Ok(opened) => opened,
        // The checkpoint has a newer version, or is for a record after the last: its records are
        // missing.
        Err(error) => {
            assert!(!is_genuine, "no damage of a checkpoint keeps a log from being opened: {error}");
            return false;
        }
    };
    assert!(answers(&opened).expect("its segments are sound") == PLAIN.answers);
    let Some(checkpoint) = opened.checkpoint else { return false };
    assert_eq!(alone.expect("it was read").as_ref(), Some(&checkpoint), "read alone as with its log");
    assert_eq!(*checkpoint.payload, bytes[40..]);
    assert!(!is_genuine || bytes == seed(), "the one that was saved");
    true
}
