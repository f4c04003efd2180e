//! Files are created for the owner alone, and a name that leads elsewhere is refused: no link is
//! followed, and no pipe is waited for.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use quire::tools::{backup, open_to_others, restore, salvage, verify};
use quire::{Database, ErrorKind};

use crate::made::{Place, named, place_of, step};

/// Every file and directory from `path` on, with its permissions.
fn modes(path: &Path) -> Vec<(PathBuf, u32)> {
    let metadata = fs::symlink_metadata(path).expect("there");
    let mut all = vec![(path.to_owned(), metadata.mode() & 0o777)];
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("listed") {
            all.extend(modes(&entry.expect("an entry").path()));
        }
    }
    all
}

#[track_caller]
fn assert_private(path: &Path) {
    for (path, mode) in modes(path) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
    }
    assert_eq!(open_to_others(path).expect("there"), None);
}

fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success() && fs::metadata(path).expect("made").file_type().is_fifo());
}

#[test]
fn databases_backups_and_their_copies_are_for_the_owner_alone() {
    let place = Place::made(20);
    assert_private(&place.path());
    let [first, second, restored, salvaged] = ["1", "2", "restored", "salvaged"].map(|name| place.beside(name));
    backup(&place.path(), &first, None, &mut |_, _| ()).expect("backed up");
    backup(&place.path(), &second, Some(&first), &mut |_, _| ()).expect("backed up");
    restore(&second, &restored, None, &mut |_, _| ()).expect("restored");
    drop(Database::open(&restored).expect("it opens"));
    salvage(&place.path(), &salvaged, None, &mut |_, _| ()).expect("salvaged");
    [first, second, restored, salvaged].iter().for_each(|path| assert_private(path));
    let wide = place.beside("wide");
    fs::create_dir(&wide).expect("made");
    fs::set_permissions(&wide, std::os::unix::fs::PermissionsExt::from_mode(0o750)).expect("set");
    assert_eq!(open_to_others(&wide).expect("there"), Some(0o750));
}

#[test]
fn a_link_in_place_of_any_file_is_refused_and_its_target_stays_as_it_was() {
    let files = Place::made(20).files();
    let names = files.keys().filter(|name| !name.ends_with(".idx"));
    for name in names {
        let place = place_of(&files);
        let (path, target) = (place.path().join(name), place.beside("target"));
        fs::rename(&path, &target).expect("moved");
        symlink(&target, &path).expect("linked");
        let before = fs::read(&target).expect("read");
        match Database::builder(place.path()).create(false).open() {
            Err(error) => assert!(error.to_string().contains("link"), "{name}: {error}"),
            // A file that the log can do without.
            Ok(database) => drop(database),
        }
        assert_eq!(fs::read(&target).expect("read"), before, "{name}");
    }
    for name in ["shard-0000/control", "shard-0000/statistics", "quire.meta"] {
        let place = place_of(&files);
        let (path, target) = (place.path().join(name), place.beside("target"));
        fs::write(&target, "another file").expect("written");
        fs::remove_file(&path).expect("removed");
        symlink(&target, &path).expect("linked");
        let error = Database::builder(place.path()).open().expect_err("refused");
        assert!(error.to_string().contains("links are not followed"), "{name}: {error}");
        assert_eq!(fs::read(&target).expect("read"), b"another file", "{name}");
    }
}

#[test]
fn a_pipe_in_place_of_any_file_is_refused_at_once() {
    let place = Place::made(20);
    let taken = place.beside("backup");
    backup(&place.path(), &taken, None, &mut |_, _| ()).expect("backed up");
    let files = place.files();
    for name in files.keys() {
        let place = place_of(&files);
        fs::remove_file(place.path().join(name)).expect("removed");
        pipe(&place.path().join(name));
        // Each of these would wait for ever if it opened the pipe to read it.
        let _ = verify(&place.path(), None, &mut |_, _| ());
        let _ = Database::builder(place.path()).create(false).read_only(true).open();
        let _ = salvage(&place.path(), &place.beside("salvaged"), None, &mut |_, _| ());
        let _ = quire::tools::shards(&place.path()).map(|shards| shards[0].page().is_ok());
        if let Err(error) = Database::builder(place.path()).create(false).open() {
            assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Damaged), "{name}: {error}");
        }
    }
    for name in named(&files, ".log").iter().map(String::as_str).chain(["quire.backup"]) {
        let path = taken.join(name);
        let Ok(bytes) = fs::read(&path) else { continue };
        fs::remove_file(&path).expect("removed");
        pipe(&path);
        let to = place.beside("restored");
        assert!(restore(&taken, &to, None, &mut |_, _| ()).is_err(), "{name}");
        fs::remove_file(&path).expect("removed");
        fs::write(&path, bytes).expect("written");
        let _ = fs::remove_dir_all(&to);
    }
    restore(&taken, &place.beside("restored"), None, &mut |_, _| ()).expect("restored");
}

#[test]
fn a_database_opens_through_a_link_to_its_directory() {
    let place = Place::made(5);
    let link = place.beside("link");
    symlink(place.path(), &link).expect("linked");
    let database = Database::builder(&link).open().expect("it opens");
    step(&database, 100);
    drop(database);
    verify(&link, None, &mut |_, _| ()).expect("verified");
}
