//! Checks for space before a case that takes much of it.

use std::path::Path;

use rustix::fs::statvfs;

use quire_cli::failure::{CommandError, Result};

/// Checks that a database of `bytes` bytes fits on the disk of the case and in free memory.
///
/// # Errors
/// [`CommandError::NotHere`] when it does not fit.
pub(super) fn require_room(path: &Path, bytes: u64) -> Result {
    let disk = path.ancestors().find_map(|folder| statvfs(folder).ok()).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
    let without = |what: &str, free: u64| {
        let gib = |bytes: u64| bytes >> 30;
        CommandError::NotHere(format!("the case needs {} GiB of {what}, but {} GiB are free", gib(bytes), gib(free)))
    };
    match memory_available() {
        _ if disk < bytes => Err(without("disk", disk)),
        Some(memory) if memory < bytes => Err(without("memory", memory)),
        _ => Ok(()),
    }
}

/// The memory that the system can give without swapping; `None` when the system does not report it.
fn memory_available() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_larger_than_any_disk_has_no_space() {
        let folder = std::env::temp_dir();
        require_room(&folder.join("not yet made"), 0).expect("nothing has room everywhere");
        let Err(CommandError::NotHere(why)) = require_room(&folder, 1 << 60) else { panic!("no disk is so large") };
        assert!(why.contains("1073741824 GiB of disk"), "{why}");
    }
}
