//! The heading of a run. Without the machine and the commit, a number means nothing.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::calibration::Calibration;
use quire_cli::failure::Result;

/// The machine, the program and the file system. Names and order are the JSON form: the first line
/// of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Heading {
    /// The processor's name.
    pub(super) cpu: String,
    /// Processors that this process may use.
    pub(super) cores: usize,
    /// Main memory.
    pub(super) memory_bytes: u64,
    /// The operating system and the version of its kernel.
    pub(super) system: String,
    /// The file system of the databases.
    pub(super) file_system: String,
    /// The program's version.
    pub(super) version: String,
    /// The commit of the build, with `-dirty` when there were other changes.
    pub(super) commit: String,
    /// The Cargo profile: `dist` for published numbers, `debug` for numbers that mean nothing.
    pub(super) build: String,
    /// The speed of the machine at that time.
    pub(super) calibration: Calibration,
}

impl Heading {
    /// Describes this machine and program, with databases below `place`.
    ///
    /// # Errors
    /// When the calibration fails.
    pub(super) fn here(place: &Path) -> Result<Self> {
        let line = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
            value.map_or_else(|| "unknown".to_owned(), |value| value.trim().to_owned())
        };
        let memory = field(&line("/proc/meminfo"), "MemTotal");
        let memory_kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        Ok(Heading {
            calibration: Calibration::measure(place)?,
            cpu: field(&line("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib << 10,
            system: format!("{} {}", std::env::consts::OS, line("/proc/sys/kernel/osrelease").trim()),
            file_system: file_system(&line("/proc/self/mounts"), place),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: quire_cli::COMMIT.to_owned(),
            build: quire_cli::PROFILE.to_owned(),
        })
    }
}

/// The file system of the nearest mount above a path.
fn file_system(mounts: &str, place: &Path) -> String {
    let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
    let mount = |line: &str| {
        let mut words = line.split(' ');
        let (_, point, kind) = (words.next()?, words.next()?.to_owned(), words.next()?.to_owned());
        place.starts_with(&point).then_some((point.len(), kind))
    };
    // The later of two mounts in one place is on top.
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map_or("unknown".to_owned(), |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_above_a_path_counts() {
        let mounts = "a / ext4 rw 0 0\nb /no-such-place tmpfs rw 0 0\nc /no-such-place/deep xfs rw 0 0\n";
        let kind = |place: &str| file_system(mounts, Path::new(place));
        assert_eq!(kind("/no-such"), "ext4");
        assert_eq!(kind("/no-such-place/x"), "tmpfs");
        assert_eq!(kind("/no-such-place/deep/x"), "xfs");
        assert_eq!(file_system("", Path::new("/")), "unknown");
    }

    #[test]
    fn this_machine_has_processors_and_a_commit() {
        let place = tempfile::tempdir().expect("a folder");
        let here = Heading::here(place.path()).expect("calibrated");
        assert!(here.cores > 0 && !here.commit.is_empty() && !here.system.ends_with(' '), "{here:?}");
    }
}
