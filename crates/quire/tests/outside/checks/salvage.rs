//! The bytes of the segment of a database that is salvaged.

use std::fs;
use std::path::Path;

use quire::ErrorKind;
use quire::tools::salvage;

use super::base::{FILES, folder, open, put};

/// The name of the only segment.
const NAME: &str = "shard-0000/00000000000000000001.log";

/// Bytes of the segment up to the end of its records.
pub(crate) fn seed() -> &'static [u8] {
    let segment = &FILES[NAME];
    let end = segment.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &segment[..end]
}

/// Salvages the database, with its checkpoints and without. Returns how many records are kept
/// without; `None` for a newer format.
pub(crate) fn check(bytes: &[u8]) -> Option<u64> {
    salvaged(bytes, true);
    salvaged(bytes, false)
}

fn salvaged(bytes: &[u8], has_checkpoints: bool) -> Option<u64> {
    let folder = folder();
    let (from, to) = (folder.path().join("data"), folder.path().join("salvaged"));
    put(&from, NAME, bytes);
    if !has_checkpoints {
        let checkpoints = FILES.keys().filter(|name| name.ends_with(".checkpoint"));
        checkpoints.for_each(|name| fs::remove_file(from.join(name)).expect("removed"));
    }
    match salvage(&from, &to, None, &mut |_, _| ()) {
        Ok(done) => {
            assert!(done.position >= quire::Position::new(done.records), "a position is used once");
            drop(open(&to).expect("what is salvaged opens"));
            Some(done.records)
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NewerFormat, "{error}");
            assert!(!is_database(&to), "{error}");
            None
        }
    }
}

fn is_database(path: &Path) -> bool {
    path.join("quire.meta").exists()
}
