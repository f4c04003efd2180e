//! A folder for the databases of one run, removed when the run ends; that of a run that was killed by the next one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// What the name begins with; the number of the process follows.
const PREFIX: &str = "quire-bench-";
/// In the folder: locked for as long as the run goes on. What has none is not ours.
const RUNNING: &str = "running";

/// A folder of this process's own.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    /// Locked, which the system ends with the process however that ends.
    _running: File,
}

impl Scratch {
    /// Makes one below this folder, or below the system's folder for temporary files.
    ///
    /// # Errors
    /// When it can't be made.
    pub(super) fn create(below: Option<&Path>) -> Result<Self> {
        let below = below.map_or_else(std::env::temp_dir, Path::to_owned);
        remove_left(&below);
        let path = below.join(format!("{PREFIX}{}", std::process::id()));
        let running = fs::create_dir_all(&path).and_then(|()| File::create(path.join(RUNNING)));
        let running = running.and_then(|running| running.lock().map(|()| running));
        let running = running.map_err(|error| Failure::at(format_args!("make {}", path.display()), error))?;
        Ok(Scratch { path, _running: running })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes what runs have left that were killed.
fn remove_left(below: &Path) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let is_named_so = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_named_so && File::open(entry.path().join(RUNNING)).is_ok_and(|running| running.try_lock().is_ok()) {
            // Somebody else's stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What can't be removed is left to the system: the measurements are right all the same.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_left_that_was_killed_goes_and_nothing_else() {
        let place = tempfile::tempdir().expect("a folder");
        let [left, going_on, other] =
            ["quire-bench-1", "quire-bench-2", "quire-bench-3"].map(|name| place.path().join(name));
        [&left, &going_on, &other].into_iter().for_each(|path| fs::create_dir(path).expect("made"));
        File::create(left.join(RUNNING)).expect("made");
        let running = File::create(going_on.join(RUNNING)).expect("made");
        running.lock().expect("locked");
        let scratch = Scratch::create(Some(place.path())).expect("made");
        assert_eq!([&left, &going_on, &other].map(|path| path.exists()), [false, true, true]);
        let own = scratch.path().to_owned();
        drop(scratch);
        assert!(!own.exists());
    }
}
