//! The directory of the demo's database: the user's choice, or a fixed one that each demo replaces.
//!
//! The demo removes only what it created: its directory contains a marker file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use quire::{Background, Database};

use crate::failure::{CommandError, Result};

const MARK: &str = "made-by-quire-demo";

/// Prepares the directory of the database: the user's choice as it is, or the demo's own, emptied.
///
/// # Errors
/// When the demo's own directory holds something else, or another demo uses it.
pub(super) fn prepare(chosen: Option<PathBuf>) -> Result<PathBuf> {
    match chosen {
        Some(path) => Ok(path),
        None => own(&std::env::temp_dir().join("quire-demo")),
    }
}

fn own(folder: &Path) -> Result<PathBuf> {
    let failed = |error| CommandError::at(format_args!("prepare {}", folder.display()), error);
    let data = folder.join("data");
    match fs::create_dir(folder) {
        Ok(()) => fs::write(folder.join(MARK), "`quire demo` may remove everything here.\n").map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.join(MARK).is_file() => {
            remove(&data)?;
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(CommandError::new(format!(
                "{} was not created by the demo; choose another directory with --data DIR",
                folder.display()
            )));
        }
        Err(error) => return Err(failed(error)),
    }
    Ok(data)
}

/// Removes the database of an earlier demo, unless that demo still runs.
fn remove(data: &Path) -> Result {
    // The database is open during the removal, so that no other demo starts on it. It has no thread
    // that creates files.
    let open = Database::builder(data).create(false).exclusive(true).background(Background::Caller).open();
    if let Err(error) = open
        && error.kind() == quire::ErrorKind::InUse
    {
        return Err(CommandError::new(format!(
            "another demo is running on {}; stop it, or choose another directory with --data DIR",
            data.display()
        )));
    }
    match fs::remove_dir_all(data) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(CommandError::at(format_args!("remove {}", data.display()), error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_replaces_only_its_own_directory() {
        let folder = tempfile::tempdir().expect("a folder");
        let own_place = folder.path().join("own");
        let data = own(&own_place).expect("it is new");
        drop(Database::open(&data).expect("a database"));
        fs::write(data.join("left"), "behind").expect("a file");
        assert_eq!(own(&own_place).expect("the demo made it"), data);
        assert!(!data.exists());

        let users = folder.path().join("users");
        fs::create_dir(&users).expect("a folder");
        let Err(CommandError::Message(message)) = own(&users) else { panic!("it is not the demo's") };
        assert!(message.contains("was not created by the demo"), "{message}");
    }

    #[test]
    fn a_demo_that_is_running_keeps_its_database() {
        let folder = tempfile::tempdir().expect("a folder");
        let own_place = folder.path().join("own");
        let data = own(&own_place).expect("it is new");
        let database = Database::open(&data).expect("a database");
        let Err(CommandError::Message(message)) = own(&own_place) else { panic!("it is in use") };
        assert!(message.contains("another demo is running"), "{message}");
        drop(database);
    }
}
