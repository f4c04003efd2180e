//! The bytes of `quire.backup` in an intact backup, for a process that restores it, or opens it by
//! mistake.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use quire::ErrorKind;
use quire::tools::{Backup, Severity, backup, restore};

use super::base::{folder, goes_on, open, put};

const NAME: &str = "quire.backup";

/// Bytes of the header: the body follows.
const HEADER_BYTES: usize = 16;

static FILES: LazyLock<BTreeMap<PathBuf, Vec<u8>>> = LazyLock::new(|| {
    let folder = folder();
    let (data, to) = (folder.path().join("data"), folder.path().join("backup"));
    put(&data, "", b"");
    // The last synced record is known once the database was opened and closed.
    drop(open(&data).expect("opened"));
    backup(&data, &to, None, &mut |_, _| ()).expect("backed up");
    files_in(&to)
});

/// The first file of a corpus.
pub(crate) fn seed() -> &'static [u8] {
    &FILES[Path::new(NAME)]
}

/// Every file below a directory, by its path there.
fn files_in(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("listed").map(|entry| entry.expect("an entry").path()) {
            match entry.is_dir() {
                true => folders.push(entry),
                false => drop(files.insert(
                    entry.strip_prefix(folder).expect("it is below").to_owned(),
                    fs::read(&entry).expect("read"),
                )),
            }
        }
    }
    files
}

/// Returns whether the bytes are the list of a backup that can be restored. A forged list with a
/// valid checksum is accepted, and its files are read.
pub(crate) fn check(bytes: &[u8], is_genuine: bool) -> bool {
    let is_restored = restored(bytes, is_genuine);
    assert!(!is_genuine || !is_restored || bytes == seed(), "no other bytes are taken for it");
    restored(&sealed(bytes), false);
    is_restored
}

/// Checks bytes with a valid header.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
    let mut sealed = seed()[..HEADER_BYTES].to_vec();
    sealed[12..16].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
    sealed.extend_from_slice(body);
    sealed
}

/// The list of the backup in which a segment has this name, and the segment's real name.
pub(crate) fn naming(name: &str) -> (Vec<u8>, PathBuf) {
    let own = FILES.keys().find(|path| path.extension().is_some_and(|kind| kind == "log")).expect("a segment");
    let own_name = own.file_name().and_then(|name| name.to_str()).expect("text");
    let at = seed().windows(own_name.len()).position(|name| name == own_name.as_bytes()).expect("it is named");
    let mut bytes = seed().to_vec();
    // A name stands after its length in one byte.
    bytes.splice(at - 1..at + own_name.len(), [&[u8::try_from(name.len()).expect("short")], name.as_bytes()].concat());
    (sealed(&bytes), own.clone())
}

/// A directory with the backup, in a directory that has others.
pub(crate) fn put_backup(folder: &Path, bytes: &[u8]) -> PathBuf {
    let from = folder.join("backups").join("one");
    fs::create_dir_all(from.join("shard-0000")).expect("made");
    for (path, own) in FILES.iter() {
        fs::write(from.join(path), if path == Path::new(NAME) { bytes } else { own }).expect("written");
    }
    from
}

fn restored(bytes: &[u8], is_genuine: bool) -> bool {
    let folder = folder();
    let (from, to) = (put_backup(folder.path(), bytes), folder.path().join("databases").join("data"));
    let read = Backup::read(&from);
    assert_eq!(open(&from).expect_err("a backup is no database").kind(), ErrorKind::NotADatabase);
    match restore(&from, &to, None, &mut |_, _| ()) {
        Ok(verification) => {
            assert!(!is_genuine || verification.worst().is_none(), "{:?}", verification.findings);
            read.expect("it was restored");
            let opened = open(&to);
            // A forged list may name no file; its database then is a different one.
            if is_genuine && verification.worst() < Some(Severity::Lost) {
                goes_on(&opened.expect("it was verified").database);
            }
            true
        }
        Err(error) => {
            let known = [ErrorKind::Damaged, ErrorKind::NewerFormat, ErrorKind::Io];
            assert!(known.contains(&error.kind()), "{error}");
            // An incomplete restore is no database, also with a forged list. If the restore did not
            // begin, there may be a new one.
            assert!(read.is_err() || open(&to).is_err(), "{error}");
            false
        }
    }
}
