//! A limit on the memory of this process and on the kernel's cache of its files.
//!
//! It is a control group (`cgroup`), of version 2 or 1, below the group of this process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use quire_cli::failure::{CommandError, Result};

/// A group with a limit and without a process yet. Dropping it removes the group.
#[derive(Debug)]
pub(super) struct MemoryLimit {
    group: PathBuf,
    /// The group of this process.
    home: PathBuf,
}

/// The membership of this process in the group. Dropping it leaves the group.
#[derive(Debug)]
pub(super) struct MemoryLimitGuard {
    limit: MemoryLimit,
}

impl MemoryLimit {
    /// Makes a group with a limit of `bytes`.
    ///
    /// # Errors
    /// [`CommandError::NotHere`] without control groups for memory, or without the rights for them.
    pub(super) fn prepare(bytes: u64) -> Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let (home, limit) = home(&own, Path::new("/sys/fs/cgroup"))
            .ok_or_else(|| CommandError::NotHere("control groups for memory not found".to_owned()))?;
        let limit = MemoryLimit { group: home.join(format!("quire-bench-{}", process::id())), home: home.clone() }
            .with(limit, bytes);
        limit.map_err(|error| {
            CommandError::NotHere(format!(
                "can't create a control group below {}, which needs root: {error}",
                home.display()
            ))
        })
    }

    fn with(self, limit: &str, bytes: u64) -> std::io::Result<Self> {
        fs::create_dir(&self.group)?;
        fs::write(self.group.join(limit), bytes.to_string())?;
        Ok(self)
    }

    /// Puts this process under the limit. Memory that it has already does not count, and neither do
    /// files that are cached already.
    ///
    /// # Errors
    /// [`CommandError::NotHere`] when the system does not allow it.
    pub(super) fn enter(self) -> Result<MemoryLimitGuard> {
        move_to(&self.group).map_err(|error| CommandError::NotHere(format!("can't enter a control group: {error}")))?;
        Ok(MemoryLimitGuard { limit: self })
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // An empty group that is not removed does no harm.
        let _ = fs::remove_dir(&self.group);
    }
}

impl Drop for MemoryLimitGuard {
    fn drop(&mut self) {
        // The process may return to the group where it started.
        let _ = move_to(&self.limit.home);
    }
}

fn move_to(group: &Path) -> std::io::Result<()> {
    fs::write(group.join("cgroup.procs"), process::id().to_string())
}

/// The memory group of a process, from its lines of `/proc/self/cgroup`, and the name of the file
/// with a limit.
fn home(own: &str, root: &Path) -> Option<(PathBuf, &'static str)> {
    let at = |root: PathBuf, path: &str| root.join(path.trim_start_matches('/'));
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        if controllers.split(',').any(|name| name == "memory") {
            return Some((at(root.join("memory"), path), "memory.limit_in_bytes"));
        }
        let unified = at(root.to_owned(), path);
        let controls = fs::read_to_string(unified.join("cgroup.subtree_control")).unwrap_or_default();
        (controllers.is_empty() && controls.split_whitespace().any(|name| name == "memory"))
            .then_some((unified, "memory.max"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_in_either_version() {
        let root = tempfile::tempdir().expect("a folder");
        let first = "12:pids:/a\n3:cpu,memory:/b/c\n0::/d\n";
        assert_eq!(home(first, root.path()), Some((root.path().join("memory/b/c"), "memory.limit_in_bytes")));
        assert_eq!(home("0::/d\n", root.path()), None, "it hands no memory on");
        fs::create_dir(root.path().join("d")).expect("made");
        fs::write(root.path().join("d/cgroup.subtree_control"), "cpu memory\n").expect("written");
        assert_eq!(home("0::/d\n", root.path()), Some((root.path().join("d"), "memory.max")));
    }
}
