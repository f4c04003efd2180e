//! A streamed backup is that of the directory. A stream that was cut or changed is none, or the
//! change has no effect.

use std::fs;
use std::io;
use std::path::Path;

use quire::tools::{BackupSink, backup, receive_backup, restore};
use quire::{Background, Database, Durability, ErrorKind};

use crate::backup::assert_no_database;
use crate::made::{Place, files_of};

/// Keeps a stream in memory.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// The memory that was announced for each file.
    spaces: Vec<u64>,
    /// The bytes that the receiver reads before it disconnects.
    most: Option<usize>,
}

impl BackupSink for Kept {
    fn make_space(&mut self, bytes: u64) -> io::Result<()> {
        self.spaces.push(bytes);
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.most.is_some_and(|most| self.bytes.len() + bytes.len() > most) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

#[test]
fn a_streamed_backup_equals_one_in_a_directory_and_a_cut_or_changed_one_is_refused() {
    let [_, packed] = Place::compacted_and_packed();
    for (place, is_packed) in [(Place::made(40), false), (packed, true)] {
        // No compaction comes between the two backups.
        let database = Database::builder(place.path()).durability(Durability::Os).background(Background::Caller);
        let database = database.open().expect("it opens");
        let mut kept = Kept::default();
        let streamed = database.stream_backup(&mut kept).expect("streamed");
        let taken = backup(&place.path(), &place.beside("taken"), None, &mut |_, _| ()).expect("taken");
        assert_eq!(streamed.files, taken.files);
        let most = kept.spaces.iter().max().expect("a file");
        assert!(taken.files.iter().all(|file| file.bytes <= *most), "{most}");
        // A packed segment is announced with its unpacked records before it is read.
        assert_eq!(kept.spaces[0] > taken.files[0].bytes, is_packed, "{:?}", kept.spaces);
        let received = receive_backup(&mut &kept.bytes[..], &place.beside("received")).expect("received");
        assert_eq!(received, streamed);
        let contents = |name: &str| {
            let mut files = files_of(&place.beside(name));
            // It has the time of the backup.
            files.remove("quire.backup");
            files
        };
        assert!(contents("received") == contents("taken"));
        restore(&place.beside("received"), &place.beside("restored"), None, &mut |_, _| ()).expect("restored");

        let into = place.beside("into");
        let is_none = |bytes: &[u8], at: usize| {
            let result = receive_backup(&mut &*bytes, &into);
            let is_backup = restore(&into, &place.beside("again"), None, &mut |_, _| ()).is_ok();
            assert!(result.is_ok() || !is_backup, "a failed download at {at} is no backup");
            for made in [&into, &place.beside("again")] {
                let _ = fs::remove_dir_all(made);
            }
            !is_backup
        };
        for at in (0..kept.bytes.len()).step_by(kept.bytes.len() / 50) {
            assert!(is_none(&kept.bytes[..at], at), "cut at {at}");
        }
        // The end of the archive is there, or it is none.
        assert!(is_none(&kept.bytes[..kept.bytes.len() - 1], kept.bytes.len() - 1));
        let mut changed = 0;
        for at in (0..kept.bytes.len()).step_by(kept.bytes.len() / 100) {
            let mut bytes = kept.bytes.clone();
            bytes[at] ^= 1;
            changed += usize::from(is_none(&bytes, at));
        }
        assert!(changed > 50, "{changed} changes were found; the others are in unused bytes of headers");
    }
}

/// Extracts the files of a stream, as `tar x` does, up to its end.
fn extract(mut stream: &[u8], to: &Path) {
    // The checks of a directory list the files of its shard.
    fs::create_dir_all(to.join("shard-0000")).expect("created");
    let text = |field: &[u8]| String::from_utf8(field.iter().copied().take_while(|byte| *byte != 0).collect());
    while let Some((header, rest)) = stream.split_first_chunk::<512>().filter(|(header, _)| header[0] != 0) {
        let path = to.join(text(&header[..100]).expect("a path"));
        let bytes = usize::from_str_radix(&text(&header[124..136]).expect("a size"), 8).expect("digits");
        fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        fs::write(&path, &rest[..bytes.min(rest.len())]).expect("written");
        stream = &rest[bytes.next_multiple_of(512).min(rest.len())..];
    }
}

#[test]
fn a_cut_stream_that_another_program_extracted_is_neither_opened_nor_repaired() {
    let place = Place::made(40);
    let database = place.open();
    let mut kept = Kept::default();
    let streamed = database.stream_backup(&mut kept).expect("streamed");
    let whole = place.beside("whole");
    extract(&kept.bytes, &whole);
    assert!(whole.join("quire.streamed").exists() && whole.join("quire.backup").exists());
    restore(&whole, &place.beside("restored"), None, &mut |_, _| ()).expect("restored");
    assert_no_database(&place, "whole", "`quire restore` makes a database of it");

    let list = streamed.files.iter().map(|file| 512 + file.bytes.next_multiple_of(512) as usize).sum::<usize>() + 512;
    for (number, at) in [512, 1_024, 40_000, list / 2, list].into_iter().enumerate() {
        let name = format!("cut-{number}");
        extract(&kept.bytes[..at], &place.beside(&name));
        assert_no_database(&place, &name, "quire.streamed");
        let error = restore(&place.beside(&name), &place.beside("none"), None, &mut |_, _| ()).expect_err("cut");
        assert_eq!(error.kind(), ErrorKind::NotADatabase, "{error}");
    }
    // A stream of an older program has no mark.
    let older = &kept.bytes[512..];
    assert_eq!(receive_backup(&mut &*older, &place.beside("older")).expect("received"), streamed);
}

#[test]
fn a_receiver_that_leaves_ends_the_backup() {
    let place = Place::made(40);
    let database = place.open();
    for most in [0, 512, 2_000] {
        let mut kept = Kept { most: Some(most), ..Kept::default() };
        let error = database.stream_backup(&mut kept).expect_err("it left");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
    receive_backup(&mut &b"not an archive"[..], &place.beside("none")).expect_err("too short");
    let error = receive_backup(&mut &[1; 2_048][..], &place.beside("other")).expect_err("no header");
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let error = receive_backup(&mut &[0; 1_024][..], &place.path()).expect_err("not empty");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
