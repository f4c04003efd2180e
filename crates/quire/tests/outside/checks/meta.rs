//! The bytes of `quire.meta` in an intact database, for a process that opens, verifies and repairs
//! it.

use quire::ErrorKind;
use quire::tools::{RepairPlan, repair, shards, verify};

use super::base::{FILES, folder, goes_on, open, put};

const NAME: &str = "quire.meta";

/// Bytes in use; later bytes are ignored.
const BYTES: usize = 40;

/// The first file of a corpus.
pub(crate) fn seed() -> &'static [u8] {
    &FILES[NAME]
}

/// The result for a database with exactly these bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The database opens, and has everything.
    Opened,
    /// The database does not open, and is repaired.
    Repaired,
    /// The file has a newer format, and is not touched.
    Newer,
}

/// Checks any bytes. Forged bytes with a valid checksum are accepted; the result may be any outcome
/// or error.
pub(crate) fn check(bytes: &[u8], is_genuine: bool) -> Outcome {
    let outcome = met(bytes, is_genuine);
    met(&sealed(bytes), false);
    outcome
}

/// Checks bytes with the right magic, version and checksum.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().max(BYTES), 0);
    bytes[..12].copy_from_slice(&seed()[..12]);
    let crc = crc32c::crc32c(&[&bytes[..12], &bytes[16..BYTES]].concat());
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn met(bytes: &[u8], is_genuine: bool) -> Outcome {
    let folder = folder();
    let path = folder.path().join("data");
    put(&path, NAME, bytes);
    let verification = verify(&path, None, &mut |_, _| ());
    assert_eq!(verification.is_err(), shards(&path).is_err_and(|error| error.kind() == ErrorKind::NewerFormat));
    let mut outcome = Outcome::Opened;
    let opened = match open(&path) {
        Err(error) if error.kind() == ErrorKind::NewerFormat => {
            let told = verification.expect_err(&format!("it is told: {error}"));
            assert_eq!(told.kind(), ErrorKind::NewerFormat);
            assert_eq!(std::fs::read(path.join(NAME)).expect("it is there"), bytes, "it is not touched");
            return Outcome::Newer;
        }
        Err(error) => {
            assert!(!is_genuine || error.kind() == ErrorKind::Damaged, "{error}");
            outcome = Outcome::Repaired;
            let plan = RepairPlan::of(&verification.expect("what is wrong is a finding"));
            // A forged id is not the shard's, so there may be nothing to repair.
            let repaired = repair(&path, &plan).and_then(|()| open(&path));
            match repaired {
                Ok(opened) => opened,
                Err(error) => {
                    assert!(!is_genuine, "the shard tells what it was: {error}");
                    return outcome;
                }
            }
        }
        Ok(opened) => {
            assert!(!is_genuine || bytes.get(..BYTES) == Some(seed()), "no other bytes are taken for it");
            opened
        }
    };
    goes_on(&opened.database);
    outcome
}
